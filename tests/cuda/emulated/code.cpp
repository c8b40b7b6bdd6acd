#include "code.h"

#include <dlfcn.h>
#include <elf.h>
#include <fmt/format.h>
#include <link.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <stdexcept>

#include "backend/cuda/cubin.h"

namespace systole::emulated {

namespace {

struct Entry {  // as device.inc has it
  const Entry* next;
  const char* expression;
  const void* function;
  void (*call)(const void* function, void** parameters);
  int count;
  const unsigned long* sizes;
  int most_threads;
};

template <class T>
T* symbol(void* library, const char* name) {
  return static_cast<T*>(::dlsym(library, name));
}

// A file of its own, as the loader knows libraries by their paths.
void* load(std::string_view file) {
  std::string path = "/tmp/systole-emulated-XXXXXX";
  const int descriptor = ::mkstemp(path.data());
  if (descriptor < 0) throw std::runtime_error("no file for machine code");
  const bool is_written = ::write(descriptor, file.data(), file.size()) == static_cast<ssize_t>(file.size());
  ::close(descriptor);
  void* const library = is_written ? ::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL) : nullptr;
  const char* const words = library == nullptr && is_written ? ::dlerror() : "it is not written";
  ::unlink(path.c_str());
  if (library == nullptr) throw std::runtime_error(words);
  return library;
}

}  // namespace

class Code::Kernel final : public cuda::FakeKernel {
 public:
  Kernel(Code& code, const Entry& entry) : code_(code), entry_(entry) {
    ::Dl_info place{};
    ::dladdr(entry.function, &place);
    symbol_ = place.dli_sname != nullptr ? place.dli_sname : "";
    sizes_.assign(entry.sizes, entry.sizes + entry.count);
  }
  const std::string& symbol() const { return symbol_; }
  const Entry& entry() const { return entry_; }

  const std::vector<std::size_t>& sizes() const override { return sizes_; }
  unsigned most_threads() const override {
    return entry_.most_threads > 0 ? static_cast<unsigned>(entry_.most_threads) : 1024;
  }
  std::string run(const cuda::FakeLaunch::Sizes& sizes, std::uint64_t seed, void** parameters) override {
    Machine machine{};
    *emulated::symbol<Machine*>(code_.library_, "systole_emulated_machine") = &machine;
    Launch launch{.groups = {sizes.grid[0], sizes.grid[1], sizes.grid[2]},
                  .threads = {sizes.block[0], sizes.block[1], sizes.block[2]},
                  .dynamic_shared = sizes.shared,
                  .seed = seed};
    // Nothing that the sanitizer has put between arrays is its business here.
    launch.fill_shared = [this](std::byte value) {
      volatile std::byte* const all = code_.shared_;
      for (std::size_t i = 0; i < code_.shared_bytes_; ++i) all[i] = value;
    };
    return emulated::run(machine, launch, [&] { entry_.call(entry_.function, parameters); });
  }

 private:
  Code& code_;
  const Entry& entry_;
  std::string symbol_;
  std::vector<std::size_t> sizes_;
};

Code::Code(std::string_view file) : library_(load(file)) {
  const Entry* const* const entries = symbol<const Entry*>(library_, "systole_emulated_entries");
  if (entries == nullptr) throw std::runtime_error("this is no code of the emulated compiler's");
  for (const Entry* entry = *entries; entry != nullptr; entry = entry->next)
    kernels_.push_back(std::make_unique<Kernel>(*this, *entry));
  for (const cuda::Cubin::Variable& variable : cuda::read_cubin(file).variables)
    if (void* const place = ::dlsym(library_, variable.symbol.c_str()))
      variables_.push_back({variable.symbol, place, variable.bytes});

  link_map* map = nullptr;
  ::dlinfo(library_, RTLD_DI_LINKMAP, &map);
  Elf64_Ehdr head;
  std::memcpy(&head, file.data(), sizeof head);
  const auto section = [&](std::size_t i) {
    Elf64_Shdr one;
    std::memcpy(&one, file.data() + head.e_shoff + i * sizeof one, sizeof one);
    return one;
  };
  const Elf64_Shdr names = section(head.e_shstrndx);
  for (std::size_t i = 0; i < head.e_shnum; ++i) {
    const Elf64_Shdr one = section(i);
    if (std::string_view(file.data() + names.sh_offset + one.sh_name) != ".systole_shared") continue;
    shared_ = reinterpret_cast<std::byte*>(map->l_addr + one.sh_addr);
    shared_bytes_ = one.sh_size;
  }
}

Code::~Code() { ::dlclose(library_); }

cuda::FakeKernel* Code::kernel(std::string_view symbol) {
  for (const auto& kernel : kernels_)
    if (kernel->symbol() == symbol) return kernel.get();
  return nullptr;
}

std::vector<Code::Description> Code::descriptions() const {
  std::vector<Description> all;
  for (const auto& kernel : kernels_)
    all.push_back({kernel->symbol(), kernel->entry().expression, kernel->sizes(),
                   static_cast<unsigned>(kernel->entry().most_threads)});
  return all;
}

}  // namespace systole::emulated
