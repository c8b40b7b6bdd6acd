// systole train: a model trained on data, from a TOML file, from the command line, or both.

#include <fmt/format.h>
#include <algorithm>
#include <array>
#include <iterator>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
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

// An option's text, and whether it was given at all: an unset variable of a shell gives an empty one.
struct Given {
  std::string value;
  const Option* option = nullptr;

  bool is_given() const { return option->is_given(); }
};

struct Options {
  std::string file;
  Given model, data, device, out;
  std::vector<std::string> sets;
  std::array<Given, std::size(kKeyOptions)> keys_given;  // of kKeyOptions
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

// Numbers are refused by their own kind.
void refuse_empty(std::string_view key, const Value& value, std::string_view kind) {
  const std::string* text = value.get<std::string>();
  if (text != nullptr && text->empty() && kind.find("text") != std::string_view::npos)
    throw wrong_kind(key, value, "a value");
}

int run(const Options& options) {
  if (options.keys) return show_keys(options.markdown);
  const bool has_key = std::any_of(options.keys_given.begin(), options.keys_given.end(),
                                   [](const Given& key) { return key.is_given(); });
  if (options.file.empty() && !options.data.is_given() && options.sets.empty() && !has_key)
    throw UsageError("nothing says what to train: give a TOML file, or --model and --data");
  Table given = options.file.empty() ? Table{} : read_toml(options.file);
  const auto set = [&](std::string_view key, Value value) {
    refuse_empty(key, value, kind_of(key_named(key)));
    set_path(given, key, std::move(value));
  };
  if (options.model.is_given()) set("model.name", {options.model.value, "--model"});
  if (options.data.is_given()) set("data.source", {options.data.value, "--data"});
  if (options.device.is_given()) set("train.device", {options.device.value, "--device"});
  if (options.out.is_given()) refuse_empty("--out", {options.out.value, "--out"}, "text");
  for (std::size_t i = 0; i < std::size(kKeyOptions); ++i)
    if (const Given& key = options.keys_given[i]; key.is_given())
      set(kKeyOptions[i], parse_value(key.value, option_of(kKeyOptions[i])));
  if (options.partial_weights) set_path(given, "model.partial_weights", {true, "--partial-weights"});
  for (const std::string& assignment : options.sets) apply_set(given, assignment);
  prefer_command_line(given);
  Settings settings = settings_of(given);
  settings.model.follow_links = options.trust.follow_links;
  return train(settings, {options.out.value, options.fresh});
}

}  // namespace

Action add_train(App& app) {
  auto options = std::make_shared<Options>();
  app.add_option("FILE", options->file, "a TOML file with [data], [model] and [train]; - is standard input")
      ->type_name("");
  const auto add = [&](const std::string& name, Given& given, const std::string& help, const char* type) {
    given.option = app.add_option(name, given.value, help)->type_name(type);
  };
  add("--model", options->model, "a model of the zoo: mlp, cnn3, resnet18, … (model.name)", "NAME");
  add("--data", options->data, "what to learn from: digits, mnist:DIR, csv:FILE, … (data.source)", "SOURCE");
  add("--device", options->device, "where to run, as systole devices lists them (train.device)", "NAME");
  add("-o,--out", options->out,
      "the folder of the run; one that is there goes on where it stopped; else runs/DATA-MODEL-N", "RUN");
  for (std::size_t i = 0; i < std::size(kKeyOptions); ++i) {
    const Key& key = key_named(kKeyOptions[i]);
    add(option_of(kKeyOptions[i]), options->keys_given[i], fmt::format("{} ({})", key.help, kKeyOptions[i]),
        "VALUE");
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
