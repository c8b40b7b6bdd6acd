#include "runtime/cache.h"

#include <exception>
#include <future>
#include <string_view>

#include "base/lasting.h"
#include "ir/hash.h"
#include "systole/base/error.h"

namespace systole::runtime {

struct ExecutableCache::Slot {
  ir::Graph graph;
  DeviceName device;
  CompileOptions options;
  std::int64_t bytes = 0;
  std::shared_future<ExecutableRef> compiling;  // until it is there
  ExecutableRef kept;                           // while recent
  std::weak_ptr<const Executable> alive;        // while anyone holds it
  std::uint64_t used = 0;
};

namespace {

std::int64_t constant_bytes(const ir::Graph& graph) {
  std::int64_t bytes = 0;
  for (const ir::Node& node : graph.nodes()) {
    if (node.op == ir::Op::constant)
      bytes += static_cast<std::int64_t>(node.as<ir::ConstantAttrs>().value.byte_size());
    for (const ir::GraphRef& g : node.graphs) bytes += constant_bytes(*g);
  }
  return bytes;
}

std::uint64_t key_of(const ir::Graph& graph, const DeviceName& device, const CompileOptions& options) {
  ir::Hasher hasher;
  hasher.add(graph.hash());
  hasher.add(std::string_view(device.to_string()));
  hasher.add(options.optimize);
  hasher.add(static_cast<std::uint64_t>(options.math));
  hasher.add(options.deterministic);
  return hasher.result();
}

}  // namespace

ExecutableCache::ExecutableCache(std::size_t entries, std::int64_t bytes)
    : max_entries_(entries), max_bytes_(bytes) {}
ExecutableCache::~ExecutableCache() = default;

ExecutableRef ExecutableCache::find_or_compile(const ir::Graph& graph, const DeviceName& device,
                                               const CompileOptions& options,
                                               const std::function<ExecutableRef()>& compile) {
  const std::uint64_t key = key_of(graph, device, options);
  const auto find = [&] {
    const auto [first, last] = slots_.equal_range(key);
    for (auto it = first; it != last; ++it)
      if (it->second->device == device && it->second->options == options &&
          it->second->graph.same_structure(graph))
        return it;
    return slots_.end();
  };
  // Made before the lock is taken, so destroyed after it is released.
  std::vector<ExecutableRef> let_go;
  std::promise<ExecutableRef> promise;
  std::unique_lock lock(mutex_);
  if (const auto found = find(); found != slots_.end()) {
    Slot& slot = *found->second;
    if (const std::shared_future<ExecutableRef> compiling = slot.compiling; compiling.valid()) {
      lock.unlock();
      return compiling.get();
    }
    if (ExecutableRef executable = slot.alive.lock()) {
      slot.used = ++clock_;
      if (!slot.kept) {
        slot.kept = executable;
        let_go = trim();
      }
      return executable;
    }
    slots_.erase(found);
  }
  Slot& slot = *slots_.emplace(key, std::make_unique<Slot>(Slot{graph, device, options}))->second;
  slot.compiling = promise.get_future().share();
  lock.unlock();

  ExecutableRef executable;
  try {
    executable = compile();
    if (!executable) throw Error(ErrorKind::kInternal, "backend " + device.backend, "compile made nothing");
  } catch (...) {
    lock.lock();
    slots_.erase(find());
    lock.unlock();
    promise.set_exception(std::current_exception());
    throw;
  }

  const std::int64_t bytes = constant_bytes(graph);
  lock.lock();
  slot.bytes = bytes;
  slot.compiling = {};
  slot.alive = slot.kept = executable;
  slot.used = ++clock_;
  let_go = trim();
  lock.unlock();
  promise.set_value(executable);
  return executable;
}

std::vector<ExecutableRef> ExecutableCache::trim() {
  std::vector<ExecutableRef> let_go;
  for (;;) {
    std::size_t kept = 0;
    std::int64_t bytes = 0;
    auto oldest = slots_.end();
    for (auto it = slots_.begin(); it != slots_.end();) {
      const Slot& slot = *it->second;
      if (!slot.compiling.valid() && slot.alive.expired()) {
        it = slots_.erase(it);
        continue;
      }
      if (slot.kept) {
        ++kept;
        bytes += slot.bytes;
        if (oldest == slots_.end() || slot.used < oldest->second->used) oldest = it;
      }
      ++it;
    }
    if (oldest == slots_.end() || (kept <= max_entries_ && bytes <= max_bytes_)) return let_go;
    let_go.push_back(std::move(oldest->second->kept));
    // New holders come only through this cache, whose lock we have: a sole holder stays the sole one.
    if (let_go.back().use_count() == 1) slots_.erase(oldest);
  }
}

ExecutableCache& executable_cache() {
  // Never destroyed, like the backends its executables belong to.
  static ExecutableCache& cache = lasting<ExecutableCache>(256, std::int64_t{256} << 20);
  return cache;
}

}  // namespace systole::runtime
