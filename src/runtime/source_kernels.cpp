#include "runtime/source_kernels.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <limits>

#include "codegen/math/math.h"
#include "runtime/portable_language.h"
#include "systole/base/error.h"

namespace systole::runtime {

namespace {

// The last line of a text that holds more than blanks; 1 of an empty one.
std::size_t last_line_of(std::string_view source) {
  const std::size_t end = source.find_last_not_of(" \t\r\n");
  if (end == std::string_view::npos) return 1;
  return 1 + static_cast<std::size_t>(std::count(source.begin(), source.begin() + end, '\n'));
}

// The number after the name in "kernel:12:5: error: …", in a command's "/tmp/…/kernel:12: …", or in NVRTC's
// "kernel(12): error: …". NVRTC names no line when a brace is missing, only "At end of source: error: …" and,
// in a note, the line of the brace to match: the error is at the end of `source`.
std::optional<std::size_t> first_line(std::string_view words, std::string_view name,
                                      std::string_view source) {
  const auto number_at = [&](std::size_t i) {
    std::size_t value = 0;
    while (i < words.size() && std::isdigit(static_cast<unsigned char>(words[i])) != 0 && value < 1'000'000)
      value = value * 10 + static_cast<std::size_t>(words[i++] - '0');
    return value;
  };
  constexpr std::string_view kAtEnd = "At end of source: error";
  std::size_t at_end = words.find(kAtEnd);
  if (at_end != 0 && at_end != std::string_view::npos && words[at_end - 1] != '\n')
    at_end = std::string_view::npos;
  std::optional<std::size_t> any;
  for (std::size_t at = words.find(name); at != std::string_view::npos; at = words.find(name, at + 1)) {
    const std::size_t behind = at + name.size();
    if (behind >= words.size() || (words[behind] != ':' && words[behind] != '(')) continue;
    const std::size_t line = number_at(behind + 1);
    if (line == 0) continue;
    if (at > at_end) break;
    // Warnings come first now and then; "error" stands before the place (PoCL) or behind it.
    const std::size_t begin = words.rfind('\n', at) + 1, end = std::min(words.find('\n', at), words.size());
    if (words.substr(begin, end - begin).find("error") != std::string_view::npos) return line;
    if (!any) any = line;
  }
  return at_end != std::string_view::npos ? last_line_of(source) : any;
}

std::string line_of(std::string_view source, std::size_t line) {
  for (std::size_t n = 1; n < line; ++n)
    source.remove_prefix(std::min(source.find('\n'), source.size() - 1) + 1);
  const std::string_view text = source.substr(0, source.find('\n'));
  return std::string(text.substr(std::min(text.find_first_not_of(" \t"), text.size())));
}

}  // namespace

std::string SourceParameter::to_string() const {
  return name.empty() ? type : type.empty() ? name : fmt::format("{} {}", type, name);
}

bool SourceParameter::takes(DType element) const {
  if (!dtype || *dtype == element) return true;
  switch (*dtype) {
    case DType::u8: return size_of(element) == 1 && !is_integer(element);
    case DType::i8: return element == DType::boolean;
    case DType::u16: return element == DType::f16 || element == DType::bf16;
    default: return false;
  }
}

std::shared_ptr<const SourceKernel> kernel_named(const std::string& where, const SourceProgram& program,
                                                 const std::string& name) {
  const std::vector<std::string>& names = program.names();
  if (std::find(names.begin(), names.end(), name) == names.end() && !program.can_make(name))
    throw Error(ErrorKind::kNotFound, where, "the source has no such kernel",
                names.empty() ? "a kernel: there is none" : fmt::format("one of {}", fmt::join(names, ", ")),
                name);
  return program.kernel(name);
}

SourceBackend& source_backend(const ResolvedDevice& device) {
  if (auto* const found = dynamic_cast<SourceBackend*>(device.backend)) return *found;
  std::string others;
  for (const std::string& name : backend_names())
    if (dynamic_cast<SourceBackend*>(&backend(name)) != nullptr)
      others += fmt::format("{}{}", others.empty() ? "" : ", ", name);
  throw Error(ErrorKind::kUnsupported, fmt::format("kernels on {}", device.name.to_string()),
              "this backend does not run kernels from source", "a device of " + others);
}

std::string source_name(const SourceOptions& options) {
  const std::string& name = options.source_name;
  const auto is_bad = [](char c) { return c == '"' || c == '\\' || static_cast<unsigned char>(c) < ' '; };
  if (std::any_of(name.begin(), name.end(), is_bad))
    throw Error(ErrorKind::kInvalidArgument, "source_name", "a name for a #line",
                "no quotes, backslashes or control characters", name);
  return name.empty() ? "kernel" : name;
}

std::string source_head(codegen::Dialect dialect, bool is_portable, const SourceOptions& options,
                        std::string_view source) {
  std::string text = is_portable                      ? portable_words(dialect, source)
                     : dialect == codegen::Dialect::c ? codegen::math::prelude(dialect)
                                                      : std::string();
  for (const auto& [name, value] : options.defines) text += fmt::format("#define {} {}\n", name, value);
  return text + fmt::format("#line 1 \"{}\"\n", source_name(options));
}

bool is_portable_text(std::string_view source) {
  const auto is_of_a_word = [](char c) {
    return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_';
  };
  for (const std::string_view word : {"S_ENTRY", "S_KERNEL"})
    for (std::size_t at = source.find(word); at != std::string_view::npos; at = source.find(word, at + 1)) {
      const std::size_t end = at + word.size();
      if ((at == 0 || !is_of_a_word(source[at - 1])) && (end == source.size() || !is_of_a_word(source[end])))
        return true;
    }
  return false;
}

void refuse_source(const std::string& device, std::string_view source, const SourceOptions& options,
                   std::string_view words) {
  constexpr std::size_t kMost = 4000;
  while (!words.empty() && std::isspace(static_cast<unsigned char>(words.back())) != 0)
    words.remove_suffix(1);
  std::string text;
  std::string where = options.source_name.empty() ? fmt::format("kernel source on {}", device)
                                                  : fmt::format("{} on {}", options.source_name, device);
  // A source may begin with #defines of the library's and a #line of its own.
  const std::string mark = fmt::format("#line 1 \"{}\"\n", source_name(options));
  if (const std::size_t at = source.rfind(mark); at != std::string_view::npos)
    source.remove_prefix(at + mark.size());
  if (const std::optional<std::size_t> line = first_line(words, source_name(options), source)) {
    where += fmt::format(", line {}", *line);
    text = line_of(source, *line);
  }
  throw Error(
      ErrorKind::kParse, where,
      fmt::format("the compiler refuses it{}{}\n{}", text.empty() ? "" : ": ", text, words.substr(0, kMost)));
}

void check_launch(const std::string& where, const Launch& launch) {
  const auto refuse = [&](const char* what, const char* expected, const Size3& got) {
    throw Error(ErrorKind::kInvalidArgument, where, what, expected, to_string(got));
  };
  const auto least = [](const Size3& s) { return std::min({s.x, s.y, s.z}); };
  if (least(launch.grid) < 0) refuse("the grid's size", "numbers from 0", launch.grid);
  if (launch.block == Launch{}.block)
    throw Error(ErrorKind::kInvalidArgument, where, "the launch has no block",
                "the threads of a group: {.grid = …, .block = {256}}, or Launch::over(count)");
  if (least(launch.block) < 1) refuse("the block's size", "numbers from 1", launch.block);
  std::int64_t threads = 1;
  for (const std::int64_t n :
       {launch.block.x, launch.block.y, launch.block.z, launch.grid.x, launch.grid.y, launch.grid.z})
    if (__builtin_mul_overflow(threads, n, &threads))
      refuse("more threads than can be counted", "at most 2⁶³-1 of them", launch.grid);
  if (launch.items < 0 || launch.items > threads)
    throw Error(ErrorKind::kInvalidArgument, where, "the launch's items",
                fmt::format("0 to {}, one for each thread", threads), std::to_string(launch.items));
}

std::string to_string(const Size3& size) {
  std::string text = std::to_string(size.x);
  if (size.y != 1 || size.z != 1) text += fmt::format("×{}", size.y);
  if (size.z != 1) text += fmt::format("×{}", size.z);
  return text;
}

}  // namespace systole::runtime
