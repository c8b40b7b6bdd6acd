#pragma once

// Whole layers by cuDNN: pooling, batch norms, recurrent nets. Generated kernels do the same and share their
// passes over memory with what stands beside them, so a layer is taken where it was measured to be faster,
// and where SYSTOLE_CUDA_PREFER asks for it: a list such as "cudnn.batch_norm,cudnn.pooling"; "-cudnn.rnn"
// is against one.

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "backend/cuda/device.h"
#include "backend/cuda/dnn.h"
#include "backend/cuda/dnn_layers_api.h"
#include "backend/cuda/library_call.h"
#include "backend/patterns/layers.h"
#include "compile/target.h"

namespace systole::cuda {

// A layer with its descriptors. `run` has the handle, whose stream is set, to itself.
class DnnLayer {
 public:
  virtual ~DnnLayer() = default;
  virtual std::int64_t workspace() const { return 0; }
  // Arrays by operand and by result.
  virtual void run(dnn::Handle handle, Stream stream, std::span<const Address> operands,
                   std::span<const Address> results, Address workspace) const = 0;
};
std::unique_ptr<const DnnLayer> make_dnn_pooling(const patterns::PoolingLayer& layer);
std::unique_ptr<const DnnLayer> make_dnn_norm(const Device& device, const patterns::NormLayer& layer);
std::unique_ptr<const DnnLayer> make_dnn_rnn(dnn::Handle handle, const patterns::RecurrentLayer& layer,
                                             runtime::Math math);

// Why a layer is left to generated kernels; empty when it is not. Throws kInvalidArgument for a list in
// SYSTOLE_CUDA_PREFER that names something else.
std::string layer_refusal(const patterns::Layer& layer);

// What cuDNN offers for a region whose anchor is_layer(); it has run it once then.
lower::Claim dnn_layer_offer(const Device& device, const lower::Region& region, const DnnWishes& wishes);
std::shared_ptr<const LibraryCall> dnn_layer_call(const Device& device, const lower::Region& region,
                                                  const DnnWishes& wishes);
bool is_dnn_layer(std::string_view implementation);

}  // namespace systole::cuda
