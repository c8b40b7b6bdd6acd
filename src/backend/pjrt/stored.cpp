#include "backend/pjrt/stored.h"

#include <fmt/format.h>
#include <fstream>
#include <optional>
#include <set>

#include "base/log.h"

namespace systole::pjrt {

namespace {

// XLA compiles for the very processor it runs on.
std::string processor() {
  std::set<std::string> lines;
  std::ifstream in("/proc/cpuinfo");
  for (std::string line; std::getline(in, line);)
    for (const char* field : {"model name", "flags", "Features", "CPU implementer", "CPU part"})
      if (line.starts_with(field)) lines.insert(line);
  return fmt::format("{}", fmt::join(lines, "\n"));
}

}  // namespace

StoredPrograms::StoredPrograms(const Api& api, std::string maker)
    : api_(api),
      maker_(std::move(maker) + processor()),
      usable_(api.has(&PJRT_Api::PJRT_Executable_Serialize) &&
              api.has(&PJRT_Api::PJRT_Executable_DeserializeAndLoad) &&
              api.has(&PJRT_Api::PJRT_LoadedExecutable_GetExecutable)) {}

void StoredPrograms::note(std::string_view what, Clock::time_point start) const {
  if (!log_enabled(LogLevel::debug)) return;
  const std::chrono::duration<double, std::milli> taken = Clock::now() - start;
  log(LogLevel::debug, fmt::format("{}: a program is {} in {:.1f} ms", api_.where(), what, taken.count()));
}

LoadedExecutable StoredPrograms::find_or_compile(PJRT_Client* client, std::string_view program,
                                                 std::string_view options,
                                                 const std::function<LoadedExecutable()>& compile) const {
  const std::optional<runtime::DiskCache> cache = usable_ ? runtime::disk_cache() : std::nullopt;
  if (!cache) return compile();
  runtime::CacheKey key("pjrt");
  key.add(maker_).add(options).add(program);
  const Clock::time_point start = Clock::now();
  if (const std::optional<std::string> bytes = cache->find(key)) try {
      LoadedExecutable loaded = load(client, *bytes);
      note("loaded", start);
      return loaded;
    } catch (const Error& error) {
      log(LogLevel::info, fmt::format("a stored program is refused: {}", error.what()));
      cache->remove(key);
    }
  LoadedExecutable made = compile();
  note("compiled", start);
  if (cache->is_worth(Clock::now() - start)) keep(*cache, key, made);
  return made;
}

LoadedExecutable StoredPrograms::load(PJRT_Client* client, const std::string& bytes) const {
  SYSTOLE_PJRT_ARGS(PJRT_Executable_DeserializeAndLoad, args);
  args.client = client;
  args.serialized_executable = bytes.data();
  args.serialized_executable_size = bytes.size();
  SYSTOLE_PJRT_CALL(api_, PJRT_Executable_DeserializeAndLoad, args);
  if (args.loaded_executable == nullptr)
    throw Error(ErrorKind::kUnsupported, api_.where(), "the plugin made no executable");
  return {api_, args.loaded_executable};
}

void StoredPrograms::keep(const runtime::DiskCache& cache, const runtime::CacheKey& key,
                          const LoadedExecutable& program) const {
  SYSTOLE_PJRT_ARGS(PJRT_LoadedExecutable_GetExecutable, inner);
  inner.loaded_executable = program.get();
  PJRT_Error* error = api_.table().PJRT_LoadedExecutable_GetExecutable(&inner);
  const CompiledExecutable compiled(api_, error == nullptr ? inner.executable : nullptr);
  SYSTOLE_PJRT_ARGS(PJRT_Executable_Serialize, args);
  args.executable = compiled.get();
  if (error == nullptr) error = api_.table().PJRT_Executable_Serialize(&args);
  if (error != nullptr) {
    if (api_.code_of(error) == PJRT_Error_Code_UNIMPLEMENTED) usable_ = false;
    log(LogLevel::debug,
        fmt::format("a program is not stored: {}", api_.to_error(error, "PJRT_Executable_Serialize").what()));
    return;
  }
  if (args.serialized_bytes != nullptr)
    cache.store(key, std::string_view(args.serialized_bytes, args.serialized_bytes_size));
  if (args.serialized_executable_deleter != nullptr)
    args.serialized_executable_deleter(args.serialized_executable);
}

}  // namespace systole::pjrt
