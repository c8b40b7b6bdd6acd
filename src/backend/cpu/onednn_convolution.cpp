#include "backend/cpu/onednn_convolution.h"

#include <fmt/format.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "backend/patterns/convolution_work.h"

namespace systole::cpu {

using namespace patterns;
using dnnl::api;
using dnnl::DescriptionObject;
using dnnl::OwnedDescription;

namespace {

// The library sums the gradient of a kernel with few channels in one run over all images: of very many points
// that is worse than is promised. So it is made of parts, each of some images.
std::int64_t parts_of(const Convolution& c) {
  constexpr std::int64_t kFewChannels = 16, kLongestRun = 16384;
  const std::int64_t points = c.result[0] * c.result[1];
  if (c.channels / c.groups >= kFewChannels) return 1;
  std::int64_t parts = 1;
  while (parts < c.batch && (c.batch % parts != 0 || c.batch / parts * points > kLongestRun)) ++parts;
  return parts;
}

}  // namespace

ConvolutionArrays::ConvolutionArrays(const Convolution& c, const std::array<std::int64_t, 4>& kernel,
                                     const ProductTypes& types) {
  const std::int64_t h = c.image[0], v = c.image[1], g = c.groups, in = c.channels / g, out = c.filters / g,
                     kh = c.window[0], kw = c.window[1];
  x = dnnl::described({c.batch, c.channels, h, v}, types.a,
                      {h * v * c.channels, 1, v * c.channels, c.channels});
  y = dnnl::described({c.batch, c.filters, c.result[0], c.result[1]}, types.c,
                      {c.result[0] * c.result[1] * c.filters, 1, c.result[1] * c.filters, c.filters});
  std::vector<std::int64_t> dims{out, in, kh, kw}, steps(kernel.begin(), kernel.end());
  if (g > 1) {
    dims.insert(dims.begin(), g);
    // The gradient by an image has the groups on the kernel's other axis.
    steps.insert(steps.begin(), c.kind == Convolution::Kind::input_grad ? in * kernel[1] : out * kernel[0]);
  }
  w = dnnl::described(dims, types.b, steps);
  any_w = dnnl::described(dims, types.b);
  for (std::size_t i = 0; i < 2; ++i) {
    strides[i] = c.strides[i];
    dilations[i] = c.dilations[i] - 1;
    before[i] = c.before[i];
    after[i] = c.after[i];
  }
}

dnnl::OwnedPrimitiveDescription forward_convolution(const ConvolutionArrays& g, const DescriptionObject* bias,
                                                    const dnnl::AttributesObject* how) {
  dnnl::PrimitiveDescription made = nullptr;
  dnnl::check(api().convolution_forward_primitive_desc_create(
                  &made, dnnl::engine(), dnnl::kTraining, dnnl::kDirect, g.x.get(), g.any_w.get(), bias,
                  g.y.get(), g.strides, g.dilations, g.before, g.after, how),
              "dnnl_convolution_forward_primitive_desc_create");
  return dnnl::OwnedPrimitiveDescription(made);
}

std::int64_t multiplications(const Convolution& c) {
  return c.batch * c.filters * c.result[0] * c.result[1] * c.window[0] * c.window[1] *
         (c.channels / c.groups);
}

Made make_onednn_convolution(const lower::Region& region) {
  const ir::Node& node = region.graph.node(region.anchor);
  Convolution c;
  ConvolutionWork work;
  if (std::string reason = read_convolution(region.graph, node, c); !reason.empty()) return refused(reason);
  if (c.operands != DType::f32 || c.output != DType::f32)
    return refused(fmt::format("convolutions of {}", systole::name(c.operands)));
  const std::int64_t first = input_of(region, 0), second = input_of(region, 1);
  if (first < 0 || second < 0) return refused("an operand is computed on the way");
  if (!is_channels_last(node, c, ChannelsLast::images)) return refused("channels are not last");
  if (std::string reason = read_work(region, work); !reason.empty()) return refused(reason);
  std::int64_t bias = -1, added = -1;
  for (const ConvolutionWork::Step& step : work.steps) {
    const auto at = static_cast<std::int64_t>(step.input);
    if (step.kind == ConvolutionWork::Kind::bias && bias < 0 && step.dtype == DType::f32)
      bias = at;
    else if (step.kind == ConvolutionWork::Kind::add && added < 0 && step.dtype == DType::f32)
      added = at;
    else
      return refused("other work on the result than a bias and an array");
  }
  if (!work.steps.empty() && (c.kind != Convolution::Kind::forward || work.output != DType::f32))
    return refused("work on the result of a gradient");

  auto plan = std::make_shared<Plan>(multiplications(c));
  const std::int64_t parts = c.kind == Convolution::Kind::weight_grad ? parts_of(c) : 1;
  c.batch /= parts;
  ConvolutionArrays g(c, kernel_strides(region.graph, node, c), {dnnl::kF32, dnnl::kF32, dnnl::kF32});
  std::vector<Use> uses;
  const auto operands = [&](std::size_t i) {
    return input(static_cast<std::size_t>(i == 0 ? first : second));
  };
  // A kernel in the library's order, where that is another than ours.
  const auto kernel = [&](const DescriptionObject* wanted, Place from) {
    return api().memory_desc_equal(wanted, g.w.get()) != 0 ? from : plan->packed(g.w.get(), from, wanted);
  };
  const dnnl::OwnedAttributes how = attributes();
  switch (c.kind) {
    case Convolution::Kind::forward: {
      OwnedDescription wide = bias >= 0 ? dnnl::described({c.filters}, dnnl::kF32, {1}) : nullptr;
      if (added >= 0) add_array(how.get(), g.y.get());
      const dnnl::OwnedPrimitiveDescription what = forward_convolution(g, wide.get(), how.get());
      const DescriptionObject* const w = api().primitive_desc_query_md(what.get(), dnnl::kWeightsOf, 0);
      uses.push_back({dnnl::kWeights, copy_of(w), kernel(w, operands(1))});
      uses.push_back({dnnl::kSource, std::move(g.x), operands(0)});
      if (wide) uses.push_back({dnnl::kBias, std::move(wide), input(static_cast<std::size_t>(bias))});
      if (added >= 0)
        uses.push_back({post_op(0), copy_of(g.y.get()), input(static_cast<std::size_t>(added))});
      uses.push_back({dnnl::kResult, std::move(g.y), output(0)});
      plan->add(what.get(), std::move(uses));
      break;
    }
    case Convolution::Kind::input_grad: {
      const dnnl::OwnedPrimitiveDescription hint = forward_convolution(g, nullptr, how.get());
      dnnl::PrimitiveDescription made = nullptr;
      dnnl::check(api().convolution_backward_data_primitive_desc_create(
                      &made, dnnl::engine(), dnnl::kDirect, g.x.get(), g.any_w.get(), g.y.get(), g.strides,
                      g.dilations, g.before, g.after, hint.get(), how.get()),
                  "dnnl_convolution_backward_data_primitive_desc_create");
      const dnnl::OwnedPrimitiveDescription what(made);
      const DescriptionObject* const w = api().primitive_desc_query_md(made, dnnl::kWeightsOf, 0);
      uses.push_back({dnnl::kWeights, copy_of(w), kernel(w, operands(1))});
      uses.push_back({dnnl::kResultGradient, std::move(g.y), operands(0)});
      uses.push_back({dnnl::kInputGradient, std::move(g.x), output(0)});
      plan->add(made, std::move(uses));
      break;
    }
    case Convolution::Kind::weight_grad: {
      const dnnl::OwnedPrimitiveDescription hint = forward_convolution(g, nullptr, how.get());
      dnnl::PrimitiveDescription made = nullptr;
      dnnl::check(api().convolution_backward_weights_primitive_desc_create(
                      &made, dnnl::engine(), dnnl::kDirect, g.x.get(), g.any_w.get(), nullptr, g.y.get(),
                      g.strides, g.dilations, g.before, g.after, hint.get(), how.get()),
                  "dnnl_convolution_backward_weights_primitive_desc_create");
      const dnnl::OwnedPrimitiveDescription what(made);
      const DescriptionObject* const w = api().primitive_desc_query_md(made, dnnl::kWeightGradientOf, 0);
      const bool is_ours = api().memory_desc_equal(w, g.w.get()) != 0;
      const auto bytes = static_cast<std::int64_t>(api().memory_desc_get_size(w));
      const Place whole = is_ours ? output(0) : plan->scratch(bytes);
      const std::int64_t x_bytes = 4 * c.batch * c.channels * c.image[0] * c.image[1],
                         y_bytes = 4 * c.batch * c.filters * c.result[0] * c.result[1];
      std::vector<Place> sums;
      for (std::int64_t part = 0; part < parts; ++part) {
        sums.push_back(parts == 1 ? whole : plan->scratch(bytes));
        uses.clear();
        uses.push_back({dnnl::kWeightGradient, copy_of(w), sums.back()});
        uses.push_back({dnnl::kSource, copy_of(g.x.get()), moved(operands(0), part * x_bytes)});
        uses.push_back({dnnl::kResultGradient, copy_of(g.y.get()), moved(operands(1), part * y_bytes)});
        plan->add(made, std::move(uses));
      }
      if (parts > 1) plan->sum(w, sums, whole);
      if (!is_ours) plan->copy(w, whole, g.w.get(), output(0));
      break;
    }
  }
  std::string name = "onednn.convolution";
  if (c.kind == Convolution::Kind::input_grad) name += "_input_grad";
  if (c.kind == Convolution::Kind::weight_grad) name += "_weight_grad";
  for (const ConvolutionWork::Step& step : work.steps) name += "+" + std::string(patterns::name(step.kind));
  return made_of(std::move(plan), name);
}

}  // namespace systole::cpu
