// systole run: runs a graph on arrays from files. Arguments are matched to the graph's inputs here, so that
// a wrong file is named in the message; symbols get their values from the shapes. A graph with collectives is
// what one device of its mesh runs: every array then has a leading axis with one entry per device.

#include <fmt/format.h>
#include <algorithm>
#include <filesystem>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "base/printable.h"
#include "cli/cli.h"
#include "cli/options.h"
#include "cli/terminal.h"
#include "cli/train/graph_file.h"
#include "cli/trust.h"
#include "eval/eval.h"
#include "systole/base/error.h"
#include "systole/io.h"
#include "systole/ir/text.h"
#include "systole/runtime.h"
#include "tensor/index_check.h"
#include "train/model_file.h"

namespace systole::cli {

namespace {

struct Options {
  std::string graph, out, device = "auto";
  std::vector<std::string> in;
  bool no_optimize = false;
  Trust trust;
};

struct Argument {
  Literal value;
  std::string file;  // and member, for messages
};

std::string extension(std::string_view file) {
  std::string text = std::filesystem::path(file).extension().string();
  std::transform(text.begin(), text.end(), text.begin(), [](unsigned char c) { return std::tolower(c); });
  return text;
}

std::string input_label(const ir::Graph& graph, std::size_t i) {
  const std::string& name = graph.input_name(i);
  return fmt::format("{}: {}", name.empty() ? fmt::format("input {}", i) : name,
                     graph.input_type(i).to_string());
}

std::string input_list(const ir::Graph& graph) {
  std::string text;
  for (std::size_t i = 0; i < graph.inputs().size(); ++i) text += (i ? ", " : "") + input_label(graph, i);
  return text.empty() ? "none" : text;
}

// Collects what --in names, one slot per input of the graph.
class Arguments {
 public:
  explicit Arguments(const ir::Graph& graph) : graph_(graph), slots_(graph.inputs().size()) {}

  void add(const std::string& text) {
    std::error_code ignored;
    // A file whose own name holds '=' is still a file.
    const std::size_t equals = std::filesystem::exists(text, ignored) ? std::string::npos : text.find('=');
    const std::string file = equals == std::string::npos ? text : text.substr(equals + 1);
    const std::string format = extension(file);
    if (equals != std::string::npos && format == ".npy")
      add_named(text.substr(0, equals), file);
    else if (equals == std::string::npos && format == ".npz")
      add_archive(file);
    else if (equals == std::string::npos && format == ".npy")
      in_order_.push_back(file);
    else
      throw UsageError(fmt::format("--in {}: expected FILE.npy, NAME=FILE.npy or FILE.npz", text));
  }

  // Files without a name fill, in order, the inputs that no name has filled.
  std::vector<Argument> finish() {
    std::size_t next = 0;
    for (const std::string& file : in_order_) {
      while (next < slots_.size() && slots_[next]) ++next;
      if (next == slots_.size())
        throw UsageError(
            fmt::format("--in {}: more arrays than inputs; the inputs are {}", file, input_list(graph_)));
      slots_[next] = Argument{io::load_npy(file), file};
    }
    std::string missing;
    std::vector<Argument> arguments;
    for (std::size_t i = 0; i < slots_.size(); ++i)
      if (slots_[i])
        arguments.push_back(std::move(*slots_[i]));
      else
        missing += (missing.empty() ? "" : ", ") + input_label(graph_, i);
    if (!missing.empty())
      throw UsageError(fmt::format(
          "inputs without an array: {}{}", missing,
          archive_names_.empty() ? "; give them with --in"
                                 : fmt::format("; the .npz files hold {}", fmt::join(archive_names_, ", "))));
    return arguments;
  }

 private:
  std::optional<std::size_t> find(std::string_view name) const {
    for (std::size_t i = 0; i < slots_.size(); ++i)
      if (!name.empty() && graph_.input_name(i) == name) return i;
    return std::nullopt;
  }

  void add_named(const std::string& name, const std::string& file) {
    const std::optional<std::size_t> slot = find(name);
    if (!slot)
      throw UsageError(fmt::format("--in {}={}: the graph has no input {}; its inputs are {}", name, file,
                                   name, input_list(graph_)));
    set(*slot, {io::load_npy(file), file});
  }

  // An archive may hold more than this graph takes, expected results for example.
  void add_archive(const std::string& file) {
    for (io::NamedArray& array : io::load_npz(file)) {
      archive_names_.push_back(array.name);
      if (const auto slot = find(array.name))
        set(*slot, {std::move(array.value), fmt::format("{}: {}", file, array.name)});
    }
  }

  void set(std::size_t slot, Argument argument) {
    if (slots_[slot])
      throw UsageError(fmt::format("input {} is given twice: {} and {}", graph_.input_name(slot),
                                   slots_[slot]->file, argument.file));
    slots_[slot] = std::move(argument);
  }

  const ir::Graph& graph_;
  std::vector<std::optional<Argument>> slots_;
  std::vector<std::string> in_order_, archive_names_;
};

// As numpy spells a dtype in astype().
std::string numpy_name(DType dtype) {
  switch (dtype) {
    case DType::bf16: return "ml_dtypes.bfloat16";
    case DType::f8e4m3fn: return "ml_dtypes.float8_e4m3fn";
    case DType::f8e5m2: return "ml_dtypes.float8_e5m2";
    case DType::boolean: return "'bool'";
    default: break;
  }
  const char* kind = is_float(dtype) ? "float" : is_signed_integer(dtype) ? "int" : "uint";
  return fmt::format("'{}{}'", kind, 8 * size_of(dtype));
}

// The file's bits under the input's dtype: .npy has no name for the small floats, so they come as u16 and u8.
Literal with_dtype(const Argument& argument, const std::string& input, DType wanted) {
  const DType got = argument.value.dtype();
  if (got == wanted) return argument.value;
  const bool two_bytes = got == DType::u16 && wanted == DType::bf16;
  const bool one_byte = got == DType::u8 && (wanted == DType::f8e4m3fn || wanted == DType::f8e5m2);
  if (two_bytes || one_byte) return argument.value.reinterpreted(wanted);
  throw Error(ErrorKind::kDType, argument.file,
              fmt::format("wrong dtype for {}; in Python: array.astype({})", input, numpy_name(wanted)),
              std::string(name(wanted)), std::string(name(got)));
}

Shape without_first(const Shape& shape) { return Shape(std::span(shape.begin() + 1, shape.end())); }

// Entry `index` of the leading axis.
Literal part(const Literal& whole, std::int64_t index) {
  const Type type{whole.dtype(), without_first(whole.shape())};
  const std::size_t size = static_cast<std::size_t>(type.bytes());
  return Literal::copy_of(type, whole.as_bytes().subspan(static_cast<std::size_t>(index) * size, size));
}

Literal stacked(const std::vector<std::vector<Literal>>& per_device, std::size_t result) {
  Type type = per_device[0][result].type();
  Shape shape{static_cast<std::int64_t>(per_device.size())};
  for (const Dim& d : type.shape) shape.push_back(d);
  Literal whole = Literal::uninitialized({type.dtype, shape});
  std::byte* target = whole.mutable_bytes();
  for (const std::vector<Literal>& results : per_device)
    target = std::copy(results[result].as_bytes().begin(), results[result].as_bytes().end(), target);
  return whole;
}

// Throws kShape naming the file of the first array that does not fit the input types, or contradicts an
// earlier one in the value of a symbol.
void check_shapes(const ir::Graph& graph, const std::vector<Type>& types,
                  const std::vector<Argument>& arguments) {
  try {
    ir::match_symbols(graph, types);
    return;
  } catch (const Error&) {  // says which input, but not in a form to look up its file
  }
  ir::Graph inputs;  // up to the one in question
  for (std::size_t i = 0; i < types.size(); ++i) {
    inputs.input(graph.input_name(i), graph.input_type(i));
    try {
      ir::match_symbols(inputs, std::span(types).first(i + 1));
    } catch (const Error& error) {
      throw error.within(arguments[i].file);
    }
  }
}

// The arguments' values, of the right types: per device when the graph has collectives, else one list.
std::vector<std::vector<Literal>> checked(const ir::Graph& graph, const std::vector<Argument>& arguments,
                                          bool collective) {
  const std::int64_t devices = collective ? graph.mesh()->size() : 1;
  std::vector<Literal> values;
  std::vector<Type> types;
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    const std::string& name = graph.input_name(i);
    const std::string input = name.empty() ? fmt::format("input {}", i) : fmt::format("input {}", name);
    values.push_back(with_dtype(arguments[i], input, graph.input_type(i).dtype));
    types.push_back(values[i].type());
    if (!collective) continue;
    if (values[i].rank() == 0 || values[i].shape()[0] != Dim(devices))
      throw Error(ErrorKind::kShape, arguments[i].file,
                  fmt::format("the graph runs on {} devices, so every array has a leading axis of that size",
                              devices),
                  fmt::format("{} entries of {}", devices, graph.input_type(i).to_string()),
                  values[i].type().to_string());
    types[i].shape = without_first(values[i].shape());
  }
  check_shapes(graph, types, arguments);
  if (!collective) return {values};
  std::vector<std::vector<Literal>> per_device;
  for (std::int64_t d = 0; d < devices; ++d) {
    per_device.emplace_back();
    for (const Literal& value : values) per_device.back().push_back(part(value, d));
  }
  return per_device;
}

// The graph for arguments of these types, with one output more: which indices are outside.
recording::IndexChecked with_index_counts(const ir::Graph& graph, const std::vector<Literal>& values) {
  std::vector<Type> types;
  std::vector<std::string> names;
  for (std::size_t i = 0; i < values.size(); ++i) {
    types.push_back(values[i].type());
    names.push_back(graph.input_name(i).empty() ? fmt::format("input {}", i) : graph.input_name(i));
  }
  const ir::Graph bound = ir::bind_symbols(graph, ir::match_symbols(graph, types));
  return recording::with_index_counts(bound, std::move(names), bound.outputs().size());
}

std::vector<Literal> run(const ir::Graph& graph, const std::vector<Argument>& arguments,
                         const Options& options) {
  const bool collective = graph.mesh() && eval::uses_collectives(graph);  // without a mesh compile() refuses
  const std::vector<std::vector<Literal>> values = checked(graph, arguments, collective);
  runtime::CompileOptions compile_options;
  compile_options.optimize = !options.no_optimize;
  recording::IndexChecked program{graph, {}};
  if (recording::checks_indices()) program = with_index_counts(graph, values[0]);
  const CompiledGraph compiled = compile(program.graph, options.device, compile_options);
  std::vector<std::vector<Literal>> results = compiled.run_devices(values);
  for (std::vector<Literal>& of_device : results) {
    if (program.sites.empty()) break;
    recording::refuse_outside("SYSTOLE_CHECK", program.sites, of_device.back());
    of_device.pop_back();
  }
  if (!collective) return std::move(results[0]);
  std::vector<Literal> whole;
  for (std::size_t i = 0; i < results[0].size(); ++i) whole.push_back(stacked(results, i));
  return whole;
}

// A result without a name is called by its number, with underscores after it when another has that name.
std::vector<io::NamedArray> named(const ir::Graph& graph, const std::vector<Literal>& results) {
  std::set<std::string_view> taken;
  for (const ir::Output& output : graph.outputs()) taken.insert(output.name);
  std::vector<io::NamedArray> arrays;
  for (std::size_t i = 0; i < results.size(); ++i) {
    std::string name = graph.outputs()[i].name;
    if (name.empty()) {
      name = std::to_string(i);
      while (taken.contains(name)) name += '_';
    }
    arrays.push_back({std::move(name), results[i]});
  }
  return arrays;
}

// A saved model brings its weights and brings its inputs to the form they had in training.
void refuse_saved_model(const std::string& place) {
  std::error_code code;
  if (!names_saved_model(place) || !std::filesystem::exists(model_file(place), code)) return;
  throw UsageError(fmt::format("{} is a saved model, not a graph as text: `systole predict {} FILE…` runs it",
                               place, place));
}

int evaluate(const Options& options) {
  refuse_saved_model(options.graph);
  const std::string format = extension(options.out);
  const std::string label = options.graph == "-" ? "<stdin>" : options.graph;
  const ir::Graph graph = ir::parse(read_text(options.graph), label);
  if (!options.trust.kernels) training::refuse_kernels(graph, label);
  if (format == ".npy" && graph.outputs().size() != 1)
    throw UsageError(
        fmt::format("--out {}: the graph has {} results; use .npz", options.out, graph.outputs().size()));

  Arguments collected(graph);
  for (const std::string& text : options.in) collected.add(text);
  const std::vector<Literal> results = run(graph, collected.finish(), options);

  if (format == ".npy") {
    io::save_npy(options.out, results[0]);
  } else if (format == ".npz") {
    io::save_npz(options.out, named(graph, results));
  } else {
    for (const io::NamedArray& result : named(graph, results))
      put(fmt::format("{}: {}\n{}\n", printable(result.name), result.value.type().to_string(),
                      result.value.to_string()));
  }
  return 0;
}

}  // namespace

Action add_run(App& app) {
  auto options = std::make_shared<Options>();
  app.add_option("FILE", options->graph, "the graph; - is standard input")->required()->type_name("");
  app.add_option("--in", options->in,
                 "arrays for the graph's inputs, in any mixture:\n"
                 "FILE.npy, in the order of the inputs,\n"
                 "NAME=FILE.npy for one input,\n"
                 "FILE.npz with arrays called like inputs")
      ->expected(1, -1)
      ->type_name("ARRAY");
  app.add_option(
         "--out", options->out,
         "FILE.npz for all results by name, or FILE.npy for\na single one; without it they are printed")
      ->type_name("FILE")
      ->array_file();
  app.add_option("--device", options->device, "reference, cpu, cuda:0, …; auto is the best there is")
      ->type_name("NAME");
  app.add_flag("--no-optimize", options->no_optimize, "run the graph as written, without passes");
  add_kernels_option(app, options->trust);
  app.footer(R"(Symbols in the graph's types get their values from the arrays. In a graph with
collectives (all_reduce, …) every array, given or made, has a leading axis with one
entry per device of the mesh; shardings change nothing. Results without a name are
called 0, 1, …

Examples:
  systole run model.sir --in x.npy w.npy
  systole run model.sir --in x.npy weights.npz bias=b.npy --out results.npz)");
  return [options] { return evaluate(*options); };
}

}  // namespace systole::cli
