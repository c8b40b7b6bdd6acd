// The processor, by kernels that are generated and compiled for it. Buffers are aligned host memory; a
// donated one is written where it lies.

#include "backend/cpu/cpu.h"

#include <fmt/format.h>

#include <cstring>
#include <new>
#include <utility>

#include "backend/cpu/executor.h"
#include "backend/cpu/jit.h"
#include "backend/cpu/source.h"
#include "base/parallel.h"
#include "eval/eval.h"
#include "systole/base/error.h"
#include "systole/compile/passes.h"

namespace systole::cpu {

namespace {

using runtime::BufferRef;

constexpr const char* kName = "cpu";
constexpr std::size_t kAlignment = 64;

[[noreturn]] void refuse(ErrorKind kind, std::string message, std::string expected = {},
                         std::string got = {}) {
  throw Error(kind, kName, std::move(message), std::move(expected), std::move(got));
}

// Aligned memory; null for nothing.
std::shared_ptr<std::byte> allocate(std::int64_t bytes) {
  if (bytes == 0) return {};
  void* const memory =
      ::operator new(static_cast<std::size_t>(bytes), std::align_val_t(kAlignment), std::nothrow);
  if (memory == nullptr) refuse(ErrorKind::kOutOfMemory, fmt::format("{} bytes", bytes));
  return {static_cast<std::byte*>(memory),
          [](std::byte* p) { ::operator delete(p, std::align_val_t(kAlignment)); }};
}

class HostBuffer final : public runtime::Buffer {
 public:
  HostBuffer(Type type, std::shared_ptr<std::byte> memory)
      : type_(std::move(type)), device_{kName, {}, 0}, memory_(std::move(memory)), donated_(false) {}
  const Type& type() const override { return type_; }
  const DeviceName& device() const override { return device_; }
  Literal to_host() const override {
    if (donated_)
      refuse(ErrorKind::kInvalidArgument, "a buffer is used after it was donated", {}, type_.to_string());
    return Literal::copy_of(type_, {memory_.get(), static_cast<std::size_t>(type_.bytes())});
  }
  std::byte* memory() const { return memory_.get(); }
  bool is_donated() const { return donated_; }
  void set_donated(bool donated) { donated_ = donated; }

 private:
  const Type type_;
  const DeviceName device_;
  std::shared_ptr<std::byte> memory_;
  bool donated_;
};

class CpuSession final : public runtime::Session {
 public:
  explicit CpuSession(std::shared_ptr<const Module> module)
      : module_(std::move(module)), executor_(module_->compiled), arena_(allocate(program().arena_bytes)) {
    for (const lower::BufferId b : program().outputs) {
      const lower::BufferInfo& memory = info(program().memory_of(b));
      shared_.push_back(memory.role == lower::BufferInfo::Role::input ? memory.position : -1);
    }
  }

  std::vector<std::vector<BufferRef>> run(const runtime::RunArguments& arguments) override {
    check(arguments);
    const std::vector<BufferRef>& given = arguments.per_device[0];
    inputs_.clear();
    outputs_.clear();
    for (const BufferRef& buffer : given) inputs_.push_back(static_cast<const HostBuffer&>(*buffer).memory());
    std::vector<bool> donated(given.size(), false);
    for (const int i : arguments.donated) donated[static_cast<std::size_t>(i)] = true;
    std::vector<std::vector<BufferRef>> results(1);
    for (std::size_t o = 0; o < program().outputs.size(); ++o) {
      const Type& type = info(program().outputs[o]).type;
      const std::int32_t input = shared_[o];
      if (input >= 0 && may_take(given, static_cast<std::size_t>(input), donated)) {
        results[0].push_back(given[static_cast<std::size_t>(input)]);
      } else {
        results[0].push_back(std::make_shared<HostBuffer>(type, allocate(type.bytes())));
        // The program works in the input's memory: in a copy when it is not ours to change.
        if (input >= 0) {
          std::byte* const copy = static_cast<HostBuffer&>(*results[0].back()).memory();
          std::memcpy(copy, inputs_[static_cast<std::size_t>(input)], static_cast<std::size_t>(type.bytes()));
          inputs_[static_cast<std::size_t>(input)] = copy;
        }
      }
      outputs_.push_back(static_cast<HostBuffer&>(*results[0].back()).memory());
    }
    executor_.run(inputs_, outputs_, arena_.get());
    for (std::size_t i = 0; i < given.size(); ++i)
      if (donated[i]) static_cast<HostBuffer&>(*given[i]).set_donated(true);
    for (const BufferRef& result : results[0]) static_cast<HostBuffer&>(*result).set_donated(false);
    return results;
  }

 private:
  const lower::Program& program() const { return module_->program; }
  const lower::BufferInfo& info(lower::BufferId b) const {
    return program().buffers[static_cast<std::size_t>(b)];
  }

  // A donated buffer that no other argument is.
  static bool may_take(const std::vector<BufferRef>& given, std::size_t input,
                       const std::vector<bool>& donated) {
    if (!donated[input]) return false;
    for (std::size_t i = 0; i < given.size(); ++i)
      if (i != input && given[i] == given[input]) return false;
    return true;
  }

  void check(const runtime::RunArguments& arguments) const {
    if (arguments.per_device.size() != 1)
      refuse(ErrorKind::kInvalidArgument, "wrong number of argument lists", "1",
             std::to_string(arguments.per_device.size()));
    const std::vector<BufferRef>& given = arguments.per_device[0];
    if (given.size() != program().inputs.size())
      refuse(ErrorKind::kInvalidArgument, "wrong number of arguments",
             std::to_string(program().inputs.size()), std::to_string(given.size()));
    for (std::size_t i = 0; i < given.size(); ++i) {
      const runtime::Buffer* const buffer = given[i].get();
      const std::string what = fmt::format("argument {}", i);
      if (buffer == nullptr || typeid(*buffer) != typeid(HostBuffer))
        refuse(ErrorKind::kInvalidArgument, what, "a buffer of this backend",
               buffer != nullptr ? buffer->device().to_string() : "none");
      const Type& wanted = info(program().inputs[i]).type;
      if (!(buffer->type() == wanted))
        refuse(buffer->type().dtype == wanted.dtype ? ErrorKind::kShape : ErrorKind::kDType, what,
               wanted.to_string(), buffer->type().to_string());
      if (static_cast<const HostBuffer*>(buffer)->is_donated())
        refuse(ErrorKind::kInvalidArgument, "a buffer is used after it was donated", {}, what);
    }
    for (const int i : arguments.donated)
      if (i < 0 || static_cast<std::size_t>(i) >= given.size())
        refuse(ErrorKind::kInvalidArgument, "donated argument out of range",
               fmt::format("an index below {}", given.size()), std::to_string(i));
  }

  const std::shared_ptr<const Module> module_;
  Executor executor_;
  const std::shared_ptr<std::byte> arena_;
  std::vector<std::int32_t> shared_;  // by output: the input whose memory it is, or -1
  std::vector<std::byte*> inputs_, outputs_;
};

class CpuExecutable final : public runtime::Executable {
 public:
  explicit CpuExecutable(std::shared_ptr<const Module> module) : module_(std::move(module)) {}
  std::unique_ptr<runtime::Session> new_session() const override {
    return std::make_unique<CpuSession>(module_);
  }
  std::int64_t device_count() const override { return 1; }

 private:
  const std::shared_ptr<const Module> module_;
};

class CpuBackend final : public runtime::Backend, public runtime::SourceBackend {
 public:
  std::string_view name() const override { return kName; }
  std::vector<runtime::DeviceInfo> devices() override {
    return {{{kName, {}, 0}, fmt::format("{}, {} threads", kernels_in_words(), thread_count()), 0}};
  }
  BufferRef upload(const Literal& value, int) override {
    const std::shared_ptr<std::byte> memory = allocate(static_cast<std::int64_t>(value.byte_size()));
    if (memory) std::memcpy(memory.get(), value.bytes(), value.byte_size());
    return std::make_shared<HostBuffer>(value.type(), memory);
  }
  std::shared_ptr<const runtime::Executable> compile(const ir::Graph& graph, int,
                                                     const runtime::CompileOptions& options) override {
    if (!graph.is_static()) refuse(ErrorKind::kShape, "a graph with symbols must be bound to numbers first");
    if (eval::uses_collectives(graph))
      refuse(ErrorKind::kUnsupported, "collectives need several devices; there is one");
    return std::make_shared<CpuExecutable>(
        make_module(passes::prepared_for_kernels(graph, options.optimize)));
  }
  std::string refusal(ir::Op op) const override {
    if (ir::info(op).op_class == ir::OpClass::collective)
      return "collectives need several devices; there is one";
    return {};
  }

  codegen::Dialect dialect() const override { return codegen::Dialect::c; }
  std::shared_ptr<const runtime::SourceProgram> build_source(const std::string& source, bool is_portable,
                                                             const SourceOptions& options, int) override {
    return cpu::build_source(source, is_portable, options);
  }
  BufferRef copy(const runtime::Buffer& buffer) override {
    const std::int64_t bytes = buffer.type().bytes();
    const std::shared_ptr<std::byte> memory = allocate(bytes);
    if (memory) std::memcpy(memory.get(), memory_of(buffer), static_cast<std::size_t>(bytes));
    return std::make_shared<HostBuffer>(buffer.type(), memory);
  }
  void synchronize(int) override {}  // a kernel has run when its launch returns
};

}  // namespace

std::byte* memory_of(const runtime::Buffer& buffer) {
  const auto& own = dynamic_cast<const HostBuffer&>(buffer);
  if (own.is_donated()) refuse(ErrorKind::kInvalidArgument, "a buffer is used after it was donated");
  return own.memory();
}

std::unique_ptr<runtime::Backend> make_backend() { return std::make_unique<CpuBackend>(); }

}  // namespace systole::cpu
