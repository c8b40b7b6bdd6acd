#pragma once

// Kernels whose source a program brings, as backends see them. A backend that runs them implements
// SourceBackend beside Backend. Who launches has checked the arguments against the parameters; limits of the
// device are the backend's to check.

#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "codegen/dialect.h"
#include "runtime/registry.h"
#include "systole/base/dtype.h"
#include "systole/runtime.h"
#include "systole/runtime/launch.h"

namespace systole::runtime {

struct SourceParameter {
  enum class Kind { array, number, local };
  std::optional<Kind> kind;  // none: the driver does not say
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

// One of these, as the parameter's kind wants it; all empty is an array without elements.
struct SourceArgument {
  const Buffer* buffer = nullptr;
  void* memory = nullptr;  // of an array without a buffer, as the backend names it
  std::span<const std::byte> number;
  std::size_t local_bytes = 0;
};

class SourceKernel {
 public:
  virtual ~SourceKernel() = default;
  virtual const std::vector<SourceParameter>& parameters() const = 0;
  // May return before the kernel has run; calls from several threads are safe.
  virtual void launch(const Launch& launch, std::span<const SourceArgument> arguments) const = 0;
};

class SourceProgram {
 public:
  virtual ~SourceProgram() = default;
  virtual const std::vector<std::string>& names() const = 0;  // of its kernels
  virtual const std::string& log() const = 0;                 // the compiler's words
  // One of names(). It keeps what it needs of the program alive.
  virtual std::shared_ptr<const SourceKernel> kernel(const std::string& name) const = 0;
};

class SourceBackend {
 public:
  virtual ~SourceBackend() = default;
  virtual codegen::Dialect dialect() const = 0;
  virtual std::shared_ptr<const SourceProgram> build_source(const std::string& source, bool is_portable,
                                                            const SourceOptions& options, int ordinal) = 0;
  // Memory, for use in the order of the calls. Sizes are those of the buffers.
  virtual BufferRef make_buffer(const Type& type, int ordinal, bool is_zero) = 0;  // else undefined values
  virtual void write(Buffer& to, std::span<const std::byte> from) = 0;
  virtual void read(const Buffer& from, std::span<std::byte> to) = 0;
  virtual void copy(const Buffer& from, Buffer& to) = 0;  // on one device
  virtual void synchronize(int ordinal) = 0;
};

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

// Throws kParse for a source that the compiler refused: the first line it names, and its words.
[[noreturn]] void refuse_source(const std::string& device, std::string_view source,
                                const SourceOptions& options, std::string_view words);

// Throws kInvalidArgument unless grid and block are sizes at all and have threads for all items.
void check_launch(const std::string& where, const Launch& launch);
std::string to_string(const Size3& size);  // "256", "16×16"

}  // namespace systole::runtime
