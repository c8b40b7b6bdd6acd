#pragma once

// Functions of cuDNN that its graphs do not replace: whole layers, with descriptors of their own. As in
// dnn_api.h, nothing of cuDNN is needed to build; tests/cuda compares the numbers with the headers.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "backend/cuda/dnn_api.h"
#include "systole/base/dtype.h"

namespace systole::cuda::dnn {

using TensorHandle = Opaque<struct TensorObject>;
using PoolingHandle = Opaque<struct PoolingObject>;
using RnnHandle = Opaque<struct RnnObject>;
using RnnDataHandle = Opaque<struct RnnDataObject>;
using DropoutHandle = Opaque<struct DropoutObject>;

enum LayerConstant : int {
  kPropagateNan = 1,
  kPoolingMax = 0,
  kPoolingAverageWithPadding = 1,
  kPoolingAverageWithoutPadding = 2,
  kBatchNormSpatial = 1,
  kRnnStandard = 0,
  kRnnLstm = 2,
  kRnnGru = 3,
  kRnnTwoBiases = 2,
  kRnnOneDirection = 0,
  kRnnLinearInput = 0,
  kRnnInference = 0,
  kRnnTraining = 1,
  kWeightGradAdd = 0,
  kRnnPacked = 1,  // the order of a sequence's arrays
  kMathDefault = 0,
  kMathTensorCores = 1,
  kMathExact = 3,
};

#define SYSTOLE_DNN_LAYER_FUNCTIONS(X)                                                                      \
  X(cudnnCreateTensorDescriptor, (TensorHandle*))                                                           \
  X(cudnnDestroyTensorDescriptor, (TensorHandle))                                                           \
  X(cudnnSetTensorNdDescriptor, (TensorHandle, int, int, const int*, const int*))                           \
  X(cudnnCreatePoolingDescriptor, (PoolingHandle*))                                                         \
  X(cudnnDestroyPoolingDescriptor, (PoolingHandle))                                                         \
  X(cudnnSetPoolingNdDescriptor, (PoolingHandle, int, int, int, const int*, const int*, const int*))        \
  X(cudnnPoolingForward,                                                                                    \
    (Handle, PoolingHandle, const void*, TensorHandle, const void*, const void*, TensorHandle, void*))      \
  X(cudnnPoolingBackward, (Handle, PoolingHandle, const void*, TensorHandle, const void*, TensorHandle,     \
                           const void*, TensorHandle, const void*, const void*, TensorHandle, void*))       \
  X(cudnnBatchNormalizationForwardTraining,                                                                 \
    (Handle, int, const void*, const void*, TensorHandle, const void*, TensorHandle, void*, TensorHandle,   \
     const void*, const void*, double, void*, void*, double, void*, void*))                                 \
  X(cudnnBatchNormalizationForwardInference,                                                                \
    (Handle, int, const void*, const void*, TensorHandle, const void*, TensorHandle, void*, TensorHandle,   \
     const void*, const void*, const void*, const void*, double))                                           \
  X(cudnnBatchNormalizationBackward,                                                                        \
    (Handle, int, const void*, const void*, const void*, const void*, TensorHandle, const void*,            \
     TensorHandle, const void*, TensorHandle, void*, TensorHandle, const void*, void*, void*, double,       \
     const void*, const void*))                                                                             \
  X(cudnnCreateDropoutDescriptor, (DropoutHandle*))                                                         \
  X(cudnnDestroyDropoutDescriptor, (DropoutHandle))                                                         \
  X(cudnnSetDropoutDescriptor, (DropoutHandle, Handle, float, void*, std::size_t, unsigned long long))      \
  X(cudnnCreateRNNDescriptor, (RnnHandle*))                                                                 \
  X(cudnnDestroyRNNDescriptor, (RnnHandle))                                                                 \
  X(cudnnSetRNNDescriptor_v8, (RnnHandle, int, int, int, int, int, int, int, int, std::int32_t,             \
                               std::int32_t, std::int32_t, std::int32_t, DropoutHandle, std::uint32_t))     \
  X(cudnnCreateRNNDataDescriptor, (RnnDataHandle*))                                                         \
  X(cudnnDestroyRNNDataDescriptor, (RnnDataHandle))                                                         \
  X(cudnnSetRNNDataDescriptor, (RnnDataHandle, int, int, int, int, int, const int*, void*))                 \
  X(cudnnGetRNNTempSpaceSizes, (Handle, RnnHandle, int, RnnDataHandle, std::size_t*, std::size_t*))         \
  X(cudnnGetRNNWeightSpaceSize, (Handle, RnnHandle, std::size_t*))                                          \
  X(cudnnGetRNNWeightParams, (Handle, RnnHandle, std::int32_t, std::size_t, const void*, std::int32_t,      \
                              TensorHandle, void**, TensorHandle, void**))                                  \
  X(cudnnRNNForward, (Handle, RnnHandle, int, const std::int32_t*, RnnDataHandle, const void*,              \
                      RnnDataHandle, void*, TensorHandle, const void*, void*, TensorHandle, const void*,    \
                      void*, std::size_t, const void*, std::size_t, void*, std::size_t, void*))             \
  X(cudnnRNNBackwardData_v8,                                                                                \
    (Handle, RnnHandle, const std::int32_t*, RnnDataHandle, const void*, const void*, RnnDataHandle, void*, \
     TensorHandle, const void*, const void*, void*, TensorHandle, const void*, const void*, void*,          \
     std::size_t, const void*, std::size_t, void*, std::size_t, void*))                                     \
  X(cudnnRNNBackwardWeights_v8,                                                                             \
    (Handle, RnnHandle, int, const std::int32_t*, RnnDataHandle, const void*, TensorHandle, const void*,    \
     RnnDataHandle, const void*, std::size_t, void*, std::size_t, void*, std::size_t, void*))

struct Layers {
#define SYSTOLE_DNN_MEMBER(name, parameters) int(*name) parameters = nullptr;
  SYSTOLE_DNN_LAYER_FUNCTIONS(SYSTOLE_DNN_MEMBER)
#undef SYSTOLE_DNN_MEMBER
};
const Layers& layers();  // throws kUnsupported without cuDNN, and when it lacks one of them

// Descriptors, freed with the last who has them. Sizes in cuDNN's order: N, C, then the rest.
using TensorRef = std::shared_ptr<TensorObject>;
using PoolingRef = std::shared_ptr<PoolingObject>;
using RnnRef = std::shared_ptr<RnnObject>;
using RnnDataRef = std::shared_ptr<RnnDataObject>;
using DropoutRef = std::shared_ptr<DropoutObject>;
TensorRef new_tensor(DType dtype, const std::vector<std::int64_t>& sizes,
                     const std::vector<std::int64_t>& strides);
TensorRef new_tensor();  // to be filled
PoolingRef new_pooling();
RnnRef new_rnn();
RnnDataRef new_rnn_data();
DropoutRef new_dropout();

}  // namespace systole::cuda::dnn
