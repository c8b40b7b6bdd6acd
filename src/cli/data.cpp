// systole data: data sets from the net, and what a data set holds.

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <filesystem>
#include <memory>
#include <string>
#include <system_error>
#include <vector>

#include "base/printable.h"
#include "cli/cli.h"
#include "cli/terminal.h"
#include "data/fetch.h"
#include "systole/base/error.h"
#include "systole/data/sets.h"

namespace systole::cli {

namespace {

namespace fs = std::filesystem;

int get(const std::string& name, std::string folder, std::string base) {
  const data::KnownSet& set = data::known_set(name);
  if (folder.empty()) folder = (fs::path("data") / name).string();
  if (base.empty()) base = set.base;
  if (!base.ends_with('/')) base += '/';
  std::error_code code;
  fs::create_directories(folder, code);
  if (code) throw Error(ErrorKind::kIo, folder, "cannot make the folder: " + code.message());
  data::FetchOptions options;
  options.report = [](const std::string& line) { fmt::print(stderr, "systole: {}\n", printable(line)); };
  for (const data::Download& file : set.files) {
    const fs::path target = fs::path(folder) / file.name;
    const bool came = data::fetch(base + file.name, target, file, options);
    put(fmt::format("{}: {}\n", target.string(), came ? "fetched, checksum right" : "there already"));
  }
  put(fmt::format("licence: {}\nuse it as {}:{}\n", set.licence, name, folder));
  return 0;
}

int info(const std::string& spec) {
  const data::TrainTest set = data::open(spec);
  put(fmt::format("{}\n", set.train.info().to_string()));
  if (!set.test.empty()) put(fmt::format("{}\n", set.test.info().to_string()));
  for (const data::Field& field : set.train.info().fields)
    if (!field.classes.empty() && field.classes.size() <= 100 && field.type.shape.rank() == 0) {
      std::vector<std::string> names;
      for (const std::string& name : field.classes) names.push_back(printable(name));
      put(fmt::format("{}: {}\n", printable(field.name), fmt::join(names, ", ")));
    }
  return 0;
}

}  // namespace

Action add_data(CLI::App& app) {
  struct Arguments {
    std::string name, folder, base, spec;
  };
  auto arguments = std::make_shared<Arguments>();
  app.require_subcommand(1);
  CLI::App* fetching =
      app.add_subcommand("get", "Fetch a data set and check it; a broken download is continued");
  fetching->add_option("NAME", arguments->name, "mnist, fashion or cifar10")->required();
  fetching->add_option("--out", arguments->folder, "the folder for its files; data/NAME when left out");
  fetching->add_option("--from", arguments->base, "another address that has the files (http, https, file)");
  CLI::App* showing = app.add_subcommand("info", "Show what a data set holds");
  showing
      ->add_option("SPEC", arguments->spec, "mnist:DIR, cifar10:DIR, digits, images:DIR, csv:FILE?label=Y, …")
      ->required();
  return [=] {
    if (fetching->parsed()) return get(arguments->name, arguments->folder, arguments->base);
    return info(arguments->spec);
  };
}

}  // namespace systole::cli
