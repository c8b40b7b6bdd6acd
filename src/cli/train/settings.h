#pragma once

// What a training is: data, model and training, as a TOML file or `--set` gives them. One table holds every
// key with its place in Settings and its meaning; kinds and defaults follow from the members. Parsing,
// config.toml, `systole train --keys`, the page docs/command_line.md and the comments in what `systole new`
// writes come from it.

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "cli/train/value.h"

namespace systole::cli {

// A share such as 0.1, or words.
using ShareOrText = std::variant<double, std::string>;

struct Settings {
  struct Data {
    std::string source;
    ShareOrText validation = "auto", test = "auto";
    std::string normalise = "auto", targets = "none";
    std::vector<double> mean, stddev;
    std::vector<std::string> augment;
    std::int64_t limit = 0, mels = 0;
    std::string on_bad = "stop";
  } data;
  struct Model {
    std::string name;
    std::vector<std::string> layers;
    std::vector<std::int64_t> input;
    std::int64_t outputs = 0;
    std::string weights;
    bool follow_links = false;  // for weights; --follow-links alone sets it, no file can
    bool partial_weights = false;
    std::vector<std::string> freeze;
    Table options;  // the model's own, which stand beside these
  } model;
  struct Train {
    std::int64_t epochs = 5, batch = 64, steps_per_epoch = 0;
    std::string optimizer = "adam";
    Table optimizer_options;
    double lr = 0;
    std::string schedule = "constant", schedule_in = "epochs";
    Table schedule_options;
    std::string loss = "auto";
    double label_smoothing = 0;
    std::vector<double> class_weights;
    Table loss_options;
    std::vector<std::string> metrics;
    std::string device = "auto";
    std::int64_t devices = 1;
    std::string precision = "f32", math = "auto";
    double clip_norm = 0, clip_value = 0;
    std::int64_t accumulate = 1;
    double ema = 0;
    std::int64_t seed = 1;
    bool shuffle = true, drop_last = false;
    std::int64_t validation_steps = 0, validation_every = 1;
    std::int64_t early_stopping = 0;
    std::string monitor;
    double min_delta = 0;
    bool restore_best = false, save_best = false;
    std::int64_t checkpoint_epochs = 1, checkpoint_steps = 0;
    double checkpoint_seconds = 0;
    std::int64_t checkpoint_keep = 2;
    bool tensorboard = false;
    std::int64_t tensorboard_steps = 0;
    bool histograms = false, plots = true;
    std::string bad_numbers = "find";
    bool deterministic = false;
    std::int64_t workers = -1, steps_per_call = 0;
    double device_gigabytes = 2;
    std::int64_t verbose = 1;
  } train;
};

using Slot = std::variant<bool*, std::int64_t*, double*, std::string*, std::vector<double>*,
                          std::vector<std::int64_t>*, std::vector<std::string>*, Table*, ShareOrText*>;

struct Key {
  std::string_view section, name;
  Slot (*slot)(Settings& settings);
  std::string_view help;
  bool may_change = false;  // between the parts of a run that is resumed
};
std::span<const Key> keys();
std::string kind_of(const Key& key);     // "whole number"
std::string default_of(const Key& key);  // as it stands in a file
std::string keys_page();                 // all of them as tables of a Markdown page

// Throws kNotFound for an unknown key, with the nearest, and kInvalidArgument for a value of another kind;
// both with the place. An option of a model is checked against those that the model has.
Settings settings_of(const Table& given);
// One `KEY=VALUE` of the command line into what a file gave.
void apply_set(Table& given, std::string_view assignment);

// Every key with its value, for a file.
std::string to_toml(const Settings& settings);
Table to_table(const Settings& settings);
// The keys that differ and may not, one "train.lr was 0.1 and is 0.2" each. `old_file` is what to_toml()
// gave.
std::vector<std::string> changed_keys(std::string_view old_file, const Settings& now);

}  // namespace systole::cli
