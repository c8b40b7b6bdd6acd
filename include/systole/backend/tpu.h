#pragma once

// TPUs: where one is, and what its compiler makes of a program when none is there.
//
//   tpu::Cluster at = tpu::resolve();                       // what the environment of this machine says
//   tpu::Report report = tpu::compile(step.graph(x, y), "v5e:2x2");
//   if (!report.fits()) …                                   // bytes of memory, FLOPs, seconds, per device
//
// Running on a TPU that is there needs nothing of this: its device is "tpu".

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "systole/base/export.h"
#include "systole/ir/graph.h"

namespace systole::tpu {

// The workers of a TPU slice, and which of them this process is.
struct SYSTOLE_API Cluster {
  std::string name;                  // "local", or as asked
  std::string accelerator;           // "v5litepod-4"; empty when nothing says it
  std::vector<std::string> workers;  // host or host:port, in order, at least one
  int worker = 0;                    // this one
  int slices = 1, slice = 0;         // of a program over several slices, and this one
  std::string source;  // what said so: "device files", "TPU_WORKER_HOSTNAMES", "metadata server"
  bool several_hosts() const { return workers.size() > 1 || slices > 1; }
};

enum class Metadata { ignore, ask };  // whether to ask the cloud's metadata server, which may take seconds

// `name`: empty, "local" or "tpu" for this machine's TPU; else the name of the TPU VM that this machine is,
// or the "host:port" of one of its workers. An empty one is TPU_NAME. What there is comes from
// TPU_PROCESS_ADDRESSES and CLOUD_TPU_TASK_ID, TPU_WORKER_HOSTNAMES and TPU_WORKER_ID, TPU_ACCELERATOR_TYPE,
// MEGASCALE_NUM_SLICES and MEGASCALE_SLICE_ID, from device files, and when asked from the metadata server,
// which fills in what no variable says. Throws kNotFound when nothing says that there is a TPU;
// kInvalidArgument for variables that contradict each other; kUnsupported with advice for a "grpc://"
// address, which belongs to TPU nodes, which no longer exist, and for another machine's address; kIo, kParse
// and kLimit for a metadata server that is not there or talks nonsense.
SYSTOLE_API Cluster resolve(std::string_view name = {}, Metadata metadata = Metadata::ignore);

// A slice that the TPU compiler knows. Peaks are the published ones.
struct SYSTOLE_API Topology {
  std::string name;            // "v5e:2x2": the kind of chip and how many stand side by side
  std::string chip;            // "TPU v5 lite"
  int devices = 0;             // that a program sees: chips, or their halves
  std::int64_t hbm_bytes = 0;  // of one device: what programs can use, by libtpu when it is there
  double bf16_flops = 0;       // peak of one device, per second
  double hbm_bytes_per_s = 0;  // of one device
  int matrix_unit = 128;       // its side

  double ridge() const { return bf16_flops / hbm_bytes_per_s; }  // below this intensity memory limits
};
SYSTOLE_API std::vector<Topology> topologies();  // the usual ones
// Also of other sizes than the usual. Throws kNotFound listing the known ones for another chip, and
// kInvalidArgument for a size libtpu has not.
SYSTOLE_API Topology topology(std::string_view name);

// A contraction, M×K by K×N on one device, whose sizes do not fill the matrix unit: K and one of M and N are
// padded to its side, the other to 8 rows (16 of 2 bytes). The compiler may swap the sides, so the better way
// round counts, and the kernel of a convolution counts as part of K.
struct Waste {
  std::string where;        // the op, its scope when it has one, and its types
  std::string advice;       // what to change
  std::int64_t count = 1;   // how often such a one is run
  double flops = 0;         // of all of them, needed
  double padded_flops = 0;  // … and done
};

// Where a time comes from: the compiler, or FLOPs and bytes over the chip's peaks where that is more, since
// the compiler has no figure or leaves out what f32 contractions and loops cost.
enum class Estimate { compiler, roofline };

// Figures are of one device and one run of the program, and the compiler's own but for those of Waste and, in
// programs with loops, FLOPs.
struct SYSTOLE_API Report {
  Topology topology;
  int devices = 1;  // that run the program
  std::int64_t argument_bytes = 0, output_bytes = 0, alias_bytes = 0, temporary_bytes = 0, code_bytes = 0;
  std::int64_t refused_bytes = 0;  // what a program needs that does not fit; the other figures are then 0
  double flops = 0, bytes_accessed = 0;
  double seconds = 0;  // of a run, at best
  Estimate estimate = Estimate::compiler;
  int untimed_ops = 0;       // that the compiler has no time for; they are not in its estimate
  bool loops_once = false;   // the compiler counted the bodies of loops once: bytes and seconds are too small
  std::vector<Waste> waste;  // the largest first
  std::vector<std::string> advice;  // on dtypes
  std::string executable;           // serialised, for a TPU of this topology
  double compile_seconds = 0;

  std::int64_t peak_bytes() const;  // everything that must be there at once
  bool fits() const { return refused_bytes == 0 && peak_bytes() <= topology.hbm_bytes; }
  double intensity() const;  // FLOPs per byte of memory moved
  bool compute_bound() const { return intensity() >= topology.ridge(); }
};

// Compiles for every device of the topology: a graph with a mesh of its size is split as it says, one without
// runs on one device. Needs libtpu (scripts/setup fetches it), no TPU; libtpu runs in a process of its own,
// for at most SYSTOLE_TPU_TIMEOUT seconds (1800). A program that does not fit is a Report that says so.
// Throws kUnsupported without libtpu, and with the compiler's words for what it refuses.
SYSTOLE_API Report compile(const ir::Graph& graph, std::string_view topology);

}  // namespace systole::tpu
