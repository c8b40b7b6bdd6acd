#pragma once

// One user of a module at a time: its stream, arena and captured graphs.

#include <memory>

#include "backend/cuda/executor.h"

namespace systole::cuda {

std::unique_ptr<runtime::Session> make_session(std::shared_ptr<const Module> module);

runtime::BufferRef uploaded(const Literal& value, int ordinal);

}  // namespace systole::cuda
