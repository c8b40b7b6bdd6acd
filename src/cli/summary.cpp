// systole summary: the layers, shapes and parameters of a model that is named, written or saved.

#include <fmt/format.h>
#include <charconv>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "cli/cli.h"
#include "cli/options.h"
#include "cli/terminal.h"
#include "cli/train/data.h"
#include "cli/train/evaluation.h"
#include "cli/train/model.h"
#include "cli/train/settings.h"
#include "cli/train/value.h"
#include "cli/trust.h"
#include "systole/nn/summary.h"
#include "systole/nn/zoo.h"

namespace systole::cli {

namespace {

struct Options {
  std::string model, input;
  std::int64_t classes = 0, batch = 1;
  std::vector<std::string> sets;
  Trust trust;
};

int list_zoo() {
  int width = 0;
  for (const nn::zoo::Entry& entry : nn::zoo::entries()) width = std::max(width, columns(entry.name));
  for (const nn::zoo::Entry& entry : nn::zoo::entries()) {
    put(fmt::format("{}  {}\n", coloured(Colour::bold, padded(entry.name, width)), entry.about));
    for (const nn::zoo::OptionEntry& option : entry.options)
      put(fmt::format("{}    {} = {}  {}\n", padded("", width), option.name, option.standard, option.about));
  }
  return 0;
}

std::vector<std::int64_t> sizes(const std::string& text) {  // 32x32x3
  std::vector<std::int64_t> result;
  const char *at = text.data(), *end = at + text.size();
  while (at <= end && !text.empty()) {
    std::int64_t size = 0;
    const auto [rest, error] = std::from_chars(at, end, size);
    if (error != std::errc() || size < 1 || (rest != end && *rest != 'x'))
      throw UsageError(fmt::format("--input {}: expected sizes such as 32x32x3", text));
    result.push_back(size);
    at = rest + 1;
    if (rest == end) break;
  }
  return result;
}

int run(const Options& options) {
  if (options.model.empty()) return list_zoo();
  const bool from_file = options.model.ends_with(".toml") || options.model == "-";
  std::error_code ignored;
  if (options.model.ends_with(".safetensors") ||
      (!from_file && std::filesystem::exists(options.model, ignored))) {
    if (!options.input.empty() || options.classes != 0 || !options.sets.empty())
      throw UsageError("a saved model is as it is: --input, --classes and --set are for others");
    // Nothing is compiled to show it, so kernels of its own need no permission.
    put(load_model(options.model, "auto",
                   {.kernels = true,
                    .follow_links = options.trust.follow_links,
                    .other_weights = options.trust.other_weights})
            .summary());
    return 0;
  }
  Table given;
  if (from_file)
    given = read_toml(options.model);
  else
    set_path(given, "model.name", {options.model, "MODEL"});
  for (const std::string& assignment : options.sets) apply_set(given, assignment);
  Settings settings = settings_of(given);
  settings.model.follow_links = options.trust.follow_links;
  if (!options.input.empty()) settings.model.input = sizes(options.input);
  if (options.classes != 0) settings.model.outputs = options.classes;
  BuiltModel model;
  if (from_file && options.input.empty() && !settings.data.source.empty()) {
    const TrainingData data = open_data(settings);
    model = build_model(settings.model, data);
  } else {
    model = build_model(settings.model);
  }
  Shape batch{options.batch};
  for (const Dim& d : model.input.shape) batch.push_back(d);
  put(systole::summary(model.module, batch, model.input.dtype));
  return 0;
}

}  // namespace

Action add_summary(App& app) {
  auto options = std::make_shared<Options>();
  app.add_option("MODEL", options->model,
                 "a model of the zoo, a TOML file, a run's folder or a .safetensors; none: lists the zoo")
      ->type_name("");
  app.add_option("--input", options->input, "the shape of a sample; else what the model was made for")
      ->type_name("32x32x3");
  app.add_option("--classes", options->classes, "how many numbers it gives")->type_name("NUMBER")->positive();
  app.add_option("--batch", options->batch, "samples at a time, for the shapes")
      ->type_name("NUMBER")
      ->positive();
  app.add_option("--set", options->sets, "an option of the model, e.g. model.hidden=[512,256]")
      ->type_name("KEY=VALUE")
      ->allow_extra_args(false);
  add_links_option(app, options->trust);
  add_weights_option(app, options->trust);
  app.footer(
      "Examples:\n"
      "  systole summary\n"
      "  systole summary resnet18 --input 32x32x3 --classes 10\n"
      "  systole summary run.toml");
  return [options] { return run(*options); };
}

}  // namespace systole::cli
