// systole train: a model trained on data, from a TOML file, from the command line, or both.

#include <fmt/format.h>
#include <algorithm>
#include <array>
#include <iterator>
#include <memory>
#include <string>
#include <vector>

#include "cli/cli.h"
#include "cli/options.h"
#include "cli/terminal.h"
#include "cli/train/settings.h"
#include "cli/train/training.h"
#include "cli/train/value.h"
#include "cli/trust.h"
#include "systole/base/error.h"

namespace systole::cli {

namespace {

// Keys that are options too: --epochs 3 is --set train.epochs=3.
constexpr std::string_view kKeyOptions[] = {
    "train.epochs",  "train.batch",     "train.lr",   "train.optimizer", "train.schedule", "train.loss",
    "train.metrics", "train.precision", "train.seed", "data.validation", "data.augment",   "model.weights",
};

struct Options {
  std::string file, model, data, device, out;
  std::vector<std::string> sets;
  std::array<std::string, std::size(kKeyOptions)> key_values;  // of kKeyOptions; empty: not given
  bool fresh = false, partial_weights = false, keys = false, markdown = false;
  Trust trust;
};

std::string option_of(std::string_view key) { return fmt::format("--{}", key.substr(key.find('.') + 1)); }

const Key& key_named(std::string_view full) {
  for (const Key& key : keys())
    if (full == fmt::format("{}.{}", key.section, key.name)) return key;
  throw Error(ErrorKind::kInternal, std::string(full), "no such key");
}

int show_keys(bool markdown) {
  if (markdown) {
    put(keys_page());
    return 0;
  }
  std::string_view section;
  int width = 0;
  for (const Key& key : keys()) width = std::max(width, columns(key.name));
  for (const Key& key : keys()) {
    if (key.section != section) put(fmt::format("{}[{}]\n", section.empty() ? "" : "\n", key.section));
    section = key.section;
    const std::string about = fmt::format("{} ({}, {})", key.help, kind_of(key), default_of(key));
    bool first = true;
    for (const std::string& line : wrapped(about, std::max(terminal_width() - width - 4, 30))) {
      put(fmt::format("  {}  {}\n", padded(first ? key.name : "", width), line));
      first = false;
    }
  }
  return 0;
}

// A model of the command line stands in place of the file's, though one is a name and one a list of layers.
void prefer_command_line(Table& given) {
  const auto section =
      std::find_if(given.begin(), given.end(), [](const Entry& entry) { return entry.key == "model"; });
  Table* model = section == given.end() ? nullptr : std::get_if<Table>(&section->value.data);
  if (model == nullptr) return;
  const Value *name = find(*model, "name"), *layers = find(*model, "layers");
  if (name == nullptr || layers == nullptr || layers->get<Value::List>() == nullptr) return;
  const bool name_is_new = name->where.starts_with("--"), layers_are_new = layers->where.starts_with("--");
  if (name_is_new == layers_are_new) return;
  std::erase_if(*model, [&](const Entry& entry) { return entry.key == (name_is_new ? "layers" : "name"); });
}

int run(const Options& options) {
  if (options.keys) return show_keys(options.markdown);
  const bool has_key = std::any_of(options.key_values.begin(), options.key_values.end(),
                                   [](const std::string& value) { return !value.empty(); });
  if (options.file.empty() && options.data.empty() && options.sets.empty() && !has_key)
    throw UsageError("nothing says what to train: give a TOML file, or --model and --data");
  Table given = options.file.empty() ? Table{} : read_toml(options.file);
  const auto set = [&](const char* key, const std::string& value, const char* option) {
    if (!value.empty()) set_path(given, key, {value, option});
  };
  set("model.name", options.model, "--model");
  set("data.source", options.data, "--data");
  set("train.device", options.device, "--device");
  for (std::size_t i = 0; i < std::size(kKeyOptions); ++i)
    if (const std::string& value = options.key_values[i]; !value.empty())
      set_path(given, kKeyOptions[i], parse_value(value, option_of(kKeyOptions[i])));
  if (options.partial_weights) set_path(given, "model.partial_weights", {true, "--partial-weights"});
  for (const std::string& assignment : options.sets) apply_set(given, assignment);
  prefer_command_line(given);
  Settings settings = settings_of(given);
  settings.model.follow_links = options.trust.follow_links;
  return train(settings, {options.out, options.fresh});
}

}  // namespace

Action add_train(App& app) {
  auto options = std::make_shared<Options>();
  app.add_option("FILE", options->file, "a TOML file with [data], [model] and [train]; - is standard input")
      ->type_name("");
  app.add_option("--model", options->model, "a model of the zoo: mlp, cnn3, resnet18, … (model.name)")
      ->type_name("NAME");
  app.add_option("--data", options->data, "what to learn from: digits, mnist:DIR, csv:FILE, … (data.source)")
      ->type_name("SOURCE");
  app.add_option("--device", options->device, "where to run, as systole devices lists them (train.device)")
      ->type_name("NAME");
  app.add_option("-o,--out", options->out,
                 "the folder of the run; one that is there goes on where it stopped; else runs/DATA-MODEL-N")
      ->type_name("RUN");
  for (std::size_t i = 0; i < std::size(kKeyOptions); ++i) {
    const Key& key = key_named(kKeyOptions[i]);
    app.add_option(option_of(kKeyOptions[i]), options->key_values[i],
                   fmt::format("{} ({})", key.help, kKeyOptions[i]))
        ->type_name("VALUE");
  }
  app.add_option("--set", options->sets, "any key, over what the file says; may be given again")
      ->type_name("KEY=VALUE")
      ->allow_extra_args(false);
  app.add_flag("--fresh", options->fresh, "begin again in a folder that is there");
  app.add_flag("--partial-weights", options->partial_weights,
               "let more than the head be missing in model.weights and begin as new (model.partial_weights)");
  app.add_flag("--keys", options->keys, "list every key with its kind, default and meaning, and leave");
  app.add_flag("--markdown", options->markdown, "with --keys: as tables of docs/command_line.md");
  add_links_option(app, options->trust);
  app.footer(
      "Examples:\n"
      "  systole train --model mlp --data digits --epochs 3 --lr 0.01\n"
      "  systole train --model cnn3 --data mnist:data/mnist --device cuda --out runs/mnist\n"
      "  systole train run.toml --set train.lr=0.01 --set 'data.augment=[flip, crop 4]'\n\n"
      "The last line of the output is the result: test accuracy 0.9781 loss 0.0721\n"
      "Ctrl-C keeps a checkpoint; the same --out goes on from it.");
  return [options] { return run(*options); };
}

}  // namespace systole::cli
