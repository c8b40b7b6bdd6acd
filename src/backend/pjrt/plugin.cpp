#include "backend/pjrt/plugin.h"

#include <dlfcn.h>
#include <elf.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>
#include <algorithm>
#include <array>
#include <cstring>
#include <fstream>

#include "base/log.h"

extern char** environ;

namespace systole::pjrt {

namespace {

namespace fs = std::filesystem;

struct ElfHead {
  std::array<unsigned char, EI_NIDENT> ident{};
  std::uint16_t type = 0, machine = 0;  // in the byte order of the file, which is ours where it matters
};

bool read_head(const fs::path& file, ElfHead& head) {
  std::array<char, EI_NIDENT + 4> bytes;
  std::ifstream in(file, std::ios::binary);
  if (!in.read(bytes.data(), bytes.size())) return false;
  std::memcpy(head.ident.data(), bytes.data(), EI_NIDENT);
  std::memcpy(&head.type, bytes.data() + EI_NIDENT, 2);
  std::memcpy(&head.machine, bytes.data() + EI_NIDENT + 2, 2);
  return std::memcmp(head.ident.data(), ELFMAG, SELFMAG) == 0;
}

std::string machine_name(std::uint16_t machine) {
  switch (machine) {
    case EM_X86_64: return "x86-64";
    case EM_AARCH64: return "aarch64";
    case EM_386: return "i386";
    case EM_ARM: return "arm";
    case EM_RISCV: return "riscv";
    case EM_PPC64: return "ppc64";
    default: return fmt::format("ELF machine {}", machine);
  }
}

using GetApi = const PJRT_Api* (*)();

const PJRT_Api* open(const PluginSpec& spec) {
  const std::string where = label(spec), file = spec.library.string();
  std::error_code code;
  if (!fs::exists(spec.library, code))
    throw Error(ErrorKind::kNotFound, where, fmt::format("there is no plugin {} ({})", file, spec.source));
  if (const std::string reason = wrong_file(spec.library); !reason.empty())
    throw Error(ErrorKind::kUnsupported, where, fmt::format("{} {}", file, reason));
  void* const library = ::dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    const char* const text = ::dlerror();
    throw Error(ErrorKind::kUnsupported, where,
                fmt::format("cannot load the plugin: {}", text != nullptr ? text : file));
  }
  void* const symbol = ::dlsym(library, "GetPjrtApi");
  if (symbol == nullptr)
    throw Error(ErrorKind::kUnsupported, where,
                fmt::format("{} is not a PJRT plugin: it has no GetPjrtApi", file));
  return reinterpret_cast<GetApi>(symbol)();
}

}  // namespace

std::string label(const PluginSpec& spec) { return "pjrt:" + spec.name; }

std::string wrong_file(const fs::path& library) {
  std::error_code code;
  if (!fs::is_regular_file(library, code)) return "is not a file";
  ElfHead head, ours;
  if (!read_head(library, head)) return "is not a shared library";
  if (!read_head("/proc/self/exe", ours)) return {};
  if (head.ident[EI_CLASS] != ours.ident[EI_CLASS] || head.ident[EI_DATA] != ours.ident[EI_DATA] ||
      head.machine != ours.machine)
    return fmt::format("is for another machine type ({}, this is {})", machine_name(head.machine),
                       machine_name(ours.machine));
  return {};
}

std::string file_identity(const fs::path& library) {
  struct stat info{};
  if (::stat(library.c_str(), &info) != 0) return {};
  return fmt::format("{}\nsize {} modified {}.{:09}\n", library.string(), info.st_size, info.st_mtim.tv_sec,
                     info.st_mtim.tv_nsec);
}

std::string plugin_variables() {
  std::vector<std::string> variables;
  for (char** entry = environ; *entry != nullptr; ++entry)
    for (const char* prefix : {"XLA_", "TF_", "TPU_", "LIBTPU_", "CUDA_", "NVIDIA_", "PJRT_", "SYSTOLE_PJRT_",
                               "JAX_", "LD_", "CLOUD_TPU_"})
      if (std::string_view(*entry).starts_with(prefix)) variables.emplace_back(*entry);
  std::sort(variables.begin(), variables.end());
  std::string text;
  for (const std::string& variable : variables) text += variable + "\n";
  return text;
}

NamedValues named_values(const PJRT_NamedValue* values, std::size_t count) {
  NamedValues result;
  if (values == nullptr || count == 0) return result;
  // The plugin's elements are as long as its own struct.
  const std::size_t stride = (values->struct_size + alignof(PJRT_NamedValue) - 1) / alignof(PJRT_NamedValue) *
                             alignof(PJRT_NamedValue);
  const auto* const bytes = reinterpret_cast<const char*>(values);
  for (std::size_t i = 0; i < count && stride >= PJRT_NamedValue_STRUCT_SIZE; ++i) {
    const auto& value = *reinterpret_cast<const PJRT_NamedValue*>(bytes + i * stride);
    NamedValue read;
    switch (value.type) {
      case PJRT_NamedValue_kString: read.text.assign(value.string_value, value.value_size); break;
      case PJRT_NamedValue_kInt64: read.integers = {value.int64_value}; break;
      case PJRT_NamedValue_kInt64List:
        read.integers.assign(value.int64_array_value, value.int64_array_value + value.value_size);
        break;
      case PJRT_NamedValue_kFloat: read.number = static_cast<double>(value.float_value); break;
      case PJRT_NamedValue_kBool: read.integers = {value.bool_value ? 1 : 0}; break;
    }
    if (!read.integers.empty()) {
      read.number = static_cast<double>(read.integers[0]);
      read.text = fmt::format("{}", fmt::join(read.integers, "."));
    } else if (value.type == PJRT_NamedValue_kFloat) {
      read.text = fmt::format("{}", read.number);
    }
    result.insert_or_assign(std::string(value.name, value.name_size), std::move(read));
  }
  return result;
}

Plugin::Plugin(const PluginSpec& spec) : spec_(spec), api_(open(spec), label(spec)) {
  if (api_.minor() != PJRT_API_MINOR)
    log(LogLevel::debug, fmt::format("{}: PJRT {}.{}, this build knows {}.{}", label(spec), api_.major(),
                                     api_.minor(), PJRT_API_MAJOR, PJRT_API_MINOR));
  if (api_.has(&PJRT_Api::PJRT_Plugin_Initialize)) {
    SYSTOLE_PJRT_ARGS(PJRT_Plugin_Initialize, args);
    SYSTOLE_PJRT_CALL(api_, PJRT_Plugin_Initialize, args);
  }
  if (api_.has(&PJRT_Api::PJRT_Plugin_Attributes)) {
    SYSTOLE_PJRT_ARGS(PJRT_Plugin_Attributes, args);
    SYSTOLE_PJRT_CALL(api_, PJRT_Plugin_Attributes, args);
    attributes_ = named_values(args.attributes, args.num_attributes);
  }
  check_stablehlo();
}

// A plugin that says nothing is believed to take what it is given.
void Plugin::check_stablehlo() const {
  const std::vector<std::int64_t> ours(kStableHloVersion.begin(), kStableHloVersion.end());
  const std::string text = fmt::format("{}", fmt::join(ours, "."));
  if (const auto least = attributes_.find("stablehlo_minimum_version");
      least != attributes_.end() && least->second.integers > ours)
    throw Error(ErrorKind::kUnsupported, label(spec_), "the plugin no longer takes this build's StableHLO",
                text, least->second.text + " or newer");
  if (const auto current = attributes_.find("stablehlo_current_version");
      current != attributes_.end() && current->second.integers < ours)
    log(LogLevel::info, fmt::format("{}: StableHLO {}, programs were tried on {} and newer", label(spec_),
                                    current->second.text, text));
}

}  // namespace systole::pjrt
