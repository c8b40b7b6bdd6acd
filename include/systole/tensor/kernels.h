#pragma once

// A program's own kernels. A SourceModule is source compiled for a device; its functions are launched on
// DeviceArrays and numbers.
//
//   SourceModule module("opencl:0", {.portable = source});
//   auto add = module.function<void(const DeviceArray<float>&, const DeviceArray<float>&,
//                                   DeviceArray<float>&, int)>("add");
//   add({.grid = {4}, .block = {256}})(a, b, c, n);   // or add(Launch::over(n))(a, b, c, n)
//
// Arguments are checked before anything runs: their number, arrays against pointers, dtypes, the device, and
// the launch against its limits. Numbers are converted to the parameter's type when they fit it; a float is
// never taken for an integer. What is passed const must be const in the kernel. What is not checked is what a
// kernel does: outside an array it destroys memory, as kernels do.
//
// A launch returns at once where the device works on its own; launches, Tensors' work and reads on one device
// take place in the order of the calls, so only clocks need synchronize(). Functions may be shared by threads
// and outlive their module. docs/kernels.md has the portable language and what each device takes.

#include <array>
#include <bit>
#include <concepts>
#include <cstddef>
#include <cstdint>
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
#include "systole/runtime/launch.h"
#include "systole/tensor/device_array.h"

namespace systole {

namespace runtime {
class SourceKernel;
class SourceProgram;
}  // namespace runtime

// Memory of a group of threads, for a parameter `__local T*`: LocalArray<float>{256}.
template <class T>
struct LocalArray {
  std::int64_t count = 0;
};

// What is passed for a parameter: an array, a number, local memory, or the bytes of a plain struct.
class SYSTOLE_API KernelArgument {
 public:
  enum class Kind : std::uint8_t { array, signed_integer, unsigned_integer, floating, local, bytes };

  template <class T>
  KernelArgument(const DeviceArray<T>& x) : kind_(Kind::array), dtype_(dtype_of<T>), array_(&x) {}
  template <class T>
  KernelArgument(DeviceArray<T>& x) : kind_(Kind::array), dtype_(dtype_of<T>), array_(&x), writable_(&x) {}
  template <class T>
    requires(std::is_arithmetic_v<T> || std::is_enum_v<T>)
  KernelArgument(T x) {
    if constexpr (std::is_enum_v<T>) {
      *this = KernelArgument(static_cast<std::underlying_type_t<T>>(x));
    } else if constexpr (std::is_floating_point_v<T>) {
      kind_ = Kind::floating;
      dtype_ = sizeof(T) == 4 ? DType::f32 : DType::f64;
      floating_ = static_cast<double>(x);
    } else if constexpr (std::is_signed_v<T>) {
      constexpr DType kBySize[] = {DType::i8, DType::i16, DType::i32, DType::i64};
      kind_ = Kind::signed_integer;
      dtype_ = kBySize[std::bit_width(sizeof(T)) - 1];
      signed_ = x;
    } else {
      constexpr DType kBySize[] = {DType::u8, DType::u16, DType::u32, DType::u64};
      kind_ = Kind::unsigned_integer;
      dtype_ = std::is_same_v<T, bool> ? DType::boolean : kBySize[std::bit_width(sizeof(T)) - 1];
      unsigned_ = x;
    }
  }
  template <class Bits, int E, int M, bool F>
  KernelArgument(SmallFloat<Bits, E, M, F> x)
      : kind_(Kind::floating), dtype_(dtype_of<SmallFloat<Bits, E, M, F>>), floating_(x) {}
  template <class T>
  KernelArgument(LocalArray<T> x) : kind_(Kind::local), dtype_(dtype_of<T>), signed_(x.count) {}
  template <class T>
    requires(std::is_trivially_copyable_v<T> && (std::is_class_v<T> || std::is_union_v<T>))
  KernelArgument(const T& x) : kind_(Kind::bytes), bytes_(std::as_bytes(std::span(&x, 1))) {}

  Kind kind() const { return kind_; }
  std::optional<DType> dtype() const { return dtype_; }  // none: bytes
  const DeviceMemory* array() const { return array_; }
  DeviceMemory* writable() const { return writable_; }  // the array unless it was given as const
  std::int64_t as_signed() const { return signed_; }    // also the count of local memory
  std::uint64_t as_unsigned() const { return unsigned_; }
  double as_floating() const { return floating_; }
  std::span<const std::byte> bytes() const { return bytes_; }

 private:
  Kind kind_ = Kind::bytes;
  std::optional<DType> dtype_;
  const DeviceMemory* array_ = nullptr;
  DeviceMemory* writable_ = nullptr;
  std::int64_t signed_ = 0;
  std::uint64_t unsigned_ = 0;
  double floating_ = 0;
  std::span<const std::byte> bytes_;
};

// A kernel of a module, for any arguments; they are checked at each call.
class SYSTOLE_API SourceFunction {
 public:
  struct Parameter {
    std::string type, name;  // as in the source: "const float*", "a"; empty when the driver does not say
  };
  const std::string& name() const;
  const DeviceName& device() const;
  std::vector<Parameter> parameters() const;

  class Call;
  Call operator()(const Launch& launch) const;
  void launch(const Launch& launch, std::span<const KernelArgument> arguments) const;

  // What a signature in C++ says of a parameter.
  struct Declared {
    KernelArgument::Kind kind;
    std::optional<DType> dtype;
    bool is_const = false;
  };
  void check(std::span<const Declared> declared) const;  // throws unless it is that of the kernel

 private:
  friend class SourceModule;
  struct State;
  explicit SourceFunction(std::shared_ptr<const State> state) : state_(std::move(state)) {}
  std::shared_ptr<const State> state_;
};

class SourceFunction::Call {
 public:
  template <class... A>
  void operator()(A&&... arguments) const {
    const std::array<KernelArgument, sizeof...(A)> list{KernelArgument(arguments)...};
    function_.launch(launch_, list);
  }

 private:
  friend class SourceFunction;
  Call(SourceFunction function, const Launch& launch) : function_(std::move(function)), launch_(launch) {}
  SourceFunction function_;
  Launch launch_;
};

inline SourceFunction::Call SourceFunction::operator()(const Launch& launch) const { return {*this, launch}; }

// A kernel whose parameters the C++ type states: compared with the source once, when it is taken from its
// module, and with the arguments by the compiler.
template <class Signature>
class TypedSourceFunction;

template <class... P>
class TypedSourceFunction<void(P...)> {
 public:
  explicit TypedSourceFunction(SourceFunction function) : function_(std::move(function)) {
    const std::array<SourceFunction::Declared, sizeof...(P)> declared{declared_as<P>()...};
    function_.check(declared);
  }
  const std::string& name() const { return function_.name(); }
  const SourceFunction& untyped() const { return function_; }

  class Call {
   public:
    void operator()(P... arguments) const {
      const std::array<KernelArgument, sizeof...(P)> list{KernelArgument(arguments)...};
      function_.launch(launch_, list);
    }

   private:
    friend class TypedSourceFunction;
    Call(SourceFunction function, const Launch& launch) : function_(std::move(function)), launch_(launch) {}
    SourceFunction function_;
    Launch launch_;
  };
  Call operator()(const Launch& launch) const { return {function_, launch}; }

 private:
  template <class Q>
  static SourceFunction::Declared declared_as() {
    using Plain = std::remove_cvref_t<Q>;
    constexpr bool is_array = std::is_base_of_v<DeviceMemory, Plain>;
    static_assert(!is_array || std::is_lvalue_reference_v<Q>, "arrays are passed by reference");
    if constexpr (is_array)
      return {KernelArgument::Kind::array, dtype_of<typename Plain::value_type>,
              std::is_const_v<std::remove_reference_t<Q>>};
    else
      return of(KernelArgument(Plain{}));
  }
  static SourceFunction::Declared of(const KernelArgument& example) {
    return {example.kind(), example.dtype()};
  }

  SourceFunction function_;
};

class SYSTOLE_API SourceModule {
 public:
  // `source` in the device's own language, or one source for several devices. Throws kParse with the line and
  // the compiler's words for a source it refuses, and kUnsupported for a device that runs no kernels or
  // has no source here.
  template <std::convertible_to<std::string_view> Text>
  SourceModule(std::string_view device, const Text& source, const SourceOptions& options = {})
      : SourceModule(device, std::string(std::string_view(source)), nullptr, options) {}
  SourceModule(std::string_view device, const KernelSources& sources, const SourceOptions& options = {})
      : SourceModule(device, {}, &sources, options) {}

  const DeviceName& device() const { return device_; }
  const std::vector<std::string>& functions() const;  // the names of its kernels
  const std::string& log() const;                     // the compiler's warnings, where it has some

  SourceFunction function(std::string_view name) const;  // throws kNotFound with the names there are
  template <class Signature>
  TypedSourceFunction<Signature> function(std::string_view name) const {
    return TypedSourceFunction<Signature>(function(name));
  }

  void synchronize() const;  // waits for everything on the device

 private:
  SourceModule(std::string_view device, std::string source, const KernelSources* sources,
               const SourceOptions& options);
  DeviceName device_;
  std::shared_ptr<const runtime::SourceProgram> program_;
};

SYSTOLE_API void synchronize(std::string_view device);  // waits for everything on the device

}  // namespace systole
