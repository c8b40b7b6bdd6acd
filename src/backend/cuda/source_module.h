#pragma once

// A program's source as machine code on a GPU, with its variables.

#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "backend/cuda/cubin.h"
#include "backend/cuda/device.h"
#include "backend/cuda/nvrtc.h"
#include "runtime/source_text.h"
#include "systole/runtime/launch.h"

namespace systole::cuda {

// A program's source and how it is to be compiled.
struct Source {
  std::string text, where;  // the program's own text; "cuda:0"
  bool is_portable;
  SourceOptions options;
};

// What the words stand for at the end of a source that compiles, as C++'s own names of numbers, an enum as an
// int; empty for structs, and for all of them when the compiler does not say. Which one a typedef is may
// depend on macros and headers.
runtime::Typedefs types_in(const Device& device, const Source& source, const std::vector<std::string>& words);

// Goes when nothing of it runs any more.
class LoadedSource {
 public:
  // Throws kParse for a source that the compiler refuses. `templates` are made, "f<float>".
  LoadedSource(const Device& device, const Source& source, const std::vector<std::string>& templates);
  ~LoadedSource();
  LoadedSource(const LoadedSource&) = delete;
  LoadedSource& operator=(const LoadedSource&) = delete;

  const Device& device() const { return device_; }
  const Cubin& cubin() const { return cubin_; }
  const std::string& log() const { return made_.log; }
  const std::vector<std::string>& template_symbols() const { return made_.symbols; }
  Memory& variable(std::size_t i) const { return *variables_[i]; }  // as in the cubin
  Function function(const std::string& symbol) const;

  // Variables are memory that launches use. From the moment a launch or a copy asks what it waits for until
  // it has told when it is done, other threads' may not come between: that is what the lock is for. It is of
  // nothing in a module without variables.
  std::unique_lock<std::mutex> in_order() const;
  void before_launch(Stream stream) const;
  void after_launch(const MomentRef& moment) const;

 private:
  const Device& device_;
  NvrtcResult made_;  // without the code
  std::shared_ptr<ModuleObject> module_;
  Cubin cubin_;
  std::vector<std::unique_ptr<Memory>> variables_;
  mutable std::mutex mutex_;  // of the order of uses of variables
  mutable Memory order_;      // of launches
};

}  // namespace systole::cuda
