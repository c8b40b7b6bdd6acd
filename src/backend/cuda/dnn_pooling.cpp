// Pooling by cuDNN. It has means; a sum is a mean times the size of the window, and so is its gradient.

#include <utility>
#include <vector>

#include "backend/cuda/dnn_layers.h"
#include "backend/cuda/dnn_plan.h"
#include "systole/base/error.h"

namespace systole::cuda {

using namespace patterns;

namespace {

using Kind = PoolingLayer::Kind;

std::vector<int> numbers(Ints list, std::int64_t missing) {
  if (list.size() == 1) list.insert(list.begin(), missing);  // it wants two axes at least
  return {list.begin(), list.end()};
}

// [batch, spatial…, channels] in memory, told as batch, channels, spatial….
dnn::TensorRef tensor(const PoolingLayer& layer, const Ints& spatial) {
  std::vector<std::int64_t> sizes{layer.batch, layer.channels}, strides{0, 1};
  for (const int n : numbers(spatial, 1)) {
    sizes.push_back(n);
    strides.push_back(0);
  }
  std::int64_t stride = layer.channels;
  for (std::size_t i = sizes.size(); i-- > 2;) {
    strides[i] = stride;
    stride *= sizes[i];
  }
  strides[0] = stride;
  return dnn::new_tensor(layer.dtype, sizes, strides);
}

class DnnPooling final : public DnnLayer {
 public:
  explicit DnnPooling(const PoolingLayer& layer)
      : kind_(layer.kind),
        is_double_(layer.dtype == DType::f64),
        pooling_(dnn::new_pooling()),
        image_(tensor(layer, layer.image)),
        result_(tensor(layer, layer.result)) {
    const std::vector<int> window = numbers(layer.window, 1), before = numbers(layer.before, 0),
                           strides = numbers(layer.strides, 1);
    if (kind_ == Kind::sum || kind_ == Kind::sum_grad)
      for (const int n : window) scale_ *= n;
    const int mode = kind_ == Kind::max             ? dnn::kPoolingMax
                     : kind_ == Kind::mean_of_image ? dnn::kPoolingAverageWithoutPadding
                                                    : dnn::kPoolingAverageWithPadding;
    dnn::check(dnn::layers().cudnnSetPoolingNdDescriptor(pooling_.get(), mode, dnn::kPropagateNan,
                                                         static_cast<int>(window.size()), window.data(),
                                                         before.data(), strides.data()),
               "cudnnSetPoolingNdDescriptor");
  }

  void run(dnn::Handle handle, Stream, std::span<const Address> operands, std::span<const Address> results,
           Address) const override {
    const float alpha = static_cast<float>(scale_), beta = 0;
    const double alpha_d = scale_, beta_d = 0;
    const void* const scale = is_double_ ? static_cast<const void*>(&alpha_d) : &alpha;
    const void* const nothing = is_double_ ? static_cast<const void*>(&beta_d) : &beta;
    void* const from = reinterpret_cast<void*>(operands[0]);
    void* const to = reinterpret_cast<void*>(results[0]);
    if (kind_ != Kind::sum_grad)
      return dnn::check(dnn::layers().cudnnPoolingForward(handle, pooling_.get(), scale, image_.get(), from,
                                                          nothing, result_.get(), to),
                        "cudnnPoolingForward");
    // Image and result are not read: the gradient of a sum depends on neither.
    dnn::check(
        dnn::layers().cudnnPoolingBackward(handle, pooling_.get(), scale, result_.get(), from, result_.get(),
                                           from, image_.get(), to, nothing, image_.get(), to),
        "cudnnPoolingBackward");
  }

 private:
  const Kind kind_;
  const bool is_double_;
  double scale_ = 1;
  const dnn::PoolingRef pooling_;
  const dnn::TensorRef image_, result_;
};

}  // namespace

std::unique_ptr<const DnnLayer> make_dnn_pooling(const PoolingLayer& layer) {
  if (dnn::type_number(layer.dtype) < 0)
    throw Error(ErrorKind::kUnsupported, "cudnn", "no pooling of this dtype", {},
                std::string(systole::name(layer.dtype)));
  return std::make_unique<DnnPooling>(layer);
}

}  // namespace systole::cuda
