// Sections are for who reads the file, not for the loader: new ones stand behind its end, with a new table of
// all sections.

#include "notes.h"

#include <elf.h>

#include <algorithm>
#include <cstdint>
#include <cstring>

namespace systole::emulated {

namespace {

constexpr unsigned char kLong = 4, kParameter = 0x17, kThreads = 0x05, kEntry = 0x10;

template <class T>
void append(std::string& to, const T& value) {
  to.append(reinterpret_cast<const char*>(&value), sizeof value);
}
void append_note(std::string& to, unsigned char what, const std::string& bytes) {
  append(to, kLong);
  append(to, what);
  append(to, static_cast<std::uint16_t>(bytes.size()));
  to += bytes;
}

std::string notes_of(const Code::Description& kernel) {
  std::string all;
  std::uint16_t offset = 0;
  for (std::size_t i = 0; i < kernel.sizes.size(); ++i) {
    std::string note;
    append(note, std::uint32_t{0});
    append(note, static_cast<std::uint16_t>(i));
    append(note, offset);
    append(note, static_cast<std::uint32_t>(kernel.sizes[i] << 18));
    append_note(all, kParameter, note);
    offset = static_cast<std::uint16_t>(offset + kernel.sizes[i]);
  }
  if (kernel.most_threads > 0) {
    std::string note;
    for (const std::uint32_t n : {kernel.most_threads, 1u, 1u}) append(note, n);
    append_note(all, kThreads, note);
  }
  return all;
}

}  // namespace

std::string with_notes(std::string file, const std::vector<Code::Description>& kernels) {
  const auto get = [&](auto& value, std::size_t at) { std::memcpy(&value, file.data() + at, sizeof value); };
  const auto put = [&](const auto& value, std::size_t at) {
    std::memcpy(file.data() + at, &value, sizeof value);
  };
  Elf64_Ehdr head;
  get(head, 0);
  std::vector<Elf64_Shdr> sections(head.e_shnum);
  for (std::size_t i = 0; i < sections.size(); ++i) get(sections[i], head.e_shoff + i * sizeof sections[i]);
  for (const Elf64_Shdr& table : sections) {
    if (table.sh_type != SHT_SYMTAB) continue;
    const std::size_t names = sections[table.sh_link].sh_offset;
    for (std::size_t at = table.sh_offset; at < table.sh_offset + table.sh_size; at += sizeof(Elf64_Sym)) {
      Elf64_Sym symbol;
      get(symbol, at);
      const std::string name = file.c_str() + names + symbol.st_name;
      if (std::none_of(kernels.begin(), kernels.end(), [&](const auto& k) { return k.symbol == name; }))
        continue;
      symbol.st_other |= kEntry;
      put(symbol, at);
    }
  }
  Elf64_Shdr& names = sections[head.e_shstrndx];
  std::string texts = file.substr(names.sh_offset, names.sh_size);
  for (const Code::Description& kernel : kernels) {
    const std::string notes = notes_of(kernel);
    Elf64_Shdr section{};
    section.sh_name = static_cast<Elf64_Word>(texts.size());
    section.sh_type = SHT_PROGBITS;
    section.sh_offset = file.size();
    section.sh_size = notes.size();
    sections.push_back(section);
    texts += ".nv.info." + kernel.symbol + '\0';
    file += notes;
  }
  sections[head.e_shstrndx].sh_offset = file.size();
  sections[head.e_shstrndx].sh_size = texts.size();
  file += texts;
  file.resize((file.size() + 7) / 8 * 8);
  head.e_shoff = file.size();
  head.e_shnum = static_cast<Elf64_Half>(sections.size());
  for (const Elf64_Shdr& section : sections) append(file, section);
  put(head, 0);
  return file;
}

}  // namespace systole::emulated
