#pragma once

// LSTMs over whole sequences as one kernel each way, on cards whose blocks make clusters, in tf32.

#include <memory>

#include "backend/cuda/device.h"
#include "backend/cuda/library_call.h"
#include "backend/patterns/recurrence.h"
#include "compile/target.h"
#include "systole/runtime.h"

namespace systole::cuda {

inline constexpr const char* kLstm = "systole.lstm";

// Whether there are kernels for it, which may compile them.
bool suits_lstm(const Device& device, const patterns::LstmLoop& loop, runtime::Math math);

lower::Claim lstm_offer(const Device& device, const lower::Region& region, runtime::Math math);
std::shared_ptr<const LibraryCall> lstm_call(const Device& device, const lower::Region& region);

}  // namespace systole::cuda
