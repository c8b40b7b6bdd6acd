#pragma once

// Questions to libtpu's compiler, asked in a process of its own: libtpu reads variables that would mislead it
// about a TPU that is there, may end the process over a program it does not like, and keeps what it took.

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "backend/pjrt/discovery.h"
#include "backend/pjrt/facts.h"

namespace systole::pjrt {

struct TpuQuestion {
  PluginSpec plugin;
  struct Topology {
    std::string name, chip_config;
  };
  std::vector<Topology> topologies;
  std::string program;  // StableHLO to compile for the first topology; empty: only facts are asked for
  std::int64_t replicas = 1, partitions = 1;
};

struct TpuAnswer {
  std::vector<TopologyFacts> topologies;
  std::string too_large;  // the compiler's words for a program that does not fit in memory, else empty
  ProgramFacts program;
  std::string executable;
  double compile_seconds = 0;
};

// Throws libtpu's own error, or kUnsupported when it crashed, hung or left.
TpuAnswer ask_tpu_compiler(const TpuQuestion& question, std::chrono::milliseconds limit);

// The child's part, run as `systole tpu-question`: reads the question, writes the answer, ends the process.
inline constexpr const char* kTpuQuestionCommand = "tpu-question";
[[noreturn]] void answer_tpu_question();

}  // namespace systole::pjrt
