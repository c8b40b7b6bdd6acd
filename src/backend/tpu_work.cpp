#include "backend/tpu_work.h"

#include <fmt/format.h>
#include <algorithm>
#include <cmath>
#include <span>

#include "backend/splits.h"
#include "compile/flops.h"

namespace systole::tpu {

namespace {

using ir::Graph;
using ir::Node;
using ir::Op;

std::int64_t local(const Type& type, const Parts& parts, std::size_t axis) {
  return (type.shape[axis].value() + parts[axis] - 1) / parts[axis];
}

Work::Sizes dot_sizes(const Graph& graph, const Node& node, const Parts& a_parts, const Parts& b_parts) {
  const auto& dot = node.as<ir::DotAttrs>();
  const Type &a = graph.type(node.operands[0]), &b = graph.type(node.operands[1]);
  Work::Sizes sizes;
  for (std::size_t i = 0; i < a_parts.size(); ++i) {
    if (is_in(dot.a_contract, i) || is_in(dot.a_batch, i)) continue;
    sizes.m *= static_cast<double>(local(a, a_parts, i));
    sizes.m_split |= a_parts[i] > 1;
  }
  for (std::size_t i = 0; i < b_parts.size(); ++i) {
    if (is_in(dot.b_contract, i) || is_in(dot.b_batch, i)) continue;
    sizes.n *= static_cast<double>(local(b, b_parts, i));
    sizes.n_split |= b_parts[i] > 1;
  }
  const auto shared = [&](const Ints& a_axes, const Ints& b_axes, bool& split) {
    double size = 1;
    for (std::size_t i = 0; i < a_axes.size(); ++i) {
      const std::int64_t parts = std::max(a_parts[at(a_axes[i])], b_parts[at(b_axes[i])]);
      size *= std::ceil(static_cast<double>(a.shape[at(a_axes[i])].value()) / static_cast<double>(parts));
      split |= parts > 1;
    }
    return size;
  };
  bool ignored = false;
  sizes.groups = shared(dot.a_batch, dot.b_batch, ignored);
  sizes.k = shared(dot.a_contract, dot.b_contract, sizes.k_split);
  sizes.flops = 2 * sizes.groups * sizes.m * sizes.n * sizes.k;
  return sizes;
}

Work::Sizes convolution_sizes(const Graph& graph, const Node& node, const Parts& x_parts,
                              const Parts& w_parts) {
  const auto& conv = node.as<ir::ConvolutionAttrs>();
  const ir::ConvolutionAxes axes = ir::parse_convolution_layout(conv.layout);
  const Type &x = graph.type(node.operands[0]), &w = graph.type(node.operands[1]), &y = node.types[0];
  const auto length = [](const Type& type, std::int64_t axis) { return type.shape[at(axis)].value(); };
  Work::Sizes sizes;
  sizes.groups = static_cast<double>(conv.feature_groups * conv.batch_groups);
  const std::int64_t batch_parts = x_parts[at(axes.operand_batch)],
                     input_parts =
                         std::max(w_parts[at(axes.kernel_input)], x_parts[at(axes.operand_feature)]);
  sizes.m_split = batch_parts > 1;
  sizes.k_split = input_parts > 1;
  sizes.n_split = w_parts[at(axes.kernel_output)] > 1;
  const double batch = std::ceil(static_cast<double>(length(y, axes.result_batch)) /
                                 static_cast<double>(batch_parts)),
               inputs = std::ceil(static_cast<double>(length(w, axes.kernel_input)) /
                                  static_cast<double>(input_parts)),
               outputs = static_cast<double>(local(w, w_parts, at(axes.kernel_output)));
  double pairs = 1;
  sizes.m = batch;
  sizes.k = inputs;
  sizes.n = outputs / sizes.groups;
  for (std::size_t i = 0; i < axes.operand_spatial.size(); ++i) {
    const std::int64_t kernel = length(w, axes.kernel_spatial[i]), out = length(y, axes.result_spatial[i]);
    pairs *= passes::convolution_meetings(length(x, axes.operand_spatial[i]), kernel, out, conv, i);
    sizes.m *= static_cast<double>(out);
    sizes.k *= static_cast<double>(kernel);
  }
  sizes.flops = 2 * batch * inputs * outputs * pairs;
  return sizes;
}

std::string text_of(const Type& type, const Parts& parts) {
  std::string text;
  for (std::size_t i = 0; i < parts.size(); ++i)
    text += fmt::format("{}{}", i == 0 ? "" : ",", local(type, parts, i));
  return fmt::format("{}[{}]", name(type.dtype), text);
}

// Follows splits through the graph and its sub-graphs and notes contractions on the way.
class Walk {
 public:
  Walk(Work& work, const std::optional<ir::Mesh>& mesh, int matrix_unit)
      : work_(work), mesh_(mesh), matrix_unit_(matrix_unit) {}

  std::vector<Parts> through(const Graph& graph, std::vector<Parts> inputs, double times, bool note) {
    std::vector<std::vector<Parts>> parts(at(graph.size()));  // by node and result
    std::size_t next = 0;
    for (std::int32_t i = 0; i < graph.size(); ++i) {
      const Node& node = graph.node(i);
      std::vector<Parts> operands;
      for (const ir::ValueId v : node.operands) operands.push_back(parts[at(v.node)][at(v.index)]);
      std::vector<Parts>& results = parts[at(i)];
      if (node.op == Op::input)
        results = {next < inputs.size() ? inputs[next] : whole(node.types[0])};
      else if (!node.graphs.empty())
        results = control(node, operands, times, note);
      else if (node.op == Op::barrier)
        results = operands;
      else
        results = {parts_through(graph, node, operands)};
      next += node.op == Op::input ? 1 : 0;
      for (std::size_t r = results.size(); r < node.types.size(); ++r)
        results.push_back(whole(node.types[r]));
      for (std::size_t r = 0; r < results.size(); ++r)
        if (const auto own = own_parts(node, r, mesh_)) results[r] = *own;
      for (const Type& type : node.types) work_.see(type.dtype);
      if (note && (node.op == Op::dot_general || node.op == Op::convolution))
        contraction(graph, node, operands[0], operands[1], times);
    }
    std::vector<Parts> outputs;
    for (const ir::Output& output : graph.outputs())
      outputs.push_back(parts[at(output.value.node)][at(output.value.index)]);
    return outputs;
  }

 private:
  void contraction(const Graph& graph, const Node& node, const Parts& a, const Parts& b, double times) {
    const Type &left = graph.type(node.operands[0]), &right = graph.type(node.operands[1]);
    const std::string scope = node.debug ? node.debug->scope : std::string();
    work_.add(
        fmt::format("{}{}{} {} {}", ir::name(node.op), scope.empty() ? "" : " ", scope, text_of(left, a),
                    text_of(right, b)),
        left.dtype,
        node.op == Op::dot_general ? dot_sizes(graph, node, a, b) : convolution_sizes(graph, node, a, b),
        times, matrix_unit_);
  }

  std::vector<Parts> control(const Node& node, const std::vector<Parts>& operands, double times, bool note) {
    if (node.op == Op::scan) return scan(node, operands, times, note);
    if (node.op == Op::while_loop) {
      const Graph& body = *node.graphs.back();
      return loop(body, operands, at(node.as<ir::WhileAttrs>().carries), times, note);
    }
    if (node.op == Op::cond) {
      const std::vector<Parts> given(operands.begin() + 1, operands.end());
      std::vector<Parts> results = through(*node.graphs[0], given, times, note);
      const std::vector<Parts> other = through(*node.graphs[1], given, times, note);
      for (std::size_t i = 0; i < results.size(); ++i) results[i] = joined(results[i], other[i]);
      return results;
    }
    return through(*node.graphs[0], operands, times, note);
  }

  // What is carried is split when it starts so or comes out so.
  std::vector<Parts> loop(const Graph& body, std::vector<Parts> inputs, std::size_t carries, double times,
                          bool note) {
    const std::vector<Parts> first = through(body, inputs, times, false);
    for (std::size_t i = 0; i < carries; ++i) inputs[i] = joined(inputs[i], first[i]);
    return through(body, std::move(inputs), times, note);
  }

  std::vector<Parts> scan(const Node& node, std::vector<Parts> inputs, double times, bool note) {
    const auto& scan = node.as<ir::ScanAttrs>();
    const std::size_t carries = at(scan.carries);
    for (std::size_t i = carries; i < carries + at(scan.xs); ++i)  // an entry of the leading axis
      inputs[i] = Parts(inputs[i].begin() + 1, inputs[i].end());
    std::vector<Parts> results = loop(*node.graphs[0], std::move(inputs), carries,
                                      times * static_cast<double>(scan.length.value()), note);
    for (std::size_t i = carries; i < results.size(); ++i) {
      Parts stacked{1};
      for (const std::int64_t p : results[i]) stacked.push_back(p);
      results[i] = stacked;
    }
    return results;
  }

  Work& work_;
  const std::optional<ir::Mesh>& mesh_;
  const int matrix_unit_;
};

double padded(double size, double tile) { return std::ceil(size / tile) * tile; }

}  // namespace

double Work::flops() const {
  double sum = 0;
  for (const auto& [dtype, flops] : by_dtype_) sum += flops;
  return sum;
}

double Work::flops_of(DType dtype) const {
  const auto found = by_dtype_.find(dtype);
  return found == by_dtype_.end() ? 0 : found->second;
}

void Work::add(const std::string& where, DType dtype, const Sizes& sizes, double times, int matrix_unit) {
  const double side = matrix_unit,
               rows = 32.0 / static_cast<double>(std::min<std::size_t>(size_of(dtype), 4));
  const bool swapped =
      padded(sizes.m, side) * padded(sizes.n, rows) < padded(sizes.m, rows) * padded(sizes.n, side);
  struct Size {
    char name;
    double size, tile;
    bool split;
    double cost() const { return padded(size, tile) / size; }
  };
  Size all[] = {{'M', sizes.m, swapped ? side : rows, sizes.m_split},
                {'N', sizes.n, swapped ? rows : side, sizes.n_split},
                {'K', sizes.k, side, sizes.k_split}};
  std::sort(std::begin(all), std::end(all), [](const Size& a, const Size& b) {
    return a.cost() != b.cost() ? a.cost() > b.cost() : a.name < b.name;
  });
  double factor = 1;
  std::string sizes_text;
  for (const Size& s : all) {
    if (s.size <= 0) return;  // nothing is done
    factor *= s.cost();
    if (s.cost() > 1)
      sizes_text += fmt::format("{}{} {} is done as {}", sizes_text.empty() ? "" : ", ", s.name, s.size,
                                padded(s.size, s.tile));
  }
  by_dtype_[dtype] += times * sizes.flops;
  repeated_flops_ += std::max(times - 1, 0.0) * sizes.flops;
  Waste& waste = by_place_[where];
  if (waste.where.empty()) {
    waste.where = where;
    waste.count = 0;
    if (factor > 1)
      waste.advice = fmt::format("{}: {}", sizes_text,
                                 all[0].split ? "a larger batch per device fills it"
                                              : fmt::format("a multiple of {:g} fills it", all[0].tile));
  }
  waste.count += static_cast<std::int64_t>(times);
  waste.flops += times * sizes.flops;
  waste.padded_flops += times * sizes.flops * factor;
}

std::vector<Waste> Work::waste() const {
  std::vector<Waste> found;
  for (const auto& [where, waste] : by_place_)
    if (waste.padded_flops > waste.flops) found.push_back(waste);
  std::sort(found.begin(), found.end(), [](const Waste& a, const Waste& b) {
    const double lost_a = a.padded_flops - a.flops, lost_b = b.padded_flops - b.flops;
    return lost_a != lost_b ? lost_a > lost_b : a.where < b.where;
  });
  return found;
}

std::vector<std::string> Work::advice(runtime::Math math) const {
  std::vector<std::string> advice;
  const double all = flops();
  const auto share = [&](DType dtype) { return all > 0 ? 100 * flops_of(dtype) / all : 0; };
  if (seen_.contains(DType::f64)) advice.emplace_back("f64 is emulated in software: use f32 or bf16");
  if (share(DType::f32) > 1 && math == runtime::Math::f32)
    advice.push_back(
        fmt::format("{:.0f} % of the FLOPs are f32 contractions, which pass the matrix unit six times: "
                    "autocast(fn, DType::bf16) or SYSTOLE_MATH=tf32 makes it one",
                    share(DType::f32)));
  if (share(DType::f16) > 1)
    advice.push_back(
        fmt::format("{:.0f} % of the FLOPs are f16 contractions: bf16 is the matrix unit's own "
                    "type and needs no scaling of the loss",
                    share(DType::f16)));
  return advice;
}

Work work_of(const ir::Graph& graph, int matrix_unit) {
  Work work;
  std::vector<Parts> inputs;
  for (std::size_t i = 0; i < graph.inputs().size(); ++i) inputs.push_back(whole(graph.input_type(i)));
  Walk(work, graph.mesh(), matrix_unit).through(graph, std::move(inputs), 1, true);
  return work;
}

}  // namespace systole::tpu
