#pragma once

// Running graphs: pick a device by name, compile a graph for it, run the executable.
//
//   CompiledGraph affine = compile(graph, "reference");
//   std::vector<Literal> results = affine.run({x, w});
//
// A CompiledGraph is immutable and cheap to copy; threads may share it, each run uses a Session of its own.
// Programs that care about allocation or keep data on the device make a Session and pass Buffers.

#include <cstdint>
#include <functional>
#include <initializer_list>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "systole/base/export.h"
#include "systole/base/literal.h"
#include "systole/ir/graph.h"

namespace systole {

// A parsed device name, any case: "cpu", "cuda:0" ("gpu", "/gpu:0", "/device:GPU:0"), "tpu:0", "opencl:0",
// "pjrt:NAME:0", "reference", "auto", or a backend of the program's own; ":0" may be left out.
struct SYSTOLE_API DeviceName {
  std::string backend;  // "cpu", "cuda", "pjrt", …
  std::string plugin;   // of pjrt
  int ordinal = 0;
  static DeviceName parse(std::string_view text);  // throws kInvalidArgument for text of another form
  std::string to_string() const;                   // parse() gives the same name back
  std::string backend_name() const;                // as registered: "cpu", "pjrt:NAME"
  bool operator==(const DeviceName&) const = default;
};

namespace runtime {

struct DeviceInfo {
  DeviceName name;
  std::string description;        // "AMD EPYC …, 2 threads"
  std::int64_t memory_bytes = 0;  // 0: unknown
};

// Which devices hold a value, and how much of it each: all of it, or a part.
struct Placement {
  std::vector<DeviceName> devices;
  Shape part;
};

// Memory on a device, of a type; the layout inside may be the backend's own, and parts of it on more devices.
class SYSTOLE_API Buffer {
 public:
  virtual ~Buffer() = default;
  virtual const Type& type() const = 0;
  virtual const DeviceName& device() const = 0;
  virtual Literal to_host() const = 0;
  virtual Placement placement() const { return {{device()}, type().shape}; }
};
using BufferRef = std::shared_ptr<Buffer>;

// What products of f32 arrays (dot, convolution) are computed in. `tf32` lets the device round the factors to
// what its matrix units take (TF32 on NVIDIA cards, bf16 on TPUs): faster, about three digits. A backend
// without such units computes in f32 all the same.
enum class Math : std::uint8_t { f32, tf32 };
SYSTOLE_API Math default_math();  // SYSTOLE_MATH, f32 when it is unset

// Whether a program gives the same bits in every run and every process on one kind of device. Backends whose
// results depend on nothing else anyway (reference, opencl) do not differ; others give up what is faster
// now and then: sums in the order of arrival, kernels chosen by their time.
SYSTOLE_API bool is_deterministic();  // as set, else SYSTOLE_DETERMINISTIC, else false

struct CompileOptions {
  bool optimize = true;  // run the standard passes first
  Math math = default_math();
  bool deterministic = is_deterministic();
  bool operator==(const CompileOptions&) const = default;
};

// One list of arguments per device of the graph's mesh (one list without a mesh). An argument whose index is
// in `donated` may be overwritten and must not be used afterwards.
struct RunArguments {
  std::vector<std::vector<BufferRef>> per_device;
  std::vector<int> donated;
};

class SYSTOLE_API Session {
 public:
  virtual ~Session() = default;
  virtual std::vector<std::vector<BufferRef>> run(const RunArguments& arguments) = 0;  // results per device
  // The same. Buffers that a caller leaves in `results` from the last run, and nobody else has, may be
  // written again, without new memory on `cpu`. Tensors own their results: a call by them makes new ones.
  virtual void run_into(const RunArguments& arguments, std::vector<std::vector<BufferRef>>& results) {
    results = run(arguments);
  }
  // The value where input `input` of a program over several devices wants it: the buffer itself when it is
  // there, whosever it is.
  virtual BufferRef placed(const BufferRef& buffer, std::size_t /*input*/) { return buffer; }
};

class SYSTOLE_API Executable {  // what a backend makes of a graph: immutable, shared
 public:
  virtual ~Executable() = default;
  virtual std::unique_ptr<Session> new_session() const = 0;
  virtual std::int64_t device_count() const = 0;
};

class SYSTOLE_API Backend {
 public:
  virtual ~Backend() = default;
  virtual std::string_view name() const = 0;
  virtual std::vector<DeviceInfo> devices() = 0;  // may be empty; unavailable_reason() says why
  virtual std::string unavailable_reason() { return {}; }
  virtual BufferRef upload(const Literal& value, int ordinal) = 0;
  // The value of any backend's buffer on this device; through the host, unless the backend knows better.
  virtual BufferRef copy_from(const Buffer& buffer, int ordinal) { return upload(buffer.to_host(), ordinal); }
  // `graph` is verified, static and optimised as asked.
  virtual std::shared_ptr<const Executable> compile(const ir::Graph& graph, int ordinal,
                                                    const CompileOptions& options) = 0;
  // Empty when the primitive is supported, else the reason.
  virtual std::string refusal(ir::Op op) const = 0;
};

// The registry. A backend registers a factory under its name ("pjrt:NAME" for a PJRT plugin); it is made when
// first asked for and lives as long as the process. "auto" is the available backend of lowest rank. Throws
// kInvalidArgument when the name is taken or not one that DeviceName can hold.
using BackendFactory = std::function<std::unique_ptr<Backend>()>;
SYSTOLE_API void register_backend(std::string_view name, int rank, BackendFactory factory);
SYSTOLE_API std::vector<std::string> backend_names();  // by rank
SYSTOLE_API Backend& backend(std::string_view name);   // throws kNotFound listing what exists

}  // namespace runtime

// A compiled graph on a device. A default-constructed one is empty: using it throws kInvalidArgument.
class SYSTOLE_API CompiledGraph {
 public:
  struct Io {
    std::string name;
    Type type;
  };
  std::span<const Io> inputs() const;
  std::span<const Io> outputs() const;
  const DeviceName& device() const;
  std::int64_t device_count() const;  // argument lists a run takes

  // Runs once on host values: checks them against inputs() and throws kShape or kDType naming the argument.
  std::vector<Literal> run(std::span<const Literal> arguments) const;
  std::vector<Literal> run(std::initializer_list<Literal> arguments) const;
  // One list of arguments, and of results, per device of the graph's mesh.
  std::vector<std::vector<Literal>> run_devices(std::span<const std::vector<Literal>> arguments) const;
  // For buffers and donations; a graph with symbols must be bound to sizes and compiled first.
  std::unique_ptr<runtime::Session> new_session() const;

 private:
  friend SYSTOLE_API CompiledGraph compile(const ir::Graph&, std::string_view,
                                           const runtime::CompileOptions&);
  struct State;
  const State& state() const;
  std::shared_ptr<const State> state_;
};

// Compiles for a device. Equal graphs (structure, device, options) share one compilation while it is in use
// or recent. A graph with symbols is specialised at each run to the argument shapes it meets, one compilation
// per set of values.
SYSTOLE_API CompiledGraph compile(const ir::Graph& graph, std::string_view device = "auto",
                                  const runtime::CompileOptions& options = {});

// For what this process runs from now on, unless a function's options say otherwise.
SYSTOLE_API void set_deterministic(bool on);

SYSTOLE_API std::vector<runtime::DeviceInfo> devices();  // every device of every available backend

}  // namespace systole
