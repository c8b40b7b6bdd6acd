#pragma once

// The function table of a PJRT plugin, called with every check. The table is copied: what an older plugin's
// shorter table lacks is null here, what a newer one has beyond this header is not seen. Argument structs are
// zeroed and carry the size that this build knows, so a plugin of either age finds or leaves zero in the
// fields the other does not know.

#include <pjrt_c_api.h>

#include <string>
#include <string_view>
#include <utility>

#include "systole/base/error.h"

namespace systole::pjrt {

// A zeroed argument struct of the function: SYSTOLE_PJRT_ARGS(PJRT_Client_Create, args).
#define SYSTOLE_PJRT_ARGS(Function, variable) \
  Function##_Args variable { Function##_Args_STRUCT_SIZE }
// Calls the function; throws when the plugin lacks it or reports an error.
#define SYSTOLE_PJRT_CALL(api, Function, args) (api).call(&PJRT_Api::Function, #Function, args)

ErrorKind kind_of(PJRT_Error_Code code);

class Api {
 public:
  // `where` names the plugin in errors. Throws kUnsupported for another major version or a table too short to
  // report errors with.
  Api(const PJRT_Api* table, std::string where);

  const PJRT_Api& table() const { return table_; }
  const std::string& where() const { return where_; }
  int major() const { return table_.pjrt_api_version.major_version; }
  int minor() const { return table_.pjrt_api_version.minor_version; }

  template <class Args>
  void call(PJRT_Error* (*PJRT_Api::*function)(Args*), std::string_view name, Args& args) const {
    if (table_.*function == nullptr) fail_absent(name);
    check((table_.*function)(&args), name);
  }
  template <class Args>
  bool has(PJRT_Error* (*PJRT_Api::*function)(Args*)) const {
    return table_.*function != nullptr;
  }
  // Throws the plugin's error, if it is one, as an Error; the plugin's object is destroyed.
  void check(PJRT_Error* error, std::string_view doing) const {
    if (error != nullptr) throw to_error(error, doing);
  }
  Error to_error(PJRT_Error* error, std::string_view doing) const;
  PJRT_Error_Code code_of(PJRT_Error* error) const;
  void discard(PJRT_Error* error) const noexcept;  // an error nobody can act on, e.g. of a destructor

 private:
  [[noreturn]] void fail_absent(std::string_view name) const;

  std::string where_;
  PJRT_Api table_{};
};

// An object of the plugin's that is destroyed with its own function.
template <class T, class Args, PJRT_Error* (*PJRT_Api::*Destroy)(Args*), T* Args::* Field, std::size_t Size>
class Handle {
 public:
  Handle() = default;
  Handle(const Api& api, T* object) : api_(&api), object_(object) {}
  Handle(Handle&& other) noexcept : api_(other.api_), object_(std::exchange(other.object_, nullptr)) {}
  Handle& operator=(Handle&& other) noexcept {
    std::swap(api_, other.api_);
    std::swap(object_, other.object_);
    return *this;
  }
  ~Handle() {
    if (object_ == nullptr || !api_->has(Destroy)) return;
    Args args{Size};
    args.*Field = object_;
    api_->discard((api_->table().*Destroy)(&args));
  }
  T* get() const { return object_; }
  T* release() { return std::exchange(object_, nullptr); }
  explicit operator bool() const { return object_ != nullptr; }

 private:
  const Api* api_ = nullptr;  // lives as long as the process
  T* object_ = nullptr;
};

#define SYSTOLE_PJRT_HANDLE(Type, field)                                                    \
  Handle<Type, Type##_Destroy_Args, &PJRT_Api::Type##_Destroy, &Type##_Destroy_Args::field, \
         Type##_Destroy_Args_STRUCT_SIZE>
using Event = SYSTOLE_PJRT_HANDLE(PJRT_Event, event);
using DeviceBuffer = SYSTOLE_PJRT_HANDLE(PJRT_Buffer, buffer);
using LoadedExecutable = SYSTOLE_PJRT_HANDLE(PJRT_LoadedExecutable, executable);
using CompiledExecutable = SYSTOLE_PJRT_HANDLE(PJRT_Executable, executable);
using ClientHandle = SYSTOLE_PJRT_HANDLE(PJRT_Client, client);
#undef SYSTOLE_PJRT_HANDLE

// Waits for the event and throws what it failed with. A null event, of an old plugin, is done already.
void await(const Api& api, const Event& event, std::string_view doing);
// Waits for it, whatever becomes of it.
void settle(const Api& api, const Event& event) noexcept;

}  // namespace systole::pjrt
