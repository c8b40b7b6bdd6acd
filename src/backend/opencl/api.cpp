#include "backend/opencl/api.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include "systole/base/error.h"

namespace systole::opencl {

namespace {

constexpr const char* kLoader = "libOpenCL.so.1";

struct Found {
  Api api;
  std::string reason;
};

Found load() {
  Found found;
  void* const loader = ::dlopen(kLoader, RTLD_NOW | RTLD_LOCAL);
  if (loader == nullptr) {
    found.reason = fmt::format("no OpenCL loader ({}) on this machine", kLoader);
    return found;
  }
#define SYSTOLE_OPENCL_LOAD(name)                                                      \
  found.api.name = reinterpret_cast<decltype(found.api.name)>(::dlsym(loader, #name)); \
  if (found.api.name == nullptr && found.reason.empty())                               \
    found.reason = fmt::format("{} lacks {}", kLoader, #name);
  SYSTOLE_OPENCL_FUNCTIONS(SYSTOLE_OPENCL_LOAD)
#undef SYSTOLE_OPENCL_LOAD
  return found;
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
  static const Found found = load();
  reason = found.reason;
  return reason.empty() ? &found.api : nullptr;
}

const Api& api() {
  std::string reason;
  const Api* const found = find_api(reason);
  if (found == nullptr) throw Error(ErrorKind::kUnsupported, "opencl", reason);
  return *found;
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
