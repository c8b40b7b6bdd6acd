#include "backend/opencl/limits.h"

#include <fmt/format.h>

#include <charconv>
#include <string_view>

#include "systole/base/error.h"

namespace systole::opencl {

namespace {

std::size_t bytes_of(std::string_view type) {
  if (type == "double" || type.ends_with("64")) return 8;
  if (type.ends_with("16")) return 2;
  return type.ends_with("8") || type == "s_bool" ? 1 : 4;
}

}  // namespace

// Lines "S_LOCAL float name[256];".
std::size_t local_bytes(const codegen::Kernel& kernel) {
  constexpr std::string_view kWord = "S_LOCAL ";
  const std::string_view text = kernel.source;
  std::size_t sum = 0;
  for (std::size_t at = text.find(kWord); at != text.npos; at = text.find(kWord, at)) {
    at += kWord.size();
    const std::string_view line = text.substr(at, text.find('\n', at) - at);
    const std::size_t open = line.find('[');
    std::size_t count = 0;
    if (open != line.npos) std::from_chars(line.data() + open + 1, line.data() + line.size(), count);
    sum += count * bytes_of(line.substr(0, line.find(' ')));
  }
  return sum;
}

void check_fits(const Limits& limits, const codegen::Kernel& kernel) {
  const std::string where = fmt::format("opencl ({})", limits.device);
  if (!limits.has_f64 && kernel.source.find("double") != std::string::npos)
    throw Error(ErrorKind::kUnsupported, where, "the graph has f64, which the device cannot compute with",
                "cl_khr_fp64", "no such extension; use f32, or another device");
  const auto threads = static_cast<std::size_t>(kernel.threads);
  if (threads > limits.group_threads)
    throw Error(ErrorKind::kLimit, where, "a kernel needs larger work groups than the device has",
                fmt::format("{} threads", threads), fmt::format("at most {}", limits.group_threads));
  if (const std::size_t bytes = local_bytes(kernel); bytes > limits.local_bytes)
    throw Error(ErrorKind::kLimit, where, "a kernel needs more local memory than the device has",
                fmt::format("{} bytes", bytes), fmt::format("{} bytes", limits.local_bytes));
}

}  // namespace systole::opencl
