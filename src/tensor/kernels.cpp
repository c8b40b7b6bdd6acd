#include "systole/tensor/kernels.h"

#include <fmt/format.h>

#include "runtime/source_kernels.h"
#include "systole/base/error.h"
#include "tensor/frame.h"
#include "tensor/kernel_arguments.h"
#include "tensor/thread_state.h"

namespace systole {

namespace {

using detail::DeclaredParameter;
using detail::KernelValue;
using detail::NumberBytes;
using detail::Place;
using runtime::SourceArgument;
using runtime::SourceParameter;
using Kind = KernelValue::Kind;
using ParameterKind = SourceParameter::Kind;

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
  std::vector<NumberBytes> numbers(arguments.size());
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    const KernelValue& x = arguments[i].value_;
    const Place at{where, i, parameters[i]};
    check_kind(at, x.kind, x.dtype);
    switch (x.kind) {
      case Kind::array:
        check_array(at, x, state_->device);
        check_alignment(at, x.memory().part().offset, state_->device);
        break;
      case Kind::local:
        if (x.signed_integer < 1)
          at.refuse(ErrorKind::kInvalidArgument, "no such size", "1 element or more",
                    std::to_string(x.signed_integer));
        if (__builtin_mul_overflow(static_cast<std::size_t>(x.signed_integer), size_of(*x.dtype),
                                   &given[i].local_bytes))
          at.refuse(ErrorKind::kLimit, "more local memory than can be counted", "at most 2⁶⁴-1 bytes",
                    fmt::format("{} elements of {} bytes", x.signed_integer, size_of(*x.dtype)));
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
