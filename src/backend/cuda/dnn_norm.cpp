// Batch norms by cuDNN. It remembers 1 / deviation where the graph has the biased variance, and its running
// variance is the unbiased one; a kernel of ours turns one into the other.

#include <fmt/format.h>

#include <array>
#include <map>
#include <mutex>
#include <vector>

#include "backend/cuda/dnn_layers.h"
#include "backend/cuda/dnn_plan.h"
#include "backend/cuda/nvrtc.h"
#include "systole/base/error.h"

namespace systole::cuda {

using namespace patterns;

namespace {

using Kind = NormLayer::Kind;

constexpr const char* kSource = R"(
template <class T> __device__ void inverse_deviations(const T* variance, T* out, int count, double eps) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < count) out[i] = (T)(1 / sqrt((double)variance[i] + eps));
}
template <class T> __device__ void scaled(T* x, int count, double factor) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < count) x[i] = (T)(x[i] * factor);
}
extern "C" __global__ void inverse_float(const float* v, float* out, int n, double eps) {
  inverse_deviations(v, out, n, eps);
}
extern "C" __global__ void inverse_double(const double* v, double* out, int n, double eps) {
  inverse_deviations(v, out, n, eps);
}
extern "C" __global__ void scaled_float(float* x, int n, double factor) { scaled(x, n, factor); }
extern "C" __global__ void scaled_double(double* x, int n, double factor) { scaled(x, n, factor); }
)";

LoadedModule kernels(const Device& device) {
  static std::mutex mutex;
  static auto* const all = new std::map<int, LoadedModule>;  // never destroyed, as devices
  const std::lock_guard lock(mutex);
  LoadedModule& own = (*all)[device.ordinal()];
  if (own == nullptr) {
    const std::string code = machine_code(kSource, {.architecture = device.architecture(), .flags = {}});
    check(driver().cuModuleLoadData(&own, code.data()), "cuModuleLoadData");
  }
  return own;
}

Function kernel(const Device& device, const char* name, DType dtype) {
  Function found = nullptr;
  const std::string full = fmt::format("{}_{}", name, dtype == DType::f64 ? "double" : "float");
  check(driver().cuModuleGetFunction(&found, kernels(device), full.c_str()), "cuModuleGetFunction");
  return found;
}

void launch(Function function, Stream stream, int count, void** parameters) {
  constexpr unsigned kThreads = 128;
  const unsigned groups = (static_cast<unsigned>(count) + kThreads - 1) / kThreads;
  check(driver().cuLaunchKernel(function, groups, 1, 1, kThreads, 1, 1, 0, stream, parameters, nullptr),
        "cuLaunchKernel");
}

// Batch, channels, rows, columns; an array whose channels are last is told with its rows and columns.
dnn::TensorRef tensor(const NormLayer& layer) {
  const auto axis = static_cast<std::size_t>(layer.axis), rank = layer.shape.size();
  std::int64_t before = 1, behind = 1;
  for (std::size_t i = 0; i < rank; ++i) (i < axis ? before : behind) *= i == axis ? 1 : layer.shape[i];
  const std::int64_t c = layer.channels();
  if (axis + 1 < rank)
    return dnn::new_tensor(layer.dtype, {before, c, behind, 1}, {c * behind, behind, 1, 1});
  const std::int64_t n = rank > 1 ? layer.shape[0] : 1, h = rank > 2 ? layer.shape[1] : 1,
                     w = before / (n * h);
  return dnn::new_tensor(layer.dtype, {n, c, h, w}, {h * w * c, 1, w * c, c});
}

class DnnNorm final : public DnnLayer {
 public:
  DnnNorm(const Device& device, const NormLayer& layer)
      : layer_(layer),
        wide_(layer.dtype == DType::f64 ? DType::f64 : DType::f32),
        x_(tensor(layer)),
        parameters_(dnn::new_tensor(wide_, {1, layer.channels(), 1, 1}, {layer.channels(), 1, 1, 1})) {
    if (layer.kind == Kind::grad) kernel_ = kernel(device, "inverse", wide_);
    if (layer.kind == Kind::train) kernel_ = kernel(device, "scaled", wide_);
  }

  std::int64_t workspace() const override { return layer_.kind == Kind::grad ? parameter_bytes() : 0; }

  void run(dnn::Handle handle, Stream stream, std::span<const Address> operands,
           std::span<const Address> results, Address workspace) const override {
    switch (layer_.kind) {
      case Kind::train: return train(handle, stream, operands, results);
      case Kind::inference: return infer(handle, operands, results);
      case Kind::grad: return differentiate(handle, stream, operands, results, workspace);
    }
  }

 private:
  static void* at(Address address) { return reinterpret_cast<void*>(address); }
  std::int64_t parameter_bytes() const {
    return layer_.channels() * static_cast<std::int64_t>(size_of(wide_));
  }
  const void* one() const {
    static constexpr float kOne = 1;
    static constexpr double kOneWide = 1;
    return wide_ == DType::f64 ? static_cast<const void*>(&kOneWide) : &kOne;
  }
  const void* zero() const {
    static constexpr double kZero = 0;  // a float's too
    return &kZero;
  }

  // x, scale, bias → y, mean, variance
  void train(dnn::Handle handle, Stream stream, std::span<const Address> in,
             std::span<const Address> out) const {
    // What was there counts nothing, unless it is no number.
    for (const Address statistic : {out[1], out[2]})
      check(driver().cuMemsetD8Async(statistic, 0, static_cast<std::size_t>(parameter_bytes()), stream),
            "cuMemsetD8Async");
    dnn::check(dnn::layers().cudnnBatchNormalizationForwardTraining(
                   handle, dnn::kBatchNormSpatial, one(), zero(), x_.get(), at(in[0]), x_.get(), at(out[0]),
                   parameters_.get(), at(in[1]), at(in[2]), 1.0, at(out[1]), at(out[2]), layer_.eps, nullptr,
                   nullptr),
               "cudnnBatchNormalizationForwardTraining");
    const auto count = static_cast<double>(layer_.count());
    double factor = (count - 1) / count;
    Address variance = out[2];
    int channels = static_cast<int>(layer_.channels());
    std::array<void*, 3> parameters{&variance, &channels, &factor};
    launch(kernel_, stream, channels, parameters.data());
  }

  // x, scale, bias, mean, variance → y
  void infer(dnn::Handle handle, std::span<const Address> in, std::span<const Address> out) const {
    dnn::check(dnn::layers().cudnnBatchNormalizationForwardInference(
                   handle, dnn::kBatchNormSpatial, one(), zero(), x_.get(), at(in[0]), x_.get(), at(out[0]),
                   parameters_.get(), at(in[1]), at(in[2]), at(in[3]), at(in[4]), layer_.eps),
               "cudnnBatchNormalizationForwardInference");
  }

  // grad, x, scale, mean, variance → dx, dscale, dbias
  void differentiate(dnn::Handle handle, Stream stream, std::span<const Address> in,
                     std::span<const Address> out, Address workspace) const {
    Address variance = in[4];
    int channels = static_cast<int>(layer_.channels());
    double eps = layer_.eps;
    std::array<void*, 4> parameters{&variance, &workspace, &channels, &eps};
    launch(kernel_, stream, channels, parameters.data());
    dnn::check(dnn::layers().cudnnBatchNormalizationBackward(
                   handle, dnn::kBatchNormSpatial, one(), zero(), one(), zero(), x_.get(), at(in[1]),
                   x_.get(), at(in[0]), x_.get(), at(out[0]), parameters_.get(), at(in[2]), at(out[1]),
                   at(out[2]), layer_.eps, at(in[3]), at(workspace)),
               "cudnnBatchNormalizationBackward");
  }

  const NormLayer layer_;
  const DType wide_;
  const dnn::TensorRef x_, parameters_;
  Function kernel_ = nullptr;
};

}  // namespace

std::unique_ptr<const DnnLayer> make_dnn_norm(const Device& device, const NormLayer& layer) {
  return std::make_unique<DnnNorm>(device, layer);
}

}  // namespace systole::cuda
