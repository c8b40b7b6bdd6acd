#include "backend/opencl/source_types.h"

#include <fmt/format.h>

#include <array>
#include <cstddef>

namespace systole::opencl {

namespace {

constexpr std::string_view kNumbers[] = {"char", "uchar", "short", "ushort", "int",   "uint",
                                         "long", "ulong", "half",  "float",  "double"};
constexpr int kLanes[] = {1, 2, 3, 4, 8, 16};

// A kernel for each word, whose blocks have a size that only the compiler can say: the number of the type and
// its lanes. An enum, whose pointer is none of the list's, is taken for an int.
std::string questions(const std::vector<std::string>& words) {
  std::string text = "\n#line 1 \"types\"\n#if defined(cl_khr_fp64) || defined(__opencl_c_fp64)\n";
  const auto list = [&](std::size_t number, bool is_lane) {
    for (const int n : kLanes) {
      if (n > 1 && kNumbers[number] == "half") break;  // not everywhere
      text += fmt::format("__private {}{}*: {}, ", kNumbers[number], n > 1 ? std::to_string(n) : "",
                          is_lane ? static_cast<std::size_t>(n) : number + 2);
    }
  };
  constexpr std::size_t kDouble = std::size(kNumbers) - 1;
  for (const bool is_lane : {false, true}) {
    text += fmt::format("#define s_double_{} ", is_lane ? "lanes" : "number");
    list(kDouble, is_lane);
    text += "\n";
  }
  text += "#else\n#define s_double_lanes\n#define s_double_number\n#endif\n";
  for (const bool is_lane : {false, true}) {
    text +=
        fmt::format("#define s_{0}(T) _Generic((__private T*)0, s_double_{0} ", is_lane ? "lanes" : "number");
    for (std::size_t number = 0; number < kDouble; ++number) list(number, is_lane);
    text += is_lane ? "default: 1)\n"
                    : "default: __builtin_types_compatible_p(T, int) || "
                      "__builtin_types_compatible_p(T, uint) ? 6 : 1)\n";
  }
  for (std::size_t i = 0; i < words.size(); ++i)
    text += fmt::format(
        "__kernel __attribute__((reqd_work_group_size(s_number({0}), s_lanes({0}), 1))) void "
        "s_type_{1}(void) {{}}\n",
        words[i], i);
  return text;
}

}  // namespace

runtime::Typedefs types_in(const Device& device, const std::string& source, const std::string& flags,
                           const std::vector<std::string>& words) {
  runtime::Typedefs types;
  for (const std::string& word : words) types[word] = "";
  const std::string text = source + questions(words);
  const char* begin = text.c_str();
  const std::size_t size = text.size();
  cl_int status = CL_SUCCESS;
  const Program program(api().clCreateProgramWithSource(device.context(), 1, &begin, &size, &status),
                        [](cl_program p) { api().clReleaseProgram(p); });
  cl_device_id id = device.id();
  if (status != CL_SUCCESS ||
      api().clBuildProgram(program.get(), 1, &id, flags.c_str(), nullptr, nullptr) != CL_SUCCESS)
    return types;
  for (std::size_t i = 0; i < words.size(); ++i) {
    const Kernel kernel = Device::kernel(program, fmt::format("s_type_{}", i));
    std::array<std::size_t, 3> answer{};
    check(api().clGetKernelWorkGroupInfo(kernel.get(), id, CL_KERNEL_COMPILE_WORK_GROUP_SIZE, sizeof answer,
                                         answer.data(), nullptr),
          "clGetKernelWorkGroupInfo");
    if (answer[0] < 2 || answer[0] >= std::size(kNumbers) + 2) continue;
    types[words[i]] = fmt::format("{}{}", kNumbers[answer[0] - 2],
                                  answer[1] > 1 ? std::to_string(answer[1]) : std::string());
  }
  return types;
}

}  // namespace systole::opencl
