// The processor, by kernels that are generated and compiled for it. Buffers are aligned host memory; a
// donated one is written where it lies.

#include "backend/cpu/cpu.h"

#include <fmt/format.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <cstring>
#include <mutex>
#include <optional>
#include <typeinfo>
#include <utility>

#include "backend/arguments.h"
#include "backend/cpu/cost.h"
#include "backend/cpu/executor.h"
#include "backend/cpu/jit.h"
#include "backend/cpu/memory.h"
#include "backend/cpu/onednn.h"
#include "backend/cpu/source.h"
#include "backend/one_device.h"
#include "base/parallel.h"
#include "runtime/host_memory.h"
#include "runtime/timeline.h"
#include "systole/base/error.h"
#include "systole/compile/passes.h"

namespace systole::cpu {

namespace {

using runtime::BufferRef;

constexpr const char* kName = "cpu";

[[noreturn]] void refuse(ErrorKind kind, std::string message, std::string expected = {},
                         std::string got = {}) {
  throw Error(kind, kName, std::move(message), std::move(expected), std::move(got));
}

class HostBuffer final : public runtime::Buffer {
 public:
  HostBuffer(Type type, Memory memory)
      : type_(std::move(type)), device_{kName, {}, 0}, memory_(std::move(memory)), place_(memory_.get()) {}
  // In the memory of the value, which is copied before anything is written.
  explicit HostBuffer(Literal value)
      : type_(value.type()),
        device_{kName, {}, 0},
        borrowed_(std::move(value)),
        place_(const_cast<std::byte*>(borrowed_->bytes())),
        is_borrowed_(true) {}
  const Type& type() const override { return type_; }
  const DeviceName& device() const override { return device_; }
  Literal to_host() const override {
    if (donated_)
      refuse(ErrorKind::kInvalidArgument, "a buffer is used after it was donated", {}, type_.to_string());
    if (is_borrowed()) return *borrowed_;
    const auto bytes = static_cast<std::size_t>(type_.bytes());
    const timeline::Copy timed(timeline::kToHost, kName, bytes);
    return Literal::copy_of(type_, {memory(), bytes});
  }
  std::byte* memory() const { return place_.load(std::memory_order_acquire); }
  bool is_borrowed() const { return is_borrowed_.load(std::memory_order_acquire); }
  // Memory of its own, which may be written to. A run that reads what was borrowed goes on with that.
  std::byte* own_memory() const {
    if (is_borrowed()) {
      const std::lock_guard lock(owning_);
      if (is_borrowed()) {
        memory_ = take(type_.bytes());
        const timeline::Copy timed(timeline::kOnDevice, kName, borrowed_->byte_size());
        if (memory_) std::memcpy(memory_.get(), borrowed_->bytes(), borrowed_->byte_size());
        place_.store(memory_.get(), std::memory_order_release);
        is_borrowed_.store(false, std::memory_order_release);
      }
    }
    return memory();
  }
  bool is_donated() const { return donated_; }
  void set_donated(bool donated) { donated_ = donated; }
  // How often its content may have changed: of what is written through an address nobody tells.
  std::uint64_t version() const {
    if (has_address_.load(std::memory_order_relaxed)) set_changed();
    return version_.load(std::memory_order_relaxed);
  }
  void set_changed() const { version_.fetch_add(1, std::memory_order_relaxed); }
  void give_address() const { has_address_.store(true, std::memory_order_relaxed); }

 private:
  const Type type_;
  const DeviceName device_;
  const std::optional<Literal> borrowed_;
  mutable std::mutex owning_;
  mutable Memory memory_;
  mutable std::atomic<std::byte*> place_;
  mutable std::atomic<bool> is_borrowed_{false};
  bool donated_ = false;
  mutable std::atomic<std::uint64_t> version_{0};
  mutable std::atomic<bool> has_address_{false};  // that somebody was given
};

HostBuffer& own(const BufferRef& buffer) { return static_cast<HostBuffer&>(*buffer); }

const std::byte* read_from(const runtime::BufferPart& part) {
  const auto& own = dynamic_cast<const HostBuffer&>(*part.buffer);
  if (own.is_donated()) refuse(ErrorKind::kInvalidArgument, "a buffer is used after it was donated");
  return own.memory() != nullptr ? own.memory() + part.offset : nullptr;
}

class CpuSession final : public runtime::Session {
 public:
  explicit CpuSession(std::shared_ptr<const Module> module)
      : module_(std::move(module)),
        executor_(module_->compiled),
        arena_(allocate(module_->program.arena_bytes)),
        shared_(runtime::shared_inputs(module_->program)) {
    if (module_->keeps_inputs()) seen_.resize(module_->program.inputs.size());
    is_same_.resize(seen_.size());
  }

  std::vector<std::vector<BufferRef>> run(const runtime::RunArguments& arguments) override {
    std::vector<std::vector<BufferRef>> results;
    run_into(arguments, results);
    return results;
  }

  void run_into(const runtime::RunArguments& arguments,
                std::vector<std::vector<BufferRef>>& results) override {
    const lower::Program& program = module_->program;
    runtime::check_arguments(kName, program, arguments, [](const runtime::Buffer& buffer) {
      if (typeid(buffer) != typeid(HostBuffer)) return runtime::BufferState::foreign;
      return static_cast<const HostBuffer&>(buffer).is_donated() ? runtime::BufferState::donated
                                                                 : runtime::BufferState::usable;
    });
    const std::vector<BufferRef>& given = arguments.per_device[0];
    inputs_.clear();
    outputs_.clear();
    for (const BufferRef& buffer : given) inputs_.push_back(own(buffer).memory());
    takeable_.look_at(arguments);
    results.resize(1);
    results[0].resize(program.outputs.size());
    for (std::size_t o = 0; o < program.outputs.size(); ++o) {
      BufferRef& result = results[0][o];
      const auto input = static_cast<std::size_t>(shared_[o]);
      if (shared_[o] >= 0 && takeable_[input] && !own(given[input]).is_borrowed()) {
        result = given[input];
      } else {
        const Type& type = program.buffers[static_cast<std::size_t>(program.outputs[o])].type;
        if (!is_free(result, type)) result = std::make_shared<HostBuffer>(type, take(type.bytes()));
        // The program works in the input's memory: in a copy when it is not ours to change.
        if (shared_[o] >= 0) {
          std::byte* const copy = own(result).memory();
          const auto bytes = static_cast<std::size_t>(type.bytes());
          const timeline::Copy timed(timeline::kOnDevice, kName, bytes);
          if (copy != nullptr) std::memcpy(copy, inputs_[input], bytes);
          inputs_[input] = copy;
        }
      }
      outputs_.push_back(own(result).memory());
    }
    compare(given);
    executor_.machine().set_same(is_same_);
    executor_.run(inputs_, outputs_, arena_.get());
    for (const BufferRef& result : results[0]) own(result).set_changed();
    for (const int i : arguments.donated) own(given[static_cast<std::size_t>(i)]).set_donated(true);
    for (const BufferRef& result : results[0]) own(result).set_donated(false);
  }

 private:
  struct Seen {
    std::weak_ptr<const runtime::Buffer> buffer;
    std::uint64_t version = 0;
  };

  // Whether a result of an earlier run may be written again: nobody else has it.
  static bool is_free(const BufferRef& buffer, const Type& type) {
    if (!buffer || buffer.use_count() != 1) return false;
    const runtime::Buffer& held = *buffer;
    return typeid(held) == typeid(HostBuffer) && !own(buffer).is_donated() && held.type() == type;
  }

  // Which inputs come with the content they had in the last run.
  void compare(const std::vector<BufferRef>& given) {
    for (std::size_t i = 0; i < seen_.size(); ++i) {
      Seen& seen = seen_[i];
      const std::uint64_t version = own(given[i]).version();
      const bool is_known = !seen.buffer.owner_before(given[i]) && !given[i].owner_before(seen.buffer);
      is_same_[i] = is_known && seen.version == version;
      if (!is_known) seen.buffer = given[i];
      seen.version = version;
    }
  }

  const std::shared_ptr<const Module> module_;
  Executor executor_;
  const std::shared_ptr<std::byte> arena_;
  const std::vector<std::int32_t> shared_;  // by output: the input whose memory it is, or -1
  runtime::Takeable takeable_;
  std::vector<std::byte*> inputs_, outputs_;
  std::vector<Seen> seen_;  // by input; empty where it does not matter
  std::vector<unsigned char> is_same_;
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

// A variable that is wrong makes no other device the default one: programs for this one say what is wrong.
std::string description() try {
  return fmt::format("{}{}, {} threads", kernels_in_words(), onednn_absence().empty() ? ", oneDNN" : "",
                     thread_count());
} catch (const Error& error) {
  return error.what();
}

class CpuBackend final : public runtime::Backend,
                         public runtime::SourceBackend,
                         public runtime::OneDevice,
                         public runtime::HostMemoryBackend {
 public:
  std::string_view name() const override { return kName; }
  std::vector<runtime::DeviceInfo> devices() override { return {{{kName, {}, 0}, description(), 0}}; }
  BufferRef upload(const Literal& value, int) override {
    Memory memory = take(static_cast<std::int64_t>(value.byte_size()));
    const timeline::Copy timed(timeline::kToDevice, kName, value.byte_size());
    if (memory) std::memcpy(memory.get(), value.bytes(), value.byte_size());
    return std::make_shared<HostBuffer>(value.type(), std::move(memory));
  }
  BufferRef borrow(const Literal& value, int) override { return std::make_shared<HostBuffer>(value); }
  std::shared_ptr<const runtime::Executable> compile(const ir::Graph& graph, int,
                                                     const runtime::CompileOptions& options) override {
    if (!graph.is_static()) refuse(ErrorKind::kShape, "a graph with symbols must be bound to numbers first");
    runtime::refuse_mesh(kName, graph);
    const Measuring scope(!options.deterministic);
    return std::make_shared<CpuExecutable>(make_module(graph, options.optimize));
  }
  std::string refusal(ir::Op op) const override {
    if (ir::info(op).op_class == ir::OpClass::collective) return runtime::kNoCollectives;
    return {};
  }

  codegen::Dialect dialect() const override { return codegen::Dialect::c; }
  std::shared_ptr<const runtime::SourceProgram> build_source(const std::string& source, bool is_portable,
                                                             const SourceOptions& options, int) override {
    return cpu::build_source(source, is_portable, options);
  }
  BufferRef make_buffer(const Type& type, int, bool is_zero) override {
    Memory memory = take(type.bytes());
    if (memory && is_zero) std::memset(memory.get(), 0, static_cast<std::size_t>(type.bytes()));
    return std::make_shared<HostBuffer>(type, std::move(memory));
  }
  void write(const runtime::BufferPart& to, std::span<const std::byte> from) override {
    const timeline::Copy timed(timeline::kToDevice, kName, from.size());
    if (!from.empty()) std::memcpy(memory_of(to), from.data(), from.size());
  }
  void read(const runtime::BufferPart& from, std::span<std::byte> to) override {
    const timeline::Copy timed(timeline::kToHost, kName, to.size());
    if (!to.empty()) std::memcpy(to.data(), read_from(from), to.size());
  }
  void copy(const runtime::BufferPart& from, const runtime::BufferPart& to) override {
    const timeline::Copy timed(timeline::kOnDevice, kName, from.bytes);
    if (from.bytes > 0) std::memcpy(memory_of(to), read_from(from), from.bytes);
  }
  void fill(const runtime::BufferPart& to, std::span<const std::byte> element,
            const runtime::WorkQueue*) override {
    std::byte* const begin = memory_of(to);
    for (std::size_t at = 0; at < to.bytes; at += element.size())
      std::memcpy(begin + at, element.data(), element.size());
  }
  std::uint64_t address(const runtime::Buffer& buffer) override {
    std::byte* const memory = memory_of({&buffer});
    static_cast<const HostBuffer&>(buffer).give_address();
    return reinterpret_cast<std::uint64_t>(memory);
  }
  void synchronize(int) override {}  // a kernel has run when its launch returns
  void add_properties(DeviceProperties& known, int) override {
    known.multiprocessors = thread_count();
    known.total_memory = static_cast<std::int64_t>(::sysconf(_SC_PHYS_PAGES)) * ::sysconf(_SC_PAGESIZE);
  }
  MemoryInfo memory(int) override {
    const std::int64_t page = ::sysconf(_SC_PAGESIZE);
    return {::sysconf(_SC_AVPHYS_PAGES) * page, ::sysconf(_SC_PHYS_PAGES) * page};
  }
};

}  // namespace

std::byte* memory_of(const runtime::BufferPart& part) {
  const auto& own = dynamic_cast<const HostBuffer&>(*part.buffer);
  if (own.is_donated()) refuse(ErrorKind::kInvalidArgument, "a buffer is used after it was donated");
  std::byte* const memory = own.own_memory();
  own.set_changed();  // whoever asks may write to it
  return memory != nullptr ? memory + part.offset : nullptr;
}

std::unique_ptr<runtime::Backend> make_backend() { return std::make_unique<CpuBackend>(); }

}  // namespace systole::cpu
