// libcuda.so.1 for a GPU that is the processor: the fake driver (../fake_driver.h) with kernels that really
// run, work of a graph in any order that it allows. Programs find it by LD_LIBRARY_PATH and know nothing of
// it. Its environment:
//   SYSTOLE_EMULATED_SEED      an order of threads, groups and nodes of graphs; without, as they come
//   SYSTOLE_EMULATED_RACES     1: every kernel runs in two orders, which must give the same bits
//   SYSTOLE_EMULATED_SANITIZE  1: kernels are compiled for the address sanitizer, which is preloaded
//   (LD_PRELOAD)

#include <cstdio>
#include <cstdlib>

#include "base/lasting.h"
#include "code.h"

namespace systole::emulated {

namespace {

cuda::FakeDriver& fake() {
  static cuda::FakeDriver& only = []() -> cuda::FakeDriver& {
    auto& made = lasting<cuda::FakeDriver>(
        std::vector<cuda::FakeGpu>{{.name = "Emulated GPU", .bytes = std::size_t{8} << 30}});
    const auto number = [](const char* name) {
      const char* const text = std::getenv(name);
      return text == nullptr ? 0ull : std::strtoull(text, nullptr, 10);
    };
    made.run_code([](std::string_view file) { return std::make_shared<Code>(file); },
                  {.seed = number("SYSTOLE_EMULATED_SEED"),
                   .compares_orders = number("SYSTOLE_EMULATED_RACES") != 0,
                   .guards_memory = number("SYSTOLE_EMULATED_SANITIZE") == 0});
    return made;
  }();
  return only;
}

}  // namespace

}  // namespace systole::emulated

extern "C" {

// The driver's functions have its names and jump to the fake one's.
#define SYSTOLE_EMULATED_SLOT(name, symbol, parameters) \
  __attribute__((visibility("hidden"))) void* systole_emulated_##name;
SYSTOLE_CUDA_FUNCTIONS(SYSTOLE_EMULATED_SLOT)
#undef SYSTOLE_EMULATED_SLOT
#define SYSTOLE_EMULATED_JUMP(name, symbol, parameters)                   \
  asm(".text\n.globl " #symbol "\n.type " #symbol ", @function\n" #symbol \
      ":\n  jmp *systole_emulated_" #name "(%rip)\n");
SYSTOLE_CUDA_FUNCTIONS(SYSTOLE_EMULATED_JUMP)
#undef SYSTOLE_EMULATED_JUMP

__attribute__((constructor)) static void systole_emulated_start() {
  const systole::cuda::Driver& table = systole::emulated::fake().table();
#define SYSTOLE_EMULATED_FILL(name, symbol, parameters) \
  systole_emulated_##name = reinterpret_cast<void*>(table.name);
  SYSTOLE_CUDA_FUNCTIONS(SYSTOLE_EMULATED_FILL)
#undef SYSTOLE_EMULATED_FILL
}
}
