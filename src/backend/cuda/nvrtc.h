#pragma once

// CUDA C++ to machine code by NVRTC, the library that comes with the toolkit and as a package of its own.

#include <string>
#include <vector>

namespace systole::cuda {

// Empty when there is one, else why not.
std::string nvrtc_absence();
std::string nvrtc_version();  // "13.0"

struct NvrtcOptions {
  std::string architecture;              // "sm_90"
  std::vector<std::string> flags;        // more of them
  std::string file_name = "kernels.cu";  // in its messages
};

// Throws kUnsupported without the library, kInvalidArgument with the compiler's words for a source that it
// refuses. `log` gets what it says of one that it takes.
std::string machine_code(const std::string& source, const NvrtcOptions& options, std::string* log = nullptr);

// A program's own source: without flags of ours but the architecture and C++17, with the headers of the
// standard library that C programs name out of habit, and with templates as asked for ("f<float>").
// The toolkit's headers ("cuda_fp16.h") are found where there is a toolkit: CUDA_HOME, CUDA_PATH,
// /usr/local/cuda.
struct NvrtcResult {
  std::string code, log;
  std::vector<std::string> symbols;  // of the templates
  bool is_refused = false;           // the source has errors, which are in the log
};
std::string toolkit_headers();  // their folder; empty: there is none
NvrtcResult compile_users_source(const std::string& source, const NvrtcOptions& options,
                                 const std::vector<std::string>& templates = {});

}  // namespace systole::cuda
