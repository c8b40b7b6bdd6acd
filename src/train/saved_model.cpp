// A saved model that runs: its graph replayed inside a compiled function that reads the weights as Variables,
// so that it is compiled once per type of inputs and device, joins other traces and can be trained on.

#include "systole/train/saved_model.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <set>
#include <system_error>

#include "base/nearest.h"
#include "base/printable.h"
#include "systole/base/error.h"
#include "systole/io.h"
#include "systole/ir/text.h"
#include "systole/tensor/compiled.h"
#include "tensor/devices.h"
#include "tensor/frame.h"
#include "tensor/record.h"
#include "train/model_file.h"
#include "train/write_model.h"

namespace systole {

struct SavedModel::State {
  std::string file;
  training::ModelDescription model;
  ir::Graph graph;
  std::vector<Io> inputs, outputs;
  io::Metadata metadata;
  std::vector<Variable> variables;                         // in the order of model.variables
  std::map<std::string, std::size_t, std::less<>> places;  // by name, tied ones too
  std::vector<std::size_t> reads, assigns;
  tree::FlatFunction fn;
  std::optional<recording::CompiledFunction> compiled;

  void prepare();
  Flat apply(const Flat& arguments);
  void check(std::span<const Tensor> arguments) const;
};

void SavedModel::State::prepare() {
  for (std::size_t i = 0; i < model.variables.size(); ++i) places.emplace(model.variables[i], i);
  for (const auto& [name, target] : model.aliases) places.emplace(name, places.find(target)->second);
  for (const std::string& name : model.reads) reads.push_back(places.find(name)->second);
  for (const std::string& name : model.assigns) assigns.push_back(places.find(name)->second);
  for (std::size_t i = 0; i < model.inputs; ++i) inputs.push_back({graph.input_name(i), graph.input_type(i)});
  for (std::size_t i = 0; i < model.outputs; ++i)
    outputs.push_back({graph.outputs()[i].name, graph.output_type(i)});
  fn = [this](const Flat& arguments) { return apply(arguments); };
  compiled.emplace(FunctionOptions{.name = model.name});
}

Flat SavedModel::State::apply(const Flat& arguments) {
  std::vector<Tensor> values = arguments.tensors;
  for (const std::size_t place : reads) values.push_back(variables[place].value());
  std::vector<Type> types;
  for (const Tensor& x : values) types.push_back(x.type());
  std::vector<Tensor> results =
      graph.is_static() ? recording::replay(graph, values)
                        : recording::replay(ir::bind_symbols(graph, ir::match_symbols(graph, types)), values);
  for (std::size_t i = 0; i < assigns.size(); ++i) variables[assigns[i]].assign(results[outputs.size() + i]);
  results.resize(outputs.size());
  return {std::move(results), {}, {}};
}

namespace {

// Whether the shapes differ in the first axis alone, which is of a known size.
bool is_of_another_batch(const Shape& wanted, const Shape& got) {
  if (wanted.rank() != got.rank() || wanted.rank() == 0 || !wanted[0].is_static()) return false;
  for (std::size_t k = 1; k < wanted.size(); ++k)
    if (wanted[k].is_static() && wanted[k] != got[k]) return false;
  return wanted[0] != got[0];
}

}  // namespace

void SavedModel::State::check(std::span<const Tensor> arguments) const {
  const std::string where = fmt::format("model {}", model.name);
  if (arguments.size() != inputs.size()) {
    std::string expected;
    for (const Io& input : inputs)
      expected += fmt::format("{}{}: {}", expected.empty() ? "" : ", ", input.name, input.type.to_string());
    throw Error(ErrorKind::kInvalidArgument, where, "another number of inputs", std::move(expected),
                std::to_string(arguments.size()));
  }
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const Type& wanted = inputs[i].type;
    const Type& got = recording::checked(arguments[i], where).type;
    bool fits = wanted.shape.rank() == got.shape.rank();
    for (std::size_t k = 0; fits && k < wanted.shape.size(); ++k)
      fits = !wanted.shape[k].is_static() || wanted.shape[k] == got.shape[k];
    if (wanted.dtype == got.dtype && fits) continue;
    std::string expected = wanted.to_string();
    if (!fits && is_of_another_batch(wanted.shape, got.shape))
      if (const std::set<std::string> kernels = training::kernels_in(graph); !kernels.empty())
        expected += fmt::format(
            ": the model is for one batch, as a KernelOp makes it whose launch, defines or results follow "
            "from "
            "the batch ({})",
            fmt::join(kernels, ", "));
    throw Error(fits ? ErrorKind::kDType : ErrorKind::kShape, where,
                fmt::format("input \"{}\" is of another type", inputs[i].name), std::move(expected),
                got.to_string());
  }
}

SavedModel::State& SavedModel::state() const {
  if (!state_) throw Error(ErrorKind::kInvalidArgument, "SavedModel", "it is empty; load() gives one");
  return *state_;
}

const std::vector<SavedModel::Io>& SavedModel::inputs() const { return state().inputs; }
const std::vector<SavedModel::Io>& SavedModel::outputs() const { return state().outputs; }
const std::string& SavedModel::name() const { return state().model.name; }
const std::vector<std::string>& SavedModel::classes() const { return state().model.classes; }
const io::Metadata& SavedModel::metadata() const { return state().metadata; }
const ir::Graph& SavedModel::graph() const { return state().graph; }

std::vector<Tensor> SavedModel::run(std::span<const Tensor> inputs) const {
  State& state = this->state();
  state.check(inputs);
  Flat arguments{{inputs.begin(), inputs.end()}, {}, {}};
  // The model runs where its weights are; inputs are brought there.
  if (!state.reads.empty() && !recording::tracing()) {
    const std::uint8_t place = state.variables[state.reads[0]].cell()->value.record()->device;
    for (Tensor& x : arguments.tensors)
      if (const std::uint8_t own = x.record()->device; own != place && own != recording::kAnyDevice)
        x = x.to(recording::device(place).name.to_string());
  }
  return state.compiled->call({state.fn, arguments, typeid(SavedModel)}).tensors;
}

Tensor SavedModel::single(std::span<const Tensor> inputs) const {
  if (outputs().size() != 1) {
    std::string names;
    for (const Io& output : outputs()) names += (names.empty() ? "" : ", ") + output.name;
    throw Error(ErrorKind::kInvalidArgument, fmt::format("model {}", name()),
                "a call gives one Tensor, the model several: use run()", "1 output", names);
  }
  return run(inputs)[0];
}

void SavedModel::each_variable(const std::function<void(std::string_view, Variable&)>& f) const {
  if (!state_) return;  // a module without parts
  for (std::size_t i = 0; i < state().variables.size(); ++i)
    f(state().model.variables[i], state().variables[i]);
  for (const auto& [name, target] : state().model.aliases)
    f(name, state().variables[state().places.find(target)->second]);
}

void SavedModel::set(std::string_view name, const Tensor& value) {
  const std::string where = fmt::format("model {}", this->name());
  const auto found = state().places.find(name);
  if (found == state().places.end()) {
    std::vector<std::string_view> names;
    for (const auto& [known, place] : state().places) names.push_back(known);
    throw unknown_name(where, "weight", name, names);
  }
  Variable& variable = state().variables[found->second];
  if (recording::checked(value, where).type.shape != variable.shape())
    throw Error(ErrorKind::kShape, where, fmt::format("the value of \"{}\"", name),
                variable.type().to_string(), value.type().to_string());
  const std::string device = variable.value().device().to_string();
  variable.assign(recording::tracing() ? value.to(variable.dtype()) : value.to(variable.dtype()).to(device));
}

SavedModel& SavedModel::to(std::string_view device) {
  for (Variable& variable : state().variables) variable.move_to(device);
  return *this;
}

void SavedModel::save(const std::filesystem::path& file) const {
  std::map<std::string, Tensor> weights;
  for (std::size_t i = 0; i < state().variables.size(); ++i)
    weights.emplace(state().model.variables[i], state().variables[i].value());
  training::write_model(file, state().model, state().graph, weights, state().metadata);
}

// Names and texts of the file are written out, so that none makes lines or moves a terminal's cursor.
std::string SavedModel::summary() const {
  std::string text = fmt::format("model {}\n", printable(name()));
  for (const Io& input : inputs())
    text += fmt::format("  input   {}: {}\n", printable(input.name), input.type.to_string());
  for (const Io& output : outputs())
    text += fmt::format("  output  {}: {}\n", printable(output.name), output.type.to_string());
  std::string names;
  for (const std::string& each : classes()) names += (names.empty() ? "" : ", ") + printable(each);
  if (!names.empty()) text += fmt::format("  classes {}\n", names);
  for (const auto& [key, value] : metadata()) {
    std::size_t shown = std::min<std::size_t>({value.size(), value.find('\n'), 80});
    while (shown < value.size() && (value[shown] & 0xC0) == 0x80) --shown;  // a character is not cut
    text += fmt::format("  {}: {}\n", printable(key), printable(value.substr(0, shown)));
  }
  std::size_t width = 0;
  std::int64_t count = 0, trainable = 0, bytes = 0;
  const Parameters all = variables();
  for (const std::string& each : all.names()) width = std::max(width, printable(each).size());
  for (const auto& [name, variable] : all) {
    text += fmt::format("  {:<{}}  {:<20}  {:>12}\n", printable(name), width, variable.type().to_string(),
                        variable.size());
    count += variable.size();
    bytes += variable.type().bytes();
    if (variable.trainable()) trainable += variable.size();
  }
  return text + fmt::format("  {} numbers, {} of them trained, {} bytes\n", count, trainable, bytes);
}

SavedModel load(const std::filesystem::path& file, const LoadOptions& options) {
  const io::SafetensorsReader reader(file, {.follow_links = options.follow_links});
  auto state = std::make_shared<SavedModel::State>();
  std::error_code code;
  state->file = (std::filesystem::is_directory(file, code) ? file / "model.safetensors" : file).string();
  std::optional<std::string> description = reader.metadata(training::kModelKey);
  const std::optional<std::string> graph = reader.metadata(training::kGraphKey);
  if (!description || !graph)
    throw Error(ErrorKind::kUnsupported, state->file,
                "a safetensors file without a graph: it holds weights for a model that the program has",
                "a file of systole::save(); in a program, load_state_dict(model, io::load_safetensors(file)) "
                "takes this one");
  const io::Digest digest = reader.check_digest();
  if (digest == io::Digest::metadata || (digest == io::Digest::none && !options.other_weights))
    throw Error(ErrorKind::kParse, state->file, "graph and metadata are not as they were saved",
                "the digest of the content", digest == io::Digest::none ? "none" : "another one");
  if (digest == io::Digest::arrays && !options.other_weights)
    throw Error(
        ErrorKind::kParse, state->file,
        "the weights are not those that were saved with this graph: the file is damaged, or something "
        "wrote other weights into it; take a whole copy, or accept them with --other-weights "
        "(LoadOptions::other_weights in a program)",
        "the digest of the weights", "another one");
  state->model = training::parse_model(*std::move(description), state->file);
  state->graph = ir::parse(*graph, fmt::format("{}: {}", state->file, training::kGraphKey));
  if (!options.kernels) training::refuse_kernels(state->graph, state->file);
  training::check(state->model, state->graph, state->file);
  for (auto& [key, value] : reader.metadata())
    if (!training::is_own_key(key)) state->metadata.emplace(key, value);

  const std::string device = options.device.empty() ? current_device().to_string() : options.device;
  const auto fixed = [&](const std::string& name) {
    return std::find(state->model.fixed.begin(), state->model.fixed.end(), name) != state->model.fixed.end();
  };
  std::map<std::string, Type> wanted;
  for (std::size_t i = 0; i < state->model.reads.size(); ++i)
    wanted.emplace(state->model.reads[i], state->graph.input_type(state->model.inputs + i));
  for (const std::string& name : state->model.variables) {
    if (!reader.contains(name))
      throw Error(ErrorKind::kParse, state->file,
                  fmt::format("no weight \"{}\", which the model needs", name));
    Tensor value = reader.tensor(name);
    if (const auto type = wanted.find(name); type != wanted.end()) {
      if (!(type->second.shape == value.shape()))
        throw Error(ErrorKind::kShape, state->file, fmt::format("weight \"{}\"", name),
                    type->second.to_string(), value.type().to_string());
      if (type->second.dtype != value.dtype()) value = value.to(type->second.dtype);
    }
    state->variables.emplace_back(value.to(device), name, !fixed(name));
  }
  state->prepare();
  SavedModel model;
  model.state_ = std::move(state);
  return model;
}

}  // namespace systole
