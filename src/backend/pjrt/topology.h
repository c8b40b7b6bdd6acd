#pragma once

// Compiling for devices that are not there: a plugin's description of a topology, and programs compiled for
// it with what the plugin's compiler says of them. A plugin may wait, crash or end the process meanwhile, so
// this is done in a child process (tpu_child.h).

#include <string>

#include "backend/pjrt/api.h"
#include "backend/pjrt/client.h"
#include "backend/pjrt/facts.h"

namespace systole::pjrt {

class TopologyDescription {
 public:
  // `chip_config` chooses among the ways a chip shows its cores; empty: the plugin's default.
  TopologyDescription(const Api& api, const std::string& name, const std::string& chip_config);

  TopologyFacts facts() const;
  CompiledExecutable compile(const std::string& stablehlo, const Layout& layout) const;

 private:
  using Handle = pjrt::Handle<PJRT_TopologyDescription, PJRT_TopologyDescription_Destroy_Args,
                              &PJRT_Api::PJRT_TopologyDescription_Destroy,
                              &PJRT_TopologyDescription_Destroy_Args::topology,
                              PJRT_TopologyDescription_Destroy_Args_STRUCT_SIZE>;
  const Api& api_;
  Handle topology_;
};

ProgramFacts facts_of(const Api& api, const CompiledExecutable& program);
std::string serialized(const Api& api, const CompiledExecutable& program);

}  // namespace systole::pjrt
