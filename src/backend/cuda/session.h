#pragma once

// One user of a module at a time: its stream, arena and captured graphs.

#include <memory>

#include "backend/cuda/module.h"

namespace systole::cuda {

std::unique_ptr<runtime::Session> make_session(std::shared_ptr<const Module> module);

}  // namespace systole::cuda
