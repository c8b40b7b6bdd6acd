#include "backend/pjrt/probe.h"

#include <fmt/format.h>
#include <charconv>
#include <exception>
#include <fstream>
#include <string_view>
#include <system_error>
#include <utility>

#include "backend/pjrt/child.h"
#include "backend/pjrt/client.h"
#include "backend/pjrt/plugin.h"
#include "base/env.h"
#include "base/log.h"
#include "runtime/disk_cache.h"

namespace systole::pjrt {

namespace {

namespace fs = std::filesystem;

constexpr std::string_view kSuccess = "ok";

[[noreturn]] void fail(const PluginSpec& spec, const std::string& what, const std::string& said = {}) {
  throw Error(ErrorKind::kUnsupported, label(spec),
              fmt::format("{} {} while it started in a process of its own{}", spec.library.string(), what,
                          said.empty() ? "" : "; it said: " + said));
}

// "ok", or the kind's number and the message.
void read_outcome(const PluginSpec& spec, const std::string& outcome, const std::string& said) {
  if (outcome == kSuccess) return;
  int kind = 0;
  const char* const end = outcome.data() + outcome.size();
  const auto [rest, code] = std::from_chars(outcome.data(), end, kind);
  if (code != std::errc() || rest == end) fail(spec, "left without an answer", said);
  throw Error(static_cast<ErrorKind>(kind), label(spec), std::string(rest + 1, end));
}

std::string one_line(const fs::path& file) {
  std::string line;
  std::ifstream in(file);
  std::getline(in, line);
  return line;
}

// Everything a plugin's start depends on, as far as it can be known.
std::string circumstances(const PluginSpec& spec) {
  const std::string file = file_identity(spec.library);
  if (file.empty()) return {};
  return fmt::format("systole {}\n{}boot {}\n{}", SYSTOLE_VERSION, file,
                     one_line("/proc/sys/kernel/random/boot_id"), plugin_variables());
}

// That a plugin started is remembered as a compiled program is, under all that its start depends on.
runtime::DiskCache memos(const fs::path& cache) { return {cache / "pjrt", std::uint64_t{1} << 20}; }
runtime::CacheKey memo_key(const std::string& text) {
  return std::move(runtime::CacheKey("probe").add(text));
}

}  // namespace

ProbeOptions default_probe_options() {
  ProbeOptions options;
  options.helper = find_helper();
  options.cache = runtime::cache_folder();
  if (const auto seconds = env::seconds("SYSTOLE_PJRT_TIMEOUT"))
    options.limit = std::chrono::milliseconds(static_cast<std::int64_t>(*seconds * 1000));
  return options;
}

void probe(const PluginSpec& spec, const ProbeOptions& options) {
  const std::string now = options.cache.empty() ? std::string() : circumstances(spec);
  if (!now.empty() && memos(options.cache).find(memo_key(now)) == kSuccess) return;
  log(LogLevel::info, fmt::format("{}: trying {} in a child process", label(spec), spec.library.string()));
  ChildWork work;
  work.helper = options.helper;
  work.arguments = {kProbeCommand, spec.name, spec.library.string(), std::to_string(kChildAnswer)};
  work.here = [&] { probe_here(spec, kChildAnswer); };
  work.limit = options.limit;
  const ChildResult result = run_in_child(work, label(spec));
  if (!result.failure.empty()) fail(spec, result.failure, result.said);
  read_outcome(spec, result.answer, result.said);
  if (!now.empty()) memos(options.cache).store(memo_key(now), kSuccess);
}

void probe_here(const PluginSpec& spec, int descriptor) {
  std::string outcome(kSuccess);
  try {
    const Plugin plugin(spec);
    const ClientHandle client = create_client(plugin.api(), spec.name);
  } catch (const Error& error) {
    outcome = fmt::format("{} {}", static_cast<int>(error.kind()), error.message());
    if (!error.expected().empty()) outcome += ", expected " + error.expected();
    if (!error.got().empty()) outcome += ", got " + error.got();
  } catch (const std::exception& error) {
    outcome = fmt::format("{} {}", static_cast<int>(ErrorKind::kUnsupported), error.what());
  }
  answer_and_leave(outcome, descriptor);
}

}  // namespace systole::pjrt
