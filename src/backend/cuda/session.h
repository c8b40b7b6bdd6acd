#pragma once

// One user of a module at a time: its stream, arena and captured graphs.

#include <memory>

#include "backend/cuda/executor.h"

namespace systole::cuda {

std::unique_ptr<runtime::Session> make_session(std::shared_ptr<const Module> module);

runtime::BufferRef uploaded(const Literal& value, const Device& device);

// On the device; by the GPUs themselves when both buffers are theirs and they can.
runtime::BufferRef copied(const runtime::Buffer& buffer, const Device& device);

}  // namespace systole::cuda
