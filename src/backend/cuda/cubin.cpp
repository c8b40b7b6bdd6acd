#include "backend/cuda/cubin.h"

#include <cxxabi.h>

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>

#include "systole/base/error.h"

namespace systole::cuda {

namespace {

// The parts of ELF-64 that are looked at.
struct FileHeader {
  unsigned char identification[16];
  std::uint16_t type, machine;
  std::uint32_t version;
  std::uint64_t entry, programs, sections;
  std::uint32_t flags;
  std::uint16_t size, program_size, program_count, section_size, section_count, names;
};
struct Section {
  std::uint32_t name, type;
  std::uint64_t flags, address, offset, size;
  std::uint32_t link, information;
  std::uint64_t alignment, entry_size;
};
struct Symbol {
  std::uint32_t name;
  unsigned char information, other;
  std::uint16_t section;
  std::uint64_t value, size;
};
static_assert(sizeof(FileHeader) == 64 && sizeof(Section) == 64 && sizeof(Symbol) == 24);

constexpr std::uint32_t kSymbols = 2;                // SHT_SYMTAB
constexpr unsigned char kObject = 1, kFunction = 2;  // STT_…
// Notes of a kernel, in .nv.info.SYMBOL: a form, what it is, and two bytes or, of the form kLong, as many as
// these say.
constexpr unsigned char kLong = 4;
constexpr unsigned char kParameter = 0x17, kThreads = 0x05;
struct ParameterNote {
  std::uint32_t reserved;
  std::uint16_t ordinal, offset;
  std::uint32_t packed;  // the size from bit 18 on
};
constexpr unsigned char kEntry = 0x10;  // STO_CUDA_ENTRY

class File {
 public:
  explicit File(std::string_view bytes) : bytes_(bytes) {}

  template <class T>
  T at(std::uint64_t offset) const {
    if (offset > bytes_.size() || bytes_.size() - offset < sizeof(T)) refuse();
    T value;
    std::memcpy(&value, bytes_.data() + offset, sizeof value);
    return value;
  }
  std::string text(const Section& strings, std::uint32_t offset) const {
    if (strings.offset > bytes_.size() || offset > bytes_.size() - strings.offset) refuse();
    const std::string_view rest = bytes_.substr(strings.offset + offset);
    return std::string(rest.substr(0, rest.find('\0')));
  }
  [[noreturn]] static void refuse() {
    throw Error(ErrorKind::kInternal, "cuda", "machine code is no ELF file that is known");
  }

 private:
  std::string_view bytes_;
};

std::string demangled(const std::string& symbol) {
  if (!symbol.starts_with("_Z")) return symbol;
  int status = 0;
  const std::unique_ptr<char, void (*)(void*)> text(
      abi::__cxa_demangle(symbol.c_str(), nullptr, nullptr, &status), std::free);
  return status == 0 && text != nullptr ? text.get() : symbol;
}

// "void scale<float>(float const*, int)" by its parts.
Cubin::Kernel kernel_of(const std::string& symbol) {
  constexpr std::string_view kNowhere = "(anonymous namespace)::";
  std::string text = demangled(symbol);
  for (std::size_t at = text.find(kNowhere); at != std::string::npos; at = text.find(kNowhere))
    text.erase(at, kNowhere.size());
  Cubin::Kernel kernel{symbol, text, {}, false};
  std::size_t begin = 0, depth = 0;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '<') ++depth;
    if (text[i] == '>') --depth;
    if (depth > 0) continue;
    if (text[i] == ' ') begin = i + 1;  // behind the type that a template returns
    if (text[i] != '(') continue;
    kernel.name = text.substr(begin, i - begin);
    kernel.parameters = text.substr(i + 1, text.rfind(')') - i - 1);
    kernel.has_parameters = true;
    break;
  }
  return kernel;
}

void read_notes(const File& file, const Section& notes, Cubin::Kernel& kernel) {
  for (std::uint64_t at = notes.offset, end = notes.offset + notes.size; at + 4 <= end;) {
    const auto form = file.at<unsigned char>(at), what = file.at<unsigned char>(at + 1);
    const auto size = file.at<std::uint16_t>(at + 2);
    at += 4;
    if (form != kLong) continue;
    if (what == kParameter && size == sizeof(ParameterNote)) {
      const auto note = file.at<ParameterNote>(at);
      if (note.ordinal >= kernel.sizes.size()) kernel.sizes.resize(note.ordinal + 1u);
      kernel.sizes[note.ordinal] = note.packed >> 18;
    } else if (what == kThreads && size == 3 * sizeof(std::uint32_t)) {
      kernel.most_threads = std::size_t{file.at<std::uint32_t>(at)} * file.at<std::uint32_t>(at + 4) *
                            file.at<std::uint32_t>(at + 8);
    }
    at += size;
  }
}

}  // namespace

Cubin read_cubin(std::string_view code) {
  const File file(code);
  const auto header = file.at<FileHeader>(0);
  if (std::memcmp(header.identification, "\177ELF", 4) != 0 || header.section_size != sizeof(Section))
    File::refuse();
  const auto section = [&](std::uint64_t i) {
    if (i >= header.section_count) File::refuse();
    return file.at<Section>(header.sections + i * sizeof(Section));
  };
  constexpr std::string_view kNotes = ".nv.info.";
  const Section names = section(header.names);
  Cubin cubin;
  for (std::uint64_t i = 0; i < header.section_count; ++i) {
    const Section symbols = section(i);
    if (symbols.type != kSymbols) continue;
    const Section strings = section(symbols.link);
    for (std::uint64_t k = 0; k < symbols.size / sizeof(Symbol); ++k) {
      const auto symbol = file.at<Symbol>(symbols.offset + k * sizeof(Symbol));
      const unsigned char type = symbol.information & 15;
      if (symbol.section == 0 || symbol.section >= header.section_count) continue;  // defined elsewhere
      if (type == kFunction && (symbol.other & kEntry) != 0) {
        cubin.kernels.push_back(kernel_of(file.text(strings, symbol.name)));
      } else if (type == kObject) {
        const std::string place = file.text(names, section(symbol.section).name);
        const std::string word = file.text(strings, symbol.name);
        const bool is_constant = place.starts_with(".nv.constant");
        // Texts of printf, tables of virtual functions and the like are the compiler's own.
        if (word.empty() || word[0] == '.' || word.find('$') != std::string::npos ||
            word.starts_with("__nv") || word.starts_with("_ZT"))
          continue;
        if (is_constant || place.starts_with(".nv.global"))
          cubin.variables.push_back(
              {word, demangled(word), static_cast<std::size_t>(symbol.size), is_constant});
      }
    }
  }
  for (std::uint64_t i = 0; i < header.section_count; ++i)
    if (const std::string name = file.text(names, section(i).name); name.starts_with(kNotes))
      for (Cubin::Kernel& kernel : cubin.kernels)
        if (name.substr(kNotes.size()) == kernel.symbol) read_notes(file, section(i), kernel);
  return cubin;
}

}  // namespace systole::cuda
