#pragma once

// A program compiled by a plugin, and its runs. A run is handed to the plugin and returns at once; what fails
// later is in the results, and reading them throws it. An argument that is donated gives its memory to the
// result its input aliases; the same Buffer then holds that result, so a Variable stays where it is.

#include <memory>
#include <string>
#include <vector>

#include "backend/pjrt/array.h"
#include "backend/pjrt/client.h"
#include "systole/runtime.h"

namespace systole::pjrt {

struct Program {
  std::shared_ptr<const Client> client;
  LoadedExecutable executable;
  DeviceName first;                   // the device of the first list's results
  std::vector<std::string> names;     // of inputs
  std::vector<Type> inputs, outputs;  // as the caller sees them
  std::vector<std::int64_t> aliases;  // by input: the output that may take its memory, or -1
  std::vector<std::vector<PlacementRef>> arguments, results;  // by argument list, then input or output
  std::size_t lists = 1;                                      // argument lists of a run
  std::size_t devices = 1;
  std::string label = "run";           // of a run on the timeline
  std::vector<DeviceName> devices_of;  // by argument list, of its results; make_executable() fills it
};

std::shared_ptr<const runtime::Executable> make_executable(Program program);

}  // namespace systole::pjrt
