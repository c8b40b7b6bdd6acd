#include "backend/cpu/onednn_layers.h"

#include <fmt/format.h>

#include <memory>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "backend/patterns/layers.h"

namespace systole::cpu {

using namespace patterns;
using dnnl::api;
using dnnl::OwnedDescription;

namespace {

using List = std::vector<std::int64_t>;
using Kind = PoolingLayer::Kind;

// [batch, spatial…, channels] in memory, told as batch, channels, spatial….
OwnedDescription array(const PoolingLayer& p, const Ints& spatial) {
  List dims{p.batch, p.channels}, strides(spatial.size() + 2, 1);
  dims.insert(dims.end(), spatial.begin(), spatial.end());
  std::int64_t stride = p.channels;
  for (std::size_t i = dims.size(); i-- > 2; stride *= dims[i]) strides[i] = stride;
  strides[0] = stride;
  return dnnl::described(dims, dnnl::kF32, strides);
}

std::string pooling_refusal(const PoolingLayer& p) {
  if (p.kind == Kind::max) return "its maxima pass over what is not a number";
  if (p.kind != Kind::mean && p.kind != Kind::mean_of_image) return "a sum, where it has means";
  if (p.dtype != DType::f32) return fmt::format("pooling of {}", systole::name(p.dtype));
  return {};
}

Made make_pooling(const PoolingLayer& p, std::size_t from) {
  if (std::string reason = pooling_refusal(p); !reason.empty()) return refused(reason);
  const List window(p.window.begin(), p.window.end()), strides(p.strides.begin(), p.strides.end()),
      before(p.before.begin(), p.before.end()), dilations(window.size(), 0);
  List after;
  std::int64_t reads = p.batch * p.channels;
  for (std::size_t i = 0; i < window.size(); ++i) {
    after.push_back((p.result[i] - 1) * strides[i] + window[i] - p.image[i] - before[i]);
    reads *= p.result[i] * window[i];
  }
  OwnedDescription x = array(p, p.image), y = array(p, p.result);
  const dnnl::OwnedAttributes how = attributes();
  dnnl::PrimitiveDescription made = nullptr;
  constexpr std::int64_t kAsLong = 4;  // multiplications that take as long as fetching a number
  auto plan = std::make_shared<Plan>(reads * kAsLong);
  dnnl::check(api().pooling_forward_primitive_desc_create(
                  &made, dnnl::engine(), dnnl::kInference,
                  p.kind == Kind::mean ? dnnl::kMeanWithPadding : dnnl::kMeanWithoutPadding, x.get(), y.get(),
                  strides.data(), window.data(), dilations.data(), before.data(), after.data(), how.get()),
              "dnnl_pooling_forward_primitive_desc_create");
  const dnnl::OwnedPrimitiveDescription owned(made);
  std::vector<Use> uses;
  uses.push_back({dnnl::kSource, std::move(x), input(from)});
  uses.push_back({dnnl::kResult, std::move(y), output(0)});
  plan->add(made, std::move(uses));
  return made_of(std::move(plan), "onednn.pooling");
}

}  // namespace

Made make_onednn_layer(const lower::Region& region) {
  Layer layer;
  if (std::string reason = read_layer(region, layer); !reason.empty()) return refused(reason);
  if (const auto* pooling = std::get_if<PoolingLayer>(&layer.what))
    return make_pooling(*pooling, layer.inputs[0]);
  if (std::holds_alternative<NormLayer>(layer.what))
    return refused("its long sums round more than is promised, its short ones are no faster");
  return refused("its recurrent nets take longer than generated kernels");
}

}  // namespace systole::cpu
