#include "codegen/contraction.h"

#include <algorithm>
#include <cstdlib>

#include "compile/strided.h"
#include "systole/base/error.h"

namespace systole::codegen {

namespace {

// Axes of an operand that one linear variable runs over, those that lie in a row joined.
struct Axes {
  struct Axis {
    std::int64_t size, stride;
  };
  std::vector<Axis> axes;

  void add(std::int64_t size, std::int64_t stride) {
    if (size == 1) return;
    if (!axes.empty() && axes.back().stride == stride * size)
      axes.back() = {axes.back().size * size, stride};
    else
      axes.push_back({size, stride});
  }
  std::string at(const std::string& variable) const {
    if (axes.empty()) return "0";
    std::string text;
    std::int64_t below = 1;
    for (std::size_t i = axes.size(); i-- > 0;) {
      std::string index = below == 1 ? variable : fmt::format("{} / {}", variable, below);
      if (i > 0) index = fmt::format("({}) % {}", index, axes[i].size);
      text = fmt::format("({}) * {}{}{}", index, axes[i].stride, text.empty() ? "" : " + ", text);
      below *= axes[i].size;
    }
    return text;
  }
};

constexpr std::int64_t kFarthest = std::int64_t{1} << 30;  // that two indices of 32 bits reach with their sum

struct Factor {
  Axes batch, free, contracted;
};

bool contains(const Ints& axes, std::size_t axis) {
  return std::find(axes.begin(), axes.end(), static_cast<std::int64_t>(axis)) != axes.end();
}

// How an operand lies in memory.
lower::Strided memory_of(const ir::Graph& region, ir::ValueId v) {
  const auto view =
      lower::strided(region, v, [&](std::int32_t i) { return region.node(i).op == ir::Op::input; });
  if (!view) throw Error(ErrorKind::kInternal, "contraction", "an operand is not in memory");
  return *view;
}

Factor factor(const lower::Strided& operand, const Ints& batch, const Ints& contracted) {
  Factor f;
  const auto add = [&](Axes& to, std::size_t axis) {
    for (const auto& [size, stride] : operand.axes[axis]) to.add(size, stride);
  };
  for (const std::int64_t axis : batch) add(f.batch, static_cast<std::size_t>(axis));
  for (const std::int64_t axis : contracted) add(f.contracted, static_cast<std::size_t>(axis));
  for (std::size_t i = 0; i < operand.axes.size(); ++i)
    if (!contains(batch, i) && !contains(contracted, i)) add(f.free, i);
  return f;
}

// Of an operand whose axes are one piece each.
Ints strides_of(const lower::Strided& operand) {
  Ints strides;
  for (const auto& pieces : operand.axes) strides.push_back(pieces.empty() ? 0 : pieces[0].stride);
  return strides;
}

std::int64_t product(const Shape& shape, const Ints& axes) {
  std::int64_t count = 1;
  for (const std::int64_t axis : axes) count *= shape[static_cast<std::size_t>(axis)].value();
  return count;
}

// Product::left_run and right_run; the free axes run over `free`.
std::optional<Product::Run> run_of(const ir::Graph& region, const lower::Strided& memory,
                                   const Factor& factor, const std::string& free) {
  constexpr std::int64_t kRun = 4;
  const auto is_even = [](const Axes& axes) {
    return std::all_of(axes.axes.begin(), axes.axes.end(),
                       [](const Axes::Axis& axis) { return axis.stride % kRun == 0; });
  };
  const auto& depth = factor.contracted.axes;
  if (depth.size() != 1 || depth[0].stride != 1 || memory.offset % kRun != 0 || !is_even(factor.batch) ||
      !is_even(factor.free))
    return std::nullopt;
  const auto found = std::find(region.inputs().begin(), region.inputs().end(), memory.source.node);
  if (found == region.inputs().end()) return std::nullopt;
  return Product::Run{
      static_cast<std::size_t>(found - region.inputs().begin()),
      fmt::format("{} + {} + {} + kk", memory.offset, factor.batch.at("batch"), factor.free.at(free))};
}

Product dot_product(const lower::Step& step, Function& function) {
  const ir::Graph& region = step.region.graph;
  const ir::Node& dot = region.node(step.region.anchor);
  const auto& attrs = dot.as<ir::DotAttrs>();
  const ir::ValueId a = dot.operands[0], b = dot.operands[1];
  const Shape &a_shape = region.type(a).shape, &b_shape = region.type(b).shape;
  const lower::Strided a_memory = memory_of(region, a), b_memory = memory_of(region, b);
  const Factor left = factor(a_memory, attrs.a_batch, attrs.a_contract),
               right = factor(b_memory, attrs.b_batch, attrs.b_contract);
  Product p;
  p.depth = product(a_shape, attrs.a_contract);
  p.batches = product(a_shape, attrs.a_batch);
  for (std::size_t i = 0; i < a_shape.size(); ++i)
    if (!contains(attrs.a_batch, i) && !contains(attrs.a_contract, i)) p.rows *= a_shape[i].value();
  for (std::size_t i = 0; i < b_shape.size(); ++i)
    if (!contains(attrs.b_batch, i) && !contains(attrs.b_contract, i)) p.columns *= b_shape[i].value();
  const std::string a_element = function.elements().loaded(
      a_memory.source, fmt::format("{} + {} + {} + {}", a_memory.offset, left.batch.at("batch"),
                                   left.free.at("row"), left.contracted.at("kk")));
  p.prepare_row = [](Writer&) {};
  p.store_left = [a_element](Writer& w, const std::string& target) {
    w.line(fmt::format("{} = {};", target, a_element));
  };
  p.right = function.elements().loaded(
      b_memory.source, fmt::format("{} + {} + {} + {}", b_memory.offset, right.batch.at("batch"),
                                   right.free.at("n"), right.contracted.at("kk")));
  p.left_run = run_of(region, a_memory, left, "row");
  p.right_run = run_of(region, b_memory, right, "n");
  p.left_is_transposed = !left.free.axes.empty() && left.free.axes.back().stride == 1;
  p.right_is_transposed = right.free.axes.empty() || right.free.axes.back().stride != 1;
  p.point = Index::variable("batch", p.batches) * (p.rows * p.columns) +
            Index::variable("m", p.rows) * p.columns + Index::variable("n", p.columns);
  return p;
}

// Rows are the result's places, columns its features, the depth runs over the window and the input features.
Product convolution_product(const lower::Step& step, Function& function) {
  const ir::Graph& region = step.region.graph;
  const ir::Node& node = region.node(step.region.anchor);
  const auto& attrs = node.as<ir::ConvolutionAttrs>();
  const ir::ConvolutionAxes axes = ir::parse_convolution_layout(attrs.layout);
  const ir::ValueId x = node.operands[0], kernel = node.operands[1];
  const Shape &x_shape = region.type(x).shape, &k_shape = region.type(kernel).shape,
              &y_shape = node.types[0].shape;
  const lower::Strided x_memory = memory_of(region, x), k_memory = memory_of(region, kernel);
  const Ints x_strides = strides_of(x_memory), k_strides = strides_of(k_memory),
             y_strides = row_major_strides(y_shape.dims());
  const auto size = [](const Shape& shape, std::int64_t axis) {
    return shape[static_cast<std::size_t>(axis)].value();
  };
  const auto stride = [](const Ints& strides, std::int64_t axis) {
    return strides[static_cast<std::size_t>(axis)];
  };
  const std::size_t spatial = axes.operand_spatial.size();
  const auto entry = [](const Ints& list, std::size_t i, std::int64_t otherwise) {
    return list.empty() ? otherwise : list[i];
  };
  const std::int64_t features = size(y_shape, axes.result_feature), inputs = size(k_shape, axes.kernel_input);
  Product p;
  p.batches = attrs.feature_groups * attrs.batch_groups;
  p.columns = features / std::max<std::int64_t>(p.batches, 1);
  p.rows = size(y_shape, axes.result_batch);
  p.depth = inputs;
  for (std::size_t i = 0; i < spatial; ++i) {
    p.rows *= size(y_shape, axes.result_spatial[i]);
    p.depth *= size(k_shape, axes.kernel_spatial[i]);
  }
  // A row's place in the result: y0, y1, …, and the batch.
  const auto places = [=](Writer& w, const std::string& row) {
    std::int64_t below = 1;
    for (std::size_t i = spatial; i-- > 0;) {
      const std::int64_t n = size(y_shape, axes.result_spatial[i]);
      w.line(fmt::format("const s_index y{} = {} / {} % {};", i, row, below, std::max<std::int64_t>(n, 1)));
      below *= n;
    }
    w.line(fmt::format("const s_index image = {} / {};", row, std::max<std::int64_t>(below, 1)));
  };
  p.prepare_row = [=](Writer& w) {
    places(w, "row");
    const std::string first = attrs.batch_groups > 1
                                  ? fmt::format("(image + batch * {})", size(y_shape, axes.result_batch))
                                  : std::string("image");
    w.line(fmt::format("const s_index base = {} + {} * {} + {};", x_memory.offset, first,
                       stride(x_strides, axes.operand_batch),
                       attrs.feature_groups > 1
                           ? fmt::format("batch * {}", inputs * stride(x_strides, axes.operand_feature))
                           : std::string("0")));
  };
  p.store_left = [=, &function](Writer& w, const std::string& target) {
    std::string condition,
        place = fmt::format("base + kk % {} * {}", inputs, stride(x_strides, axes.operand_feature));
    std::int64_t below = inputs;
    for (std::size_t i = spatial; i-- > 0;) {
      const std::int64_t window = size(k_shape, axes.kernel_spatial[i]),
                         n = size(x_shape, axes.operand_spatial[i]);
      const std::int64_t holes = entry(attrs.operand_dilation, i, 1);
      const std::string at = window == 1 ? "0" : fmt::format("(kk / {} % {})", below, window);
      const bool turned = entry(attrs.reverse, i, 0) != 0;
      // The operand with its holes and its padding may be longer than what has elements.
      const std::int64_t reach =
          std::max((size(y_shape, axes.result_spatial[i]) - 1) * entry(attrs.strides, i, 1) +
                       (window - 1) * entry(attrs.kernel_dilation, i, 1),
                   std::abs(entry(attrs.pad_low, i, 0)));
      const bool far = reach > kFarthest;
      w.line(fmt::format("const {5} x{0} = {6}y{0} * {1} + {2} * {3} - {4};", i, entry(attrs.strides, i, 1),
                         turned ? fmt::format("({} - {})", window - 1, at) : at,
                         entry(attrs.kernel_dilation, i, 1), entry(attrs.pad_low, i, 0),
                         far ? "s_i64" : "s_index", far ? "(s_i64)" : ""));
      const std::int64_t last = (n - 1) * holes;
      condition += fmt::format("{}x{} >= 0 && x{} <= {}", condition.empty() ? "" : " && ", i, i, last);
      if (holes > 1) condition += fmt::format(" && x{} % {} == 0", i, holes);
      place += fmt::format(" + x{}{} * {}", i, holes > 1 ? fmt::format(" / {}", holes) : "",
                           stride(x_strides, axes.operand_spatial[i]));
      below *= window;
    }
    const std::string element = function.elements().loaded(x_memory.source, place);
    w.line(condition.empty() ? fmt::format("{} = {};", target, element)
                             : fmt::format("{} = {} ? {} : 0;", target, condition, element));
  };
  std::string place =
      fmt::format("{} + kk % {} * {} + (batch * {} + n) * {}", k_memory.offset, inputs,
                  stride(k_strides, axes.kernel_input), p.columns, stride(k_strides, axes.kernel_output));
  std::int64_t below = inputs;
  for (std::size_t i = spatial; i-- > 0;) {
    const std::int64_t window = size(k_shape, axes.kernel_spatial[i]);
    if (window > 1)
      place += fmt::format(" + kk / {} % {} * {}", below, window, stride(k_strides, axes.kernel_spatial[i]));
    below *= window;
  }
  p.right = function.elements().loaded(k_memory.source, place);
  p.right_is_transposed = stride(k_strides, axes.kernel_output) != 1;
  bool plain = axes.result_batch == 0 && axes.result_feature == y_shape.rank() - 1;
  for (std::size_t i = 0; i < spatial; ++i)
    plain = plain && axes.result_spatial[i] == static_cast<std::int64_t>(i) + 1;
  if (plain) {
    p.point = Index::variable("m", p.rows) * features + Index::variable("batch", p.batches) * p.columns +
              Index::variable("n", p.columns);
  } else {
    p.place = fmt::format("(batch * {} + n) * {}", p.columns, stride(y_strides, axes.result_feature));
    below = 1;
    for (std::size_t i = spatial; i-- > 0;) {
      const std::int64_t n = size(y_shape, axes.result_spatial[i]);
      p.place += fmt::format(" + m / {} % {} * {}", below, std::max<std::int64_t>(n, 1),
                             stride(y_strides, axes.result_spatial[i]));
      below *= n;
    }
    p.place +=
        fmt::format(" + m / {} * {}", std::max<std::int64_t>(below, 1), stride(y_strides, axes.result_batch));
    p.point = Index::variable("place", y_shape.count());
    if (y_shape.count() == 1) p.point = Index(0);
  }
  return p;
}

}  // namespace

void store_results(const lower::Step& step, Function& function, const Product& product,
                   const Results& results) {
  Writer& w = function.writer();
  Elements& elements = function.elements();
  const ir::Graph& region = step.region.graph;
  const bool is_one = results.count == 1;
  const auto each = [&](const std::function<void()>& body) {
    if (!is_one) w.line("S_UNROLL");
    w.open(is_one ? std::string() : fmt::format("for (s_i32 i = 0; i < {}; ++i)", results.count));
    results.place(w);
    w.open(fmt::format("if ({}{}m < {} && n < {})", results.condition,
                       results.condition.empty() ? "" : " && ", product.rows, product.columns));
    if (!product.place.empty()) w.line(fmt::format("const s_index place = {};", product.place));
    body();
    w.close();
    w.close();
  };
  const auto kept = [&](std::size_t output) { return fmt::format("kept{}{}", output, is_one ? "" : "[i]"); };
  std::vector<std::size_t> stored;
  std::vector<std::size_t> judgements;  // one truth of all elements: whoever sees otherwise writes it
  for (std::size_t o = 0; o < region.outputs().size(); ++o)
    (region.node(region.outputs()[o].value.node).op == ir::Op::reduce ? judgements : stored).push_back(o);
  for (const std::size_t o : stored)
    w.line(fmt::format("{} kept{}{};", storage_type(region.output_type(o).dtype), o,
                       is_one ? "" : fmt::format("[{}]", results.count)));
  each([&] {
    results.value(w);
    elements.push();
    elements.define({step.region.anchor, 0}, "value");
    for (const std::size_t o : stored)
      w.line(fmt::format("{} = {};", kept(o), elements.bits_at(region.outputs()[o].value, product.point)));
    for (const std::size_t o : judgements) {
      const ir::ValueId judged = region.node(region.outputs()[o].value.node).operands[0];
      w.line(
          fmt::format("if (!({})) {}[0] = 0;", elements.value_at(judged, product.point), function.output(o)));
    }
    elements.pop();
  });
  if (stored.empty()) return;
  each([&] {
    for (const std::size_t o : stored)
      w.line(fmt::format("{}[{}] = {};", function.output(o), product.point.to_string(), kept(o)));
  });
}

std::string_view accumulator_type(DType dtype) {
  return is_float(dtype) ? c_type(dtype) : size_of(dtype) == 8 ? "s_u64" : "s_u32";
}

Product product_of(const lower::Step& step, Function& function) {
  return step.region.graph.node(step.region.anchor).op == ir::Op::dot_general
             ? dot_product(step, function)
             : convolution_product(step, function);
}

}  // namespace systole::codegen
