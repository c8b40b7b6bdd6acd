// Result types of ops: the frame around every inference, elementwise ops and sources. All share the checks of
// Call, so that every refusal names the op, what it expects and what it got.

#include "ir/infer.h"

#include <fmt/format.h>
#include <algorithm>
#include <array>
#include <limits>

namespace systole::ir {

namespace {

// The index in Attrs of each op's attribute struct.
template <class A>
constexpr std::size_t index_of() {
  return []<class... Ts>(AttrsList<Ts...>*) {
    std::size_t i = 0, found = 0;
    ((std::is_same_v<A, Ts> ? (found = i) : 0, ++i), ...);
    return found;
  }(static_cast<AllAttrs*>(nullptr));
}

constexpr std::size_t kAttrsIndex[] = {
#define SYSTOLE_OP(name, op_class, least, most, Attrs, ...) index_of<Attrs>(),
#include "systole/ir/ops.def"
};

std::string dtype_list(DTypeSet set) {
  std::string text;
  for (int i = 0; i < kDTypeCount; ++i)
    if (set.contains(static_cast<DType>(i)))
      text += (text.empty() ? "" : " ") + std::string(name(static_cast<DType>(i)));
  return text;
}

}  // namespace

void Call::fail(ErrorKind kind, std::string message, std::string expected, std::string got) const {
  if (got.empty()) {
    for (const Type& t : in) got += (got.empty() ? "" : ", ") + t.to_string();
    if (!got.empty()) got = "operands " + got;
  }
  throw Error(kind, std::string(name(op)), std::move(message), std::move(expected), std::move(got));
}

void Call::check_dtype(std::size_t operand, DTypeSet allowed) const {
  if (!allowed.contains(in[operand].dtype))
    fail(ErrorKind::kDType, fmt::format("operand {} has a dtype the op does not take", operand),
         "one of " + dtype_list(allowed), in[operand].to_string());
}

void Call::check_same_type(std::size_t a, std::size_t b) const {
  if (in[a].dtype != in[b].dtype)
    fail(ErrorKind::kDType, fmt::format("operands {} and {} differ in dtype", a, b), in[a].to_string(),
         in[b].to_string());
  if (!(in[a].shape == in[b].shape))
    fail_shape(fmt::format("operands {} and {} differ in shape", a, b), in[a].to_string(), in[b].to_string());
}

void Call::check_scalar(std::size_t operand, DTypeSet allowed) const {
  check_dtype(operand, allowed);
  if (in[operand].shape.rank() != 0)
    fail_shape(fmt::format("operand {} must be a scalar", operand), "shape []", in[operand].to_string());
}

void Call::check_axis(std::int64_t axis, int rank, const char* what) const {
  if (axis < 0 || axis >= rank)
    fail_attr(fmt::format("{} out of range", what),
              rank == 0 ? "an operand with axes" : fmt::format("0 to {}", rank - 1), std::to_string(axis));
}

void Call::check_axes(const Ints& axes, int rank, const char* what) const {
  std::uint64_t seen = 0;  // kMaxRank is below 64
  for (std::int64_t a : axes) {
    check_axis(a, rank, what);
    if (seen >> a & 1)
      fail_attr(fmt::format("{} names an axis twice", what), "distinct axes", std::to_string(a));
    seen |= std::uint64_t{1} << a;
  }
}

void Call::check_length(std::size_t length, std::size_t wanted, const char* what) const {
  if (length != wanted)
    fail_attr(fmt::format("{} has the wrong number of entries", what), std::to_string(wanted),
              std::to_string(length));
}

void Call::check_graphs(std::size_t wanted) const {
  if (graphs.size() != wanted)
    fail_attr("wrong number of sub-graphs", std::to_string(wanted), std::to_string(graphs.size()));
}

void Call::check_distance(std::int64_t distance, const char* what) const {
  constexpr std::int64_t kMost = std::int64_t{1} << 60;
  if (distance < -kMost || distance > kMost)
    fail(ErrorKind::kLimit, fmt::format("{} is too far", what), "-2^60 to 2^60", std::to_string(distance));
}

void Call::check_kind(Combine kind) const {
  if (kind == Combine::set) fail_attr("kind", "sum, prod, max, min, bitwise_and or bitwise_or", "set");
  const bool bitwise = kind == Combine::bitwise_and || kind == Combine::bitwise_or;
  check_dtype(0, bitwise ? kBits : kNumbers);
}

std::int64_t Call::group_size(const MeshAxisNames& axes) const {
  if (!mesh) fail_attr("a collective needs a graph with a mesh", "mesh(name=size)", "no mesh");
  if (axes.empty()) fail_attr("mesh_axes is empty", "at least one mesh axis", "[]");
  std::int64_t n = 1;
  for (std::size_t i = 0; i < axes.size(); ++i) {
    if (std::find(axes.begin(), axes.begin() + static_cast<std::ptrdiff_t>(i), axes[i]) !=
        axes.begin() + static_cast<std::ptrdiff_t>(i))
      fail_attr("mesh_axes names an axis twice", "distinct axes", axes[i]);
    n *= mesh->axis(axes[i]).size;
  }
  return n;
}

Dim dilated(Dim n, std::int64_t dilation) {
  if (n == Dim(0)) return 0;
  return (n - Dim(1)) * Dim(dilation) + Dim(1);
}

Dim window_positions(const Call& call, Dim size, std::int64_t window, std::int64_t stride, std::int64_t low,
                     std::int64_t high, std::int64_t base_dilation, std::int64_t window_dilation) {
  if (window < 0 || stride < 1 || base_dilation < 1 || window_dilation < 1)
    call.fail_attr("window, stride and dilation", "window 0 or more, stride and dilation 1 or more",
                   fmt::format("window {} stride {} dilation {} and {}", window, stride, base_dilation,
                               window_dilation));
  for (const std::int64_t padding : {low, high}) call.check_distance(padding, "padding");
  for (const std::int64_t step : {window, stride, base_dilation, window_dilation})
    call.check_distance(step, "window, stride or dilation");
  const Dim padded = dilated(size, base_dilation) + Dim(low) + Dim(high);
  const Dim extent = dilated(Dim(window), window_dilation);
  if (padded.is_static() && (padded.value() <= 0 || padded.value() < extent.value())) return 0;
  return floor_div(padded - extent, stride) + Dim(1);
}

Types infer_elementwise(const Call& c) {
  const OpInfo& op = info(c.op);
  for (std::size_t i = 0; i < c.in.size(); ++i) {
    c.check_dtype(i, op.dtypes);
    if (i > 0) c.check_same_type(0, i);
  }
  return {{op.result == ResultRule::boolean ? DType::boolean : c.in[0].dtype, c.in[0].shape}};
}

Types infer_select(const Call& c) {
  c.check_dtype(0, kBool);
  c.check_same_type(1, 2);
  if (c.in[0].shape.rank() != 0 && !(c.in[0].shape == c.in[1].shape))
    c.fail_shape("the predicate must be a scalar or of the branches' shape", c.in[1].shape.to_string(),
                 c.in[0].to_string());
  return {c.in[1]};
}

Types infer_clamp(const Call& c) {
  for (std::size_t i : {0, 1, 2}) c.check_dtype(i, info(c.op).dtypes);
  for (std::size_t i : {0, 2})
    if (c.in[i].dtype != c.in[1].dtype || (c.in[i].shape.rank() != 0 && !(c.in[i].shape == c.in[1].shape)))
      c.fail_shape("a bound must be a scalar or of the operand's type", c.in[1].to_string(),
                   c.in[i].to_string());
  return {c.in[1]};
}

Types infer_convert(const Call& c) { return {{c.as<ConvertAttrs>().dtype, c.in[0].shape}}; }

Types infer_bitcast(const Call& c) {
  const DType to = c.as<ConvertAttrs>().dtype, from = c.in[0].dtype;
  if (size_of(to) != size_of(from) || (to == DType::boolean && from != DType::boolean))
    c.fail(ErrorKind::kDType, "the dtypes differ in width, or bool is made from other bits",
           std::string(name(from)), std::string(name(to)));
  return {{to, c.in[0].shape}};
}

Types infer_input(const Call& c) { c.fail(ErrorKind::kInternal, "an input's type is given, not inferred"); }

Types infer_constant(const Call& c) { return {c.as<ConstantAttrs>().value.type()}; }

Types infer_iota(const Call& c) {
  const auto& a = c.as<IotaAttrs>();
  if (!info(Op::iota).dtypes.contains(a.dtype))
    c.fail(ErrorKind::kDType, "dtype", "a number", std::string(name(a.dtype)));
  c.check_axis(a.axis, a.shape.rank(), "axis");
  return {{a.dtype, a.shape}};
}

Types infer_dimension(const Call& c) {
  const auto& a = c.as<DimensionAttrs>();
  if (!info(Op::dimension).dtypes.contains(a.dtype))
    c.fail(ErrorKind::kDType, "dtype", "a number", std::string(name(a.dtype)));
  if (a.dim.is_static() && a.dim.value() < 0) c.fail_attr("dim", "0 or more", a.dim.to_string());
  return {{a.dtype, {}}};
}

Types infer_random_bits(const Call& c) {
  const auto& a = c.as<RandomBitsAttrs>();
  if (!(c.in[0] == Type{DType::u32, {2}})) c.fail_shape("the key", "u32[2]", c.in[0].to_string());
  if (!is_unsigned_integer(a.dtype))
    c.fail(ErrorKind::kDType, "dtype", "u8, u16, u32 or u64", std::string(name(a.dtype)));
  return {{a.dtype, a.shape}};
}

namespace {

using Infer = Types (*)(const Call&);

constexpr Infer kInfer[] = {
#define SYSTOLE_UNARY(...) infer_elementwise,
#define SYSTOLE_BINARY(...) infer_elementwise,
#define SYSTOLE_OP(name, ...) infer_##name,
#include "systole/ir/ops.def"
};

}  // namespace

Types infer_types(Op op, std::span<const Type> operands, const Attrs& attrs, std::span<const GraphRef> graphs,
                  const std::optional<Mesh>& mesh) {
  const OpInfo& facts = info(op);
  const Call call{op, operands, attrs, graphs, mesh};
  const auto count = static_cast<int>(operands.size());
  if (count < facts.least_operands || count > facts.most_operands)
    call.fail_attr("wrong number of operands",
                   facts.most_operands == kAnyNumber ? fmt::format("at least {}", facts.least_operands)
                   : facts.least_operands == facts.most_operands
                       ? std::to_string(facts.least_operands)
                       : fmt::format("{} to {}", facts.least_operands, facts.most_operands),
                   std::to_string(count));
  if (attrs.index() != kAttrsIndex[static_cast<std::size_t>(op)]) call.fail_attr("attributes of another op");
  if (!graphs.empty() && facts.op_class != OpClass::control && facts.op_class != OpClass::opaque)
    call.check_graphs(0);
  for (const GraphRef& g : graphs)
    if (g == nullptr) call.fail_attr("a sub-graph is missing");
  Types types;
  try {
    if (facts.op_class == OpClass::movement) call.check_dtype(0, facts.dtypes);
    types = kInfer[static_cast<std::size_t>(op)](call);
  } catch (const Error& e) {
    // Dimension arithmetic does not know the op; the reader needs it.
    if (e.where() == "shape" || e.where() == "mesh")
      throw Error(e.kind(), std::string(facts.name), e.message(), e.expected(), e.got());
    throw;
  }
  for (const Type& t : types) check_type(t, facts.name);
  return types;
}

}  // namespace systole::ir
