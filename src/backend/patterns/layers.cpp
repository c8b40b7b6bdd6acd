#include "backend/patterns/layers.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <string_view>

namespace systole::patterns {

namespace {

using ir::Op;

std::int64_t entry(const Ints& list, std::size_t i, std::int64_t missing) {
  return list.empty() ? missing : list[i];
}

// How many windows fit when there is as much padding behind as before, as libraries count.
std::int64_t windows(std::int64_t image, std::int64_t before, std::int64_t window, std::int64_t stride) {
  return image + 2 * before < window ? 0 : (image + 2 * before - window) / stride + 1;
}

std::string check_pooling(const PoolingLayer& p) {
  if (p.window.empty() || p.window.size() > 3) return "one to three spatial axes are wanted";
  if (p.batch == 0 || p.channels == 0) return "there is nothing to pool";
  for (std::size_t i = 0; i < p.window.size(); ++i) {
    if (p.image[i] == 0 || p.result[i] == 0) return "there is nothing to pool";
    if (p.before[i] < 0) return "an image that is cut";
    if (p.before[i] >= p.window[i]) return "a window may lie in the padding alone";
    if (windows(p.image[i], p.before[i], p.window[i], p.strides[i]) != p.result[i])
      return "padding behind the image that differs from that before it";
  }
  return {};
}

std::string read_pooling(const Type& x, const ir::AttrMap& attrs, bool is_max, const Type& y,
                         PoolingLayer& out) {
  out.dtype = x.dtype;
  const bool counts = is_max || ir::get_bool(attrs, "count_padding");
  out.kind = is_max   ? PoolingLayer::Kind::max
             : counts ? PoolingLayer::Kind::mean
                      : PoolingLayer::Kind::mean_of_image;
  out.window = ir::get_ints(attrs, "window");
  const std::size_t spatial = out.window.size();
  out.batch = x.shape[0].value();
  out.channels = x.shape[spatial + 1].value();
  for (std::size_t i = 0; i < spatial; ++i) {
    out.image.push_back(x.shape[i + 1].value());
    out.result.push_back(y.shape[i + 1].value());
    out.strides.push_back(entry(ir::get_ints(attrs, "strides"), i, 1));
    out.before.push_back(entry(ir::get_ints(attrs, "pad_low"), i, 0));
  }
  return check_pooling(out);
}

std::string read_window(const Type& x, const ir::WindowAttrs& w, const Type& y, PoolingLayer& out) {
  if (w.kind != ir::Combine::max && w.kind != ir::Combine::sum) return "windows of neither maxima nor sums";
  const auto rank = static_cast<std::size_t>(x.shape.rank());
  if (rank < 3) return "one to three spatial axes are wanted";
  const auto is_one = [&](std::size_t i) {
    return w.window[i] == 1 && entry(w.strides, i, 1) == 1 && entry(w.pad_low, i, 0) == 0 &&
           entry(w.pad_high, i, 0) == 0 && entry(w.base_dilation, i, 1) == 1;
  };
  if (!is_one(0) || !is_one(rank - 1)) return "windows over more than the spatial axes";
  for (const std::int64_t d : w.window_dilation)
    if (d != 1) return "windows with holes";
  const bool has_holes =
      std::any_of(w.base_dilation.begin(), w.base_dilation.end(), [](std::int64_t d) { return d != 1; });
  out.dtype = x.dtype;
  out.batch = x.shape[0].value();
  out.channels = x.shape[rank - 1].value();
  if (has_holes && w.kind != ir::Combine::sum) return "maxima of an image with holes";
  out.kind = w.kind == ir::Combine::max ? PoolingLayer::Kind::max
             : has_holes                ? PoolingLayer::Kind::sum_grad
                                        : PoolingLayer::Kind::sum;
  for (std::size_t i = 1; i + 1 < rank; ++i) {
    const std::int64_t low = entry(w.pad_low, i, 0), from = x.shape[i].value(), to = y.shape[i].value();
    if (has_holes && entry(w.strides, i, 1) != 1) return "an image with holes and strides";
    out.window.push_back(w.window[i]);
    out.image.push_back(has_holes ? to : from);
    out.result.push_back(has_holes ? from : to);
    out.strides.push_back(has_holes ? entry(w.base_dilation, i, 1) : entry(w.strides, i, 1));
    out.before.push_back(has_holes ? w.window[i] - 1 - low : low);
  }
  return check_pooling(out);
}

std::string read_norm(const ir::Graph& graph, const ir::Node& node, NormLayer& out) {
  const auto& attrs = node.as<ir::CompositeAttrs>();
  out.kind = attrs.name == "batch_norm_train"  ? NormLayer::Kind::train
             : attrs.name == "batch_norm_grad" ? NormLayer::Kind::grad
                                               : NormLayer::Kind::inference;
  const bool is_grad = out.kind == NormLayer::Kind::grad;
  const Type& x = graph.type(node.operands[is_grad ? 1 : 0]);
  out.dtype = x.dtype;
  out.parameters = graph.type(node.operands[is_grad ? 2 : 1]).dtype;
  out.shape = x.shape.dims();
  const auto rank = static_cast<std::int64_t>(x.shape.rank());
  out.axis = (ir::get_int(attrs.attrs, "axis") + rank) % rank;
  out.eps = ir::get_double(attrs.attrs, "eps");
  if (is_grad && graph.type(node.operands[0]).dtype != x.dtype) return "a gradient of another dtype";
  const DType wide = x.dtype == DType::f64 ? DType::f64 : DType::f32;
  for (std::size_t i = is_grad ? 2 : 1; i < node.operands.size(); ++i)
    if (graph.type(node.operands[i]).dtype != wide)
      return fmt::format("parameters of {}, not {}", systole::name(graph.type(node.operands[i]).dtype),
                         systole::name(wide));
  if (x.shape.count() == 0) return "there is nothing to normalise";
  if (out.kind != NormLayer::Kind::inference && out.count() < 2) return "one value has no deviation";
  return {};
}

std::string read_recurrent(const ir::Graph& graph, const ir::Node& node, RecurrentLayer& out) {
  const std::string& name = node.as<ir::CompositeAttrs>().name;
  out.is_lstm = name.starts_with("lstm");
  out.is_grad = name.ends_with("_grad");
  const Type &x = graph.type(node.operands[out.first()]), &h = graph.type(node.operands[out.first() + 1]);
  out.dtype = x.dtype;
  out.length = x.shape[0].value();
  out.batch = x.shape[1].value();
  out.inputs = x.shape[2].value();
  out.hidden = h.shape[1].value();
  for (const std::int64_t n : {out.length, out.batch, out.inputs, out.hidden})
    if (n == 0) return "an empty sequence";
  return {};
}

}  // namespace

std::string PoolingLayer::text() const {
  const char* const kinds[] = {"max", "sum", "mean", "mean_of_image", "sum_grad"};
  return fmt::format("{} pooling {} n{} c{} image{} window{} strides{} before{} result{}",
                     kinds[static_cast<int>(kind)], systole::name(dtype), batch, channels,
                     fmt::join(image, "x"), fmt::join(window, "x"), fmt::join(strides, "x"),
                     fmt::join(before, "x"), fmt::join(result, "x"));
}

std::int64_t NormLayer::count() const {
  std::int64_t all = 1;
  for (const std::int64_t n : shape) all *= n;
  return channels() == 0 ? 0 : all / channels();
}

std::string NormLayer::text() const {
  const char* const kinds[] = {"train", "inference", "grad"};
  return fmt::format("batch_norm {} {} [{}] axis {} eps {}", kinds[static_cast<int>(kind)],
                     systole::name(dtype), fmt::join(shape, ","), axis, eps);
}

std::string RecurrentLayer::text() const {
  return fmt::format("{}{} {} length{} batch{} inputs{} hidden{}", is_lstm ? "lstm" : "gru",
                     is_grad ? "_grad" : "", systole::name(dtype), length, batch, inputs, hidden);
}

std::string Layer::text() const {
  return std::visit([](const auto& layer) { return layer.text(); }, what);
}

std::string_view Layer::name() const {
  if (std::holds_alternative<PoolingLayer>(what)) return "pooling";
  if (std::holds_alternative<NormLayer>(what)) return "batch_norm";
  return std::get<RecurrentLayer>(what).is_grad ? "rnn_grad" : "rnn";
}

bool is_layer(const ir::Node& anchor) {
  if (anchor.op == Op::reduce_window) return true;
  if (anchor.op != Op::composite) return false;
  const std::string& name = anchor.as<ir::CompositeAttrs>().name;
  return name == "max_pool" || name == "avg_pool" || name == "lstm" || name == "gru" || name == "lstm_grad" ||
         name == "gru_grad" || name == "batch_norm_train" || name == "batch_norm_inference" ||
         name == "batch_norm_grad";
}

std::string read_layer(const lower::Region& region, Layer& out) {
  const ir::Graph& graph = region.graph;
  const ir::Node& node = graph.node(region.anchor);
  for (const ir::ValueId v : node.operands) {
    const auto found = std::find(graph.inputs().begin(), graph.inputs().end(), v.node);
    if (found == graph.inputs().end()) return "an operand is computed on the way";
    out.inputs.push_back(static_cast<std::size_t>(found - graph.inputs().begin()));
    out.operands.push_back(graph.type(v));
  }
  out.results = node.types;
  if (graph.outputs().size() != node.types.size() ||
      graph.size() != static_cast<std::int32_t>(graph.inputs().size()) + 1)
    return "no work on the result";
  if (node.op == Op::reduce_window) {
    PoolingLayer& pooling = out.what.emplace<PoolingLayer>();
    return read_window(out.operands[0], node.as<ir::WindowAttrs>(), node.types[0], pooling);
  }
  const auto& attrs = node.as<ir::CompositeAttrs>();
  if (attrs.name == "max_pool" || attrs.name == "avg_pool") {
    PoolingLayer& pooling = out.what.emplace<PoolingLayer>();
    return read_pooling(out.operands[0], attrs.attrs, attrs.name == "max_pool", node.types[0], pooling);
  }
  if (attrs.name.starts_with("lstm") || attrs.name.starts_with("gru"))
    return read_recurrent(graph, node, out.what.emplace<RecurrentLayer>());
  return read_norm(graph, node, out.what.emplace<NormLayer>());
}

}  // namespace systole::patterns
