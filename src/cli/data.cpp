// systole data: data sets from the net, and what a data set holds.

#include <fmt/format.h>
#include <algorithm>
#include <array>
#include <cctype>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

#include "base/printable.h"
#include "cli/cli.h"
#include "cli/options.h"
#include "cli/terminal.h"
#include "data/fetch.h"
#include "data/open.h"
#include "systole/base/error.h"
#include "systole/data/sets.h"

namespace systole::cli {

namespace {

namespace fs = std::filesystem;

// A path as an address takes it.
std::string file_address(const fs::path& path) {
  std::string address = "file://";
  for (const char c : path.string()) {
    const auto byte = static_cast<unsigned char>(c);
    const bool plain = std::isalnum(byte) != 0 || std::string_view("/-._~").find(c) != std::string_view::npos;
    address += plain ? std::string(1, c) : fmt::format("%{:02X}", byte);
  }
  return address;
}

// Where --from says that the files are: an address, or a folder of this machine.
std::string address_of(const std::string& from) {
  const std::size_t scheme = from.find("://");
  std::error_code code;
  if (scheme == std::string::npos) {
    if (fs::is_directory(from, code)) return file_address(fs::absolute(from).lexically_normal());
  } else if (const std::string name = from.substr(0, scheme);
             name == "http" || name == "https" || name == "file") {
    return from;
  }
  throw UsageError(
      fmt::format("--from: expected an address that begins with http://, https:// or file://, or a folder "
                  "that is there, got '{}'",
                  from));
}

// Makes a folder, and takes it and the folders above it that it made away again if nothing came into them.
class NewFolder {
 public:
  explicit NewFolder(const fs::path& folder) {
    std::error_code code;
    fs::path each = fs::absolute(folder).lexically_normal();
    if (!each.has_filename()) each = each.parent_path();  // it ended with a slash
    for (; !fs::exists(each, code); each = each.parent_path()) made_.push_back(each);
    fs::create_directories(folder, code);
    if (code) throw Error(ErrorKind::kIo, folder.string(), "cannot make the folder: " + code.message());
  }
  ~NewFolder() {
    std::error_code not_empty;
    for (const fs::path& each : made_)
      if (!fs::remove(each, not_empty)) break;
  }
  NewFolder(const NewFolder&) = delete;
  NewFolder& operator=(const NewFolder&) = delete;

 private:
  std::vector<fs::path> made_;  // the innermost first
};

int get(const std::string& name, std::string folder, const std::string& from) {
  const data::KnownSet& set = data::known_set(name);
  if (folder.empty()) folder = (fs::path("data") / name).string();
  std::string base = from.empty() ? std::string(set.base) : address_of(from);
  if (!base.ends_with('/')) base += '/';
  const NewFolder place(folder);
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

std::string_view type_name(data::CsvType type) {
  switch (type) {
    case data::CsvType::kInteger: return "whole number";
    case data::CsvType::kNumber: return "number";
    case data::CsvType::kText: return "text";
    case data::CsvType::kAuto: break;
  }
  return "";
}

std::string use_of(const data::CsvColumn& column) {
  std::string use;
  switch (column.use) {
    case data::ColumnUse::kFeature: use = "feature"; break;
    case data::ColumnUse::kOneHot: use = fmt::format("feature, one-hot of {} values", column.distinct); break;
    case data::ColumnUse::kTooManyValues: use = fmt::format("refused: {} values", column.distinct); break;
    case data::ColumnUse::kLabel: use = "label"; break;
    case data::ColumnUse::kLeftOut: use = "left out"; break;
  }
  if (!column.infinite.empty()) use += fmt::format("; {}", column.infinite);
  if (!column.nearly_numbers.empty()) use += fmt::format("; {}", column.nearly_numbers);
  if (!column.identifier.empty()) use += fmt::format("; looks like an identifier ({})", column.identifier);
  return use;
}

// A line for each column of a table: its type, what is made of it, how many cells are missing.
void put_columns(const std::vector<data::CsvColumn>& table) {
  if (table.empty()) return;
  std::vector<std::array<std::string, 4>> lines{{"column", "type", "missing", "use"}};
  for (const data::CsvColumn& column : table)
    lines.push_back(
        {column.name, std::string(type_name(column.type)), std::to_string(column.missing), use_of(column)});
  std::array<int, 3> widths{};
  for (const auto& line : lines)
    for (std::size_t i = 0; i < widths.size(); ++i) widths[i] = std::max(widths[i], columns(line[i]));
  for (const auto& line : lines)
    put(fmt::format("{}  {}  {}  {}\n", padded(line[0], widths[0]), padded(line[1], widths[1]),
                    padded(line[2], widths[2]), line[3]));
}

int info(const std::string& spec) {
  put_columns(data::columns_of(spec));
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

Action add_data(App& app) {
  struct Arguments {
    std::string name, folder, base, spec;
  };
  auto arguments = std::make_shared<Arguments>();
  app.require_subcommand(1);
  App* fetching = app.add_subcommand("get", "Fetch a data set and check it; a broken download is continued");
  fetching->add_option("NAME", arguments->name, "mnist, fashion or cifar10")->required();
  fetching->add_option("--out", arguments->folder, "the folder for its files; data/NAME when left out");
  fetching->add_option("--from", arguments->base,
                       "another place that has the files: an address (http, https, file) or a folder");
  App* showing = app.add_subcommand("info", "Show what a data set holds");
  showing
      ->add_option("SPEC", arguments->spec, "mnist:DIR, cifar10:DIR, digits, images:DIR, csv:FILE?label=Y, …")
      ->required();
  return [=] {
    if (fetching->parsed()) return get(arguments->name, arguments->folder, arguments->base);
    return info(arguments->spec);
  };
}

}  // namespace systole::cli
