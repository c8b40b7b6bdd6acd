#include "backend/opencl/device.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <optional>

#include "base/env.h"
#include "base/lasting.h"
#include "base/log.h"
#include "systole/base/error.h"

namespace systole::opencl {

namespace {

std::string text_of(cl_device_id id, cl_device_info what) {
  std::size_t size = 0;
  check(api().clGetDeviceInfo(id, what, 0, nullptr, &size), "clGetDeviceInfo");
  std::string text(size, '\0');
  check(api().clGetDeviceInfo(id, what, size, text.data(), nullptr), "clGetDeviceInfo");
  while (!text.empty() && (text.back() == '\0' || text.back() == ' ')) text.pop_back();
  return text;
}

template <class T>
T number_of(cl_device_id id, cl_device_info what) {
  T value{};
  check(api().clGetDeviceInfo(id, what, sizeof value, &value, nullptr), "clGetDeviceInfo");
  return value;
}

// Divisions and square roots as everywhere else, where the device offers it.
std::string options_for(cl_device_id id) {
  std::string options = "-cl-std=CL1.2 -w";
  const auto single = number_of<cl_device_fp_config>(id, CL_DEVICE_SINGLE_FP_CONFIG);
  if ((single & CL_FP_CORRECTLY_ROUNDED_DIVIDE_SQRT) != 0)
    options += " -cl-fp32-correctly-rounded-divide-sqrt";
  // For this driver alone: its debugging, say.
  if (const std::optional<std::string> more = env::text("SYSTOLE_OPENCL_OPTIONS")) options += " " + *more;
  return options;
}

Limits limits_of(cl_device_id id, const std::string& name) {
  const std::string extensions = " " + text_of(id, CL_DEVICE_EXTENSIONS) + " ";
  return {.device = name,
          .group_threads = number_of<std::size_t>(id, CL_DEVICE_MAX_WORK_GROUP_SIZE),
          .local_bytes = static_cast<std::size_t>(number_of<cl_ulong>(id, CL_DEVICE_LOCAL_MEM_SIZE)),
          .has_f64 = extensions.find(" cl_khr_fp64 ") != std::string::npos};
}

Owned<cl_context> make_context(cl_device_id id) {
  cl_int status = CL_SUCCESS;
  Owned<cl_context> made(api().clCreateContext(nullptr, 1, &id, nullptr, nullptr, &status),
                         [](cl_context c) { api().clReleaseContext(c); });
  check(status, "clCreateContext");
  return made;
}

Owned<cl_command_queue> make_queue(cl_context context, cl_device_id id) {
  cl_int status = CL_SUCCESS;
  Owned<cl_command_queue> made(api().clCreateCommandQueue(context, id, 0, &status),
                               [](cl_command_queue q) { api().clReleaseCommandQueue(q); });
  check(status, "clCreateCommandQueue");
  return made;
}

Program owned(cl_program program) {
  return {program, [](cl_program p) { api().clReleaseProgram(p); }};
}

}  // namespace

Device::Device(cl_device_id id, int ordinal)
    : id_(id),
      where_(fmt::format("opencl:{}", ordinal)),
      usage_(std::make_shared<timeline::Usage>(where_ + " memory")),
      name_(text_of(id, CL_DEVICE_NAME)),
      driver_(text_of(id, CL_DRIVER_VERSION)),
      options_(options_for(id)),
      memory_bytes_(static_cast<std::int64_t>(number_of<cl_ulong>(id, CL_DEVICE_GLOBAL_MEM_SIZE))),
      argument_bytes_(number_of<std::size_t>(id, CL_DEVICE_MAX_PARAMETER_SIZE)),
      alignment_(std::max<std::size_t>(number_of<cl_uint>(id, CL_DEVICE_MEM_BASE_ADDR_ALIGN) / 8, 1)),
      limits_(limits_of(id, name_)),
      context_(make_context(id)),
      queue_(make_queue(context_.get(), id)) {}

Memory Device::allocate(std::int64_t bytes) const {
  if (bytes == 0) return {};
  cl_int status = CL_SUCCESS;
  const cl_mem memory = api().clCreateBuffer(context_.get(), CL_MEM_READ_WRITE,
                                             static_cast<std::size_t>(bytes), nullptr, &status);
  check(status, fmt::format("clCreateBuffer of {} bytes", bytes));
  usage_->add(bytes);
  return {memory, [usage = usage_, bytes](cl_mem m) {
            api().clReleaseMemObject(m);
            usage->add(-bytes);
          }};
}

void Device::write(Place to, const void* from, std::size_t bytes) const {
  if (bytes == 0) return;
  finish_if_timed();
  const timeline::Copy timed(timeline::kToDevice, where_, bytes);
  check(api().clEnqueueWriteBuffer(queue_.get(), to.memory, CL_TRUE, to.offset, bytes, from, 0, nullptr,
                                   nullptr),
        "clEnqueueWriteBuffer");
}

void Device::read(Place from, void* to, std::size_t bytes) const {
  if (bytes == 0) return;
  finish_if_timed();
  const timeline::Copy timed(timeline::kToHost, where_, bytes);
  check(api().clEnqueueReadBuffer(queue_.get(), from.memory, CL_TRUE, from.offset, bytes, to, 0, nullptr,
                                  nullptr),
        "clEnqueueReadBuffer");
}

void Device::copy(Place from, Place to, std::size_t bytes) const {
  if (bytes == 0 || (from.memory == to.memory && from.offset == to.offset)) return;
  check(api().clEnqueueCopyBuffer(queue_.get(), from.memory, to.memory, from.offset, to.offset, bytes, 0,
                                  nullptr, nullptr),
        "clEnqueueCopyBuffer");
  finish_if_timed();
}

void Device::fill(Place to, std::span<const std::byte> element, std::size_t bytes) const {
  if (bytes == 0) return;
  check(api().clEnqueueFillBuffer(queue_.get(), to.memory, element.data(), element.size(), to.offset, bytes,
                                  0, nullptr, nullptr),
        "clEnqueueFillBuffer");
}

Memory Device::part(Place begin, std::size_t bytes) const {
  if (begin.offset % alignment_ != 0) return {};
  const cl_buffer_region region{begin.offset, bytes};
  cl_int status = CL_SUCCESS;
  const cl_mem memory = api().clCreateSubBuffer(begin.memory, CL_MEM_READ_WRITE, CL_BUFFER_CREATE_TYPE_REGION,
                                                &region, &status);
  check(status, "clCreateSubBuffer");
  return {memory, [](cl_mem m) { api().clReleaseMemObject(m); }};
}

void Device::launch(cl_kernel kernel, std::size_t groups, std::size_t threads) const {
  const std::size_t all = groups * threads;
  check(api().clEnqueueNDRangeKernel(queue_.get(), kernel, 1, nullptr, &all, &threads, 0, nullptr, nullptr),
        "clEnqueueNDRangeKernel");
}

void Device::flush() const { check(api().clFlush(queue_.get()), "clFlush"); }

void Device::finish() const { check(api().clFinish(queue_.get()), "clFinish"); }

void Device::finish_if_timed() const {
  if (timeline::is_on()) finish();
}

void Device::compile(cl_program program) const {
  const cl_int status = api().clBuildProgram(program, 1, &id_, options_.c_str(), nullptr, nullptr);
  if (status == CL_SUCCESS) return;
  std::size_t size = 0;
  std::string words;
  if (api().clGetProgramBuildInfo(program, id_, CL_PROGRAM_BUILD_LOG, 0, nullptr, &size) == CL_SUCCESS) {
    words.resize(size);
    api().clGetProgramBuildInfo(program, id_, CL_PROGRAM_BUILD_LOG, size, words.data(), nullptr);
    words.resize(std::min(words.find('\0'), std::min<std::size_t>(words.size(), 2000)));
  }
  throw Error(ErrorKind::kInternal, "opencl",
              fmt::format("{} refused a kernel ({}): {}", name_, status_name(status), words));
}

std::string Device::binary_of(cl_program program) const {
  std::size_t size = 0;
  check(api().clGetProgramInfo(program, CL_PROGRAM_BINARY_SIZES, sizeof size, &size, nullptr),
        "clGetProgramInfo");
  std::string binary(size, '\0');
  char* place = binary.data();
  check(api().clGetProgramInfo(program, CL_PROGRAM_BINARIES, sizeof place, &place, nullptr),
        "clGetProgramInfo");
  return binary;
}

Program Device::from_binary(std::string_view binary, const std::string& flags) const {
  cl_int status = CL_SUCCESS, loaded = CL_SUCCESS;
  const std::size_t size = binary.size();
  const auto* bytes = reinterpret_cast<const unsigned char*>(binary.data());
  Program program =
      owned(api().clCreateProgramWithBinary(context_.get(), 1, &id_, &size, &bytes, &loaded, &status));
  if (status != CL_SUCCESS || loaded != CL_SUCCESS) return owned(nullptr);
  if (api().clBuildProgram(program.get(), 1, &id_, flags.c_str(), nullptr, nullptr) != CL_SUCCESS)
    return owned(nullptr);
  return program;
}

runtime::CacheKey Device::cache_key(const std::string& source, const std::string& flags) const {
  runtime::CacheKey key("opencl");
  key.add(source).add(name_).add(driver_).add(flags);
  return key;
}

Program Device::build(const std::string& source) const {
  const runtime::CacheKey key = cache_key(source);
  const std::optional<runtime::DiskCache> cache = runtime::disk_cache();
  if (cache)
    if (const std::optional<std::string> known = cache->find(key)) {
      if (Program program = from_binary(*known, options_)) return program;
      cache->remove(key);
    }
  const auto start = std::chrono::steady_clock::now();
  cl_int status = CL_SUCCESS;
  const char* text = source.c_str();
  const std::size_t size = source.size();
  Program program = owned(api().clCreateProgramWithSource(context_.get(), 1, &text, &size, &status));
  check(status, "clCreateProgramWithSource");
  compile(program.get());
  if (cache && cache->is_worth(std::chrono::steady_clock::now() - start))
    cache->store(key, binary_of(program.get()));
  return program;
}

Kernel Device::kernel(const Program& program, const std::string& name) {
  cl_int status = CL_SUCCESS;
  Kernel made(api().clCreateKernel(program.get(), name.c_str(), &status),
              [](cl_kernel k) { api().clReleaseKernel(k); });
  check(status, fmt::format("clCreateKernel {}", name));
  return made;
}

Devices opened(const std::vector<cl_device_id>& ids) {
  Devices all;
  for (std::size_t i = 0; i < ids.size(); ++i) {
    std::string name = fmt::format("device {} of {}", i + 1, ids.size());
    try {
      name = text_of(ids[i], CL_DEVICE_NAME);
      all.usable.push_back(std::make_unique<Device>(ids[i], static_cast<int>(all.usable.size())));
    } catch (const Error& error) {  // one that is broken must not hide the others
      all.left_out +=
          fmt::format("{}{} cannot be used: {}", all.left_out.empty() ? "" : "; ", name, error.message());
      log(LogLevel::info, fmt::format("opencl: {} cannot be used: {}", name, error.message()));
    }
  }
  return all;
}

const Devices& all_devices() {
  static const Devices& found = lasting<Devices>([] {
    std::vector<cl_device_id> all;
    cl_uint count = 0;
    // A loader without a platform answers with an error.
    if (api().clGetPlatformIDs(0, nullptr, &count) != CL_SUCCESS || count == 0) return Devices{};
    std::vector<cl_platform_id> platforms(count);
    check(api().clGetPlatformIDs(count, platforms.data(), nullptr), "clGetPlatformIDs");
    for (const cl_platform_id platform : platforms) {
      if (api().clGetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, 0, nullptr, &count) != CL_SUCCESS) continue;
      std::vector<cl_device_id> ids(count);
      if (count == 0 ||
          api().clGetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, count, ids.data(), nullptr) != CL_SUCCESS)
        continue;
      all.insert(all.end(), ids.begin(), ids.end());
    }
    return opened(all);
  }());
  return found;
}

}  // namespace systole::opencl
