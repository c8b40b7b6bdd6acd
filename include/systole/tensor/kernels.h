#pragma once

// A program's own kernels. A SourceModule is source compiled for a device; its functions are launched on
// DeviceArrays and numbers.
//
//   SourceModule module("opencl:0", {.portable = source});
//   auto add = module.function<void(const float*, const float*, float*, int)>("add");
//   add({.grid = {4}, .block = {256}})(a, b, c, n);   // or add(Launch::over(n))(a, b, c, n)
//
// Arguments are checked before anything runs: their number, arrays against pointers, dtypes, the device, and
// the launch against its limits. Numbers are converted to the parameter's type when they fit it; a float is
// never taken for an integer. What is passed const, or is a temporary, must be const in the kernel. What is
// not checked is what a kernel does: outside an array it destroys memory, as kernels do.
//
// A launch returns at once where the device works on its own. Launches, Tensors' work and reads happen in the
// order of the calls, unless streams (runtime/stream.h) let launches overlap that share no array; so only
// clocks need synchronize(). Functions may be shared by threads and outlive their module. docs/kernels.md has
// the portable language and what each device takes.

#include <array>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "systole/base/dtype.h"
#include "systole/base/export.h"
#include "systole/runtime/device_properties.h"
#include "systole/runtime/launch.h"
#include "systole/runtime/stream.h"
#include "systole/tensor/detail/kernel_values.h"
#include "systole/tensor/device_array.h"
#include "systole/tensor/host_array.h"
#include "systole/tensor/math.h"

namespace systole {

namespace runtime {
class SourceGlobal;
class SourceKernel;
class SourceProgram;
}  // namespace runtime

// What is passed for a parameter: an array, a number, local memory, or a plain struct. It holds a copy of
// numbers, structs and temporary arrays; an array with a name must live until the launch.
class SYSTOLE_API KernelArgument {
 public:
  template <class T>
  KernelArgument(DeviceArray<T>& x) : value_(detail::KernelValue::array(dtype_of<T>, &x, &x)) {}
  template <class T>
  KernelArgument(const DeviceArray<T>& x) : value_(detail::KernelValue::array(dtype_of<T>, &x, nullptr)) {}
  template <class T>
  KernelArgument(const DeviceArray<T>&& x) : value_(detail::KernelValue::array(dtype_of<T>, x)) {}
  template <detail::Number T>
  KernelArgument(T x) : value_(detail::KernelValue::number(x)) {}
  template <class T>
  KernelArgument(LocalArray<T> x) : value_(detail::KernelValue::local(dtype_of<T>, x.count)) {}
  template <detail::PlainStruct T>
  KernelArgument(const T& x) : value_(detail::KernelValue::copy_of(x)) {}
  KernelArgument(const Tensor&) = delete;  // kernels take DeviceArray<T>(tensor)

 private:
  friend class SourceFunction;
  detail::KernelValue value_;
};

// A kernel of a module, for any arguments; they are checked at each call.
class SYSTOLE_API SourceFunction {
 public:
  struct Parameter {
    std::string type{}, name{};  // as in the source: "const float*", "a"; empty when the driver does not say
  };
  class Call;

  SourceFunction() = default;  // undefined: any use but defined() throws
  bool defined() const { return state_ != nullptr; }
  const std::string& name() const;
  const DeviceName& device() const;
  std::vector<Parameter> parameters() const;

  [[nodiscard]] Call operator()(const Launch& launch) const;
  void launch(const Launch& launch, std::span<const KernelArgument> arguments) const;

 private:
  friend class SourceModule;
  template <class Signature>
  friend class TypedSourceFunction;
  struct State;
  explicit SourceFunction(std::shared_ptr<const State> state) : state_(std::move(state)) {}
  const State& state() const;
  void check(std::span<const detail::DeclaredParameter> declared) const;
  std::shared_ptr<const State> state_;
};

class SourceFunction::Call {
 public:
  template <class... A>
  void operator()(A&&... arguments) const {
    const std::array<KernelArgument, sizeof...(A)> list{KernelArgument(std::forward<A>(arguments))...};
    function_.launch(launch_, list);
  }

 private:
  friend class SourceFunction;
  Call(SourceFunction function, const Launch& launch) : function_(std::move(function)), launch_(launch) {}
  SourceFunction function_;
  Launch launch_;
};

inline SourceFunction::Call SourceFunction::operator()(const Launch& launch) const { return {*this, launch}; }

namespace detail {

// A number for a parameter of type P: whether its value fits is checked at the call.
template <Number P>
class NumberFor : public KernelArgument {
 public:
  template <Number A>
  NumberFor(A x) : KernelArgument(x) {}
  template <Number A>
    requires(is_integral<P> && !is_integral<A>)
  NumberFor(A) = delete;  // a float is not taken for an integer
};

// How a parameter of a C++ signature is passed, and what it says of the kernel's. Here: a struct.
template <class P>
struct Declaration {
  static_assert(
      PlainStruct<P>,
      "parameters of a kernel are const T* or const DeviceArray<T>&, T* or DeviceArray<T>&, numbers, "
      "LocalArray<T> and plain structs");
  using Argument = const P&;
  static constexpr DeclaredParameter kParameter{KernelValue::Kind::bytes, Lanes<P>::kDType, true, sizeof(P),
                                                Lanes<P>::kCount};
};
template <Number P>
struct Declaration<P> {
  using Argument = NumberFor<P>;
  static constexpr DeclaredParameter kParameter{number_kind<P>, number_dtype<P>};
};
template <class T>
struct Declaration<LocalArray<T>> {
  using Argument = LocalArray<T>;
  static constexpr DeclaredParameter kParameter{KernelValue::Kind::local, dtype_of<T>};
};
template <class T>
struct Declaration<DeviceArray<T>&> {
  using Argument = DeviceArray<T>&;
  static constexpr DeclaredParameter kParameter{KernelValue::Kind::array, dtype_of<T>};
};
template <class T>
struct Declaration<const DeviceArray<T>&> {
  using Argument = const DeviceArray<T>&;
  static constexpr DeclaredParameter kParameter{KernelValue::Kind::array, dtype_of<T>, true};
};
template <class T>
struct Declaration<T*> : Declaration<DeviceArray<T>&> {};
template <class T>
struct Declaration<const T*> : Declaration<const DeviceArray<T>&> {};
template <class P>
  requires(!std::is_base_of_v<DeviceMemory, std::remove_cvref_t<P>>)
struct Declaration<P&> : Declaration<std::remove_cv_t<P>> {};

}  // namespace detail

// A kernel whose parameters a C++ type states, void(const float*, float*, int): compared with the source
// once, when it is taken from its module, and with the arguments by the compiler.
template <class Signature>
class TypedSourceFunction;

template <class... P>
class TypedSourceFunction<void(P...)> {
 public:
  class Call {
   public:
    void operator()(typename detail::Declaration<P>::Argument... arguments) const {
      const std::array<KernelArgument, sizeof...(P)> list{KernelArgument(arguments)...};
      function_.launch(launch_, list);
    }

   private:
    friend class TypedSourceFunction;
    Call(SourceFunction function, const Launch& launch) : function_(std::move(function)), launch_(launch) {}
    SourceFunction function_;
    Launch launch_;
  };

  TypedSourceFunction() = default;  // undefined: any use but defined() throws
  explicit TypedSourceFunction(SourceFunction function) : function_(std::move(function)) {
    const std::array<detail::DeclaredParameter, sizeof...(P)> declared{detail::Declaration<P>::kParameter...};
    function_.check(declared);
  }
  bool defined() const { return function_.defined(); }
  const std::string& name() const { return function_.name(); }
  const SourceFunction& untyped() const { return function_; }
  [[nodiscard]] Call operator()(const Launch& launch) const { return {function_, launch}; }

 private:
  SourceFunction function_;
};

namespace detail {

// What of a module's variable does not depend on its type.
class SYSTOLE_API ModuleMemory {
 public:
  const std::string& name() const { return name_; }
  std::size_t byte_size() const;

 protected:
  ModuleMemory(std::string name, std::shared_ptr<runtime::SourceGlobal> global);
  void check_elements(std::size_t element_bytes, std::optional<DType> dtype) const;
  void write(std::span<const std::byte> values);
  void read(std::span<std::byte> values) const;

 private:
  void check_size(std::size_t bytes) const;
  std::string name_;
  std::shared_ptr<runtime::SourceGlobal> global_;
};

}  // namespace detail

// A variable of a module that kernels see by its name: `__constant__ float taps[7];` or
// `__device__ float total;`. Copies happen in the order of the calls, with launches of the module's kernels
// on any stream and of any thread. It may outlive its module.
template <class T>
class ModuleArray : public detail::ModuleMemory {
  static_assert(std::is_trivially_copyable_v<T>, "the elements of a variable are numbers or plain structs");

 public:
  std::size_t size() const { return byte_size() / sizeof(T); }  // elements
  // All of its values, or a number for a variable of one. kShape when the count is another.
  template <std::ranges::contiguous_range R>
    requires std::same_as<std::ranges::range_value_t<const R>, T>
  void copy_from(const R& values) {
    write(std::as_bytes(std::span<const T>(std::ranges::data(values), std::ranges::size(values))));
  }
  void copy_from(std::initializer_list<T> values) { copy_from(std::span<const T>(values)); }
  void copy_from(const T& value) { copy_from(std::span<const T>(&value, 1)); }
  void copy_to(std::span<T> values) const { read(std::as_writable_bytes(values)); }
  std::vector<T> to_host() const {  // waits for kernels
    std::vector<T> values(size());
    copy_to(values);
    return values;
  }

 private:
  friend class SourceModule;
  ModuleArray(std::string name, std::shared_ptr<runtime::SourceGlobal> global)
      : ModuleMemory(std::move(name), std::move(global)) {
    if constexpr (detail::Number<T>)
      check_elements(sizeof(T), detail::number_dtype<T>);
    else
      check_elements(sizeof(T), std::nullopt);
  }
};

class SYSTOLE_API SourceModule {
 public:
  SourceModule() = default;  // undefined: any use but defined() throws
  // `source` in the device's own language, or one source for several devices. Throws kParse with the line and
  // the compiler's words for a source it refuses, and kUnsupported for a device that runs no kernels or
  // has no source here.
  template <std::convertible_to<std::string_view> Text>
  SourceModule(const DeviceSpec& device, const Text& source, const SourceOptions& options = {})
      : SourceModule(device, std::string(std::string_view(source)), nullptr, options) {}
  SourceModule(const DeviceSpec& device, const KernelSources& sources, const SourceOptions& options = {})
      : SourceModule(device, {}, &sources, options) {}

  bool defined() const { return program_ != nullptr; }
  const DeviceName& device() const;
  const std::vector<std::string>& functions() const;  // the names of its kernels
  const std::string& log() const;                     // the compiler's warnings, where it has some

  SourceFunction function(std::string_view name) const;  // throws kNotFound with the names there are
  template <class Signature>
  TypedSourceFunction<Signature> function(std::string_view name) const {
    return TypedSourceFunction<Signature>(function(name));
  }
  // The same by PyCUDA's name.
  SourceFunction get_function(std::string_view name) const { return function(name); }
  template <class Signature>
  TypedSourceFunction<Signature> get_function(std::string_view name) const {
    return function<Signature>(name);
  }

  // A variable of the source, constant or not: CUDA's `__constant__` and `__device__`. Throws kNotFound when
  // there is none of this name, kDType when it is of another type, and kUnsupported where a module
  // has no variables that the host can set (OpenCL, C: pass an array).
  template <class T>
  ModuleArray<T> constant(std::string_view name) const {
    return ModuleArray<T>(std::string(name), global_named(name));
  }
  template <class T>
  ModuleArray<T> global(std::string_view name) const {
    return constant<T>(name);
  }

  void synchronize() const;  // waits for everything on the device

 private:
  SourceModule(const DeviceSpec& device, std::string source, const KernelSources* sources,
               const SourceOptions& options);
  const runtime::SourceProgram& program() const;
  std::shared_ptr<runtime::SourceGlobal> global_named(std::string_view name) const;
  DeviceName device_;
  std::shared_ptr<const runtime::SourceProgram> program_;
};

SYSTOLE_API void synchronize(const DeviceSpec& device);  // waits for everything on the device

}  // namespace systole
