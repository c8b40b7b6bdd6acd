#include "backend/cuda/dnn_layers_api.h"

#include <fmt/format.h>

#include <limits>
#include <string>

#include "backend/cuda/dnn_plan.h"
#include "base/lasting.h"
#include "systole/base/error.h"

namespace systole::cuda::dnn {

namespace {

struct Found {
  Layers layers;
  std::string absence;
};

Found load() {
  Found made;
  if (made.absence = absence(); !made.absence.empty()) return made;
  const auto find = [&](auto& function, const char* name) {
    function = reinterpret_cast<std::decay_t<decltype(function)>>(symbol(name));
    if (function == nullptr && made.absence.empty()) made.absence = fmt::format("this cuDNN has no {}", name);
  };
#define SYSTOLE_DNN_FIND(name, parameters) find(made.layers.name, #name);
  SYSTOLE_DNN_LAYER_FUNCTIONS(SYSTOLE_DNN_FIND)
#undef SYSTOLE_DNN_FIND
  return made;
}

template <class Handle>
std::shared_ptr<std::remove_pointer_t<Handle>> made(int (*create)(Handle*), int (*destroy)(Handle),
                                                    const char* call) {
  Handle handle = nullptr;
  check(create(&handle), call);
  return {handle, [destroy](Handle each) { destroy(each); }};
}

std::vector<int> small(const std::vector<std::int64_t>& numbers) {
  std::vector<int> out;
  for (const std::int64_t number : numbers) {
    if (number > std::numeric_limits<int>::max())
      throw Error(ErrorKind::kUnsupported, "cudnn", "an array is too large for its layers");
    out.push_back(static_cast<int>(number));
  }
  return out;
}

}  // namespace

const Layers& layers() {
  static const Found& only = lasting<Found>(load());
  if (!only.absence.empty()) throw Error(ErrorKind::kUnsupported, "cudnn", only.absence);
  return only.layers;
}

TensorRef new_tensor() {
  return made(layers().cudnnCreateTensorDescriptor, layers().cudnnDestroyTensorDescriptor,
              "cudnnCreateTensorDescriptor");
}

TensorRef new_tensor(DType dtype, const std::vector<std::int64_t>& sizes,
                     const std::vector<std::int64_t>& strides) {
  TensorRef tensor = new_tensor();
  check(layers().cudnnSetTensorNdDescriptor(tensor.get(), type_number(dtype), static_cast<int>(sizes.size()),
                                            small(sizes).data(), small(strides).data()),
        "cudnnSetTensorNdDescriptor");
  return tensor;
}

PoolingRef new_pooling() {
  return made(layers().cudnnCreatePoolingDescriptor, layers().cudnnDestroyPoolingDescriptor,
              "cudnnCreatePoolingDescriptor");
}
RnnRef new_rnn() {
  return made(layers().cudnnCreateRNNDescriptor, layers().cudnnDestroyRNNDescriptor,
              "cudnnCreateRNNDescriptor");
}
RnnDataRef new_rnn_data() {
  return made(layers().cudnnCreateRNNDataDescriptor, layers().cudnnDestroyRNNDataDescriptor,
              "cudnnCreateRNNDataDescriptor");
}
DropoutRef new_dropout() {
  return made(layers().cudnnCreateDropoutDescriptor, layers().cudnnDestroyDropoutDescriptor,
              "cudnnCreateDropoutDescriptor");
}

}  // namespace systole::cuda::dnn
