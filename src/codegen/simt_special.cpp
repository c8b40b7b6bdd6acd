// Primitives whose kernel in C is one item, for many threads. What else has a kernel of its own takes its
// items in turn, as in C.

#include "codegen/simt.h"
#include "codegen/special_parts.h"

namespace systole::codegen {

namespace {

using ir::Op;

class SimtSpecial : public SpecialKernel {
 public:
  using SpecialKernel::SpecialKernel;

  // Where the operand lies in the result's memory already, the block alone is written; else every element is
  // the operand's or the block's.
  Kernel update() {
    const Shape &x = shape(0), &block = shape(1);
    const Ints x_strides = row_major_strides(x.dims()), block_strides = row_major_strides(block.dims());
    for (std::size_t i = 0; i < x.size(); ++i)
      w_.line(fmt::format("const s_index s{} = {};", i, start_of(i + 2, x[i].value() - block[i].value())));
    const auto over = [&](const Shape& shape) {
      const Ints sizes = shape.dims();
      w_.open(fmt::format("for (s_index item = begin; item < {}; item += S_STEP)", shape.count()));
      const Loops loops = make_loops({sizes.begin(), sizes.end()}, "x");
      open_item(w_, loops, "item");
      std::vector<std::string> indices;
      for (std::size_t i = 0; i < loops.sizes.size(); ++i)
        indices.push_back(loops.sizes[i] == 1 ? "0" : loops.names[i]);
      return indices;
    };
    w_.open(fmt::format("if ((const S_GLOBAL void*){} == (const S_GLOBAL void*)in{})", function_.output(0),
                        position(0)));
    std::string to = "0";
    const std::vector<std::string> in_block = over(block);
    for (std::size_t i = 0; i < x.size(); ++i)
      to += fmt::format(" + ({} + s{}) * {}", in_block[i], i, x_strides[i]);
    w_.line(fmt::format("{}[{}] = in{}[item];", function_.output(0), to, position(1)));
    w_.close();
    w_.close();
    w_.open("else");
    std::string inside = "1", from = "0";
    const std::vector<std::string> in_x = over(x);
    for (std::size_t i = 0; i < x.size(); ++i) {
      const std::string at = fmt::format("({} - s{})", in_x[i], i);
      if (x[i] != block[i]) inside += fmt::format(" && {0} >= 0 && {0} < {1}", at, block[i].value());
      from += fmt::format(" + {} * {}", at, block_strides[i]);
    }
    w_.line(fmt::format("if ({}) {}[item] = in{}[{}];", inside, function_.output(0), position(1), from));
    w_.line(fmt::format("else {}[item] = in{}[item];", function_.output(0), position(0)));
    w_.close();
    w_.close();
    return function_.finish(x.count());
  }

 private:
  std::string start_of(std::size_t operand, std::int64_t room) {
    const std::string raw = element(operand, "0");
    if (is_unsigned_integer(graph_.type(node_.operands[operand]).dtype))
      return fmt::format("({0} > {1}u ? (s_i64){1} : (s_i64){0})", raw, room);
    return fmt::format("({0} < 0 ? (s_i64)0 : {0} > {1} ? (s_i64){1} : (s_i64){0})", raw, room);
  }
};

}  // namespace

std::optional<Kernel> simt_special_kernel(const lower::Step& step, const std::string& name, Dialect dialect) {
  switch (step.region.graph.node(step.region.anchor).op) {
    case Op::dynamic_update_slice: return SimtSpecial(step, name, dialect).update();
    case Op::scatter: return simt_scatter_kernel(step, name, dialect);
    default: return special_kernel(step, name, dialect);
  }
}

}  // namespace systole::codegen
