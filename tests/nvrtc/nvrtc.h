#pragma once

// The part of NVRTC that the tests call, and the kernels of a fixture in CUDA.

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "codegen/kernel.h"
#include "compile/program.h"
#include "fixture.h"

namespace systole::nvrtc {

struct Api {
  using Program = void*;
  int (*create)(Program*, const char*, const char*, int, const char* const*, const char* const*) = nullptr;
  int (*compile)(Program, int, const char* const*) = nullptr;
  int (*log_size)(Program, std::size_t*) = nullptr;
  int (*log)(Program, char*) = nullptr;
  int (*code_size)(Program, std::size_t*) = nullptr;
  int (*code)(Program, char*) = nullptr;
  int (*destroy)(Program*) = nullptr;
};

// Null when the library is not on this machine.
const Api* find();

// Machine code for an architecture such as "sm_90". Throws what the compiler says.
std::vector<char> machine_code(const Api& api, const std::string& source, const std::string& architecture);

lower::Program program_of(const ir::Graph& graph, bool optimize);  // for a GPU

// Nothing for a fixture of several devices.
std::optional<lower::Program> program_of(const conformance::Fixture& fixture, bool optimize);

// SYSTOLE_TEST_SHARD, "1/4": the part of the work that this process has.
struct Shard {
  std::size_t index = 0, count = 1;
};
Shard shard();

}  // namespace systole::nvrtc
