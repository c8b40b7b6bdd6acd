#pragma once

// What machine code for a GPU says of itself, an ELF file: its kernels and variables, by the names that the
// compiler gave them and by those that the source has.

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace systole::cuda {

struct Cubin {
  struct Kernel {
    std::string symbol;      // "_Z4scalePKfPfi"
    std::string name;        // "scale", "filters::scale", "scale<float>"
    std::string parameters;  // "float const*, float*, int"; empty for extern "C", which does not say
    bool has_parameters;     // whether the symbol says them
    // What the compiler noted for the driver: bytes of each parameter, and the threads of __launch_bounds__.
    std::vector<std::size_t> sizes{};
    std::size_t most_threads = 0;  // 0: it has none
  };
  struct Variable {
    std::string symbol, name;
    std::size_t bytes;
    bool is_constant;  // for kernels
  };
  std::vector<Kernel> kernels;
  std::vector<Variable> variables;
};

// Throws kInternal for what is no such file.
Cubin read_cubin(std::string_view code);

}  // namespace systole::cuda
