#include "cli/train/model.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "systole/base/error.h"
#include "systole/io/pretrained.h"
#include "systole/io/safetensors.h"
#include "systole/nn/fine_tune.h"
#include "systole/nn/layers_model.h"
#include "systole/nn/models/bert.h"
#include "systole/nn/models/gpt2.h"
#include "systole/nn/summary.h"
#include "systole/nn/zoo.h"
#include "systole/tensor/math.h"

namespace systole::cli {

namespace {

nn::zoo::Settings zoo_options(const Table& given) {
  nn::zoo::Settings options;
  for (const auto& [key, value] : given) {
    const std::string* text = value.get<std::string>();
    options.emplace(key, nn::zoo::Value(text != nullptr ? *text : to_toml(value)));
  }
  return options;
}

// A word beyond those that the model knows would be read as its last one.
void fit_vocabulary(const nn::zoo::Entry& entry, nn::zoo::Settings& options, std::int64_t words) {
  for (const nn::zoo::OptionEntry& option : entry.options) {
    if (option.name != "vocabulary") continue;
    const auto given = options.find("vocabulary");
    const std::string text = given == options.end() ? option.standard : given->second.text();
    std::int64_t known = 0;
    std::from_chars(text.data(), text.data() + text.size(), known);
    if (known >= words) return;
    if (given != options.end())
      throw Error(ErrorKind::kInvalidArgument, "model.vocabulary",
                  "the data has more words than the model knows", fmt::format("{} or more", words), text);
    options.emplace("vocabulary", nn::zoo::Value(std::to_string(words)));
  }
}

// What the model says for a batch of one, without computing it.
Shape output_of(const nn::AnyModule& module, const Type& input) {
  Shape batch{1};
  for (const Dim& d : input.shape) batch.push_back(d);
  const nn::Inventory found = nn::inventory(module);
  const nn::detail::Modes modes(found);
  nn::detail::set_training(found, false);
  const Shape given = module(nn::detail::stand_in(std::move(batch), input.dtype)).shape();
  return Shape(std::span(given.begin() + 1, given.end()));
}

using Arrays = std::map<std::string, Tensor>;

// Published weights of a language model under the names of the one that is built.
Arrays with_own_names(const nn::AnyModule& module, Arrays values) {
  using namespace nn::models;
  if (const auto* gpt2 = module.get<Gpt2>()) return gpt2_state_dict(values, gpt2->options);
  if (const auto* bert = module.get<Bert>()) return bert_state_dict(values, bert->options(), false);
  if (const auto* bert = module.get<BertClassifier>()) return bert_state_dict(values, bert->bert.options());
  if (const auto* bert = module.get<BertMaskedLanguageModel>())
    return bert_state_dict(values, bert->bert.options());
  return values;
}

// "a, b, c, d and 7 more", or nothing.
std::string some_of(std::vector<std::string> names, std::string_view before) {
  if (names.empty()) return {};
  constexpr std::size_t kShown = 4;
  const std::size_t more = names.size() > kShown ? names.size() - kShown : 0;
  names.resize(names.size() - more);
  return fmt::format("{}{}{}", before, fmt::join(names, ", "),
                     more > 0 ? fmt::format(" and {} more", more) : "");
}

// "h.#.fc.weight" of "h.11.fc.weight".
std::string without_numbers(std::string_view name) {
  std::string pattern;
  for (const char c : name)
    if (const bool digit = c >= '0' && c <= '9'; !digit)
      pattern += c;
    else if (pattern.empty() || pattern.back() != '#')
      pattern += '#';
  return pattern;
}

// Those that belong to a further one of the model's blocks: it has fewer than the file.
std::vector<std::string> further_blocks(const nn::LoadedState& loaded) {
  std::set<std::string> known;
  for (const std::string& name : loaded.taken) known.insert(without_numbers(name));
  std::vector<std::string> further;
  for (const std::string& name : loaded.left_over)
    if (known.contains(without_numbers(name))) further.push_back(name);
  return further;
}

// The names without those of the model's head, which fine-tuning trains again for other classes. A masked
// model has no pooler, so BERT's pooler counts as part of a classifier's head.
std::vector<std::string> without_head(const nn::AnyModule& module, std::vector<std::string> names) {
  const std::vector<std::string> head = nn::head_names(module);
  const bool masked = module.get<nn::models::BertMaskedLanguageModel>() != nullptr;
  const bool classifier = module.get<nn::models::BertClassifier>() != nullptr;
  std::erase_if(names, [&](const std::string& name) {
    return std::find(head.begin(), head.end(), name) != head.end() || (masked && name.starts_with("cls.")) ||
           (classifier && name.starts_with("bert.pooler."));
  });
  return names;
}

// An output layer that is tied to the word embedding and has other values in the file: the model's scores
// would not be those of the weights.
void require_tied(const nn::AnyModule& module, const nn::LoadedState& loaded, const std::string& file) {
  using namespace nn::models;
  const auto left_over = [&](std::string_view name) {
    return std::find(loaded.left_over.begin(), loaded.left_over.end(), name) != loaded.left_over.end();
  };
  const auto refuse = [&](std::string_view name, const char* expected) {
    if (left_over(name))
      throw Error(ErrorKind::kInvalidArgument, file,
                  fmt::format("{} is not the word embedding, which is the model's output layer", name),
                  fmt::format("{}--partial-weights (model.partial_weights = true) leaves it out", expected));
  };
  if (const auto* gpt2 = module.get<Gpt2>(); gpt2 != nullptr && gpt2->options.tied)
    refuse("lm_head.weight", "an output layer of its own: --set model.tied=false; ");
  if (module.get<BertMaskedLanguageModel>() != nullptr) refuse("cls.predictions.decoder.weight", "");
}

// Values under the names that the model has, where the shapes agree. Says what was taken.
std::string take_weights(nn::AnyModule& module, const Settings::Model& settings) {
  const std::string& file = settings.weights;
  const bool partial = settings.partial_weights;
  const auto naming = [&](auto&& work) {
    try {
      return work();
    } catch (const Error& error) {
      throw error.within(file);
    }
  };
  const Arrays published = io::load_safetensors(file, {.follow_links = settings.follow_links});
  Arrays values = naming([&] { return with_own_names(module, published); });
  const Arrays own = state_dict(module);
  std::string shapes;  // that differ
  std::erase_if(values, [&](const auto& entry) {
    const auto at = own.find(entry.first);
    if (at == own.end() || at->second.shape() == entry.second.shape()) return false;
    if (shapes.empty())
      shapes = fmt::format("{} is {} there and {} in the model", entry.first, entry.second.type().to_string(),
                           at->second.type().to_string());
    return true;
  });
  if (values.empty())
    throw Error(ErrorKind::kNotFound, file, "none of its arrays fits a parameter of the model",
                fmt::format("{} {}", own.begin()->first, own.begin()->second.type().to_string()), shapes);
  const nn::LoadedState loaded = naming([&] { return load_state_dict(module, values, false); });
  const std::string hint = "--partial-weights (model.partial_weights = true) trains them all the same";
  if (const std::vector<std::string> missing = without_head(module, loaded.missing);
      !partial && !missing.empty())
    throw Error(ErrorKind::kNotFound, file,
                fmt::format("{} of the model's {} arrays have no value in it: {}{}", missing.size(),
                            own.size(), some_of(missing, ""), shapes.empty() ? "" : "; " + shapes),
                fmt::format("all but the head; {}", hint),
                some_of(loaded.left_over, "arrays of other names: "));
  if (const std::vector<std::string> further = further_blocks(loaded); !partial && !further.empty())
    throw Error(ErrorKind::kNotFound, file,
                fmt::format("it has blocks that the model has not: {}", some_of(further, "")),
                "a model of as many; --partial-weights (model.partial_weights = true) leaves them out");
  if (!partial) require_tied(module, loaded, file);
  return fmt::format("{} of {} arrays from {}{}{}", loaded.taken.size(), own.size(), file,
                     some_of(loaded.missing, "; new: "), some_of(loaded.left_over, "; left out: "));
}

// The settings with those of config.json beside the weights of a language model: what is not seen from the
// weights, such as the heads, must be as it was. Throws kUnsupported for a family that there is not, and
// kInvalidArgument for settings that contradict.
Settings::Model with_config(Settings::Model settings) {
  if (settings.weights.empty() || settings.name.empty() || !nn::zoo::entry(settings.name).text ||
      !io::has_pretrained_config(settings.weights))
    return settings;
  const io::ReadOptions read{.follow_links = settings.follow_links};
  const std::string family = io::pretrained_family(settings.weights, read);
  const std::string model = family == "gpt2" ? "gpt2" : "bert";
  if (nn::zoo::entry(settings.name).name != model)
    throw Error(
        ErrorKind::kInvalidArgument, "model.name",
        fmt::format("{} is of the family {}, as config.json beside it says", settings.weights, family), model,
        settings.name);
  Table options;
  const auto add = [&](const char* key, auto value) { options.push_back({key, {value}}); };
  const auto add_common = [&](const auto& given) {
    add("vocabulary", given.vocabulary);
    add("layers", given.layers);
    add("width", given.width);
    add("heads", given.heads);
    add("length", given.length);
    add("dropout", given.dropout);
    add("intermediate", given.intermediate);
    add("epsilon", given.epsilon);
    add("activation", std::string(name_of(given.activation)));
  };
  if (family == "gpt2") {
    const nn::models::Gpt2Options given = io::gpt2_options(settings.weights, read);
    add_common(given);
    add("tied", given.tied);
  } else {
    const nn::models::BertOptions given = io::bert_options(settings.weights, read);
    add_common(given);
    add("segments", given.segments);
    add("padding", given.padding);
  }
  for (Entry& option : options) {
    const Value* given = find(settings.options, option.key);
    if (given == nullptr)
      settings.options.push_back(std::move(option));
    else if (option.key != "dropout" && !settings.partial_weights && to_toml(*given) != to_toml(option.value))
      throw Error(
          ErrorKind::kInvalidArgument, given->where,
          fmt::format("model.{} is not that of the weights, as config.json beside them says", option.key),
          to_toml(option.value), to_toml(*given));
  }
  return settings;
}

void freeze(nn::AnyModule& module, const std::vector<std::string>& patterns) {
  for (const std::string& pattern : patterns)
    if (pattern == "body")
      nn::freeze_all_but_head(module);
    else
      nn::freeze(module, pattern);
}

std::int64_t count(const Parameters& list) {
  std::int64_t total = 0;
  for (const auto& [name, variable] : list) total += variable.size();
  return total;
}

BuiltModel finished(BuiltModel model, const Settings::Model& settings) {
  if (!settings.weights.empty()) model.weights = take_weights(model.module, settings);
  const std::int64_t all = count(parameters(model.module));
  freeze(model.module, settings.freeze);
  model.parameters = all;
  model.frozen = all - count(parameters(model.module));
  model.output = output_of(model.module, model.input);
  return model;
}

Shape shape_of(const std::vector<std::int64_t>& dims) { return Shape(std::span<const std::int64_t>(dims)); }

void require_one(const Settings::Model& settings) {
  if (settings.name.empty() == settings.layers.empty())
    throw Error(ErrorKind::kInvalidArgument, "model",
                settings.name.empty() ? "none is named" : "a name and a list of layers",
                fmt::format("name, one of {}; or layers", fmt::join(nn::zoo::names(), ", ")));
}

// The parameters have the names that they have in the module inside.
struct Restored {
  nn::AnyModule module;
  Variable deviation, mean;

  Tensor forward(const Tensor& x) const { return module(x) * deviation + mean; }
  void walk(const std::string& path, int depth, nn::Inventory& out) { module.walk(path, depth, out); }
};

}  // namespace

nn::AnyModule with_targets(nn::AnyModule module, const TargetScale& targets) {
  if (targets.empty()) return module;
  return Restored{std::move(module), fixed_number("target.deviation", targets.deviation),
                  fixed_number("target.mean", targets.mean)};
}

BuiltModel build_model(const Settings::Model& given_settings, const TrainingData& data) {
  require_one(given_settings);
  const Settings::Model settings = with_config(given_settings);
  const Type& sample = data.input;
  const Task task = data.task;
  const std::int64_t outputs = data.outputs;
  BuiltModel model;
  model.input = {holds_words(sample) ? sample.dtype : DType::f32,
                 settings.input.empty() ? sample.shape : shape_of(settings.input)};
  if (!settings.input.empty() && model.input.shape.count() != sample.shape.count())
    throw Error(ErrorKind::kShape, "model.input", "another number of values than a sample has",
                sample.shape.to_string(), model.input.shape.to_string());
  const auto add_channel = [&] {
    if (model.input.shape.rank() == 2) model.input.shape.push_back(1);
  };
  if (!settings.layers.empty()) {
    if (is_integer(sample.dtype) && !holds_words(sample)) add_channel();
    model.name = "layers";
    model.module = nn::layers_model(settings.layers, model.input.shape);
  } else {
    const nn::zoo::Entry& entry = nn::zoo::entry(settings.name);
    const bool words = !is_float(model.input.dtype);
    if (entry.text != words) {
      const bool brightness = is_integer(sample.dtype);  // of a picture: see holds_words()
      throw Error(ErrorKind::kDType, fmt::format("model {}", entry.name),
                  !entry.text  ? "it takes numbers, and the data is words"
                  : brightness ? "it takes words, and small unsigned numbers count as a picture"
                               : "it takes words",
                  !entry.text  ? "a model of text: lstm, gpt2, bert"
                  : brightness ? "i32[length]: save tokens as i32"
                               : "i32[length], as text:FILE gives it",
                  sample.to_string());
    }
    if (entry.input.rank() == 3) add_channel();
    nn::zoo::Settings options = zoo_options(settings.options);
    if (task == Task::places && entry.name == "lstm") options.emplace("task", "next");
    if (task == Task::places && entry.name == "bert") options.emplace("task", "mask");
    // A model of words gives a number for each of them; one that gives classes knows so many words.
    const std::int64_t known = task == Task::places && words ? std::max(outputs, data.vocabulary) : outputs;
    if (words) fit_vocabulary(entry, options, data.vocabulary);
    model.name = entry.name;
    model.module = nn::zoo::make(entry.name, {.input = model.input.shape,
                                              .classes = settings.outputs > 0 ? settings.outputs : known,
                                              .options = std::move(options)});
  }
  model = finished(std::move(model), settings);
  const std::int64_t given = model.output.empty() ? 1 : model.output[model.output.size() - 1].value();
  const bool two = task == Task::classes && given == 1 && outputs <= 2;
  if (given != outputs && !two && !(task != Task::numbers && given > outputs))
    throw Error(ErrorKind::kShape, fmt::format("model {}", model.name),
                task == Task::numbers ? "the values that it gives are not those of the data"
                                      : "it gives fewer numbers than the data has classes",
                std::to_string(outputs), model.output.to_string());
  Shape expected = task == Task::places ? data.target.shape : Shape{};
  expected.push_back(given);
  if (model.output != expected)
    throw Error(ErrorKind::kShape, fmt::format("model {}", model.name), "its output does not fit the targets",
                task == Task::places ? fmt::format("{}: scores of the classes at each place of {}",
                                                   expected.to_string(), data.target.to_string())
                                     : fmt::format("[{}]", outputs),
                model.output.to_string());
  return model;
}

BuiltModel build_model(const Settings::Model& given_settings) {
  require_one(given_settings);
  const Settings::Model settings = with_config(given_settings);
  BuiltModel model;
  if (!settings.layers.empty()) {
    if (settings.input.empty())
      throw Error(ErrorKind::kInvalidArgument, "model.input", "a list of layers needs the shape of a sample",
                  "--input 28x28x1");
    model.name = "layers";
    model.input = {DType::f32, shape_of(settings.input)};
    if (settings.layers[0].starts_with("embedding")) model.input.dtype = DType::i32;
    model.module = nn::layers_model(settings.layers, model.input.shape);
  } else {
    const nn::zoo::Entry& entry = nn::zoo::entry(settings.name);
    model.name = entry.name;
    model.input = {entry.text ? DType::i32 : DType::f32,
                   settings.input.empty() ? entry.input : shape_of(settings.input)};
    if (entry.input.rank() == 3 && model.input.shape.rank() == 2) model.input.shape.push_back(1);
    model.module = nn::zoo::make(
        entry.name,
        {.input = model.input.shape, .classes = settings.outputs, .options = zoo_options(settings.options)});
  }
  return finished(std::move(model), settings);
}

}  // namespace systole::cli
