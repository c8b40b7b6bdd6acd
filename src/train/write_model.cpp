// Saving a model: its function is traced, for any batch size where there is one graph for all, and written
// with every Variable of the module.

#include "train/write_model.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "base/log.h"
#include "systole/base/error.h"
#include "systole/compile/passes.h"
#include "systole/ir/composite.h"
#include "systole/ir/text.h"
#include "systole/train/saved_model.h"
#include "tensor/evaluate.h"
#include "tensor/record.h"
#include "tensor/trace.h"

namespace systole::training {

namespace {

using recording::Traced;

// Unlikely to be a size of something else; and one is far from the others, so that what a kernel's launch
// rounds up to groups is another number.
constexpr std::int64_t kBatches[] = {61, 67, 4099};

std::vector<Type> with_batch(std::span<const InputSpec> inputs, Dim batch) {
  std::vector<Type> types;
  for (const InputSpec& input : inputs) types.push_back(input.type);
  const Dim first = types[0].shape[0];
  for (Type& type : types)
    if (type.shape.rank() > 0 && type.shape[0] == first) type.shape[0] = batch;
  return types;
}

Traced traced(const tree::FlatFunction& fn, std::span<const Type> types) {
  std::vector<recording::StandIn> inputs;
  for (const Type& type : types) inputs.push_back({type});
  return recording::trace(
      fn, inputs, {},
      {.variables = recording::Frame::Variables::bind, .purpose = recording::Frame::Purpose::compile});
}

bool same_surroundings(const Traced& a, const Traced& b) {
  const auto same_cells = [](const auto& x, const auto& y) {
    return std::equal(x.begin(), x.end(), y.begin(), y.end(),
                      [](const auto& p, const auto& q) { return p.cell == q.cell; });
  };
  return same_cells(a.bound, b.bound) && same_cells(a.assigned, b.assigned) &&
         std::equal(a.captures.begin(), a.captures.end(), b.captures.begin(), b.captures.end(),
                    [](const Tensor& x, const Tensor& y) { return x.record().get() == y.record().get(); });
}

// Whether the graph, with these numbers for its symbols, is the other one, once both are simplified: with
// numbers some of it is constants.
bool agrees(const ir::Graph& general, const SymbolValues& values, const ir::Graph& fixed) {
  const auto simplified = [](const ir::Graph& graph) {
    return passes::run_passes(graph, passes::standard_passes());
  };
  return simplified(ir::bind_symbols(general, values)).same_structure(simplified(fixed));
}

[[noreturn]] void refuse_sizes() {
  throw Error(ErrorKind::kUnsupported, "save",
              "the model does different things for different sizes of its inputs");
}

// For any batch: what the function does for three numbers in its place; or, where that differs in more than
// sizes (a mean over the batch), with a symbol in its place. What code does with a symbol that wants a number
// is anyone's guess, so that graph must agree with those of the numbers.
Traced traced_for_any_batch(const tree::FlatFunction& fn, std::span<const InputSpec> inputs) {
  std::vector<Traced> all;
  for (const std::int64_t batch : kBatches) all.push_back(traced(fn, with_batch(inputs, batch)));
  if (!same_surroundings(all[0], all[1]) || !same_surroundings(all[0], all[2])) refuse_sizes();
  try {
    all[0].graph =
        generalized({kBatches[0], all[0].graph}, {kBatches[1], all[1].graph}, {kBatches[2], all[2].graph});
    return std::move(all[0]);
  } catch (const Error& error) {
    log(LogLevel::info, fmt::format("save: {}", error.what()));
  }
  Traced general = traced(fn, with_batch(inputs, Dim::symbol(kBatchSymbol)));
  for (std::size_t i = 0; i < all.size(); ++i) {
    SymbolValues values;
    values.set(kBatchSymbol, kBatches[i]);
    if (!same_surroundings(general, all[i]) || !agrees(general.graph, values, all[i].graph)) refuse_sizes();
  }
  return general;
}

// For symbols of the caller's own, checked with numbers in their places.
Traced traced_for_symbols(const tree::FlatFunction& fn, std::span<const Type> types) {
  Traced general = traced(fn, types);
  for (const std::int64_t first : {7, 9}) {
    SymbolValues values;
    std::int64_t next = first;
    std::vector<Type> bound(types.begin(), types.end());
    for (Type& type : bound)
      for (std::size_t i = 0; i < type.shape.size(); ++i) {
        Dim& dim = type.shape[i];
        if (dim.is_static()) continue;
        if (!values.find(dim.symbol_name())) values.set(dim.symbol_name(), next += 4);
        dim = values.bind(dim);
      }
    const Traced fixed = traced(fn, bound);
    if (!same_surroundings(general, fixed) || !agrees(general.graph, values, fixed.graph)) refuse_sizes();
  }
  return general;
}

Traced traced(const tree::FlatFunction& fn, std::span<const InputSpec> inputs, const SaveOptions& options) {
  std::vector<Type> types;
  for (const InputSpec& input : inputs) types.push_back(input.type);
  if (!std::all_of(types.begin(), types.end(), [](const Type& type) { return type.shape.is_static(); }))
    return traced_for_symbols(fn, types);
  if (options.any_batch && types[0].shape.rank() > 0) {
    try {
      return traced_for_any_batch(fn, inputs);
    } catch (const Error& error) {
      // A model that is wrong throws again below.
      log(LogLevel::warn, fmt::format("save: the model takes batches of {} only: {}",
                                      types[0].shape[0].to_string(), error.what()));
    }
  }
  return traced(fn, types);
}

std::vector<std::string> numbered(std::vector<std::string> given, std::size_t count, const std::string& word,
                                  const char* what) {
  if (!given.empty() && given.size() != count)
    throw Error(ErrorKind::kInvalidArgument, "save", fmt::format("the names of {}", what),
                std::to_string(count), std::to_string(given.size()));
  for (std::size_t i = given.size(); i < count; ++i)
    given.push_back(count == 1 ? word : fmt::format("{}{}", word, i));
  return given;
}

std::string unique(std::string name, std::set<std::string>& taken) {
  while (!taken.insert(name).second) name += "_";
  return name;
}

}  // namespace

bool is_own_key(std::string_view key) { return key.starts_with("systole.") || key == "format"; }

void write_model(const std::filesystem::path& file, const ModelDescription& model, const ir::Graph& graph,
                 const std::map<std::string, Tensor>& weights, const io::Metadata& metadata) {
  io::Metadata all = metadata;
  for (const auto& [key, value] : metadata)
    if (is_own_key(key))
      throw Error(ErrorKind::kInvalidArgument, file.string(), "metadata under a key of the file's own",
                  "another than format and systole.…", key);
  all.emplace("format", "pt");  // names and layouts are PyTorch's: other libraries ask
  all.emplace(kModelKey, written(model, file.string()));
  all.emplace(kGraphKey, ir::print(graph));
  io::save_safetensors(file, weights, all, {.digest = true});
}

namespace detail {

void save_model(const std::filesystem::path& file, const nn::Inventory& found, const tree::FlatFunction& fn,
                std::vector<InputSpec> inputs, const SaveOptions& options) {
  if (recording::tracing())
    throw Error(ErrorKind::kInvalidArgument, "save", "called inside a function that is being traced");
  if (inputs.empty())
    throw Error(ErrorKind::kInvalidArgument, "save", "the types of the inputs", "at least one");
  const Traced trace = traced(fn, inputs, options);
  recording::run_pending(trace.captures, "save");

  ModelDescription model{.name = options.name,
                         .inputs = inputs.size(),
                         .outputs = trace.results.tensors.size(),
                         .reads = {},
                         .assigns = {},
                         .variables = {},
                         .fixed = {},
                         .aliases = {},
                         .classes = options.classes};
  if (model.outputs == 0) throw Error(ErrorKind::kInvalidArgument, "save", "the function returns nothing");
  std::map<std::string, Tensor> weights;
  std::map<const void*, std::string> names;  // by cell
  std::set<std::string> taken;
  const auto add = [&](std::string name, const Tensor& value, bool trainable) {
    if (!trainable) model.fixed.push_back(name);
    model.variables.push_back(name);
    weights.emplace(std::move(name), value);
  };
  for (const nn::Inventory::Cell& cell : found.cells) {
    const auto [known, fresh] = names.try_emplace(cell.variable->cell().get(), cell.name);
    taken.insert(cell.name);
    if (fresh)
      add(cell.name, cell.variable->value(), cell.variable->trainable());
    else
      model.aliases.emplace(cell.name, known->second);
  }
  const auto name_of = [&](const recording::CellRef& cell) {
    const auto [known, fresh] = names.try_emplace(cell.get());
    if (fresh) {
      known->second = unique(cell->name.empty() ? "variable" : cell->name, taken);
      add(known->second, cell->value, cell->trainable);
    }
    return known->second;
  };
  for (const recording::Frame::Binding& b : trace.bound) model.reads.push_back(name_of(b.cell));
  for (const Tensor& capture : trace.captures) {
    model.reads.push_back(unique("captured", taken));
    add(model.reads.back(), capture, false);
  }
  for (const recording::Frame::Binding& b : trace.assigned) model.assigns.push_back(name_of(b.cell));

  ir::Graph graph(options.name);
  ir::Values values;
  for (const std::string& name : numbered(options.input_names, model.inputs, "input", "inputs"))
    values.push_back(graph.input(unique(name, taken), trace.graph.input_type(values.size())));
  for (const std::string& name : model.reads)
    values.push_back(graph.input(name, trace.graph.input_type(values.size())));
  const ir::Values results = ir::inline_graph(graph, trace.graph, values);
  const bool is_map = trace.results.keys.size() == model.outputs && options.output_names.empty();
  const std::vector<std::string> labels =
      numbered(is_map ? trace.results.keys : options.output_names, model.outputs, "output", "outputs");
  std::set<std::string> outputs;
  for (std::size_t i = 0; i < results.size(); ++i)
    graph.output(results[i],
                 unique(i < labels.size() ? labels[i] : model.assigns[i - labels.size()], outputs));
  ir::verify(graph);
  write_model(file, model, graph, weights, options.metadata);
}

}  // namespace detail

}  // namespace systole::training
