// LSTM and GRU over whole sequences by cuDNN. Its gates come in the graph's order (i f g o, r z n) and its
// matrices are row-major too, but all weights must lie in one array in an order of its own: they are copied
// there before each run, and their gradients from there after it. A gradient needs what the forward net
// left in a reserve of cuDNN's, which no graph has: it runs the forward net once more.

#include <algorithm>
#include <array>
#include <utility>
#include <vector>

#include "backend/cuda/dnn_layers.h"
#include "backend/cuda/dnn_plan.h"
#include "systole/base/error.h"

namespace systole::cuda {

using namespace patterns;

namespace {

std::int64_t aligned(std::size_t bytes) { return dnn::in_workspace(static_cast<std::int64_t>(bytes)); }

class DnnRnn final : public DnnLayer {
 public:
  DnnRnn(dnn::Handle handle, const RecurrentLayer& layer, runtime::Math math)
      : layer_(layer), dropout_(dnn::new_dropout()), rnn_(dnn::new_rnn()) {
    const dnn::Layers& api = dnn::layers();
    dnn::check(api.cudnnSetDropoutDescriptor(dropout_.get(), handle, 0, nullptr, 0, 0),
               "cudnnSetDropoutDescriptor");
    const bool is_double = layer.dtype == DType::f64, is_float = layer.dtype == DType::f32;
    const int units = is_double                     ? dnn::kMathDefault
                      : !is_float                   ? dnn::kMathTensorCores
                      : math == runtime::Math::tf32 ? dnn::kMathDefault
                                                    : dnn::kMathExact;
    const auto hidden = static_cast<std::int32_t>(layer.hidden);
    dnn::check(api.cudnnSetRNNDescriptor_v8(
                   rnn_.get(), dnn::kRnnStandard, layer.is_lstm ? dnn::kRnnLstm : dnn::kRnnGru,
                   dnn::kRnnTwoBiases, dnn::kRnnOneDirection, dnn::kRnnLinearInput,
                   dnn::type_number(layer.dtype), is_double ? dnn::kDouble : dnn::kFloat, units,
                   static_cast<std::int32_t>(layer.inputs), hidden, hidden, 1, dropout_.get(), 0),
               "cudnnSetRNNDescriptor_v8");
    x_ = sequence(layer.inputs);
    y_ = sequence(layer.hidden);
    state_ = dnn::new_tensor(layer.dtype, {1, layer.batch, layer.hidden},
                             {layer.batch * layer.hidden, layer.hidden, 1});
    dnn::check(
        api.cudnnGetRNNTempSpaceSizes(handle, rnn_.get(), mode(), x_.get(), &scratch_bytes_, &reserve_bytes_),
        "cudnnGetRNNTempSpaceSizes");
    if (!layer.is_grad) reserve_bytes_ = 0;
    dnn::check(api.cudnnGetRNNWeightSpaceSize(handle, rnn_.get(), &weight_bytes_),
               "cudnnGetRNNWeightSpaceSize");
    plan_copies(handle);
    scratch_at_ = aligned(weight_bytes_);
    std::int64_t end = scratch_at_ + aligned(scratch_bytes_);
    if (layer.is_grad) {
      reserve_at_ = end;
      weight_grad_at_ = reserve_at_ + aligned(reserve_bytes_);
      y_at_ = weight_grad_at_ + aligned(weight_bytes_);
      end = y_at_ + aligned(static_cast<std::size_t>(layer.length * layer.batch * layer.hidden) *
                            size_of(layer.dtype));
    }
    workspace_ = end;
  }

  std::int64_t workspace() const override { return workspace_; }

  void run(dnn::Handle handle, Stream stream, std::span<const Address> operands,
           std::span<const Address> results, Address workspace) const override {
    const std::span<const Address> layer = operands.subspan(layer_.first());
    const std::span<const Address> weights = layer.subspan(1 + layer_.states());
    for (const Copy& copy : copies_)
      check(driver().cuMemcpyDtoDAsync(workspace + copy.place, weights[copy.array] + copy.offset, copy.bytes,
                                       stream),
            "cuMemcpyDtoDAsync");
    if (layer_.is_grad) return differentiate(handle, stream, operands, results, workspace);
    const bool has_cell = layer_.is_lstm;
    forward(handle, layer, results[0], results[1], has_cell ? results[2] : 0, workspace);
  }

 private:
  // Neighbours in an array of weights, and in cuDNN's.
  struct Copy {
    std::size_t array = 0;          // w, r, w_bias, r_bias
    Address offset = 0, place = 0;  // in bytes
    std::size_t bytes = 0;
  };

  static void* at(Address address) { return reinterpret_cast<void*>(address); }
  static void* at(Address address, std::int64_t offset) {
    return reinterpret_cast<void*>(address + static_cast<Address>(offset));
  }
  int mode() const { return layer_.is_grad ? dnn::kRnnTraining : dnn::kRnnInference; }
  void* reserve(Address workspace) const { return layer_.is_grad ? at(workspace, reserve_at_) : nullptr; }

  // The layer's own operands; last states that are 0 are not wanted.
  void forward(dnn::Handle handle, std::span<const Address> layer, Address y, Address h, Address c,
               Address workspace) const {
    dnn::check(dnn::layers().cudnnRNNForward(handle, rnn_.get(), mode(), nullptr, x_.get(), at(layer[0]),
                                             y_.get(), at(y), state_.get(), at(layer[1]), at(h), state_.get(),
                                             layer_.is_lstm ? at(layer[2]) : nullptr, at(c), weight_bytes_,
                                             at(workspace), scratch_bytes_, at(workspace, scratch_at_),
                                             reserve_bytes_, reserve(workspace)),
               "cudnnRNNForward");
  }

  // grads of y, h and c; y; then the layer's operands → their gradients
  void differentiate(dnn::Handle handle, Stream stream, std::span<const Address> operands,
                     std::span<const Address> results, Address workspace) const {
    const std::span<const Address> layer = operands.subspan(layer_.first());
    const Address y = workspace + static_cast<Address>(y_at_);
    const bool has_cell = layer_.is_lstm;
    forward(handle, layer, y, 0, 0, workspace);
    dnn::check(dnn::layers().cudnnRNNBackwardData_v8(
                   handle, rnn_.get(), nullptr, y_.get(), at(y), at(operands[0]), x_.get(), at(results[0]),
                   state_.get(), at(layer[1]), at(operands[1]), at(results[1]), state_.get(),
                   has_cell ? at(layer[2]) : nullptr, has_cell ? at(operands[2]) : nullptr,
                   has_cell ? at(results[2]) : nullptr, weight_bytes_, at(workspace), scratch_bytes_,
                   at(workspace, scratch_at_), reserve_bytes_, reserve(workspace)),
               "cudnnRNNBackwardData_v8");
    const Address weight_grads = workspace + static_cast<Address>(weight_grad_at_);
    check(driver().cuMemsetD8Async(weight_grads, 0, weight_bytes_, stream), "cuMemsetD8Async");
    dnn::check(dnn::layers().cudnnRNNBackwardWeights_v8(
                   handle, rnn_.get(), dnn::kWeightGradAdd, nullptr, x_.get(), at(layer[0]), state_.get(),
                   at(layer[1]), y_.get(), at(y), weight_bytes_, at(weight_grads), scratch_bytes_,
                   at(workspace, scratch_at_), reserve_bytes_, reserve(workspace)),
               "cudnnRNNBackwardWeights_v8");
    const std::span<const Address> grads = results.subspan(1 + layer_.states());
    for (const Copy& copy : copies_)
      check(driver().cuMemcpyDtoDAsync(grads[copy.array] + copy.offset, weight_grads + copy.place, copy.bytes,
                                       stream),
            "cuMemcpyDtoDAsync");
  }

  dnn::RnnDataRef sequence(std::int64_t width) const {
    dnn::RnnDataRef made = dnn::new_rnn_data();
    const std::vector<int> lengths(static_cast<std::size_t>(layer_.batch), static_cast<int>(layer_.length));
    dnn::check(dnn::layers().cudnnSetRNNDataDescriptor(made.get(), dnn::type_number(layer_.dtype),
                                                       dnn::kRnnPacked, static_cast<int>(layer_.length),
                                                       static_cast<int>(layer_.batch),
                                                       static_cast<int>(width), lengths.data(), nullptr),
               "cudnnSetRNNDataDescriptor");
    return made;
  }

  // Where each gate's weights go; what is neighbours in both places is one copy.
  void plan_copies(dnn::Handle handle) {
    const auto size = static_cast<Address>(size_of(layer_.dtype));
    constexpr std::size_t w = 0, r = 1, w_bias = 2, r_bias = 3;
    const dnn::TensorRef matrix = dnn::new_tensor(), bias = dnn::new_tensor();
    // Only places in it are asked for, so there need not be memory.
    char* const base = reinterpret_cast<char*>(std::uintptr_t{1} << 30);
    for (const bool is_recurrent : {false, true})
      for (std::int64_t gate = 0; gate < layer_.gates(); ++gate) {
        void *matrix_at = nullptr, *bias_at = nullptr;
        const auto number = static_cast<std::int32_t>(gate + (is_recurrent ? layer_.gates() : 0));
        dnn::check(dnn::layers().cudnnGetRNNWeightParams(handle, rnn_.get(), 0, weight_bytes_, base, number,
                                                         matrix.get(), &matrix_at, bias.get(), &bias_at),
                   "cudnnGetRNNWeightParams");
        if (matrix_at == nullptr || bias_at == nullptr)
          throw Error(ErrorKind::kUnsupported, "cudnn", "it has no place for a gate's weights");
        const auto place = [&](const void* at) {
          return static_cast<Address>(static_cast<const char*>(at) - base);
        };
        const auto index = static_cast<Address>(gate), hidden = static_cast<Address>(layer_.hidden),
                   width = static_cast<Address>(is_recurrent ? layer_.hidden : layer_.inputs);
        add({is_recurrent ? r : w, index * hidden * width * size, place(matrix_at), hidden * width * size});
        add({is_recurrent ? r_bias : w_bias, index * hidden * size, place(bias_at), hidden * size});
      }
    std::sort(copies_.begin(), copies_.end(), [](const Copy& a, const Copy& b) { return a.place < b.place; });
    std::vector<Copy> joined;
    for (const Copy& copy : copies_) {
      Copy* const last = joined.empty() ? nullptr : &joined.back();
      if (last != nullptr && last->array == copy.array && last->offset + last->bytes == copy.offset &&
          last->place + last->bytes == copy.place)
        last->bytes += copy.bytes;
      else
        joined.push_back(copy);
    }
    copies_ = std::move(joined);
  }

  void add(const Copy& copy) {
    if (copy.place + copy.bytes > weight_bytes_)
      throw Error(ErrorKind::kInternal, "cudnn", "a gate's weights lie outside of its array");
    copies_.push_back(copy);
  }

  const RecurrentLayer layer_;
  const dnn::DropoutRef dropout_;
  const dnn::RnnRef rnn_;
  dnn::RnnDataRef x_, y_;
  dnn::TensorRef state_;
  std::size_t scratch_bytes_ = 0, reserve_bytes_ = 0, weight_bytes_ = 0;
  std::int64_t scratch_at_ = 0, reserve_at_ = 0, weight_grad_at_ = 0, y_at_ = 0;  // weights come first
  std::int64_t workspace_ = 0;
  std::vector<Copy> copies_;
};

}  // namespace

std::unique_ptr<const DnnLayer> make_dnn_rnn(dnn::Handle handle, const RecurrentLayer& layer,
                                             runtime::Math math) {
  if (dnn::type_number(layer.dtype) < 0)
    throw Error(ErrorKind::kUnsupported, "cudnn", "no recurrent nets of this dtype", {},
                std::string(systole::name(layer.dtype)));
  return std::make_unique<DnnRnn>(handle, layer, math);
}

}  // namespace systole::cuda
