#pragma once

// The functions of OpenCL 1.2 that the backend calls, from the loader of this machine. Every status is
// checked: what fails is an Error with the status' name.

#define CL_TARGET_OPENCL_VERSION 120
#include <CL/cl.h>

#include <memory>
#include <string>
#include <string_view>
#include <type_traits>

namespace systole::opencl {

#define SYSTOLE_OPENCL_FUNCTIONS(X) \
  X(clGetPlatformIDs)               \
  X(clGetDeviceIDs)                 \
  X(clGetDeviceInfo)                \
  X(clCreateContext)                \
  X(clReleaseContext)               \
  X(clCreateCommandQueue)           \
  X(clReleaseCommandQueue)          \
  X(clCreateProgramWithSource)      \
  X(clCreateProgramWithBinary)      \
  X(clBuildProgram)                 \
  X(clGetProgramInfo)               \
  X(clGetProgramBuildInfo)          \
  X(clReleaseProgram)               \
  X(clCreateKernel)                 \
  X(clReleaseKernel)                \
  X(clSetKernelArg)                 \
  X(clGetKernelInfo)                \
  X(clGetKernelArgInfo)             \
  X(clGetKernelWorkGroupInfo)       \
  X(clCreateBuffer)                 \
  X(clCreateSubBuffer)              \
  X(clReleaseMemObject)             \
  X(clEnqueueReadBuffer)            \
  X(clEnqueueWriteBuffer)           \
  X(clEnqueueCopyBuffer)            \
  X(clEnqueueFillBuffer)            \
  X(clEnqueueNDRangeKernel)         \
  X(clFlush)                        \
  X(clFinish)

struct Api {
#define SYSTOLE_OPENCL_MEMBER(name) decltype(&::name) name = nullptr;
  SYSTOLE_OPENCL_FUNCTIONS(SYSTOLE_OPENCL_MEMBER)
#undef SYSTOLE_OPENCL_MEMBER
};

// The loader of this machine; null, and the reason, when there is none.
const Api* find_api(std::string& reason);
const Api& api();  // throws kUnsupported with that reason

std::string status_name(cl_int status);  // "CL_INVALID_VALUE"
void check(cl_int status, std::string_view call);

// Objects that OpenCL counts references of.
template <class T>
using Owned = std::unique_ptr<std::remove_pointer_t<T>, void (*)(T)>;

}  // namespace systole::opencl
