#include "cli/train/settings.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <type_traits>

#include "systole/base/error.h"
#include "systole/nn/zoo.h"

namespace systole::cli {

namespace {

#define KEY(section, member, ...) \
  {#section, #member, [](Settings& s) -> Slot { return &s.section.member; }, __VA_ARGS__}

constexpr bool kMayChange = true;

constexpr Key kKeys[] = {
    KEY(data, source,
        "what to learn from: mnist:DIR, fashion:DIR, cifar10:DIR, digits, images:DIR, csv:FILE?label=NAME, "
        "npz:FILE, text:FILE?window=64, audio:PLACE; see `systole data info`"),
    KEY(data, validation,
        "what is measured after every epoch: \"test\", \"none\", or a share of the training data such as "
        "0.1; auto: the test data, or 0.2 where there is none"),
    KEY(data, test,
        "what is measured at the end, where the source has no test data: a share such as 0.2 of the data, or "
        "another source; auto: the validation data"),
    KEY(data, normalise,
        "0-1 (whole numbers of a picture), standard (mean 0 and deviation 1 over the training data, per "
        "feature or channel), picture (the same of each picture alone) or none; auto: standard for tables "
        "and "
        "sound, 0-1 for pictures"),
    KEY(data, mean, "subtracted from each feature or channel, of pictures after 0-1"),
    KEY(data, stddev, "divided by, after mean"),
    KEY(data, targets,
        "standard: numbers to learn are brought to mean 0 and deviation 1 for the loss; the model still "
        "gives "
        "them as the data has them; none"),
    KEY(data, augment,
        "changes by chance in training: flip, upside-down, crop 4, rotate 15, cutout 8, jitter 0.2, mixup "
        "0.2; where each pixel has a label, cutout and jitter alone"),
    KEY(data, limit, "so many samples at most, of the training and of the test data; 0: all"),
    KEY(data, mels, "sound as pictures of so many frequencies (log mel); 0: as it is"),
    KEY(data, on_bad,
        "a file that cannot be read: stop, or skip (images, audio), which counts it; in training the next "
        "picture stands in its place, a score leaves it out",
        kMayChange),

    KEY(model, name, "a model of the zoo; `systole summary` lists them with their options"),
    KEY(model, layers,
        "a list of layers in place of a name: \"conv 32 3x3 relu\"; docs/command_line.md has the words"),
    KEY(model, input, "the shape of a sample; empty: as the data has it"),
    KEY(model, outputs, "how many numbers it gives; 0: as many as the data has classes or values"),
    KEY(model, weights,
        "a safetensors file to begin with, or a folder of one, with config.json where it has one; a head of "
        "another size is left out"),
    KEY(model, partial_weights, "whether more than the head may be missing in it and begin as new"),
    KEY(model, freeze, "parameters that are not trained: \"layer1\", \"*.bias\"; \"body\": all but the head"),

    KEY(train, epochs, "passes over the training data", kMayChange),
    KEY(train, batch, "samples in a step"),
    KEY(train, steps_per_epoch, "0: all that the data has"),
    KEY(train, optimizer,
        "sgd, momentum, nesterov, adagrad, rmsprop, adam, adamw, lion, lamb, muon; keras:adam with Keras's "
        "defaults"),
    KEY(train, optimizer_options, "its own, e.g. {weight_decay = 0.01}"),
    KEY(train, lr, "the learning rate; 0: the optimiser's default"),
    KEY(train, schedule,
        "how it changes: constant, step, multi_step, exponential, cosine, cosine_restarts, linear, "
        "polynomial, one_cycle, or plateau"),
    KEY(train, schedule_options, "its own, e.g. {warmup = 1}; the steps of a curve are all there are"),
    KEY(train, schedule_in, "what the schedule's numbers count: epochs or steps"),
    KEY(train, loss,
        "cross_entropy, mse, mae, huber, bce_with_logits, …; auto: cross_entropy for classes, "
        "bce_with_logits for two classes and one output, mse for numbers"),
    KEY(train, label_smoothing, "of cross_entropy"),
    KEY(train, class_weights, "of cross_entropy, one for each class"),
    KEY(train, loss_options, "delta, beta, margin, half, ignore_index, from_logits"),
    KEY(train, metrics,
        "accuracy, top5, f1_macro, auc, mae, r2, …; empty: accuracy for classes, mae for numbers"),
    KEY(train, device, "cpu, cuda:0, pjrt:cpu, … as `systole devices` lists them", kMayChange),
    KEY(train, devices, "how many share out a batch, from that one on (tpu, pjrt, reference); -1: all",
        kMayChange),
    KEY(train, precision, "of products: f32, bf16 or f16"),
    KEY(train, math, "of f32 products on devices with both: f32 or tf32; auto: as SYSTOLE_MATH says"),
    KEY(train, clip_norm, "the longest gradient, of all parameters together; 0: any"),
    KEY(train, clip_value, "the largest element of a gradient; 0: any"),
    KEY(train, accumulate, "gradients of so many batches make one step of the optimiser"),
    KEY(train, ema, "decay of an average of the weights, which is tested and saved; 0: none"),
    KEY(train, seed, "of weights, order, splits and chance"),
    KEY(train, shuffle, "a new order in each epoch"),
    KEY(train, drop_last, "leave out samples that do not fill a batch"),
    KEY(train, validation_steps, "batches of the validation data that are measured; 0: all"),
    KEY(train, validation_every, "epochs from one measurement to the next"),
    KEY(train, early_stopping, "stop after so many epochs without improvement; 0: never", kMayChange),
    KEY(train, monitor, "what is to improve; empty: the validation's loss", kMayChange),
    KEY(train, min_delta, "a smaller improvement is none", kMayChange),
    KEY(train, restore_best, "end with the weights of the best epoch; needs early_stopping", kMayChange),
    KEY(train, save_best, "keep the model of the best epoch so far as best.safetensors", kMayChange),
    KEY(train, checkpoint_epochs, "epochs from one checkpoint to the next; 0: none", kMayChange),
    KEY(train, checkpoint_steps, "and steps; 0: none within an epoch", kMayChange),
    KEY(train, checkpoint_seconds, "and seconds; 0: by steps alone", kMayChange),
    KEY(train, checkpoint_keep, "the newest that stay", kMayChange),
    KEY(train, tensorboard, "write logs/ for TensorBoard", kMayChange),
    KEY(train, tensorboard_steps, "steps from one point to the next; 0: one per epoch", kMayChange),
    KEY(train, histograms, "of every parameter, for TensorBoard", kMayChange),
    KEY(train, plots, "draw loss, metrics and confusion matrix at the end", kMayChange),
    KEY(train, bad_numbers, "when the loss is not finite: find (names the op), stop or ignore"),
    KEY(train, deterministic, "the same bits in every run, where a device would be faster otherwise"),
    KEY(train, workers, "threads that read data which is not on the device; -1: as many as help", kMayChange),
    KEY(train, steps_per_call, "steps of one launch; 0: by their work", kMayChange),
    KEY(train, device_gigabytes, "data up to this size is laid on the device", kMayChange),
    KEY(train, verbose,
        "0: no progress, only what is trained and the result, 1: a bar on a terminal, 2: a line per epoch",
        kMayChange),
};

#undef KEY

constexpr std::string_view kSections[] = {"data", "model", "train"};

template <class T>
std::string_view kind_name() {
  if constexpr (std::is_same_v<T, bool>)
    return "true or false";
  else if constexpr (std::is_same_v<T, std::int64_t>)
    return "whole number";
  else if constexpr (std::is_same_v<T, double>)
    return "number";
  else if constexpr (std::is_same_v<T, std::string>)
    return "text";
  else if constexpr (std::is_same_v<T, std::vector<double>>)
    return "list of numbers";
  else if constexpr (std::is_same_v<T, std::vector<std::int64_t>>)
    return "list of whole numbers";
  else if constexpr (std::is_same_v<T, std::vector<std::string>>)
    return "list of texts";
  else if constexpr (std::is_same_v<T, Table>)
    return "table";
  else
    return "number or text";
}

// "a number", "true or false".
std::string with_article(const std::string& kind) {
  return kind == "text" || kind == kind_name<bool>() ? kind : "a " + kind;
}

std::string full_name(const Key& key) { return fmt::format("{}.{}", key.section, key.name); }

// Whether the value is one of this kind; a whole number is a number, one thing is a list of it.
template <class T>
bool read(const Value& value, T& to) {
  if constexpr (std::is_same_v<T, ShareOrText>) {
    double share = 0;
    std::string text;
    if (read(value, share))
      to = share;
    else if (read(value, text))
      to = std::move(text);
    else
      return false;
    return true;
  } else if (const T* same = value.get<T>()) {
    to = *same;
    return true;
  } else if constexpr (std::is_same_v<T, double>) {
    if (const auto* whole = value.get<std::int64_t>()) {
      to = static_cast<double>(*whole);
      return true;
    }
  }
  return false;
}
template <class T>
bool read(const Value& value, std::vector<T>& to) {
  if constexpr (std::is_same_v<T, Entry>) {
    if (const Table* table = value.get<Table>()) to = *table;
    return value.get<Table>() != nullptr;
  } else {
    to.clear();
    const Value::List one{value}, *list = value.get<Value::List>();
    for (const Value& part : list != nullptr ? *list : one)
      if (T element{}; read(part, element))
        to.push_back(std::move(element));
      else
        return false;
    return true;
  }
}

template <class T>
Value written(const T& from) {
  if constexpr (std::is_same_v<T, ShareOrText>) {
    return std::visit([](const auto& x) { return written(x); }, from);
  } else {
    return {from};
  }
}
template <class T>
Value written(const std::vector<T>& from) {
  if constexpr (std::is_same_v<T, Entry>) {
    return {from};
  } else {
    Value::List list;
    for (const T& element : from) list.push_back({element});
    return {std::move(list)};
  }
}

Value value_at(const Key& key, const Settings& settings) {
  return std::visit([](const auto* slot) { return written(*slot); },
                    key.slot(const_cast<Settings&>(settings)));
}

// Names that other programs have for a key.
struct OtherName {
  std::string_view name, section, key;
};
constexpr OtherName kOtherNames[] = {
    {"learning_rate", "train", "lr"},        {"batch_size", "train", "batch"},
    {"patience", "train", "early_stopping"}, {"optimiser", "train", "optimizer"},
    {"normalize", "data", "normalise"},      {"std", "data", "stddev"},
};

// "train.lr" of lr and of learning_rate; empty where no section has it.
std::string section_and_key(std::string_view name) {
  for (const OtherName& other : kOtherNames)
    if (other.name == name) return fmt::format("{}.{}", other.section, other.key);
  for (const Key& key : kKeys)
    if (key.name == name) return full_name(key);
  return {};
}

std::vector<std::string_view> names_in(std::string_view section) {
  std::vector<std::string_view> names;
  for (const Key& key : kKeys)
    if (key.section == section) names.push_back(key.name);
  return names;
}

// An option beside the model's name must be one that the model has.
void check_model_options(const Settings::Model& model) {
  if (model.options.empty()) return;
  std::vector<std::string_view> known = names_in("model");
  const std::vector<std::string> models = nn::zoo::names();
  if (std::find(models.begin(), models.end(), model.name) != models.end())
    for (const nn::zoo::OptionEntry& option : nn::zoo::entry(model.name).options)
      known.push_back(option.name);
  for (const Entry& entry : model.options)
    if (std::find(known.begin(), known.end(), entry.key) == known.end())
      throw unknown_key(
          entry.value.where,
          fmt::format("there is no key {} in [model]{}", entry.key,
                      model.name.empty() ? "" : fmt::format(", and {} has no such option", model.name)),
          entry.key, known);
}

void check_word(std::string_view name, std::string_view word, std::initializer_list<std::string_view> known) {
  if (std::find(known.begin(), known.end(), word) != known.end()) return;
  throw unknown_key(std::string(name), fmt::format("there is no {}", in_quotes(word)), word,
                    std::span(known.begin(), known.size()));
}

}  // namespace

std::span<const Key> keys() { return kKeys; }

std::string kind_of(const Key& key) {
  Settings any;
  return std::visit(
      [](const auto* slot) { return std::string(kind_name<std::remove_cvref_t<decltype(*slot)>>()); },
      key.slot(any));
}

std::string default_of(const Key& key) { return to_toml(value_at(key, Settings())); }

std::string keys_page() {
  std::string page;
  for (const std::string_view section : kSections) {
    page += fmt::format("{}| key in `[{}]` | kind | default | meaning |\n|---|---|---|---|\n",
                        page.empty() ? "" : "\n", section);
    for (const Key& key : kKeys)
      if (key.section == section)
        page += fmt::format("| `{}` | {} | `{}` | {} |\n", key.name, kind_of(key), default_of(key), key.help);
  }
  return page;
}

Settings settings_of(const Table& given) {
  Settings settings;
  for (const auto& [section, part] : given) {
    const bool known = std::find(std::begin(kSections), std::end(kSections), section) != std::end(kSections);
    if (const std::string meant = section_and_key(section); !known && !meant.empty()) {
      const std::size_t dot = meant.find('.');
      throw Error(ErrorKind::kNotFound, part.where,
                  fmt::format("{} stands in no section; did you mean {} below [{}]?", section,
                              meant.substr(dot + 1), meant.substr(0, dot)));
    }
    if (!known)
      throw unknown_key(part.where, fmt::format("there is no section [{}]", section), section, kSections);
    const Table* table = part.get<Table>();
    if (table == nullptr)
      throw wrong_kind(section, part, fmt::format("a table, as below a line [{}]", section));
    for (const Entry& entry : *table) {
      const auto key = std::find_if(std::begin(kKeys), std::end(kKeys), [&](const Key& k) {
        return k.section == section && k.name == entry.key;
      });
      // gpt2 and others have an option of this name: how many.
      const bool count = section == "model" && entry.key == "layers" && entry.value.get<std::int64_t>();
      if (key == std::end(kKeys) || count) {
        if (const std::string meant = section_and_key(entry.key); section != "model" && !meant.empty())
          throw Error(ErrorKind::kNotFound, entry.value.where,
                      fmt::format("there is no key {} in [{}]; did you mean {}?", entry.key, section, meant));
        if (section != "model")
          throw unknown_key(entry.value.where, fmt::format("there is no key {} in [{}]", entry.key, section),
                            entry.key, names_in(section));
        settings.model.options.push_back(entry);
        continue;
      }
      if (!std::visit([&](auto* slot) { return read(entry.value, *slot); }, key->slot(settings)))
        throw wrong_kind(full_name(*key), entry.value, with_article(kind_of(*key)));
    }
  }
  check_model_options(settings.model);
  check_word("data.normalise", settings.data.normalise, {"auto", "0-1", "standard", "picture", "none"});
  check_word("data.targets", settings.data.targets, {"none", "standard"});
  check_word("data.on_bad", settings.data.on_bad, {"stop", "skip"});
  check_word("train.precision", settings.train.precision, {"f32", "bf16", "f16"});
  check_word("train.math", settings.train.math, {"auto", "f32", "tf32"});
  check_word("train.bad_numbers", settings.train.bad_numbers, {"find", "stop", "ignore"});
  check_word("train.schedule_in", settings.train.schedule_in, {"epochs", "steps"});
  return settings;
}

void apply_set(Table& given, std::string_view assignment) {
  const std::string where = fmt::format("--set {}", assignment);
  const std::size_t equals = assignment.find('=');
  if (equals == std::string_view::npos || equals == 0)
    throw Error(ErrorKind::kInvalidArgument, where, "no value", "KEY=VALUE, such as train.epochs=5");
  const std::string_view path = assignment.substr(0, equals);
  if (path.find('.') == std::string_view::npos) {
    if (const std::string meant = section_and_key(path); !meant.empty())
      throw Error(ErrorKind::kNotFound, where,
                  fmt::format("there is no key {}; did you mean {}?", path, meant));
    throw Error(ErrorKind::kNotFound, where, fmt::format("there is no key {}", path),
                "a section and a key, such as train.epochs");
  }
  set_path(given, path, parse_value(assignment.substr(equals + 1), where));
}

Table to_table(const Settings& settings) {
  Table all;
  for (const std::string_view section : kSections) {
    Table table;
    for (const Key& key : kKeys)
      if (key.section == section && (section != "model" || find(settings.model.options, key.name) == nullptr))
        table.push_back({std::string(key.name), value_at(key, settings)});
    if (section == "model")
      table.insert(table.end(), settings.model.options.begin(), settings.model.options.end());
    all.push_back({std::string(section), {std::move(table)}});
  }
  return all;
}

std::string to_toml(const Settings& settings) {
  std::string text;
  for (const Entry& section : to_table(settings)) {
    text += fmt::format("{}[{}]\n", text.empty() ? "" : "\n", section.key);
    for (const Entry& entry : *section.value.get<Table>())
      text += fmt::format("{} = {}\n", key_text(entry.key), to_toml(entry.value));
  }
  return text;
}

namespace {

// "train.lr" to its text, of what to_toml() wrote: a key on each line.
std::map<std::string, std::string> lines_of(std::string_view text) {
  std::map<std::string, std::string> lines;
  std::string section;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    const std::string_view line = text.substr(0, end);
    if (line.starts_with('['))
      section = line.substr(1, line.find(']') - 1);
    else if (const std::size_t equals = line.find(" = "); equals != std::string_view::npos)
      lines[fmt::format("{}.{}", section, line.substr(0, equals))] = line.substr(equals + 3);
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return lines;
}

}  // namespace

std::vector<std::string> changed_keys(std::string_view old_file, const Settings& now) {
  std::map<std::string, std::string> before = lines_of(old_file), after = lines_of(to_toml(now));
  for (const Key& key : kKeys)
    if (key.may_change || !before.contains(full_name(key)))
      before.erase(full_name(key)), after.erase(full_name(key));
  std::vector<std::string> changes;
  for (const auto& [name, text] : after)
    if (const auto old = before.find(name); old == before.end() || old->second != text)
      changes.push_back(
          fmt::format("{} was {} and is {}", name, old == before.end() ? "unset" : old->second, text));
  for (const auto& [name, text] : before)
    if (!after.contains(name)) changes.push_back(fmt::format("{} was {} and is unset", name, text));
  return changes;
}

}  // namespace systole::cli
