// Saving a model: its function is traced, for any batch size where there is one graph for all, and written
// with every Variable of the module.

#include "train/write_model.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <optional>
#include <set>

#include "base/log.h"
#include "systole/base/error.h"
#include "systole/ir/composite.h"
#include "systole/ir/text.h"
#include "systole/train/saved_model.h"
#include "tensor/any_size.h"
#include "tensor/evaluate.h"
#include "tensor/record.h"
#include "tensor/trace.h"

namespace systole::training {

namespace {

using recording::Traced;

// Unlikely to be a size of something else; one is even, so that half of it, rounded, is noticed; and one is
// far from the others, so that what a kernel's launch rounds up to groups is another number.
constexpr std::int64_t kBatches[] = {61, 67, 74, 4099};

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

// A Tensor from outside, or one that the function makes of the same numbers in each call.
bool same_value(const Tensor& x, const Tensor& y) {
  if (x.record().get() == y.record().get()) return true;
  return x.type() == y.type() && x.evaluated() && y.evaluated() && x.literal().same_bits(y.literal());
}

bool same_surroundings(const Traced& a, const Traced& b) {
  const auto same_cells = [](const auto& x, const auto& y) {
    return std::equal(x.begin(), x.end(), y.begin(), y.end(),
                      [](const auto& p, const auto& q) { return p.cell == q.cell; });
  };
  return same_cells(a.bound, b.bound) && same_cells(a.assigned, b.assigned) &&
         std::equal(a.captures.begin(), a.captures.end(), b.captures.begin(), b.captures.end(), same_value);
}

[[noreturn]] void refuse_sizes() {
  throw Error(ErrorKind::kUnsupported, "save",
              "the model does different things for different sizes of its inputs");
}

std::vector<std::string> symbols_of(std::span<const Type> types) {
  std::vector<std::string> symbols;
  for (const Type& type : types)
    for (const Dim& dim : type.shape)
      for (const std::string_view symbol : dim.symbols())
        if (std::find(symbols.begin(), symbols.end(), symbol) == symbols.end()) symbols.emplace_back(symbol);
  return symbols;
}

using Sizes = std::vector<std::int64_t>;  // one for each symbol

// Numbers for the symbols: all as in `first`, each alone another, then all others. They are small: a model
// may have a greatest length.
std::vector<Sizes> sizes_to_try(std::size_t symbols) {
  Sizes first, last;
  for (std::size_t k = 0; k < symbols; ++k) {
    first.push_back(11 + 4 * static_cast<std::int64_t>(k));
    last.push_back(8 + 2 * static_cast<std::int64_t>(k));
  }
  std::vector<Sizes> all{first};
  for (std::size_t k = 0; k < symbols; ++k) {
    all.push_back(first);
    all.back()[k] += 2;
  }
  all.push_back(last);
  return all;
}

// A function recorded for sizes that are symbols.
class SymbolicTrace {
 public:
  SymbolicTrace(const tree::FlatFunction& fn, std::vector<Type> types, std::vector<std::string> symbols,
                std::vector<Sizes> sizes)
      : fn_(fn), types_(std::move(types)), symbols_(std::move(symbols)), sizes_(std::move(sizes)) {}

  // What the function does for numbers in the symbols' places, as one graph.
  Traced by_numbers() const {
    try {
      return by_numbers(false);
    } catch (const Error& error) {
      log(LogLevel::info, fmt::format("save: {}", error.what()));
    }
    return by_numbers(true);
  }

  // What it does for the symbols. What code does with a symbol that wants a number is anyone's guess, so the
  // graph must agree with those of the numbers.
  Traced by_symbols() const {
    Traced general = traced(fn_, types_);
    for (const Sizes& numbers : sizes_) {
      const Traced fixed = traced_with(numbers);
      if (!same_surroundings(general, fixed) ||
          !same_work(ir::bind_symbols(general.graph, values_of(numbers)), fixed.graph))
        refuse_sizes();
    }
    return general;
  }

  [[noreturn]] void refuse(const Error& by_symbols, const Error& by_numbers) const {
    throw Error(by_symbols.kind(), "save",
                fmt::format("no graph for every {}: with symbols: {}; with numbers in their places: {}",
                            fmt::join(symbols_, ", "), by_symbols.what(), by_numbers.what()));
  }

 private:
  SymbolValues values_of(const Sizes& numbers) const {
    SymbolValues values;
    for (std::size_t k = 0; k < symbols_.size(); ++k) values.set(symbols_[k], numbers[k]);
    return values;
  }

  Traced traced_with(const Sizes& numbers) const {
    std::vector<Type> bound = types_;
    for (Type& type : bound)
      for (std::size_t i = 0; i < type.shape.size(); ++i)
        type.shape[i] = values_of(numbers).bind(type.shape[i]);
    return traced(fn_, bound);
  }

  Traced by_numbers(bool any_size) const {
    const recording::AnySizeScope scope(any_size);
    std::vector<Traced> all;
    std::vector<Sized> graphs;
    for (const Sizes& numbers : sizes_) {
      all.push_back(traced_with(numbers));
      if (!same_surroundings(all[0], all.back())) refuse_sizes();
      graphs.push_back({numbers, all.back().graph});
    }
    all[0].graph = generalized(symbols_, graphs);
    return std::move(all[0]);
  }

  const tree::FlatFunction& fn_;
  const std::vector<Type> types_;
  const std::vector<std::string> symbols_;
  const std::vector<Sizes> sizes_;
};

Traced traced_for_any_batch(const tree::FlatFunction& fn, std::span<const InputSpec> inputs) {
  std::vector<Sizes> sizes;
  for (const std::int64_t batch : kBatches) sizes.push_back({batch});
  const SymbolicTrace trace(fn, with_batch(inputs, Dim::symbol(kBatchSymbol)), {std::string(kBatchSymbol)},
                            sizes);
  std::optional<Error> by_numbers;
  try {
    return trace.by_numbers();
  } catch (const Error& error) {
    by_numbers = error;
  }
  try {
    return trace.by_symbols();
  } catch (const Error& error) {
    trace.refuse(error, *by_numbers);
  }
}

// For symbols of the caller's own. Code that asks for a size (x.size(1)) fails with them.
Traced traced_for_symbols(const tree::FlatFunction& fn, std::span<const Type> types) {
  const std::vector<std::string> symbols = symbols_of(types);
  const SymbolicTrace trace(fn, {types.begin(), types.end()}, symbols, sizes_to_try(symbols.size()));
  std::optional<Error> by_symbols;
  try {
    return trace.by_symbols();
  } catch (const Error& error) {
    by_symbols = error;
  }
  try {
    return trace.by_numbers();
  } catch (const Error& error) {
    trace.refuse(*by_symbols, error);
  }
}

Traced traced(const tree::FlatFunction& fn, std::span<const InputSpec> inputs, const SaveOptions& options) {
  std::vector<Type> types;
  for (const InputSpec& input : inputs) types.push_back(input.type);
  if (!std::all_of(types.begin(), types.end(), [](const Type& type) { return type.shape.is_static(); }))
    return traced_for_symbols(fn, types);
  if (!options.any_batch || types[0].shape.rank() == 0) return traced(fn, types);
  std::optional<Error> reason;
  try {
    return traced_for_any_batch(fn, inputs);
  } catch (const Error& error) {
    reason = error;
  }
  Traced one = traced(fn, types);  // a model that is wrong throws here
  log(LogLevel::warn,
      fmt::format(
          "save: the model takes batches of {} only: {}. Leave divisions by the batch size to mean(), or "
          "save with the batch that is needed; SaveOptions::any_batch = false says that one is meant",
          types[0].shape[0].to_string(), reason->message()));
  return one;
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
