// What is passed to a kernel against what it takes. Errors name the kernel and the parameter, as the source
// writes it.

#include "systole/tensor/kernels.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "runtime/source_kernels.h"
#include "systole/base/error.h"
#include "tensor/frame.h"
#include "tensor/thread_state.h"

namespace systole {

namespace {

using detail::DeclaredParameter;
using detail::KernelValue;
using runtime::SourceArgument;
using runtime::SourceParameter;
using Kind = KernelValue::Kind;
using ParameterKind = SourceParameter::Kind;

std::string lanes_of(DType dtype, int lanes) {
  return lanes > 1 ? fmt::format("{}×{}", name(dtype), lanes) : std::string(name(dtype));
}

std::string in_words(Kind kind, std::optional<DType> dtype, int lanes = 1) {
  const std::string type = dtype ? lanes_of(*dtype, lanes) : std::string();
  switch (kind) {
    case Kind::array: return fmt::format("an array of {}", type);
    case Kind::local: return fmt::format("local memory of {}", type);
    case Kind::bytes: return dtype ? fmt::format("numbers of {}", type) : "a struct";
    default: return fmt::format("a number of {}", type);
  }
}

std::string in_words(const SourceParameter& p) {
  const std::string type = p.dtype ? lanes_of(*p.dtype, p.lanes) : fmt::format("type {}", p.type);
  if (!p.kind) return "what the driver does not say";
  switch (*p.kind) {
    case ParameterKind::array: return fmt::format("an array of {}", type);
    case ParameterKind::local: return fmt::format("local memory of {}", type);
    case ParameterKind::number: return fmt::format("a number of {}", type);
  }
  __builtin_unreachable();
}

std::string_view in_a_word(Kind kind) {
  switch (kind) {
    case Kind::array: return "an array";
    case Kind::local: return "local memory";
    case Kind::bytes: return "a struct";
    default: return "a number";
  }
}

std::string_view in_a_word(const SourceParameter& p) {
  switch (p.kind.value_or(ParameterKind::number)) {
    case ParameterKind::array: return "an array";
    case ParameterKind::local: return "local memory";
    case ParameterKind::number: return !p.dtype ? "a struct" : p.lanes > 1 ? "a vector" : "a number";
  }
  __builtin_unreachable();
}

// Where in a call something is wrong.
struct Place {
  const std::string& where;
  std::size_t index;
  const SourceParameter& parameter;

  [[noreturn]] void refuse(ErrorKind kind, std::string_view what, std::string expected,
                           std::string got) const {
    const std::string text = parameter.to_string();
    throw Error(kind, where,
                fmt::format("argument {}{}: {}", index, text.empty() ? "" : fmt::format(" ({})", text), what),
                std::move(expected), std::move(got));
  }
};

bool kinds_agree(const SourceParameter& parameter, Kind kind) {
  if (!parameter.kind) return true;
  switch (kind) {
    case Kind::array: return parameter.kind == ParameterKind::array;
    case Kind::local: return parameter.kind == ParameterKind::local;
    case Kind::bytes:
      return parameter.kind == ParameterKind::number && (!parameter.dtype || parameter.lanes > 1);
    default: return parameter.kind == ParameterKind::number && parameter.dtype && parameter.lanes == 1;
  }
}

void check_kind(const Place& at, Kind kind, std::optional<DType> dtype) {
  if (!kinds_agree(at.parameter, kind))
    at.refuse(ErrorKind::kInvalidArgument,
              fmt::format("{} is wanted, {} was given", in_a_word(at.parameter), in_a_word(kind)),
              in_words(at.parameter), in_words(kind, dtype));
  const bool has_elements = kind == Kind::array || kind == Kind::local;
  if (has_elements && dtype && !at.parameter.takes(*dtype))
    at.refuse(ErrorKind::kDType, "its elements are of another type", in_words(at.parameter),
              in_words(kind, dtype));
}

// A struct by its size; numbers for a vector by their type and count too. A vector of three may be as large
// as one of four: then `is_padded`.
void check_bytes(const Place& at, std::size_t got, std::optional<DType> dtype, int lanes,
                 bool* is_padded = nullptr) {
  const SourceParameter& p = at.parameter;
  if (p.dtype && p.lanes > 1 && dtype && !p.takes(*dtype))
    at.refuse(ErrorKind::kDType, "its numbers are of another type", in_words(p),
              in_words(Kind::bytes, dtype, lanes));
  if (p.bytes == 0 || p.bytes == got) return;
  const bool is_short = p.dtype && dtype && p.lanes == 3 && lanes == 3;
  if (is_padded != nullptr) *is_padded = is_short;
  if (!is_short)
    at.refuse(ErrorKind::kInvalidArgument, "its size is another",
              fmt::format("{} bytes, {}", p.bytes, in_words(p)),
              fmt::format("{} bytes, {}", got, in_words(Kind::bytes, dtype, lanes)));
}

// A C++ type for a number: the kernel's own, since nothing is converted later.
void check_declared(const Place& at, const DeclaredParameter& declared) {
  check_kind(at, declared.kind, declared.dtype);
  const bool is_number =
      declared.kind != Kind::array && declared.kind != Kind::local && declared.kind != Kind::bytes;
  if (is_number && at.parameter.dtype && !at.parameter.takes(*declared.dtype))
    at.refuse(ErrorKind::kDType, "its type is another", in_words(at.parameter),
              in_words(declared.kind, declared.dtype));
  if (declared.kind == Kind::bytes) check_bytes(at, declared.bytes, declared.dtype, declared.lanes);
  if (declared.kind == Kind::array && declared.is_const && at.parameter.is_written)
    at.refuse(ErrorKind::kInvalidArgument, "it is declared const and the kernel may write to it",
              "const in the kernel, or an array that is not const", "a const array");
}

// The bytes of a number in a parameter's type, or of three in the room of four.
class Number {
 public:
  std::span<const std::byte> bytes() const { return {bytes_, size_}; }

  std::span<const std::byte> padded(std::span<const std::byte> from, std::size_t size) {
    size_ = std::min(size, sizeof bytes_);
    std::memcpy(bytes_, from.data(), std::min(from.size(), size_));
    return bytes();
  }

  void set(const Place& at, const KernelValue& x) {
    const DType to = at.parameter.dtype.value_or(*x.dtype);  // when the driver does not say: as it is
    visit_dtype(to, [&]<class T>() {
      T value{};
      switch (x.kind) {
        case Kind::floating: value = of_floating<T>(at, x.floating); break;
        case Kind::signed_integer: value = of_integer<T>(at, x.signed_integer); break;
        default: value = of_integer<T>(at, x.unsigned_integer); break;
      }
      size_ = sizeof value;
      std::memcpy(bytes_, &value, size_);
    });
  }

 private:
  template <class T>
  static T of_floating(const Place& at, double x) {
    if constexpr (std::is_integral_v<T>)
      at.refuse(ErrorKind::kDType, "a float is not taken for an integer", in_words(at.parameter),
                fmt::format("{}", x));
    else {
      const T value = static_cast<T>(x);  // rounded, as in C++
      if (std::isfinite(x) && !std::isfinite(static_cast<double>(value)))
        at.refuse(ErrorKind::kInvalidArgument, "the number does not fit", in_words(at.parameter),
                  fmt::format("{}", x));
      return value;
    }
  }
  template <class T, class Integer>
  static T of_integer(const Place& at, Integer x) {
    bool fits;
    if constexpr (std::is_same_v<T, bool>)
      fits = x == 0 || x == 1;
    else if constexpr (std::is_integral_v<T>)
      fits = std::in_range<T>(x);
    else
      fits = is_exact(static_cast<double>(static_cast<T>(static_cast<double>(x))), x);
    if (!fits)
      at.refuse(ErrorKind::kInvalidArgument, "the number does not fit", in_words(at.parameter),
                std::to_string(x));
    if constexpr (std::is_integral_v<T>)
      return static_cast<T>(x);
    else
      return static_cast<T>(static_cast<double>(x));
  }
  template <class Integer>
  static bool is_exact(double rounded, Integer x) {
    constexpr double kEnd =
        2.0 * static_cast<double>(std::uint64_t{1} << (std::numeric_limits<Integer>::digits - 1));
    return rounded < kEnd && rounded >= -kEnd && static_cast<Integer>(rounded) == x;
  }

  std::byte bytes_[32]{};
  std::size_t size_ = 0;
};

// Vectors are read whole, from where they may lie.
void check_alignment(const Place& at, std::size_t offset) {
  const SourceParameter& p = at.parameter;
  if (!p.dtype || p.lanes == 1 || p.lanes == 3) return;
  constexpr std::size_t kMost = 16;
  const std::size_t wanted = std::min(size_of(*p.dtype) * static_cast<std::size_t>(p.lanes), kMost);
  if (offset % wanted != 0)
    at.refuse(ErrorKind::kInvalidArgument, "the view begins where no such vector may lie",
              fmt::format("a multiple of {} bytes", wanted), fmt::format("byte {}", offset));
}

void check_array(const Place& at, const KernelValue& x, const DeviceName& device) {
  const detail::DeviceMemory& memory = x.memory();
  if (!memory.defined())
    at.refuse(ErrorKind::kInvalidArgument, "the array is undefined: never made, moved from or freed",
              in_words(at.parameter), "no array");
  if (!(memory.device() == device))
    at.refuse(ErrorKind::kInvalidArgument, "the array lies on another device", device.to_string(),
              memory.device().to_string());
  if (at.parameter.is_written && x.writable == nullptr)
    at.refuse(ErrorKind::kInvalidArgument, "the kernel may write to it",
              "const in the kernel, or an array that is neither const nor a temporary",
              x.named != nullptr ? "a const array" : "a temporary");
}

std::string signature_of(const runtime::SourceKernel& kernel) {
  std::string text;
  for (const SourceParameter& p : kernel.parameters())
    text += fmt::format("{}{}", text.empty() ? "" : ", ", p.to_string());
  return text;
}

std::string kernel_form(codegen::Dialect dialect, bool is_portable) {
  if (is_portable) return "S_ENTRY name(…)";
  switch (dialect) {
    case codegen::Dialect::c: return "void name(…, long long begin, long long end), not static";
    case codegen::Dialect::cuda: return "__global__ void name(…)";
    case codegen::Dialect::opencl: return "__kernel void name(…)";
  }
  __builtin_unreachable();
}

// A compiled function would run the kernel while it is traced, and never again.
void refuse_traced(const std::string& where) {
  const recording::Frame* const frame = recording::thread_state().frame;
  if (frame != nullptr && frame->compile_id() != 0)
    throw Error(ErrorKind::kInvalidArgument, where,
                "a kernel is launched inside compile(): it would run once, while the function is traced, and "
                "not when the compiled function is called",
                "a launch outside, or a KernelOp, which is part of the function");
}

[[noreturn]] void refuse_undefined(const char* what) {
  throw Error(ErrorKind::kInvalidArgument, what, "it is undefined: never made, or moved from");
}

}  // namespace

struct SourceFunction::State {
  std::string name, where;
  DeviceName device;
  std::shared_ptr<const runtime::SourceKernel> kernel;

  void check_count(std::size_t got) const {
    const std::size_t wanted = kernel->parameters().size();
    if (got == wanted) return;
    throw Error(ErrorKind::kInvalidArgument, where,
                fmt::format("wrong number of arguments; it takes ({})", signature_of(*kernel)),
                std::to_string(wanted), std::to_string(got));
  }
};

const SourceFunction::State& SourceFunction::state() const {
  if (state_ == nullptr) refuse_undefined("SourceFunction");
  return *state_;
}

const std::string& SourceFunction::name() const { return state().name; }
const DeviceName& SourceFunction::device() const { return state().device; }

std::vector<SourceFunction::Parameter> SourceFunction::parameters() const {
  std::vector<Parameter> all;
  for (const SourceParameter& p : state().kernel->parameters()) all.push_back({p.type, p.name});
  return all;
}

void SourceFunction::check(std::span<const DeclaredParameter> declared) const {
  const std::vector<SourceParameter>& parameters = state().kernel->parameters();
  // Local memory that the launch gives the size of is no argument.
  const bool is_open = !parameters.empty() && parameters.back().kind == ParameterKind::local;
  if (!is_open || declared.size() + 1 != parameters.size()) state_->check_count(declared.size());
  for (std::size_t i = 0; i < declared.size(); ++i)
    check_declared({state_->where, i, parameters[i]}, declared[i]);
}

void SourceFunction::launch(const Launch& launch, std::span<const KernelArgument> arguments) const {
  const std::vector<SourceParameter>& parameters = state().kernel->parameters();
  const std::string& where = state_->where;
  refuse_traced(where);
  runtime::check_launch(where, launch);
  runtime::queue_of(launch.stream, state_->device, where);
  const bool is_open = launch.shared_bytes > 0 && arguments.size() + 1 == parameters.size() &&
                       parameters.back().kind == ParameterKind::local;
  if (!is_open) state_->check_count(arguments.size());

  std::vector<SourceArgument> given(parameters.size());
  std::vector<Number> numbers(arguments.size());
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    const KernelValue& x = arguments[i].value_;
    const Place at{where, i, parameters[i]};
    check_kind(at, x.kind, x.dtype);
    switch (x.kind) {
      case Kind::array:
        check_array(at, x, state_->device);
        check_alignment(at, x.memory().part().offset);
        break;
      case Kind::local:
        if (x.signed_integer < 1)
          at.refuse(ErrorKind::kInvalidArgument, "no such size", "1 element or more",
                    std::to_string(x.signed_integer));
        given[i].local_bytes = static_cast<std::size_t>(x.signed_integer) * size_of(*x.dtype);
        break;
      case Kind::bytes: {
        bool is_padded = false;
        check_bytes(at, x.bytes.size(), x.dtype, x.lanes, &is_padded);
        given[i].number = is_padded ? numbers[i].padded(x.bytes, parameters[i].bytes) : x.bytes;
        break;
      }
      default: numbers[i].set(at, x); given[i].number = numbers[i].bytes();
    }
  }
  if (is_open) given.back().local_bytes = launch.shared_bytes;
  const Size3& grid = launch.grid;
  if (grid.x == 0 || grid.y == 0 || grid.z == 0) return;
  // Only now: a call that throws leaves its arrays as they were. An array may be there twice, so memory is
  // looked up when all have their own.
  for (std::size_t i = 0; i < arguments.size(); ++i)
    if (detail::DeviceMemory* const written = arguments[i].value_.writable;
        written != nullptr && (parameters[i].is_written || !parameters[i].kind))
      written->make_exclusive();
  for (std::size_t i = 0; i < arguments.size(); ++i)
    if (const KernelValue& x = arguments[i].value_; x.kind == Kind::array) given[i].array = x.memory().part();
  state_->kernel->launch(launch, given);
}

SourceModule::SourceModule(const DeviceSpec& device, std::string source, const KernelSources* sources,
                           const SourceOptions& options) {
  const runtime::ResolvedDevice place = runtime::resolve(device.name());
  runtime::SourceBackend& backend = runtime::source_backend(place);
  device_ = place.name;
  const std::string where = fmt::format("kernel source on {}", device_.to_string());
  bool is_portable = false;
  if (sources != nullptr) {
    switch (backend.dialect()) {
      case codegen::Dialect::c: source = sources->c; break;
      case codegen::Dialect::cuda: source = sources->cuda; break;
      case codegen::Dialect::opencl: source = sources->opencl; break;
    }
    is_portable = source.empty();
    if (is_portable) source = sources->portable;
  }
  if (source.empty())
    throw Error(ErrorKind::kUnsupported, where,
                "there is none in this device's language, and no portable one");
  try {
    program_ = backend.build_source(source, is_portable, options, place.name.ordinal);
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::kParse || is_portable || !runtime::is_portable_text(source)) throw;
    throw Error(ErrorKind::kParse, where, "the source is portable and was given as the device's own language",
                "{.portable = source}", error.message());
  }
  if (program_->names().empty())
    throw Error(ErrorKind::kInvalidArgument, where, "there is no kernel in it",
                kernel_form(backend.dialect(), is_portable));
}

const runtime::SourceProgram& SourceModule::program() const {
  if (program_ == nullptr) refuse_undefined("SourceModule");
  return *program_;
}

const DeviceName& SourceModule::device() const {
  program();
  return device_;
}

const std::vector<std::string>& SourceModule::functions() const { return program().names(); }
const std::string& SourceModule::log() const { return program().log(); }

SourceFunction SourceModule::function(std::string_view name) const {
  program();
  auto state = std::make_shared<SourceFunction::State>();
  state->name = name;
  state->where = fmt::format("kernel {} on {}", name, device_.to_string());
  state->device = device_;
  state->kernel = runtime::kernel_named(state->where, *program_, state->name);
  return SourceFunction(std::move(state));
}

std::shared_ptr<runtime::SourceGlobal> SourceModule::global_named(std::string_view name) const {
  return program().global(std::string(name));
}

namespace detail {

ModuleMemory::ModuleMemory(std::string name, std::shared_ptr<runtime::SourceGlobal> global)
    : name_(std::move(name)), global_(std::move(global)) {}

std::size_t ModuleMemory::byte_size() const { return global_->bytes(); }

void ModuleMemory::check_elements(std::size_t element_bytes, std::optional<DType> dtype) const {
  const std::optional<DType> own = global_->dtype();
  const bool fits = global_->bytes() % element_bytes == 0;
  if (fits && (!own || !dtype || own == dtype)) return;
  throw Error(ErrorKind::kDType, "variable " + name_, "its elements are of another type",
              own ? std::string(systole::name(*own)) : fmt::format("{} bytes in all", global_->bytes()),
              dtype ? std::string(systole::name(*dtype)) : fmt::format("{} bytes each", element_bytes));
}

void ModuleMemory::write(std::span<const std::byte> values) {
  check_size(values.size());
  global_->write(values);
}

void ModuleMemory::read(std::span<std::byte> values) const {
  check_size(values.size());
  global_->read(values);
}

void ModuleMemory::check_size(std::size_t bytes) const {
  if (bytes != global_->bytes())
    throw Error(ErrorKind::kShape, "variable " + name_, "another number of values than it has",
                fmt::format("{} bytes", global_->bytes()), fmt::format("{} bytes", bytes));
}

}  // namespace detail

void SourceModule::synchronize() const { systole::synchronize(device()); }

void synchronize(const DeviceSpec& device) {
  const runtime::ResolvedDevice place = runtime::resolve(device.name());
  // Of the others, nothing is under way that a program could see.
  if (auto* const kernels = dynamic_cast<runtime::SourceBackend*>(place.backend))
    kernels->synchronize(place.name.ordinal);
}

}  // namespace systole
