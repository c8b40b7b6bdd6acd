// systole new: a project to begin with.

#include <fmt/format.h>
#include <algorithm>
#include <memory>
#include <string>

#include "cli/cli.h"
#include "cli/options.h"
#include "cli/terminal.h"
#include "cli/train/templates.h"

namespace systole::cli {

namespace {

struct Options {
  std::string name, project_template = "digits";
};

int run(const Options& options) {
  const std::vector<std::string> files = write_project(options.name, options.project_template);
  const auto templates = project_templates();
  const auto chosen = std::find_if(templates.begin(), templates.end(),
                                   [&](const auto& one) { return one.name == options.project_template; });
  put(fmt::format("{}: {}\nnext:\n  cd {}\n{}  systole train train.toml --out run\n", options.name,
                  fmt::join(files, ", "), options.name,
                  chosen->fetch.empty() ? "" : fmt::format("  {}\n", chosen->fetch)));
  return 0;
}

}  // namespace

Action add_new(App& app) {
  auto options = std::make_shared<Options>();
  app.add_option("NAME", options->name, "the folder to make")->required()->type_name("");
  std::string about = "what to begin with, digits unless told:";
  for (const ProjectTemplate& one : project_templates())
    about += fmt::format("\n{}: {}", one.name, one.about);
  app.add_option("--template", options->project_template, about)->type_name("NAME");
  app.footer(
      "Examples:\n"
      "  systole new fruit --template csv && cd fruit && systole train train.toml --out run\n\n"
      "It writes train.toml for systole train, main.cpp and CMakeLists.txt for a small start in C++ on the "
      "same data, and a README.");
  return [options] { return run(*options); };
}

}  // namespace systole::cli
