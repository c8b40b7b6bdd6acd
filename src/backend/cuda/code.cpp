#include "backend/cuda/code.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <map>
#include <optional>
#include <sstream>
#include <utility>

#include "backend/cuda/by_threads.h"
#include "backend/cuda/nvrtc.h"
#include "base/parallel.h"

namespace systole::cuda {

namespace {

using codegen::Kernel;
using runtime::CacheKey;
using runtime::DiskCache;

std::string source_of(const std::vector<Kernel>& kernels) {
  return codegen::source_file(kernels, codegen::Dialect::cuda);
}

// What a kernel, or some together, become.
std::string name_of(const Device& device, const std::vector<Kernel>& kernels) {
  return CacheKey("code").add(source_of(kernels)).add(device.architecture()).add(nvrtc_version()).file_name();
}
CacheKey part_key(const std::string& name) { return CacheKey("cuda").add(name); }

// Where the kernels of a program are: their names, each with that of its part.
using Places = std::map<std::string, std::string>;

Places read(const DiskCache& cache, const CacheKey& program) {
  Places places;
  std::istringstream lines(cache.find(program).value_or(""));
  for (std::string kernel, part; lines >> kernel >> part;) places[kernel] = part;
  return places;
}
void write(const DiskCache& cache, const CacheKey& program, const Places& places) {
  std::string lines;
  for (const auto& [kernel, part] : places) lines += fmt::format("{} {}\n", kernel, part);
  cache.store(program, lines);
}

// In parts of about one size.
std::vector<std::vector<Kernel>> in_parts(const std::vector<Kernel>& kernels) {
  constexpr std::size_t kLeast = 4 * 1024, kMostParts = 16;  // bytes of source
  std::size_t all = 0;
  for (const Kernel& kernel : kernels) all += kernel.source.size();
  const auto threads = static_cast<std::size_t>(thread_count());
  const std::size_t size = std::max(kLeast, all / std::min(threads, kMostParts) + 1);
  std::vector<std::vector<Kernel>> parts;
  std::size_t room = 0;
  for (const Kernel& kernel : kernels) {
    if (parts.empty() || room < kernel.source.size()) {
      parts.emplace_back();
      room = size;
    }
    parts.back().push_back(kernel);
    room -= std::min(room, kernel.source.size());
  }
  return parts;
}

// Takes the kernels that the cache has from the list.
std::vector<Code> found(const Device& device, const DiskCache& cache, const Places& places,
                        std::vector<Kernel>& kernels) {
  std::vector<Code> all;
  std::map<std::string, std::optional<std::size_t>> known;  // by part: where it is in `all`
  std::erase_if(kernels, [&](const Kernel& kernel) {
    const auto place = places.find(name_of(device, {kernel}));
    if (place == places.end()) return false;
    const auto [at, is_new] = known.try_emplace(place->second);
    if (is_new)
      if (std::optional<std::string> bytes = cache.find(part_key(place->second))) {
        at->second = all.size();
        all.push_back({*std::move(bytes), {}});
      }
    if (at->second) all[*at->second].kernels.push_back(kernel.name);
    return at->second.has_value();
  });
  return all;
}

}  // namespace

std::vector<Code> compiled(const Device& device, const CacheKey& program,
                           const std::vector<Kernel>& kernels) {
  const std::optional<DiskCache> cache = runtime::disk_cache();
  std::vector<Kernel> missing = kernels;
  std::vector<Code> all;
  Places places;
  if (cache) {
    places = read(*cache, program);
    all = found(device, *cache, places, missing);
  }
  const std::vector<std::vector<Kernel>> parts = in_parts(missing);
  const std::size_t first = all.size();
  all.resize(first + parts.size());
  std::vector<std::string> stored(parts.size());  // their names
  by_threads(parts.size(), parts.size(), [&](std::size_t i, std::size_t) {
    Code& code = all[first + i];
    for (const Kernel& kernel : parts[i]) code.kernels.push_back(kernel.name);
    const auto begin = std::chrono::steady_clock::now();
    code.bytes = machine_code(source_of(parts[i]), {.architecture = device.architecture(), .flags = {"-w"}});
    if (!cache || !cache->is_worth(std::chrono::steady_clock::now() - begin)) return;
    stored[i] = name_of(device, parts[i]);
    cache->store(part_key(stored[i]), code.bytes);
  });
  if (std::all_of(stored.begin(), stored.end(), [](const std::string& name) { return name.empty(); }))
    return all;
  places = read(*cache, program);  // another process may have written meanwhile
  for (std::size_t i = 0; i < parts.size(); ++i)
    if (!stored[i].empty())
      for (const Kernel& kernel : parts[i]) places[name_of(device, {kernel})] = stored[i];
  write(*cache, program, places);
  return all;
}

}  // namespace systole::cuda
