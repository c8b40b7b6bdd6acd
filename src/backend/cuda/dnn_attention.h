#pragma once

// Attention and its gradient by cuDNN 9, as flash attention: the scores are never in memory, and the way back
// computes them again from the log-sum-exp.

#include <cstddef>
#include <memory>
#include <string>

#include "backend/cuda/device.h"
#include "backend/cuda/dnn.h"
#include "backend/cuda/library_call.h"
#include "backend/patterns/attention.h"
#include "compile/target.h"

namespace systole::cuda {

// Why cuDNN of this version (91400) has no plan for it on such a GPU (90); empty when it should have one.
std::string dnn_attention_refusal(const patterns::Attention& attention, std::size_t version, int capability);

// What cuDNN offers for a region whose anchor is attention or its gradient; it has made its plan then.
lower::Claim dnn_attention_offer(const Device& device, const lower::Region& region, const DnnWishes& wishes);
std::shared_ptr<const LibraryCall> dnn_attention_call(const Device& device, const lower::Region& region,
                                                      const DnnWishes& wishes);

}  // namespace systole::cuda
