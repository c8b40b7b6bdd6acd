#pragma once

// Programs that a plugin compiled, kept in the disk cache. The key holds all that a plugin's output depends
// on as far as it can be known: its library, versions, variables, the devices, the processor, the program and
// its options. A plugin that cannot serialise is asked once.

#include <atomic>
#include <chrono>
#include <functional>
#include <string>
#include <string_view>

#include "backend/pjrt/api.h"
#include "runtime/disk_cache.h"

namespace systole::pjrt {

class StoredPrograms {
 public:
  // `maker` names the plugin and its devices.
  StoredPrograms(const Api& api, std::string maker);

  // From the disk when it is there and the plugin takes it, else made by `compile` and, when that took long,
  // kept.
  LoadedExecutable find_or_compile(PJRT_Client* client, std::string_view program, std::string_view options,
                                   const std::function<LoadedExecutable()>& compile) const;

 private:
  using Clock = std::chrono::steady_clock;
  void note(std::string_view what, Clock::time_point start) const;
  LoadedExecutable load(PJRT_Client* client, const std::string& bytes) const;
  void keep(const runtime::DiskCache& cache, const runtime::CacheKey& key,
            const LoadedExecutable& program) const;

  const Api& api_;
  const std::string maker_;
  mutable std::atomic<bool> usable_;
};

}  // namespace systole::pjrt
