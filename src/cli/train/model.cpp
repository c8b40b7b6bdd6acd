#include "cli/train/model.h"

#include <fmt/format.h>

#include <utility>

#include "systole/base/error.h"
#include "systole/io/safetensors.h"
#include "systole/nn/fine_tune.h"
#include "systole/nn/layers_model.h"
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

// Values under the names that the model has, where the shapes agree.
std::string take_weights(nn::AnyModule& module, const std::string& file) {
  std::map<std::string, Tensor> values = io::load_safetensors(file), taken;
  if (module.get<nn::models::Gpt2>() != nullptr && !values.contains("wte.weight"))
    values = nn::models::gpt2_state_dict(values);
  std::vector<std::string> left;
  const auto own = state_dict(module);
  for (const auto& [name, value] : own)
    if (const auto at = values.find(name); at != values.end() && at->second.shape() == value.shape())
      taken.insert(*at);
    else
      left.push_back(name);
  if (taken.empty())
    throw Error(ErrorKind::kNotFound, file, "none of its arrays fits a parameter of the model",
                fmt::format("{} {}", own.begin()->first, own.begin()->second.type().to_string()));
  load_state_dict(module, taken, false);
  constexpr std::size_t kShown = 4;
  const std::size_t more = left.size() > kShown ? left.size() - kShown : 0;
  left.resize(std::min(left.size(), kShown));
  return fmt::format("{} of {} arrays from {}{}{}", taken.size(), own.size(), file,
                     left.empty() ? "" : fmt::format("; new: {}", fmt::join(left, ", ")),
                     more > 0 ? fmt::format(" and {} more", more) : "");
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
  if (!settings.weights.empty()) model.weights = take_weights(model.module, settings.weights);
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

BuiltModel build_model(const Settings::Model& settings, const Type& sample, Task task, std::int64_t outputs) {
  require_one(settings);
  BuiltModel model;
  model.input = {is_float(sample.dtype) || sample.dtype == DType::u8 ? DType::f32 : sample.dtype,
                 settings.input.empty() ? sample.shape : shape_of(settings.input)};
  if (!settings.input.empty() && model.input.shape.count() != sample.shape.count())
    throw Error(ErrorKind::kShape, "model.input", "another number of values than a sample has",
                sample.shape.to_string(), model.input.shape.to_string());
  const auto add_channel = [&] {
    if (model.input.shape.rank() == 2) model.input.shape.push_back(1);
  };
  if (!settings.layers.empty()) {
    if (sample.dtype == DType::u8) add_channel();
    model.name = "layers";
    model.module = nn::layers_model(settings.layers, model.input.shape);
  } else {
    const nn::zoo::Entry& entry = nn::zoo::entry(settings.name);
    const bool words = !is_float(model.input.dtype);
    if (entry.text != words)
      throw Error(ErrorKind::kDType, fmt::format("model {}", entry.name),
                  entry.text ? "it takes words" : "it takes numbers, and the data is words",
                  entry.text ? "i32[length], as text:FILE gives it" : "a model of text: lstm, gpt2, bert",
                  sample.to_string());
    if (entry.input.rank() == 3) add_channel();
    nn::zoo::Settings options = zoo_options(settings.options);
    if (task == Task::words && entry.name == "lstm") options.emplace("task", "next");
    model.name = entry.name;
    model.module = nn::zoo::make(entry.name, {.input = model.input.shape,
                                              .classes = settings.outputs > 0 ? settings.outputs : outputs,
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
  if (static_cast<int>(model.output.size()) != (task == Task::words ? 2 : 1))
    throw Error(ErrorKind::kShape, fmt::format("model {}", model.name), "its output does not fit the targets",
                task == Task::words ? "[length,words]" : fmt::format("[{}]", outputs),
                model.output.to_string());
  return model;
}

BuiltModel build_model(const Settings::Model& settings) {
  require_one(settings);
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
