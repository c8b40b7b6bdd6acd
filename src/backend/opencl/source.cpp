#include "backend/opencl/source.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <functional>
#include <limits>
#include <mutex>
#include <optional>
#include <utility>

#include "backend/opencl/source_types.h"
#include "runtime/disk_cache.h"
#include "runtime/source_text.h"
#include "runtime/timeline.h"
#include "systole/base/error.h"

namespace systole::opencl {

namespace {

using runtime::SourceArgument;
using runtime::SourceParameter;

using Sizes = std::array<std::size_t, 3>;

Sizes sizes_of(const Size3& s) {
  return {static_cast<std::size_t>(s.x), static_cast<std::size_t>(s.y), static_cast<std::size_t>(s.z)};
}

template <class T>
T device_number(const Device& device, cl_device_info what) {
  T value{};
  check(api().clGetDeviceInfo(device.id(), what, sizeof value, &value, nullptr), "clGetDeviceInfo");
  return value;
}

template <class T>
T group_number(const Device& device, cl_kernel kernel, cl_kernel_work_group_info what) {
  T value{};
  check(api().clGetKernelWorkGroupInfo(kernel, device.id(), what, sizeof value, &value, nullptr),
        "clGetKernelWorkGroupInfo");
  return value;
}

// What `get` (data, size, its size) answers as text.
template <class Get>
std::string text_of(Get&& get, std::string_view call) {
  std::size_t size = 0;
  check(get(0, nullptr, &size), call);
  std::string text(size, '\0');
  check(get(size, text.data(), nullptr), call);
  text.resize(std::min(text.find('\0'), text.size()));
  return text;
}

// A parameter as the driver describes it, with the type's words in `words`; its number alone when it keeps no
// descriptions.
SourceParameter parameter_of(cl_kernel kernel, cl_uint index, std::string& words) {
  SourceParameter p;
  const auto ask = [&](cl_kernel_arg_info what, std::size_t size, void* answer) {
    return api().clGetKernelArgInfo(kernel, index, what, size, answer, nullptr);
  };
  cl_kernel_arg_address_qualifier space = 0;
  cl_kernel_arg_type_qualifier qualifier = 0;
  if (ask(CL_KERNEL_ARG_ADDRESS_QUALIFIER, sizeof space, &space) != CL_SUCCESS ||
      ask(CL_KERNEL_ARG_TYPE_QUALIFIER, sizeof qualifier, &qualifier) != CL_SUCCESS)
    return p;
  const auto text = [&](cl_kernel_arg_info what) {
    return text_of(
        [&](std::size_t size, void* answer, std::size_t* whole) {
          return api().clGetKernelArgInfo(kernel, index, what, size, answer, whole);
        },
        "clGetKernelArgInfo");
  };
  p.name = text(CL_KERNEL_ARG_NAME);
  std::string type = text(CL_KERNEL_ARG_TYPE_NAME);
  const bool is_const = (qualifier & CL_KERNEL_ARG_TYPE_CONST) != 0;
  const bool is_pointer = !type.empty() && type.back() == '*';
  if (space == CL_KERNEL_ARG_ADDRESS_LOCAL)
    p.kind = SourceParameter::Kind::local;
  else if (is_pointer)
    p.kind = SourceParameter::Kind::array;
  else if (space == CL_KERNEL_ARG_ADDRESS_PRIVATE)
    p.kind = SourceParameter::Kind::number;
  p.is_written = p.kind == SourceParameter::Kind::array && !is_const && space == CL_KERNEL_ARG_ADDRESS_GLOBAL;
  p.type = fmt::format("{}{}{}", p.kind == SourceParameter::Kind::local ? "__local " : "",
                       is_const && is_pointer ? "const " : "", type);
  if (is_pointer) type.pop_back();
  words = std::move(type);
  return p;
}

// What the program's own names of types stand for.
using Types = std::function<runtime::Typedefs(const std::vector<std::string>& words)>;

std::vector<SourceParameter> parameters_of(cl_kernel kernel, const Types& types) {
  cl_uint count = 0;
  check(api().clGetKernelInfo(kernel, CL_KERNEL_NUM_ARGS, sizeof count, &count, nullptr), "clGetKernelInfo");
  std::vector<SourceParameter> parameters;
  std::vector<std::string> words(count), unknown;
  const auto is_asked = [](const std::string& text) {
    return !text.empty() && text != "void" && std::all_of(text.begin(), text.end(), [](char c) {
      return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_' || c == ' ';
    });
  };
  for (cl_uint i = 0; i < count; ++i) {
    parameters.push_back(parameter_of(kernel, i, words[i]));
    if (is_asked(words[i]) && !runtime::number_type(words[i], {})) unknown.push_back(words[i]);
  }
  const runtime::Typedefs known = unknown.empty() ? runtime::Typedefs() : types(unknown);
  for (cl_uint i = 0; i < count; ++i)
    if (const std::optional<runtime::NumberType> number = runtime::number_type(words[i], known)) {
      SourceParameter& p = parameters[i];
      p.dtype = number->dtype;
      p.lanes = number->lanes;
      p.bytes = size_of(number->dtype) * static_cast<std::size_t>(p.lanes == 3 ? 4 : p.lanes);
    }
  return parameters;
}

class OpenClKernel final : public runtime::SourceKernel {
 public:
  OpenClKernel(const Device& device, std::shared_ptr<const Program> program, const std::string& name,
               const Types& types, std::string where)
      : device_(device),
        program_(std::move(program)),
        kernel_(Device::kernel(*program_, name)),
        where_(std::move(where)),
        name_(name),
        details_(timeline::details({{"device", std::string_view(where_).substr(where_.rfind(' ') + 1)}})),
        most_threads_(group_number<std::size_t>(device, kernel_.get(), CL_KERNEL_WORK_GROUP_SIZE)),
        fixed_(group_number<Sizes>(device, kernel_.get(), CL_KERNEL_COMPILE_WORK_GROUP_SIZE)),
        own_local_(group_number<cl_ulong>(device, kernel_.get(), CL_KERNEL_LOCAL_MEM_SIZE)),
        most_local_(device_number<cl_ulong>(device, CL_DEVICE_LOCAL_MEM_SIZE)),
        parameters_(parameters_of(kernel_.get(), types)) {
    const auto dimensions = device_number<cl_uint>(device, CL_DEVICE_MAX_WORK_ITEM_DIMENSIONS);
    std::vector<std::size_t> most(std::max<cl_uint>(dimensions, 3));
    check(api().clGetDeviceInfo(device.id(), CL_DEVICE_MAX_WORK_ITEM_SIZES, most.size() * sizeof most[0],
                                most.data(), nullptr),
          "clGetDeviceInfo");
    std::copy_n(most.begin(), 3, most_sizes_.begin());
  }

  const std::vector<SourceParameter>& parameters() const override { return parameters_; }
  std::optional<Size3> block() const override {
    if (fixed_[0] == 0) return std::nullopt;
    const auto n = [&](std::size_t d) { return static_cast<std::int64_t>(fixed_[d]); };
    return Size3{n(0), n(1), n(2)};
  }

  void launch(const Launch& launch, std::span<const SourceArgument> arguments) const override {
    const timeline::Span span("kernel", name_, details_);
    const Sizes block = sizes_of(launch.block), grid = sizes_of(launch.grid);
    check_block(launch.block, block);
    check_local(launch, arguments);
    Sizes all;
    for (std::size_t d = 0; d < 3; ++d) all[d] = grid[d] * block[d];

    const Parts parts = parts_of(arguments);
    const std::lock_guard lock(mutex_);  // a kernel holds its arguments until it is queued
    for (std::size_t i = 0; i < arguments.size(); ++i)
      set(static_cast<cl_uint>(i), arguments[i], parts.memory[i].get());
    check(api().clEnqueueNDRangeKernel(device_.queue(), kernel_.get(), 3, nullptr, all.data(), block.data(),
                                       0, nullptr, nullptr),
          fmt::format("{}: clEnqueueNDRangeKernel", where_));
    for (const Parts::Copy& copy : parts.to_bring_back)
      device_.copy({copy.memory.get(), 0}, copy.place, copy.bytes);
    device_.flush();
    device_.finish_if_timed();
  }

 private:
  // Kernels take whole memory objects: for what lies inside one, an object that begins there, or a copy where
  // the device lets none begin.
  struct Parts {
    struct Copy {
      Memory memory;
      Place place;
      std::size_t bytes;
    };
    std::vector<Memory> memory;  // by argument; null: what it is a part of
    std::vector<Copy> to_bring_back;
  };
  Parts parts_of(std::span<const SourceArgument> arguments) const {
    Parts parts{std::vector<Memory>(arguments.size()), {}};
    for (std::size_t i = 0; i < arguments.size(); ++i) {
      const runtime::BufferPart& array = arguments[i].array;
      const bool is_part = array.buffer != nullptr && array.bytes > 0 &&
                           array.bytes < static_cast<std::size_t>(array.buffer->type().bytes());
      if (!is_part || parts.memory[i] != nullptr) continue;
      parts.memory[i] = device_.part(place_of(array), array.bytes);
      if (parts.memory[i] == nullptr) copy_part(arguments, i, parts);
    }
    return parts;
  }

  // A copy of the argument's part of its array. When any of the arguments that share bytes with it, directly
  // or by others, is written, they are parts of one copy: each would bring back its own otherwise.
  void copy_part(std::span<const SourceArgument> arguments, std::size_t i, Parts& parts) const {
    runtime::BufferPart whole = arguments[i].array;
    std::vector<std::size_t> shared;
    bool is_written = false;
    for (bool grows = true; grows;) {
      grows = false;
      for (std::size_t k = 0; k < arguments.size(); ++k) {
        const runtime::BufferPart& other = arguments[k].array;
        if (other.buffer != whole.buffer || other.bytes == 0 || other.offset >= whole.offset + whole.bytes ||
            whole.offset >= other.offset + other.bytes ||
            std::find(shared.begin(), shared.end(), k) != shared.end())
          continue;
        const std::size_t end = std::max(whole.offset + whole.bytes, other.offset + other.bytes);
        whole.offset = std::min(whole.offset, other.offset);
        whole.bytes = end - whole.offset;
        is_written = is_written || parameters_[k].is_written || !parameters_[k].kind;
        shared.push_back(k);
        grows = true;
      }
    }
    if (!is_written) {
      shared = {i};
      whole = arguments[i].array;
    }
    const Memory copy = device_.allocate(static_cast<std::int64_t>(whole.bytes));
    device_.copy(place_of(whole), {copy.get(), 0}, whole.bytes);
    for (const std::size_t k : shared) {
      const runtime::BufferPart& own = arguments[k].array;
      const std::size_t begin = own.offset - whole.offset;
      parts.memory[k] = own.bytes == whole.bytes ? copy : device_.part({copy.get(), begin}, own.bytes);
      if (parts.memory[k] == nullptr)
        throw Error(
            ErrorKind::kUnsupported, where_,
            fmt::format("argument {}: its part of an array overlaps another argument's, one of them is "
                        "written, and this device lets no memory begin there",
                        k),
            "parts that begin at one place, or do not overlap",
            fmt::format("one that begins {} bytes behind another", begin));
    }
    if (is_written) parts.to_bring_back.push_back({copy, place_of(whole), whole.bytes});
  }

  void check_block(const Size3& asked, const Sizes& block) const {
    const auto refuse = [&](const char* what, const Sizes& most) {
      throw Error(ErrorKind::kLimit, where_, what, fmt::format("at most {}", fmt::join(most, "×")),
                  runtime::to_string(asked));
    };
    if (fixed_[0] != 0 && block != fixed_)
      throw Error(ErrorKind::kInvalidArgument, where_, "the kernel is compiled for blocks of another size",
                  fmt::format("{}", fmt::join(fixed_, "×")), runtime::to_string(asked));
    for (std::size_t d = 0; d < 3; ++d)
      if (block[d] > most_sizes_[d]) refuse("the block is larger than the device takes", most_sizes_);
    if (block[0] * block[1] * block[2] > most_threads_)
      throw Error(ErrorKind::kLimit, where_, "the block has more threads than the device runs of this kernel",
                  fmt::format("at most {}", most_threads_), std::to_string(block[0] * block[1] * block[2]));
  }

  void check_local(const Launch& launch, std::span<const SourceArgument> arguments) const {
    if (launch.shared_bytes > 0 && (arguments.empty() || arguments.back().local_bytes != launch.shared_bytes))
      throw Error(ErrorKind::kInvalidArgument, where_,
                  "the launch has shared_bytes and the kernel no parameter for them",
                  "a last parameter of the form __local T*, without an argument",
                  parameters_.empty() ? "no parameter" : parameters_.back().to_string());
    std::size_t wanted = own_local_;
    for (const SourceArgument& argument : arguments)
      if (__builtin_add_overflow(wanted, argument.local_bytes, &wanted))
        wanted = std::numeric_limits<std::size_t>::max();
    if (wanted > most_local_)
      throw Error(ErrorKind::kLimit, where_, "more local memory than the device has",
                  fmt::format("at most {} bytes", most_local_), fmt::format("{} bytes", wanted));
  }

  void set(cl_uint index, const SourceArgument& argument, cl_mem part) const {
    cl_mem memory = part;  // null: all of an array, which may have no elements
    std::size_t size = argument.number.size();
    const void* value = argument.number.data();
    if (argument.local_bytes > 0) {
      size = argument.local_bytes;
      value = nullptr;
    } else if (argument.number.empty()) {
      if (argument.array.buffer == nullptr)
        memory = static_cast<cl_mem>(argument.memory);
      else if (memory == nullptr && argument.array.bytes > 0)
        memory = place_of(argument.array).memory;
      size = sizeof(cl_mem);
      value = &memory;
    }
    check(api().clSetKernelArg(kernel_.get(), index, size, value),
          fmt::format("{}: clSetKernelArg of argument {}", where_, index));
  }

  const Device& device_;
  const std::shared_ptr<const Program> program_;
  const Kernel kernel_;
  const std::string where_, name_, details_;  // details: on the timeline
  const std::size_t most_threads_;
  const Sizes fixed_;                      // by reqd_work_group_size; zeros: none
  const cl_ulong own_local_, most_local_;  // the former without the arguments'
  Sizes most_sizes_;
  const std::vector<SourceParameter> parameters_;
  mutable std::mutex mutex_;
};

class OpenClProgram final : public runtime::SourceProgram {
 public:
  OpenClProgram(const Device& device, Program program, std::string log, std::string text, std::string flags,
                std::string where)
      : device_(device),
        program_(std::make_shared<const Program>(std::move(program))),
        log_(std::move(log)),
        text_(std::move(text)),
        flags_(std::move(flags)),
        where_(std::move(where)) {
    std::string all = text_of(
        [&](std::size_t size, void* answer, std::size_t* whole) {
          return api().clGetProgramInfo(program_->get(), CL_PROGRAM_KERNEL_NAMES, size, answer, whole);
        },
        "clGetProgramInfo");
    for (std::size_t begin = 0; begin < all.size();) {
      const std::size_t end = std::min(all.find(';', begin), all.size());
      if (end > begin) names_.push_back(all.substr(begin, end - begin));
      begin = end + 1;
    }
  }
  const std::vector<std::string>& names() const override { return names_; }
  const std::string& log() const override { return log_; }
  std::shared_ptr<const runtime::SourceKernel> kernel(const std::string& name) const override {
    return std::make_shared<OpenClKernel>(
        device_, program_, name, [this](const std::vector<std::string>& words) { return types(words); },
        fmt::format("kernel {} on {}", name, where_));
  }

 private:
  runtime::Typedefs types(std::vector<std::string> words) const {
    const std::lock_guard lock(mutex_);
    std::erase_if(words, [&](const std::string& word) { return types_.contains(word); });
    std::sort(words.begin(), words.end());
    words.erase(std::unique(words.begin(), words.end()), words.end());
    if (!words.empty()) types_.merge(types_in(device_, text_, flags_, words));
    return types_;
  }

  const Device& device_;
  const std::shared_ptr<const Program> program_;
  const std::string log_;
  const std::string text_, flags_;  // that it was built of
  const std::string where_;
  std::vector<std::string> names_;
  mutable std::mutex mutex_;
  mutable runtime::Typedefs types_;  // that were asked for
};

std::string log_of(const Device& device, cl_program program) {
  return text_of(
      [&](std::size_t size, void* answer, std::size_t* whole) {
        return api().clGetProgramBuildInfo(program, device.id(), CL_PROGRAM_BUILD_LOG, size, answer, whole);
      },
      "clGetProgramBuildInfo");
}

// The driver takes its flags as one text: a value with a space in it stands as a #define.
void define_values_with_spaces(SourceOptions& options) {
  std::erase_if(options.flags.opencl, [&](const std::string& flag) {
    const std::size_t equals = flag.find('=');
    if (!flag.starts_with("-D") || equals == std::string::npos || flag.find(' ') == std::string::npos)
      return false;
    const std::size_t name = flag.find_first_not_of(' ', 2);
    if (name >= equals) return false;
    options.defines.emplace_back(flag.substr(name, equals - name), flag.substr(equals + 1));
    return true;
  });
}

}  // namespace

namespace {

struct Built {
  Program program{nullptr, [](cl_program) {}};
  std::string log;
};

// What is kept on disk: the length of the log, the log, the driver's binary.
std::string to_entry(const Device& device, const Built& built) {
  return fmt::format("{}\n{}{}", built.log.size(), built.log, device.binary_of(built.program.get()));
}
std::optional<Built> from_entry(const Device& device, std::string_view entry, const std::string& flags) {
  std::size_t length = 0;
  const auto [end, error] = std::from_chars(entry.data(), entry.data() + entry.size(), length);
  const auto begin = static_cast<std::size_t>(end - entry.data()) + 1;
  if (error != std::errc() || begin > entry.size() || length > entry.size() - begin) return std::nullopt;
  Built built{device.from_binary(entry.substr(begin + length), flags),
              std::string(entry.substr(begin, length))};
  if (!built.program) return std::nullopt;
  return built;
}

}  // namespace

std::shared_ptr<const runtime::SourceProgram> build_source(const std::string& source, bool is_portable,
                                                           const SourceOptions& options, int ordinal) {
  const Device& device = *devices().at(static_cast<std::size_t>(ordinal));
  const std::string where = DeviceName{"opencl", {}, ordinal}.to_string();
  const timeline::Span span("compile", "kernel source");
  SourceOptions given = options;
  define_values_with_spaces(given);
  const std::string text =
      runtime::source_head(codegen::Dialect::opencl, is_portable, given, source) + source;
  std::string flags = "-cl-kernel-arg-info";
  const std::string own = fmt::format("{}", fmt::join(given.flags.opencl, " "));
  if (own.find("-cl-std") == std::string::npos) flags += " -cl-std=CL1.2";
  flags += " " + own;
  // Headers may change without the text.
  const std::optional<runtime::DiskCache> cache =
      source.find("#include") != std::string::npos ? std::nullopt : runtime::disk_cache();
  const runtime::CacheKey key = device.cache_key(text, flags);
  std::optional<Built> built;
  if (const std::optional<std::string> entry = cache ? cache->find(key) : std::nullopt) {
    built = from_entry(device, *entry, flags);
    if (!built) cache->remove(key);
  }
  if (!built) {
    const char* begin = text.c_str();
    const std::size_t size = text.size();
    cl_int status = CL_SUCCESS;
    built = Built{Program(api().clCreateProgramWithSource(device.context(), 1, &begin, &size, &status),
                          [](cl_program p) { api().clReleaseProgram(p); }),
                  {}};
    check(status, "clCreateProgramWithSource");
    cl_device_id id = device.id();
    status = api().clBuildProgram(built->program.get(), 1, &id, flags.c_str(), nullptr, nullptr);
    if (status == CL_INVALID_BUILD_OPTIONS)
      throw Error(ErrorKind::kInvalidArgument, fmt::format("kernel source on {}", where),
                  "the driver does not know the flags", {}, own);
    built->log = log_of(device, built->program.get());
    if (status == CL_BUILD_PROGRAM_FAILURE) runtime::refuse_source(where, source, options, built->log);
    check(status, "clBuildProgram");
    if (cache) cache->store(key, to_entry(device, *built));
  }
  return std::make_shared<OpenClProgram>(device, std::move(built->program), std::move(built->log), text,
                                         flags, where);
}

std::shared_ptr<const runtime::SourceCall> source_call(const Device& device, const lower::Step& step) {
  return runtime::source_call(
      step, codegen::Dialect::opencl, [&](const runtime::NamedSource& source, const SourceOptions& options) {
        const auto& all = devices();
        const auto found =
            std::find_if(all.begin(), all.end(), [&](const auto& d) { return d.get() == &device; });
        return build_source(source.text, source.is_portable, options, static_cast<int>(found - all.begin()));
      });
}

// Kernels take whole memory objects: what lies inside one is copied out, and results back.
void run(const Device& device, const runtime::SourceCall& call, std::span<const Place> inputs,
         std::span<const Place> outputs) {
  const bool is_empty = call.launch.grid.x == 0;
  if (is_empty && !call.zeroes) return;
  std::vector<SourceArgument> arguments(call.kernel->parameters().size());
  std::vector<Memory> own(call.slots.size());
  const std::byte zero{0};
  const auto place = [&](const runtime::SourceCall::Slot& slot) {
    return (slot.is_result ? outputs : inputs)[static_cast<std::size_t>(slot.position)];
  };
  for (std::size_t i = 0; i < call.slots.size(); ++i) {
    const runtime::SourceCall::Slot& slot = call.slots[i];
    const bool is_whole = slot.position >= 0 && place(slot).offset == 0;
    if (!is_whole) own[i] = device.allocate(static_cast<std::int64_t>(slot.bytes));
    if (!is_whole && !slot.is_result) device.copy(place(slot), {own[i].get(), 0}, slot.bytes);
    arguments[i].memory = is_whole ? place(slot).memory : own[i].get();
    if (call.zeroes && slot.is_result)
      device.fill({static_cast<cl_mem>(arguments[i].memory), 0}, {&zero, 1}, slot.bytes);
  }
  if (arguments.size() > call.slots.size()) arguments.back().local_bytes = call.launch.shared_bytes;
  if (!is_empty) call.kernel->launch(call.launch, arguments);
  for (std::size_t i = 0; i < call.slots.size(); ++i)
    if (const runtime::SourceCall::Slot& slot = call.slots[i]; own[i] && slot.is_result && slot.position >= 0)
      device.copy({own[i].get(), 0}, place(slot), slot.bytes);
}

}  // namespace systole::opencl
