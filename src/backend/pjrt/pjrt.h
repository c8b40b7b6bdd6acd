#pragma once

// Any PJRT plugin (TPU, XLA on CPU or GPU) as a backend: graphs go to it as StableHLO text. Each plugin found
// is "pjrt:NAME"; libtpu's is "tpu" too. A plugin is tried and loaded when its devices are first asked for;
// one that is broken has no devices and a reason.

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "backend/pjrt/discovery.h"
#include "codegen/stablehlo.h"
#include "systole/runtime.h"

namespace systole::pjrt {

void register_backends();

// A backend of its own for one plugin, as tests want it.
std::unique_ptr<runtime::Backend> make_backend(const PluginSpec& spec);

// A program given as StableHLO text, with the types of its inputs and outputs; `aliases` as in
// ir::InputAttrs.
struct TextProgram {
  std::string text;
  std::vector<Type> inputs, outputs;
  std::vector<std::int64_t> aliases;
  std::int64_t replicas = 1;
};
std::shared_ptr<const runtime::Executable> compile_text(runtime::Backend& backend, TextProgram program,
                                                        int ordinal = 0);
// As Backend::compile(), with the shardings in this form only.
std::shared_ptr<const runtime::Executable> compile_graph(runtime::Backend& backend, const ir::Graph& graph,
                                                         codegen::Partitioner partitioner);

}  // namespace systole::pjrt
