#include "codegen/kernel.h"

#include <fmt/format.h>

#include <algorithm>

#include "codegen/few_channels.h"
#include "codegen/kernel_parts.h"
#include "codegen/math/math.h"
#include "codegen/simt.h"
#include "systole/base/error.h"

namespace systole::codegen {

namespace {

using ir::Op;

// What kernels in C use beside arithmetic: loops whose turns may run in any order (S_ONE_VECTOR: a few turns,
// which clang must not unroll before it sees that vector), and the product of a few rows by a
// block of columns with the sums in registers, which begin anew for each part of the depth.
constexpr std::string_view kPreludeC = R"c(
#ifdef __clang__
#define S_INDEPENDENT _Pragma("clang loop vectorize(assume_safety)")
#define S_ONE_VECTOR _Pragma("clang loop vectorize(assume_safety) unroll(disable)")
#else
#define S_INDEPENDENT _Pragma("GCC ivdep")
#define S_ONE_VECTOR S_INDEPENDENT
#endif
#define S_GLOBAL
#define S_STEP 1
#define S_INF_F32 __builtin_inff()
#define S_INF_F64 __builtin_inf()
#define S_NAN_F32 __builtin_nanf("")
#define S_NAN_F64 __builtin_nan("")
#if defined(__AVX512F__)
#define S_VECTOR_BYTES 64
#elif defined(__AVX__)
#define S_VECTOR_BYTES 32
#else
#define S_VECTOR_BYTES 16
#endif
#ifdef __clang__
#define S_FUSED _Pragma("clang fp contract(fast)")
#define S_FUSING
#else
#define S_FUSED
#define S_FUSING __attribute__((optimize("fp-contract=fast")))
#endif
#define S_MULTIPLY(NAME, T)                                                                                   \
  typedef T NAME##_vector __attribute__((vector_size(S_VECTOR_BYTES), aligned(sizeof(T)), may_alias));        \
  S_FUSING static void NAME(T* tile, const T* part, const T* few, s_i32 deep) {                               \
    S_FUSED                                                                                                   \
    enum { kLanes = S_VECTOR_BYTES / sizeof(T) };                                                             \
    for (s_i32 j = 0; j < 64; j += 2 * kLanes) {                                                              \
      NAME##_vector sum[6][2] = {{{0}}};                                                                      \
      for (s_i32 k = 0; k < deep; ++k) {                                                                      \
        const NAME##_vector b0 = *(const NAME##_vector*)(part + k * 64 + j);                                  \
        const NAME##_vector b1 = *(const NAME##_vector*)(part + k * 64 + j + kLanes);                         \
        for (int i = 0; i < 6; ++i) {                                                                         \
          sum[i][0] += few[k * 6 + i] * b0;                                                                   \
          sum[i][1] += few[k * 6 + i] * b1;                                                                   \
        }                                                                                                     \
      }                                                                                                       \
      for (int i = 0; i < 6; ++i)                                                                             \
        for (int c = 0; c < 2; ++c) *(NAME##_vector*)(tile + i * 64 + j + c * kLanes) += sum[i][c];           \
    }                                                                                                         \
  }
)c";

constexpr std::int64_t kNarrow = std::int64_t{1} << 30;  // indices below it, and sums of two, have 32 bits

// What the kernel does, for whoever reads its source: "exp, reduce, div: f32[64,10] to f32[64,10]".
std::string summary(const ir::Graph& region) {
  std::vector<std::string_view> ops;
  std::vector<std::string> from, to;
  for (const ir::Node& node : region.nodes())
    if (node.op != Op::input && node.op != Op::constant &&
        std::find(ops.begin(), ops.end(), ir::name(node.op)) == ops.end())
      ops.push_back(ir::name(node.op));
  for (std::size_t i = 0; i < region.inputs().size(); ++i) from.push_back(region.input_type(i).to_string());
  for (std::size_t i = 0; i < region.outputs().size(); ++i) to.push_back(region.output_type(i).to_string());
  const auto listed = [](auto& words) {
    constexpr std::size_t kMost = 8;
    const bool more = words.size() > kMost;
    if (more) words.resize(kMost);
    return fmt::format("{}{}", fmt::join(words, ", "), more ? ", ..." : "");
  };
  return fmt::format("{}: {} to {}", listed(ops), listed(from), listed(to));
}

std::vector<std::string> input_names(const ir::Graph& region) {
  std::vector<std::string> names;
  for (std::size_t i = 0; i < region.inputs().size(); ++i) names.push_back(fmt::format("in{}", i));
  return names;
}

}  // namespace

Function::Function(const lower::Step& step, std::string name, Dialect dialect, int threads)
    : region_(step.region.graph),
      dialect_(dialect),
      inputs_(input_names(region_)),
      elements_(region_, inputs_, writer_) {
  kernel_.name = std::move(name);
  kernel_.threads = threads;
  for (std::size_t i = 0; i < inputs_.size(); ++i)
    declare_buffer(fmt::format("const S_GLOBAL {}*", storage_type(region_.input_type(i).dtype)), inputs_[i],
                   i >= step.overwritten.size() || step.overwritten[i] >= 0);
  for (std::size_t i = 0; i < region_.outputs().size(); ++i) {
    outputs_.push_back(fmt::format("out{}", i));
    declare_buffer(fmt::format("S_GLOBAL {}*", storage_type(region_.output_type(i).dtype)), outputs_[i],
                   true);
  }
}

void Function::declare_buffer(std::string_view type, const std::string& array, bool is_written) {
  const std::size_t i = parameters_.size();
  parameters_.push_back(fmt::format("{}({})", is_written ? "S_PARAMETER" : "S_READ_ONLY", i));
  const std::string buffer =
      dialect_ == Dialect::c ? fmt::format("buffers[{}]", i) : fmt::format("S_BUFFER({})", i);
  declare(fmt::format("{0} const {1} = ({0}){2};", type, array, buffer));
}

std::string Function::scratch(std::string_view type) {
  kernel_.scratch = true;
  declare_buffer(fmt::format("S_GLOBAL {}*", type), "scratch", true);
  return "scratch";
}

void Function::store(const std::vector<std::size_t>& outputs, const std::vector<Index>& linear,
                     const std::string& place) {
  std::vector<std::string> values;
  for (std::size_t k = 0; k < outputs.size(); ++k) {
    const ir::ValueId v = region_.outputs()[outputs[k]].value;
    values.push_back(elements_.bits_at(v, linear[k]));
  }
  for (std::size_t k = 0; k < outputs.size(); ++k)
    writer_.line(fmt::format("{}[{}] = {};", outputs_[outputs[k]],
                             place.empty() ? linear[k].to_string() : place, values[k]));
}

void Function::declare(std::string line) { declared_ += fmt::format("  {}\n", line); }

// 64-bit divisions are slow where registers are 32 bits wide.
bool Function::narrow() const {
  return dialect_ != Dialect::c && kernel_.items < kNarrow &&
         std::all_of(
             region_.nodes().begin(), region_.nodes().end(),
             [](const ir::Node& node) {
               return std::all_of(node.types.begin(), node.types.end(),
                                  [](const Type& type) { return type.shape.count() < kNarrow; });
             });
}

Kernel Function::closed() {
  const std::string kind = resident_ == 1
                               ? fmt::format("S_KERNEL({})", kernel_.threads)
                               : fmt::format("S_RESIDENT_KERNEL({}, {})", kernel_.threads, resident_);
  const std::string head =
      dialect_ == Dialect::c
          ? fmt::format("void {}(void* const* buffers, s_i64 begin, s_i64 end)", kernel_.name)
          : fmt::format("{} {}({})", kind, kernel_.name, fmt::join(parameters_, ", "));
  const char* const begin = dialect_ == Dialect::c ? "" : "  S_BEGIN;\n";
  kernel_.source =
      fmt::format("// {}\n{} {{\n{}{}{}}}\n", summary(region_), head, begin, declared_, writer_.text());
  const std::string_view index = "s_index", type = narrow() ? "s_i32" : "s_i64";
  for (std::size_t at = kernel_.source.find(index); at != std::string::npos;
       at = kernel_.source.find(index, at))
    kernel_.source.replace(at, index.size(), type);
  kernel_.helpers = elements_.helpers();
  return std::move(kernel_);
}

Kernel Function::finish(std::int64_t items) {
  kernel_.items = items;
  if (dialect_ == Dialect::c) return closed();
  declare(fmt::format("const s_index begin = S_THREAD, end = {};", items));
  return finish_groups(std::min((items + kernel_.threads - 1) / kernel_.threads, most_groups_));
}

Kernel Function::finish_groups(std::int64_t groups) {
  kernel_.groups = groups;
  return closed();
}

Index Loops::point() const {
  Index sum;
  std::int64_t stride = 1;
  for (std::size_t i = sizes.size(); i-- > 0;) {
    sum = sum + Index::variable(names[i], sizes[i]) * stride;
    stride *= sizes[i];
  }
  return sum;
}

Loops make_loops(std::vector<std::int64_t> sizes, std::string_view stem) {
  Loops loops{std::move(sizes), {}};
  for (std::size_t i = 0; i < loops.sizes.size(); ++i) loops.names.push_back(fmt::format("{}{}", stem, i));
  return loops;
}

void open_item(Writer& writer, const Loops& loops, const std::string& item) {
  std::int64_t stride = 1;
  for (const std::int64_t size : loops.sizes) stride *= size;
  if (stride == 0) stride = 1;  // there is no item
  for (std::size_t i = 0; i < loops.sizes.size(); ++i) {
    stride /= std::max<std::int64_t>(loops.sizes[i], 1);
    if (loops.sizes[i] == 0) {
      writer.line(fmt::format("const s_index {} = 0;", loops.names[i]));
      continue;
    }
    if (loops.sizes[i] == 1) continue;
    const std::string quotient = stride <= 1 ? item : fmt::format("{} / {}", item, stride);
    writer.line(i == 0
                    ? fmt::format("const s_index {} = {};", loops.names[i], quotient)
                    : fmt::format("const s_index {} = {} % {};", loops.names[i], quotient, loops.sizes[i]));
  }
}

std::string identity(ir::Combine kind, DType dtype) {
  const bool real = is_float(dtype);
  const auto extreme = [&](bool highest) -> std::string {
    if (dtype == DType::f8e4m3fn) return highest ? "448.0f" : "(-448.0f)";  // it has no infinity
    if (real) return fmt::format("{}S_INF_{}", highest ? "" : "-", dtype == DType::f64 ? "F64" : "F32");
    if (dtype == DType::boolean) return highest ? "1" : "0";
    const auto bits = static_cast<int>(8 * size_of(dtype));
    if (is_signed_integer(dtype))
      return highest ? fmt::format("(s_i{0})(((s_u64)1 << {1}) - 1)", bits, bits - 1)
                     : fmt::format("(s_i{0})(-(s_i64)(((s_u64)1 << {1}) - 1) - 1)", bits, bits - 1);
    return highest ? fmt::format("(s_u{})~(s_u64)0", bits) : "0";
  };
  switch (kind) {
    case ir::Combine::sum:
    case ir::Combine::bitwise_or: return "0";
    case ir::Combine::prod: return "1";
    case ir::Combine::max: return extreme(false);
    case ir::Combine::min: return extreme(true);
    case ir::Combine::bitwise_and:
      return dtype == DType::boolean ? "1" : fmt::format("({})~(s_u64)0", c_type(dtype));
    default: throw Error(ErrorKind::kInternal, "reduce", "no such combination in a kernel");
  }
}

std::string combined(ir::Combine kind, DType dtype, const std::string& a, const std::string& b) {
  const bool real = is_float(dtype);
  const auto arithmetic = [&](char op) {
    if (real) return fmt::format("{} {} {}", a, op, b);
    if (dtype == DType::boolean) return fmt::format("(s_bool)({} {} {})", a, op == '+' ? '|' : '&', b);
    const std::string_view wide = size_of(dtype) == 8 ? "s_u64" : "s_u32";
    return fmt::format("({0})(({1}){2} {3} ({1}){4})", c_type(dtype), wide, a, op, b);
  };
  switch (kind) {
    case ir::Combine::sum: return arithmetic('+');
    case ir::Combine::prod: return arithmetic('*');
    case ir::Combine::max:
      if (c_type(dtype) == "float") return fmt::format("S_MAX({}, {})", a, b);
      return fmt::format("({1} != {1} ? {1} : {1} > {0} ? {1} : {0})", a, b);
    case ir::Combine::min:
      if (c_type(dtype) == "float") return fmt::format("S_MIN({}, {})", a, b);
      return fmt::format("({1} != {1} ? {1} : {1} < {0} ? {1} : {0})", a, b);
    case ir::Combine::bitwise_and: return fmt::format("({})({} & {})", c_type(dtype), a, b);
    case ir::Combine::bitwise_or: return fmt::format("({})({} | {})", c_type(dtype), a, b);
    default: throw Error(ErrorKind::kInternal, "reduce", "no such combination in a kernel");
  }
}

// The shape with those neighbouring axes as one that the node does not tell apart.
Shape coarse(const ir::Graph& graph, const ir::Node& node) {
  const Shape& shape = node.types[0].shape;
  std::vector<bool> matters(shape.size(), true);
  if (node.op == Op::iota) {
    matters.assign(shape.size(), false);
    matters[static_cast<std::size_t>(node.as<ir::IotaAttrs>().axis)] = true;
  } else if (node.op == Op::broadcast) {
    const Shape& from = graph.type(node.operands[0]).shape;
    const Ints& axes = node.as<ir::BroadcastAttrs>().axes;
    matters.assign(shape.size(), false);
    for (std::size_t i = 0; i < axes.size(); ++i)
      matters[static_cast<std::size_t>(axes[i])] = from[i].value() != 1;
  }
  std::vector<Dim> dims;
  bool joins = false;
  for (std::size_t i = 0; i < shape.size(); ++i) {
    if (joins && !matters[i])
      dims.back() = Dim(dims.back().value() * shape[i].value());
    else
      dims.push_back(shape[i]);
    joins = !matters[i];
  }
  return Shape(dims);
}

std::vector<std::int64_t> loop_sizes(const ir::Graph& graph, std::vector<std::int64_t> sizes) {
  std::int64_t count = 1;
  for (const std::int64_t size : sizes) count *= size;
  for (const ir::Node& node : graph.nodes()) {
    const ir::OpClass op_class = ir::info(node.op).op_class;
    const bool shaped = (op_class == ir::OpClass::movement && node.op != Op::reshape) || node.op == Op::iota;
    if (!shaped || node.types[0].shape.count() != count) continue;
    std::vector<std::int64_t> finer = sizes;
    if (refine(finer, coarse(graph, node))) sizes = std::move(finer);
  }
  return sizes;
}

std::optional<Kernel> make_kernel(const lower::Step& step, const std::string& name, Dialect dialect,
                                  const Form& form) {
  if (dialect != Dialect::c) return simt_kernel(step, name, dialect, form);
  if (step.kind == lower::StepKind::special) return special_kernel(step, name, dialect);
  if (step.kind != lower::StepKind::kernel) return std::nullopt;
  switch (step.group) {
    case lower::GroupKind::map: return map_kernel(step, name);
    case lower::GroupKind::rows: return rows_kernel(step, name);
    case lower::GroupKind::contraction: return contraction_kernel(step, name);
    default: return std::nullopt;
  }
}

std::vector<Kernel> make_kernels(const lower::Step& step, const std::string& name, Dialect dialect,
                                 const Form& form) {
  if (step.group == lower::GroupKind::rows && step.chunks > 1)
    return dialect == Dialect::c ? cut_rows_kernels(step, name)
                                 : simt_cut_rows_kernels(step, name, dialect, form);
  if (step.group == lower::GroupKind::contraction && dialect == Dialect::cuda && form.tensor_cores)
    if (const std::optional<FewChannels> convolution = few_channels(step.region);
        convolution && (convolution->operands != DType::f32 || form.tf32) &&
        (!convolution->is_gradient || step.workspace >= 0))
      return few_channels_kernels(step, *convolution, name);
  std::vector<Kernel> all;
  if (std::optional<Kernel> only = make_kernel(step, name, dialect, form)) all.push_back(*std::move(only));
  return all;
}

std::vector<Form> forms(const lower::Step& step) {
  std::vector<Form> all{{}};
  if (step.kind != lower::StepKind::kernel) return all;
  if (step.group == lower::GroupKind::map) {
    all.push_back({.neighbours = 8});
    all.push_back({.groups = 65536});
    all.push_back({.threads = 1024, .groups = 65536});
  } else if (step.group == lower::GroupKind::rows) {
    all.push_back({.neighbours = 8});
    all.push_back({.threads = 512});
    all.push_back({.threads = 1024});
  }
  return all;
}

const std::string& KernelSet::add(Kernel kernel) {
  std::string text = kernel.source;
  text.erase(text.find(kernel.name + "("), kernel.name.size());
  const auto [known, is_new] = names_.try_emplace(std::move(text), kernel.name);
  if (is_new) distinct_.push_back(std::move(kernel));
  return known->second;
}

std::string source_file(const std::vector<Kernel>& kernels, Dialect dialect) {
  std::set<std::string> helpers;
  for (const Kernel& kernel : kernels) helpers.insert(kernel.helpers.begin(), kernel.helpers.end());
  const std::vector<std::string_view> names(helpers.begin(), helpers.end());
  std::string text = math::prelude(dialect) + math::source(names);
  text += dialect == Dialect::c ? kPreludeC : simt_prelude(dialect);
  for (const auto& [suffix, type] :
       {std::pair{"f32", "float"}, {"f64", "double"}, {"u32", "s_u32"}, {"u64", "s_u64"}}) {
    const std::string function = fmt::format("s_multiply_{}", suffix);
    const bool used = std::any_of(kernels.begin(), kernels.end(), [&](const Kernel& kernel) {
      return kernel.source.find(function + "(") != std::string::npos;
    });
    if (used) text += fmt::format("S_MULTIPLY({}, {})\n", function, type);
  }
  for (const Kernel& kernel : kernels) text += "\n" + kernel.source;
  return text;
}

}  // namespace systole::codegen
