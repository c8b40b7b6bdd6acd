#pragma once

// TPUs: where one is, and what its compiler makes of a program when none is there.
//
//   tpu::Address at = tpu::resolve();                       // what the environment of this machine says
//   tpu::Report report = tpu::compile(step.graph(x, y), "v5e:2x2");
//   if (!report.fits()) …                                   // bytes of memory, FLOPs, seconds, per device
//
// Running on a TPU that is there needs nothing of this: its device is "tpu".

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "systole/base/export.h"
#include "systole/ir/graph.h"

namespace systole::tpu {

// The hosts of a TPU slice, and which of them this process is.
struct SYSTOLE_API Address {
  std::string name;                  // "local", or as asked
  std::string accelerator;           // "v5litepod-4"; empty when nothing says it
  std::vector<std::string> workers;  // host names in order, at least one
  int worker = 0;
  std::string source;  // what said so: "TPU_NAME", "metadata server", "device files"
  bool several_hosts() const { return workers.size() > 1; }
};

enum class Metadata { ignore, ask };  // whether to ask the cloud's metadata server, which may take seconds

// `name`: empty or "local" for this machine's own TPU; else the name of a TPU VM or slice, or "host" / "host:port".
// What is empty comes from TPU_NAME, TPU_ACCELERATOR_TYPE, TPU_WORKER_HOSTNAMES and TPU_WORKER_ID. Throws
// kNotFound when nothing says that there is a TPU, kInvalidArgument for variables that contradict each other, and
// kUnsupported with advice for a "grpc://" address, which belongs to TPU nodes, which no longer exist.
SYSTOLE_API Address resolve(std::string_view name = {}, Metadata metadata = Metadata::ignore);

// A slice that the TPU compiler knows.
struct SYSTOLE_API Topology {
  std::string name;              // "v5e:2x2"
  std::string chip;              // "TPU v5 lite"
  int devices = 0;               // that a program sees
  std::int64_t hbm_bytes = 0;    // of one device
  double bf16_flops = 0;         // peak of one device, per second
  double hbm_bytes_per_s = 0;    // of one device
};
SYSTOLE_API std::vector<Topology> topologies();
SYSTOLE_API Topology topology(std::string_view name);  // throws kNotFound listing the known ones

// A contraction whose sizes do not fill the matrix unit.
struct Waste {
  std::string where;       // the op, its debug name when it has one, and its shapes
  std::int64_t count = 1;  // how often such a one stands in the program
  double flops = 0;        // of all of them, needed
  double padded_flops = 0;  // … and done with every size padded to the unit's tiles
};

// Figures are of one device and one run of the program; every one is the compiler's own but those of Waste.
struct SYSTOLE_API Report {
  Topology topology;
  std::int64_t argument_bytes = 0, output_bytes = 0, alias_bytes = 0, temporary_bytes = 0, code_bytes = 0;
  double flops = 0, bytes_accessed = 0;
  double seconds = 0;  // what the compiler expects a run to take at best
  std::vector<Waste> waste;  // the largest first
  std::string executable;    // serialised, for a TPU of this topology
  double compile_seconds = 0;

  std::int64_t peak_bytes() const;  // everything that must be there at once
  bool fits() const { return peak_bytes() <= topology.hbm_bytes; }
  double intensity() const;  // FLOPs per byte of memory moved
};

// Compiles for every device of the topology: a graph with a mesh of its size is split as it says, one without runs on one
// device. Needs libtpu (scripts/setup fetches it), no TPU. A program that does not fit is a Report that says so when the
// compiler tells how much it needs. Throws kUnsupported without libtpu, and with the compiler's words for what it
// refuses.
SYSTOLE_API Report compile(const ir::Graph& graph, std::string_view topology);

}  // namespace systole::tpu
