#include "backend/opencl/api.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include "base/lasting.h"
#include "systole/base/error.h"

namespace systole::opencl {

namespace {

constexpr const char* kLoader = "libOpenCL.so.1";

// Objects are released until the process ends, so this has nothing to destroy.
struct Found {
  Api api;
  bool has_loader = false;
  const char* missing = nullptr;  // the function that the loader lacks
};

Found load() {
  Found found;
  void* const loader = ::dlopen(kLoader, RTLD_NOW | RTLD_LOCAL);
  if (loader == nullptr) return found;
  found.has_loader = true;
#define SYSTOLE_OPENCL_LOAD(name)                                                      \
  found.api.name = reinterpret_cast<decltype(found.api.name)>(::dlsym(loader, #name)); \
  if (found.api.name == nullptr) found.missing = #name;
  SYSTOLE_OPENCL_FUNCTIONS(SYSTOLE_OPENCL_LOAD)
#undef SYSTOLE_OPENCL_LOAD
  return found;
}

const Found& found() {
  static const Found& loaded = lasting<Found>(load());
  return loaded;
}

ErrorKind kind_of(cl_int status) {
  switch (status) {
    case CL_MEM_OBJECT_ALLOCATION_FAILURE:
    case CL_OUT_OF_RESOURCES:
    case CL_OUT_OF_HOST_MEMORY:
    case CL_INVALID_BUFFER_SIZE: return ErrorKind::kOutOfMemory;
    case CL_DEVICE_NOT_AVAILABLE: return ErrorKind::kContextLost;
    default: return ErrorKind::kInternal;
  }
}

}  // namespace

const Api* find_api(std::string& reason) {
  if (!found().has_loader)
    reason = fmt::format("no OpenCL loader ({}) on this machine", kLoader);
  else if (found().missing != nullptr)
    reason = fmt::format("{} lacks {}", kLoader, found().missing);
  else
    return &found().api;
  return nullptr;
}

const Api& api() {
  std::string reason;
  if (find_api(reason) == nullptr) throw Error(ErrorKind::kUnsupported, "opencl", reason);
  return found().api;
}

std::string status_name(cl_int status) {
  switch (status) {
#define SYSTOLE_OPENCL_STATUS(name) \
  case name: return #name;
    SYSTOLE_OPENCL_STATUS(CL_SUCCESS)
    SYSTOLE_OPENCL_STATUS(CL_DEVICE_NOT_FOUND)
    SYSTOLE_OPENCL_STATUS(CL_DEVICE_NOT_AVAILABLE)
    SYSTOLE_OPENCL_STATUS(CL_COMPILER_NOT_AVAILABLE)
    SYSTOLE_OPENCL_STATUS(CL_MEM_OBJECT_ALLOCATION_FAILURE)
    SYSTOLE_OPENCL_STATUS(CL_OUT_OF_RESOURCES)
    SYSTOLE_OPENCL_STATUS(CL_OUT_OF_HOST_MEMORY)
    SYSTOLE_OPENCL_STATUS(CL_MEM_COPY_OVERLAP)
    SYSTOLE_OPENCL_STATUS(CL_BUILD_PROGRAM_FAILURE)
    SYSTOLE_OPENCL_STATUS(CL_INVALID_VALUE)
    SYSTOLE_OPENCL_STATUS(CL_INVALID_PLATFORM)
    SYSTOLE_OPENCL_STATUS(CL_INVALID_DEVICE)
    SYSTOLE_OPENCL_STATUS(CL_INVALID_CONTEXT)
    SYSTOLE_OPENCL_STATUS(CL_INVALID_COMMAND_QUEUE)
    SYSTOLE_OPENCL_STATUS(CL_INVALID_MEM_OBJECT)
    SYSTOLE_OPENCL_STATUS(CL_INVALID_BINARY)
    SYSTOLE_OPENCL_STATUS(CL_INVALID_BUILD_OPTIONS)
    SYSTOLE_OPENCL_STATUS(CL_INVALID_PROGRAM)
    SYSTOLE_OPENCL_STATUS(CL_INVALID_PROGRAM_EXECUTABLE)
    SYSTOLE_OPENCL_STATUS(CL_INVALID_KERNEL_NAME)
    SYSTOLE_OPENCL_STATUS(CL_INVALID_KERNEL)
    SYSTOLE_OPENCL_STATUS(CL_INVALID_ARG_INDEX)
    SYSTOLE_OPENCL_STATUS(CL_INVALID_ARG_VALUE)
    SYSTOLE_OPENCL_STATUS(CL_INVALID_ARG_SIZE)
    SYSTOLE_OPENCL_STATUS(CL_INVALID_KERNEL_ARGS)
    SYSTOLE_OPENCL_STATUS(CL_INVALID_WORK_DIMENSION)
    SYSTOLE_OPENCL_STATUS(CL_INVALID_WORK_GROUP_SIZE)
    SYSTOLE_OPENCL_STATUS(CL_INVALID_WORK_ITEM_SIZE)
    SYSTOLE_OPENCL_STATUS(CL_INVALID_GLOBAL_OFFSET)
    SYSTOLE_OPENCL_STATUS(CL_INVALID_EVENT_WAIT_LIST)
    SYSTOLE_OPENCL_STATUS(CL_INVALID_EVENT)
    SYSTOLE_OPENCL_STATUS(CL_INVALID_OPERATION)
    SYSTOLE_OPENCL_STATUS(CL_INVALID_BUFFER_SIZE)
    SYSTOLE_OPENCL_STATUS(CL_INVALID_GLOBAL_WORK_SIZE)
#undef SYSTOLE_OPENCL_STATUS
    default: return fmt::format("OpenCL error {}", status);
  }
}

void check(cl_int status, std::string_view call) {
  if (status != CL_SUCCESS)
    throw Error(kind_of(status), "opencl", fmt::format("{}: {}", call, status_name(status)));
}

}  // namespace systole::opencl
