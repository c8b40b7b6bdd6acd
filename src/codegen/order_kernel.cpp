// sort and top_k, a line of the axis at a time. A sort merges runs of doubling length in two lists of indices
// that its scratch memory holds, then moves every operand by them. Indices have 32 bits, as those that top_k
// gives.

#include "codegen/special_parts.h"
#include "systole/base/error.h"

namespace systole::codegen {

namespace {

class Order : public SpecialKernel {
 public:
  using SpecialKernel::SpecialKernel;

  Kernel sort() {
    const auto& a = node_.as<ir::SortAttrs>();
    const Lines line = lines(shape(0), a.axis);
    limit(a.axis);
    const std::string scratch = function_.scratch("s_i32");
    open_items();
    w_.line(fmt::format("const s_i64 first = {};", line.first));
    w_.line(fmt::format("S_GLOBAL s_i32* from = {} + item * {};", scratch, 2 * line.length));
    w_.line(fmt::format("S_GLOBAL s_i32* to = from + {};", line.length));
    w_.line(fmt::format("for (s_i32 i = 0; i < {}; ++i) from[i] = i;", line.length));
    w_.open(fmt::format("for (s_i64 run = 1; run < {}; run *= 2)", line.length));
    w_.open(fmt::format("for (s_i64 low = 0; low < {}; low += 2 * run)", line.length));
    w_.line(fmt::format("const s_i64 middle = low + run < {0} ? low + run : {0};", line.length));
    w_.line(fmt::format("const s_i64 high = low + 2 * run < {0} ? low + 2 * run : {0};", line.length));
    w_.line("s_i64 l = low, r = middle;");
    w_.open("for (s_i64 k = low; k < high; ++k)");
    w_.line("s_bool right = l == middle;");
    w_.open("if (l < middle && r < high)");
    const std::string_view type = c_type(graph_.type(node_.operands[0]).dtype);
    w_.line(fmt::format("const {} a = {}, b = {};", type, key("from[l]", line.stride),
                        key("from[r]", line.stride)));
    w_.line(fmt::format("right = {};", before("b", "a", a.descending)));
    w_.close();
    w_.line("to[k] = right ? from[r++] : from[l++];");
    w_.close();
    w_.close();
    w_.line("S_GLOBAL s_i32* const other = from;");
    w_.line("from = to;");
    w_.line("to = other;");
    w_.close();
    w_.open(fmt::format("for (s_i64 i = 0; i < {}; ++i)", line.length));
    for (std::size_t k = 0; k < node_.operands.size(); ++k)
      if (const std::optional<std::size_t> output = output_of(k))
        w_.line(fmt::format("{}[first + i * {}] = in{}[first + from[i] * (s_i64){}];",
                            function_.output(*output), line.stride, position(k), line.stride));
    w_.close();
    w_.close();
    return function_.finish(line.count);
  }

  // A list of the best so far, in order, in the results' memory.
  Kernel top_k() {
    const std::int64_t k = node_.as<ir::TopKAttrs>().k, axis = static_cast<std::int64_t>(shape(0).size()) - 1;
    const Lines line = lines(shape(0), axis);
    limit(axis);
    const std::optional<std::size_t> values = output_of(0), indices = output_of(1);
    const std::string_view type = c_type(dtype());
    // The indices name the values too, so only they need be there; they are in scratch memory when nobody
    // wants them.
    const std::string list = indices ? function_.output(*indices) : function_.scratch("s_i32");
    open_items();
    w_.line(fmt::format("const s_i64 first = item * {};", line.length));
    w_.line(fmt::format("S_GLOBAL s_i32* const list = {} + item * {};", list, k));
    w_.line("s_i64 count = 0;");
    w_.open(fmt::format("for (s_i32 i = 0; i < {}; ++i)", line.length));
    w_.line(fmt::format("const {} v = {};", type, element(0, "first + i")));
    w_.line("s_i64 at = count;");
    w_.open("while (at > 0)");
    w_.line(fmt::format("const {} other = {};", type, element(0, "first + list[at - 1]")));
    w_.line(fmt::format("if (!({})) break;", before("v", "other", true)));
    w_.line(fmt::format("if (at < {}) list[at] = list[at - 1];", k));
    w_.line("--at;");
    w_.close();
    w_.line(fmt::format("if (at < {}) list[at] = i;", k));
    w_.line(fmt::format("if (count < {}) ++count;", k));
    w_.close();
    if (values)
      w_.line(fmt::format("for (s_i64 i = 0; i < {0}; ++i) {1}[item * {0} + i] = in{2}[first + list[i]];", k,
                          function_.output(*values), position(0)));
    w_.close();
    return function_.finish(k == 0 ? 0 : line.count);
  }

 private:
  void limit(std::int64_t axis) const {
    const std::int64_t length = shape(0)[static_cast<std::size_t>(axis)].value();
    if (length > INT32_MAX)
      throw Error(ErrorKind::kLimit, std::string(ir::name(node_.op)),
                  fmt::format("axis {} is too long", axis), fmt::format("at most {} elements", INT32_MAX),
                  std::to_string(length));
  }
  std::string key(const std::string& index, std::int64_t stride) {
    return element(0, fmt::format("first + {} * (s_i64){}", index, stride));
  }
  // Whether a stands before b: NaN is above every number.
  std::string before(const std::string& a, const std::string& b, bool descending) const {
    return descending ? fmt::format("{0} > {1} || ({0} != {0} && {1} == {1})", a, b)
                      : fmt::format("{0} < {1} || ({1} != {1} && {0} == {0})", a, b);
  }
  // Where the node's result goes; nothing when nobody reads it.
  std::optional<std::size_t> output_of(std::size_t result) const {
    for (std::size_t i = 0; i < graph_.outputs().size(); ++i) {
      const ir::ValueId v = graph_.outputs()[i].value;
      if (&graph_.node(v.node) == &node_ && v.index == static_cast<std::int32_t>(result)) return i;
    }
    return std::nullopt;
  }
};

}  // namespace

Kernel order_kernel(const lower::Step& step, const std::string& name, Dialect dialect) {
  Order order(step, name, dialect);
  return step.region.graph.node(step.region.anchor).op == ir::Op::sort ? order.sort() : order.top_k();
}

}  // namespace systole::codegen
