#pragma once

// Executables by graph structure, device and options. Equal graphs compile once: threads that ask while one
// is compiled wait for it, and all get its error when it fails. A failed compilation is forgotten, so the
// next request tries again. No lock is held while anything compiles. The recent executables are kept, and
// whatever a program still holds is found again.

#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <vector>

#include "systole/ir/graph.h"
#include "systole/runtime.h"

namespace systole::runtime {

using ExecutableRef = std::shared_ptr<const Executable>;

class ExecutableCache {
 public:
  // Keeps at most `entries` unused executables whose graphs' constants take at most `bytes`.
  ExecutableCache(std::size_t entries, std::int64_t bytes);
  ~ExecutableCache();

  ExecutableRef find_or_compile(const ir::Graph& graph, const DeviceName& device,
                                const CompileOptions& options, const std::function<ExecutableRef()>& compile);

 private:
  struct Slot;
  using Slots = std::unordered_multimap<std::uint64_t, std::unique_ptr<Slot>>;

  std::vector<ExecutableRef> trim();  // what it lets go, to be destroyed outside the lock

  const std::size_t max_entries_;
  const std::int64_t max_bytes_;
  std::mutex mutex_;
  Slots slots_;
  std::uint64_t clock_ = 0;
};

ExecutableCache& executable_cache();  // the process's

}  // namespace systole::runtime
