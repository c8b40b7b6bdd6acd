#include "backend/cuda/source.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <mutex>
#include <optional>
#include <utility>

#include "backend/cuda/buffer.h"
#include "backend/cuda/cubin.h"
#include "backend/cuda/cupti.h"
#include "backend/cuda/queues.h"
#include "backend/cuda/source_module.h"
#include "backend/source_call.h"
#include "runtime/source_text.h"
#include "runtime/timeline.h"
#include "systole/base/error.h"

namespace systole::cuda {

namespace {

using runtime::SourceArgument;
using runtime::SourceParameter;
using runtime::SourceSignature;

Memory& memory_of(const runtime::Buffer& buffer, const std::string& where) {
  const auto& own = dynamic_cast<const DeviceBuffer&>(buffer);
  if (own.is_donated())
    throw Error(ErrorKind::kInvalidArgument, where, "a buffer is used after it was donated");
  return own.memory();
}

int function_attribute(Function function, int which) {
  int value = 0;
  check(driver().cuFuncGetAttribute(&value, which, function), "cuFuncGetAttribute");
  return value;
}

class CudaKernel final : public runtime::SourceKernel {
 public:
  CudaKernel(std::shared_ptr<const LoadedSource> loaded, const Cubin::Kernel& kernel,
             std::vector<SourceParameter> parameters, bool is_fixed)
      : loaded_(std::move(loaded)),
        device_(loaded_->device()),
        function_(loaded_->function(kernel.symbol)),
        name_(kernel.name),
        where_(fmt::format("kernel {} on cuda:{}", name_, device_.ordinal())),
        details_(timeline::details({{"device", std::string_view(where_).substr(where_.rfind(' ') + 1)}})),
        parameters_(std::move(parameters)),
        most_threads_(function_attribute(function_, kFunctionMaxThreads)),
        threads_(is_fixed ? static_cast<std::int64_t>(kernel.most_threads) : 0),
        own_shared_(function_attribute(function_, kFunctionShared)),
        most_shared_(device_.attribute(kSharedPerBlockOptIn)),
        allowed_shared_(function_attribute(function_, kFunctionMaxShared)) {
    for (int d = 0; d < 3; ++d) {
      most_block_[static_cast<std::size_t>(d)] = device_.attribute(kMaxBlockX + d);
      most_grid_[static_cast<std::size_t>(d)] = device_.attribute(kMaxGridX + d);
    }
    add_sizes(kernel.sizes);
  }

  const std::vector<SourceParameter>& parameters() const override { return parameters_; }
  std::optional<Size3> block() const override {
    return threads_ > 0 ? std::optional<Size3>(threads_) : std::nullopt;
  }

  void launch(const Launch& launch, std::span<const SourceArgument> arguments) const override {
    const timeline::Span span("kernel", name_, details_);
    device_.activate();
    static_cast<void>(cupti::recording_of(device_));  // it may be the first work of a recording
    prepare(launch);
    const Stream stream =
        stream_of(device_, runtime::queue_of(launch.stream, {"cuda", {}, device_.ordinal()}, where_));
    std::vector<Address> addresses(arguments.size());
    std::vector<void*> list(arguments.size());
    std::vector<Memory*> memories(arguments.size());
    for (std::size_t i = 0; i < arguments.size(); ++i) {
      const SourceArgument& x = arguments[i];
      if (!x.number.empty()) {
        check_size(i, x.number.size());
        list[i] = const_cast<std::byte*>(x.number.data());  // it is only read
        continue;
      }
      if (x.array.buffer != nullptr) {
        check_size(i, sizeof(Address));  // of a parameter that is not known to be a pointer
        memories[i] = &memory_of(*x.array.buffer, where_);
        addresses[i] = memories[i]->address() + x.array.offset;
      }
      list[i] = &addresses[i];
    }
    const std::unique_lock lock = loaded_->in_order();
    for (std::size_t i = 0; i < memories.size(); ++i)
      if (memories[i] != nullptr) {
        if (writes(i))
          memories[i]->before_writing(stream);
        else
          memories[i]->before_reading(stream);
      }
    loaded_->before_launch(stream);
    {
      const cupti::Step named(name_, {});
      put(launch, stream, list.data());
    }
    const auto moment = std::make_shared<const Moment>(device_, stream);
    for (std::size_t i = 0; i < memories.size(); ++i)
      if (memories[i] != nullptr && !writes(i)) memories[i]->was_read(moment);
    for (std::size_t i = 0; i < memories.size(); ++i)
      if (memories[i] != nullptr && writes(i)) memories[i]->was_written(moment);
    loaded_->after_launch(moment);
    if (timeline::is_on() && !cupti::is_recording())
      check(driver().cuStreamSynchronize(stream), "cuStreamSynchronize");  // the span is of the work
  }

  // Checks a launch against the limits, and has the driver allow its shared memory.
  void prepare(const Launch& launch) const {
    check_sizes("the block is larger than the device takes", launch.block, most_block_);
    check_sizes("the grid is larger than the device takes", launch.grid, most_grid_);
    const std::int64_t threads = launch.block.x * launch.block.y * launch.block.z;
    if (threads_ > 0 && launch.block != Size3(threads_))
      throw Error(ErrorKind::kInvalidArgument, where_, "the kernel is compiled for blocks of another size",
                  fmt::format("{}×1×1", threads_), runtime::to_string(launch.block));
    if (threads > most_threads_)
      throw Error(ErrorKind::kLimit, where_, "the block has more threads than the device runs of this kernel",
                  fmt::format("at most {}", most_threads_), std::to_string(threads));
    const std::uint64_t wanted = launch.shared_bytes + static_cast<std::uint64_t>(own_shared_);
    if (launch.shared_bytes > static_cast<std::uint64_t>(most_shared_) ||
        wanted > static_cast<std::uint64_t>(most_shared_))
      throw Error(ErrorKind::kLimit, where_, "more shared memory than a block of the device has",
                  fmt::format("at most {} bytes", most_shared_), fmt::format("{} bytes", wanted));
    const std::lock_guard lock(mutex_);
    // All there is: other handles have the same function, and would take it away again.
    if (static_cast<int>(launch.shared_bytes) > allowed_shared_) {
      const auto all = static_cast<int>(most_shared_ - own_shared_);
      check(driver().cuFuncSetAttribute(function_, kFunctionMaxShared, all), "cuFuncSetAttribute");
      allowed_shared_ = all;
    }
  }

  // Of a launch that is prepared.
  void put(const Launch& launch, Stream stream, void** arguments) const {
    const auto n = [](std::int64_t x) { return static_cast<unsigned>(x); };
    const Size3 &grid = launch.grid, &block = launch.block;
    const Status status = driver().cuLaunchKernel(
        function_, n(grid.x), n(grid.y), n(grid.z), n(block.x), n(block.y), n(block.z),
        n(static_cast<std::int64_t>(launch.shared_bytes)), stream, arguments, nullptr);
    if (status != kSuccess) check(status, fmt::format("{}: cuLaunchKernel", where_));
  }

 private:
  using Sizes = std::array<std::int64_t, 3>;

  bool writes(std::size_t i) const { return parameters_[i].is_written || !parameters_[i].kind; }

  // The sizes that the machine code has. Of a parameter whose declaration was not understood they are all
  // that is known; of all of them, when the declaration has another number (a macro).
  void add_sizes(const std::vector<std::size_t>& sizes) {
    const bool are_known =
        std::all_of(parameters_.begin(), parameters_.end(), [](const auto& p) { return p.kind.has_value(); });
    if (sizes.empty() && are_known) return;
    if (sizes.empty())
      throw Error(ErrorKind::kUnsupported, where_, "its parameters are not understood",
                  "numbers, structs and pointers to them, with names");
    if (sizes.size() != parameters_.size()) parameters_.assign(sizes.size(), SourceParameter{});
    for (std::size_t i = 0; i < sizes.size(); ++i) {
      SourceParameter& p = parameters_[i];
      if (p.kind == SourceParameter::Kind::array) continue;
      if (p.bytes != 0 && p.bytes != sizes[i]) p = {};  // a macro or a type of another meaning
      p.bytes = sizes[i];
    }
  }

  void check_size(std::size_t i, std::size_t got) const {
    if (const std::size_t bytes = parameters_[i].bytes; bytes != 0 && bytes != got)
      throw Error(ErrorKind::kInvalidArgument, where_, fmt::format("argument {}: its size is another", i),
                  fmt::format("{} bytes", bytes), fmt::format("{} bytes", got));
  }

  void check_sizes(const char* what, const Size3& asked, const Sizes& most) const {
    if (asked.x > most[0] || asked.y > most[1] || asked.z > most[2])
      throw Error(ErrorKind::kLimit, where_, what, fmt::format("at most {}", fmt::join(most, "×")),
                  runtime::to_string(asked));
  }

  const std::shared_ptr<const LoadedSource> loaded_;
  const Device& device_;
  const Function function_;
  const std::string name_, where_, details_;  // details: on the timeline
  std::vector<SourceParameter> parameters_;
  const std::int64_t most_threads_;              // of a block; by __launch_bounds__ or by the registers
  const std::int64_t threads_;                   // S_KERNEL's; 0: any number
  const std::int64_t own_shared_, most_shared_;  // bytes of a block
  Sizes most_block_{}, most_grid_{};
  mutable std::mutex mutex_;
  mutable int allowed_shared_;  // that a launch may ask for
};

class CudaGlobal final : public runtime::SourceGlobal {
 public:
  CudaGlobal(std::shared_ptr<const LoadedSource> loaded, std::size_t index, std::optional<DType> dtype)
      : loaded_(std::move(loaded)), index_(index), dtype_(dtype) {}
  std::size_t bytes() const override { return static_cast<std::size_t>(memory().bytes()); }
  std::optional<DType> dtype() const override { return dtype_; }
  void write(std::span<const std::byte> from) override {
    const std::unique_lock lock = loaded_->in_order();
    loaded_->device().upload(from.data(), memory());
  }
  void read(std::span<std::byte> to) const override {
    loaded_->device().activate();
    memory().wait_until_written();  // without the lock: launches of other threads need not wait too
    const std::unique_lock lock = loaded_->in_order();
    loaded_->device().download(memory(), to.data());
  }

 private:
  Memory& memory() const { return loaded_->variable(index_); }
  const std::shared_ptr<const LoadedSource> loaded_;
  const std::size_t index_;
  const std::optional<DType> dtype_;
};

bool has_word(const SourceSignature& s, std::string_view word) {
  return std::find(s.before.begin(), s.before.end(), word) != s.before.end();
}

class CudaProgram final : public runtime::SourceProgram {
 public:
  CudaProgram(const Device& device, Source source)
      : device_(device),
        source_(std::move(source)),
        loaded_(std::make_shared<const LoadedSource>(device, source_, std::vector<std::string>())),
        tokens_(runtime::source_tokens(source_.text)) {
    for (SourceSignature& s : runtime::source_signatures(source_.text))
      if (has_word(s, "__global__") || has_word(s, "S_ENTRY") || has_word(s, "S_KERNEL"))
        signatures_.push_back(std::move(s));
    for (const Cubin::Kernel& kernel : kernels()) {
      const bool is_alone = std::count_if(kernels().begin(), kernels().end(),
                                          [&](const Cubin::Kernel& k) { return k.name == kernel.name; }) == 1;
      names_.push_back(is_alone ? kernel.name : fmt::format("{}({})", kernel.name, kernel.parameters));
    }
    sort_as_written();
  }

  const std::vector<std::string>& names() const override { return sorted_; }
  const std::string& log() const override { return loaded_->log(); }

  std::shared_ptr<const runtime::SourceKernel> kernel(const std::string& name) const override {
    if (const auto found = std::find(names_.begin(), names_.end(), name); found != names_.end())
      return made(loaded_, kernels()[static_cast<std::size_t>(found - names_.begin())]);
    if (!loaded_->cubin().variables.empty())
      throw Error(ErrorKind::kUnsupported, fmt::format("kernel {} on {}", name, source_.where),
                  "a template that is made later would have variables of its own",
                  fmt::format("template __global__ void {}(…); in the source", name));
    const auto own = std::make_shared<const LoadedSource>(device_, source_, std::vector<std::string>{name});
    for (const Cubin::Kernel& kernel : own->cubin().kernels)
      if (kernel.symbol == own->template_symbols().at(0)) return made(own, kernel);
    throw Error(ErrorKind::kInternal, fmt::format("kernel {} on {}", name, source_.where),
                "the machine code has no such kernel");
  }

  bool can_make(const std::string& name) const override {
    const std::size_t open = name.find('<');
    return open != std::string::npos &&
           std::any_of(signatures_.begin(), signatures_.end(), [&](const auto& s) {
             return s.scope + s.name == name.substr(0, open) && has_word(s, "template");
           });
  }

  std::shared_ptr<runtime::SourceGlobal> global(const std::string& name) const override {
    const std::vector<Cubin::Variable>& all = loaded_->cubin().variables;
    std::vector<std::string> known;
    for (std::size_t i = 0; i < all.size(); ++i) {
      known.push_back(all[i].name);
      if (all[i].name == name) return std::make_shared<CudaGlobal>(loaded_, i, dtype_of_variable(name));
    }
    throw Error(
        ErrorKind::kNotFound, fmt::format("variable {} on {}", name, source_.where),
        "the module has none of this name; one that no kernel uses may be left out",
        known.empty() ? "none: there is no variable" : fmt::format("one of {}", fmt::join(known, ", ")),
        name);
  }

 private:
  const std::vector<Cubin::Kernel>& kernels() const { return loaded_->cubin().kernels; }

  void sort_as_written() {
    for (const SourceSignature& s : signatures_)
      for (const std::string& name : names_)
        if (name.substr(0, name.find_first_of("<(")) == s.scope + s.name &&
            std::find(sorted_.begin(), sorted_.end(), name) == sorted_.end())
          sorted_.push_back(name);
    for (const std::string& name : names_)
      if (std::find(sorted_.begin(), sorted_.end(), name) == sorted_.end()) sorted_.push_back(name);
  }

  std::shared_ptr<const CudaKernel> made(const std::shared_ptr<const LoadedSource>& loaded,
                                         const Cubin::Kernel& kernel) const {
    const SourceSignature* written = nullptr;
    int count = 0;
    for (const SourceSignature& s : signatures_)
      if (s.scope + s.name == kernel.name && !has_word(s, "template")) {
        written = &s;
        ++count;
      }
    if (count != 1) written = nullptr;
    // The compiler's name says the types; the declaration says the names, and how the types are written.
    std::vector<SourceParameter> parameters;
    bool are_read = false;
    if (kernel.has_parameters)
      if (std::vector<SourceSignature> read = runtime::source_signatures(with_names(kernel.parameters));
          read.size() == 1) {
        parameters = with_types(std::move(read[0].parameters), true);
        are_read = true;
        const bool agree = written != nullptr && written->parameters.size() == parameters.size();
        for (std::size_t i = 0; i < parameters.size(); ++i) {
          parameters[i].name = agree ? written->parameters[i].name : std::string();
          if (agree && (written->parameters[i].kind || !parameters[i].kind))
            parameters[i].type = written->parameters[i].type;
          else if (!parameters[i].kind)
            parameters[i].type.clear();  // it has a name of ours
        }
      }
    if (!are_read && written != nullptr) {
      parameters = with_types(written->parameters, false);
      are_read = true;
    }
    // Nothing said is one parameter that is not known: the machine code has their number.
    if (!are_read) parameters.emplace_back();
    const bool is_fixed = written != nullptr && has_word(*written, "S_KERNEL");
    return std::make_shared<CudaKernel>(loaded, kernel, std::move(parameters), is_fixed);
  }

  // "float const*, int" as "void f(float const* p0, int p1) {}".
  static std::string with_names(const std::string& types) {
    std::string text = "void f(", type;
    int depth = 0, count = 0;
    for (const char c : types + ",") {
      depth += c == '<' || c == '(' ? 1 : c == '>' || c == ')' ? -1 : 0;
      if (c != ',' || depth > 0) {
        type += c;
      } else if (!type.empty()) {
        text += fmt::format("{}{} p{}", count > 0 ? "," : "", type, count);
        ++count;
        type.clear();
      }
    }
    return text + ") {}";
  }

  // A name of the compiler's is of a struct or an enum, one in a declaration may be of anything.
  std::vector<SourceParameter> with_types(std::vector<SourceParameter> parameters, bool are_compilers) const {
    const bool may_ask = !are_compilers || source_.text.find("enum") != std::string::npos ||
                         source_.text.find("#include") != std::string::npos;
    std::vector<std::string> words;
    for (const SourceParameter& p : parameters) {
      std::string& word = words.emplace_back(p.kind ? p.type : "");
      if (word.starts_with("const ")) word.erase(0, 6);
      if (!word.empty() && word.back() == '*') word.pop_back();
    }
    const runtime::Typedefs known = may_ask ? types(words) : runtime::Typedefs();
    for (std::size_t i = 0; i < parameters.size(); ++i) {
      SourceParameter& p = parameters[i];
      if (known.contains(words[i])) p.dtype.reset();  // the text alone does not say
      if (const auto number = runtime::number_type(words[i], known)) {
        p.dtype = number->dtype;
        p.lanes = number->lanes;
        if (p.kind == SourceParameter::Kind::number)
          p.bytes = size_of(number->dtype) * static_cast<std::size_t>(number->lanes);
      }
    }
    return parameters;
  }

  // What those of the words stand for that are names of the program's own.
  runtime::Typedefs types(std::vector<std::string> words) const {
    const std::lock_guard lock(mutex_);
    const auto is_no_question = [&](const std::string& word) {
      return word.empty() || word == "void" || runtime::number_type(word, {}) || types_.contains(word) ||
             !std::all_of(word.begin(), word.end(), [](char c) {
               return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_' || c == ':' || c == ' ';
             });
    };
    std::erase_if(words, is_no_question);
    std::sort(words.begin(), words.end());
    words.erase(std::unique(words.begin(), words.end()), words.end());
    if (!words.empty()) types_.merge(types_in(device_, source_, words));
    return types_;
  }

  std::optional<DType> dtype_of_variable(const std::string& name) const {
    constexpr std::string_view kMarks[] = {"__constant__", "__device__", "__managed__"};
    const std::size_t scope = name.rfind("::");
    const std::string words =
        runtime::variable_type(tokens_, scope == std::string::npos ? name : name.substr(scope + 2), kMarks);
    const std::optional<runtime::NumberType> type = runtime::number_type(words, types({words}));
    return type && type->lanes == 1 ? std::optional(type->dtype) : std::nullopt;
  }

  const Device& device_;
  const Source source_;
  const std::shared_ptr<const LoadedSource> loaded_;
  const std::vector<runtime::SourceToken> tokens_;
  mutable std::mutex mutex_;
  mutable runtime::Typedefs types_;  // that were asked for
  std::vector<SourceSignature> signatures_;
  std::vector<std::string> names_, sorted_;  // as in the machine code; as in the source
};

// A kernel_call on a stream that may be captured: who runs the Program keeps the order.
class SourceStep final : public LibraryCall {
 public:
  SourceStep(const Device& device, std::shared_ptr<const runtime::SourceCall> call)
      : call_(std::move(call)), kernel_(dynamic_cast<const CudaKernel&>(*call_->kernel)) {
    if (call_->launch.grid.x > 0) kernel_.prepare(call_->launch);
    for (const runtime::SourceCall::Slot& slot : call_->slots)
      unwanted_.push_back(slot.position >= 0
                              ? nullptr
                              : std::make_shared<Memory>(device, static_cast<std::int64_t>(slot.bytes),
                                                         Type{DType::u8, {slot.bytes}}, device.transfers(),
                                                         "a result that nobody wants"));
    device.settle(device.transfers());
  }

  void run(Stream stream, std::span<const Address> inputs, std::span<const Address> outputs,
           Address) const override {
    std::vector<Address> addresses(call_->slots.size());
    std::vector<void*> list(addresses.size());
    for (std::size_t i = 0; i < addresses.size(); ++i) {
      const runtime::SourceCall::Slot& slot = call_->slots[i];
      addresses[i] = slot.position < 0
                         ? unwanted_[i]->address()
                         : (slot.is_result ? outputs : inputs)[static_cast<std::size_t>(slot.position)];
      list[i] = &addresses[i];
      if (call_->zeroes && slot.is_result && slot.bytes > 0)
        check(driver().cuMemsetD8Async(addresses[i], 0, slot.bytes, stream), "cuMemsetD8Async");
    }
    if (call_->launch.grid.x > 0) kernel_.put(call_->launch, stream, list.data());
  }

 private:
  const std::shared_ptr<const runtime::SourceCall> call_;
  const CudaKernel& kernel_;
  std::vector<MemoryRef> unwanted_;  // by slot
};

std::shared_ptr<const CudaProgram> build(const Device& device, const std::string& source, bool is_portable,
                                         const SourceOptions& options) {
  const timeline::Span span("compile", "kernel source");
  return std::make_shared<CudaProgram>(
      device, Source{source, fmt::format("cuda:{}", device.ordinal()), is_portable, options});
}

}  // namespace

std::shared_ptr<const runtime::SourceProgram> build_source(const std::string& source, bool is_portable,
                                                           const SourceOptions& options, int ordinal) {
  return build(device_of(ordinal), source, is_portable, options);
}

std::shared_ptr<const LibraryCall> source_call(const Device& device, const lower::Step& step) {
  auto call = runtime::source_call(step, codegen::Dialect::cuda,
                                   [&](const runtime::NamedSource& source, const SourceOptions& options) {
                                     return build(device, source.text, source.is_portable, options);
                                   });
  if (call == nullptr) return nullptr;
  return std::make_shared<SourceStep>(device, std::move(call));
}

}  // namespace systole::cuda
