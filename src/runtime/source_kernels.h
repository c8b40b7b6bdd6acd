#pragma once

// Kernels whose source a program brings, as backends see them. A backend that runs them implements
// SourceBackend beside Backend. Who launches has checked the arguments against the parameters; limits of the
// device are the backend's to check.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "codegen/dialect.h"
#include "runtime/registry.h"
#include "systole/base/dtype.h"
#include "systole/runtime.h"
#include "systole/runtime/device_properties.h"
#include "systole/runtime/launch.h"
#include "systole/runtime/stream.h"

namespace systole::runtime {

struct SourceParameter {
  enum class Kind { array, number, local };
  std::optional<Kind> kind;  // none: the driver does not say, or its declaration is not understood
  std::string name;
  std::string type;            // as written: "const float*"
  std::optional<DType> dtype;  // of the number or the array's elements; none: a type of the program's own
  int lanes = 1;               // 4 of a float4
  std::size_t bytes = 0;       // of a number; 0: unknown
  bool is_written = false;     // an array that is not const

  std::string to_string() const;  // "const float* a"
  // Whether arrays of this dtype may be passed: what a language lacks stands as an integer of its size.
  bool takes(DType element) const;
};

// Work beside the default queue of a device, and a moment in a queue's work.
class WorkMark {
 public:
  virtual ~WorkMark() = default;
  virtual bool is_done() const = 0;
  virtual void wait() const = 0;
  virtual double milliseconds_until(const WorkMark& end) const = 0;  // of the same device, both done
};
class WorkQueue {
 public:
  virtual ~WorkQueue() = default;
  virtual void synchronize() const = 0;
  virtual bool is_done() const = 0;
  virtual void wait(const WorkMark& mark) const = 0;  // of any device of the backend; the queue, not the host
};

// Memory of the host for copies that are not waited for.
class HostMemory {
 public:
  HostMemory(DeviceName device, std::size_t bytes) : device_(std::move(device)), bytes_(bytes) {}
  virtual ~HostMemory() = default;
  HostMemory(const HostMemory&) = delete;
  HostMemory& operator=(const HostMemory&) = delete;
  const DeviceName& device() const { return device_; }
  std::size_t size() const { return bytes_; }
  virtual std::byte* data() const = 0;
  virtual bool is_busy() const { return false; }
  virtual void wait() const {}

 private:
  const DeviceName device_;
  const std::size_t bytes_;
};

// A variable of a program. Copies are in order with launches of the program's kernels.
class SourceGlobal {
 public:
  virtual ~SourceGlobal() = default;
  virtual std::size_t bytes() const = 0;
  virtual std::optional<DType> dtype() const = 0;           // none: it is not known, or no number
  virtual void write(std::span<const std::byte> from) = 0;  // of all its bytes
  virtual void read(std::span<std::byte> to) const = 0;
};

// Some of a buffer's bytes, or all of them.
struct BufferPart {
  const Buffer* buffer = nullptr;
  std::size_t offset = 0, bytes = 0;
};

// One of these, as the parameter's kind wants it; all empty is an array without elements.
struct SourceArgument {
  BufferPart array{};
  void* memory = nullptr;  // of an array without a buffer, as the backend names it
  std::span<const std::byte> number;
  std::size_t local_bytes = 0;
};

class SourceKernel {
 public:
  virtual ~SourceKernel() = default;
  virtual const std::vector<SourceParameter>& parameters() const = 0;
  virtual std::optional<Size3> block() const { return std::nullopt; }  // the only one it is compiled for
  // May return before the kernel has run; calls from several threads are safe.
  virtual void launch(const Launch& launch, std::span<const SourceArgument> arguments) const = 0;
};

class SourceProgram {
 public:
  virtual ~SourceProgram() = default;
  virtual const std::vector<std::string>& names() const = 0;  // of its kernels
  virtual const std::string& log() const = 0;                 // the compiler's words
  // One of names(), or one that can_make(). It keeps what it needs of the program alive.
  virtual std::shared_ptr<const SourceKernel> kernel(const std::string& name) const = 0;
  virtual bool can_make(const std::string& /*name*/) const { return false; }  // f<float>
  // Throws kNotFound with the names there are, or kUnsupported, which it does here.
  virtual std::shared_ptr<SourceGlobal> global(const std::string& name) const;
};

class SourceBackend {
 public:
  virtual ~SourceBackend() = default;
  virtual codegen::Dialect dialect() const = 0;
  virtual std::shared_ptr<const SourceProgram> build_source(const std::string& source, bool is_portable,
                                                            const SourceOptions& options, int ordinal) = 0;
  // Memory, for use in the order of the calls. Sizes are those of the parts.
  virtual BufferRef make_buffer(const Type& type, int ordinal, bool is_zero) = 0;  // else undefined values
  virtual void write(const BufferPart& to, std::span<const std::byte> from) = 0;
  virtual void read(const BufferPart& from, std::span<std::byte> to) = 0;
  virtual void copy(const BufferPart& from,
                    const BufferPart& to) = 0;  // on one device, without a byte of both
  virtual void fill(const BufferPart& to, std::span<const std::byte> element, const WorkQueue* queue) = 0;
  virtual void synchronize(int ordinal) = 0;
  // Where its memory is for kernels, when all work with it is done. Throws kUnsupported, which it does here.
  virtual std::uint64_t address(const Buffer& buffer);
  // How many references to a buffer are of those that never look at its values.
  virtual long idle_references(const Buffer& /*buffer*/) const { return 0; }

  // Here for a device that does all in one queue: there are no others, a mark waits, and so does every copy.
  virtual std::shared_ptr<const WorkQueue> make_queue(int ordinal);  // null: the one there is
  virtual std::shared_ptr<const WorkMark> mark(const WorkQueue* queue, int ordinal);
  virtual void default_waits(const WorkMark& mark, int ordinal);  // the default queue
  virtual std::shared_ptr<HostMemory> make_host_memory(std::size_t bytes, const DeviceName& device);
  virtual void begin_write(const BufferPart& to, HostMemory& from, const WorkQueue* queue);
  virtual void begin_read(const BufferPart& from, HostMemory& to, const WorkQueue* queue);

  virtual void add_properties(DeviceProperties& /*known*/, int /*ordinal*/) {}
  virtual MemoryInfo memory(int /*ordinal*/) { return {}; }
};

// Ordinary memory, for devices that have no other.
std::shared_ptr<HostMemory> plain_host_memory(std::size_t bytes, const DeviceName& device);

// The stream's queue; null for the default one. Throws kInvalidArgument for a stream of another device.
const WorkQueue* queue_of(const Stream& stream, const DeviceName& device, const std::string& where);

// Throws kNotFound, with the names there are.
std::shared_ptr<const SourceKernel> kernel_named(const std::string& where, const SourceProgram& program,
                                                 const std::string& name);

// Throws kUnsupported, naming the backends that can, when this one does not run sources.
SourceBackend& source_backend(const ResolvedDevice& device);

// The file that compilers see the program's own lines in. Throws kInvalidArgument for a name that cannot
// stand in a #line.
std::string source_name(const SourceOptions& options);

// What stands before a program's source: its #defines, for a portable one also the words of docs/kernels.md
// (those that cost something only where `source` has them), and a #line.
std::string source_head(codegen::Dialect dialect, bool is_portable, const SourceOptions& options,
                        std::string_view source = {});

// Whether a source is written in the words of docs/kernels.md.
bool is_portable_text(std::string_view source);

// Throws kParse for a source that the compiler refused: the first line it names, and its words.
[[noreturn]] void refuse_source(const std::string& device, std::string_view source,
                                const SourceOptions& options, std::string_view words);

// Throws kInvalidArgument unless grid and block are sizes at all and have threads for all items.
void check_launch(const std::string& where, const Launch& launch);
std::string to_string(const Size3& size);  // "256", "16×16"

}  // namespace systole::runtime
