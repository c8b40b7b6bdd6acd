#pragma once

// Convolutions and their gradients by cuDNN 9. Every distinct one has a plan, which is made once: several
// engines are tried and the fastest is taken, and remembered on disk.

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "backend/cuda/device.h"
#include "backend/cuda/dnn_convolution.h"
#include "backend/cuda/library_call.h"
#include "backend/cuda/tuning.h"
#include "backend/patterns/convolution.h"
#include "compile/target.h"
#include "systole/runtime.h"

namespace systole::cuda {

std::string dnn_absence();  // empty when there is a cuDNN

// How exact and repeatable plans must be.
struct DnnWishes {
  runtime::Math math = runtime::Math::f32;
  bool is_deterministic = false;
};

// Makes the plans of all convolutions of the graph, on several threads, before they are asked for one by one.
void dnn_prepare(const Device& device, const ir::Graph& graph, const DnnWishes& wishes,
                 const std::function<bool(const lower::Region&)>& is_wanted);

// As many channels as the forward convolution's image, or weight gradient's, should have: its own, or more,
// filled with zeros, when that is faster.
std::int64_t dnn_channels(const Device& device, const patterns::Convolution& convolution,
                          const DnnWishes& wishes);
// What is asked for that: `ways` are the convolution with its own channels and with more.
Question channels_question(const std::vector<DnnConvolution>& ways, std::size_t version);

// What cuDNN offers for a region whose anchor is a convolution; it has made its plan then.
lower::Claim dnn_offer(const Device& device, const lower::Region& region, const DnnWishes& wishes);
std::shared_ptr<const LibraryCall> dnn_call(const Device& device, const lower::Region& region,
                                            const DnnWishes& wishes);

}  // namespace systole::cuda
