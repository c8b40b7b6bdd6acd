#include "runtime/registry.h"

#include <algorithm>
#include <mutex>
#include <utility>

#include <fmt/format.h>

#include "base/env.h"
#include "base/lasting.h"
#include "base/log.h"
#include "systole/base/error.h"

namespace systole::runtime {

namespace {

struct Entry {
  std::string name;
  int rank;
  BackendFactory factory;
  std::mutex making;
  std::unique_ptr<Backend> made;

  Backend& get() {
    std::lock_guard lock(making);
    if (!made) made = factory();
    if (!made) throw Error(ErrorKind::kInternal, "backend " + name, "its factory made nothing");
    return *made;
  }
};

struct Registry {
  std::mutex mutex;
  std::vector<std::unique_ptr<Entry>> entries;  // by rank; never removed
};

// Never destroyed: a program's static objects may hold executables until its very end.
Registry& registry() {
  static Registry& instance = lasting<Registry>();
  return instance;
}

// The built-in backends come through register_backend() themselves; they must not wait for themselves.
void ensure_builtins() {
  static std::once_flag once;
  thread_local bool registering = false;
  if (registering) return;
  std::call_once(once, [] {
    // Here, where the caller gets the error: later a worker thread or a destructor may read a variable first.
    env::check();
    registering = true;
    try {
      register_builtin_backends();
    } catch (...) {
      registering = false;
      throw;
    }
    registering = false;
  });
}

std::vector<Entry*> entries() {
  ensure_builtins();
  std::lock_guard lock(registry().mutex);
  std::vector<Entry*> all;
  for (const auto& entry : registry().entries) all.push_back(entry.get());
  return all;
}

std::string joined_names() {
  std::string text = "auto";
  for (const std::string& name : backend_names()) text += ", " + name;
  return text;
}

// The devices of a backend, or why there are none.
std::pair<std::vector<DeviceInfo>, std::string> probe(Entry& entry) {
  try {
    Backend& backend = entry.get();
    std::vector<DeviceInfo> found = backend.devices();
    std::string reason = found.empty() ? backend.unavailable_reason() : std::string();
    if (found.empty() && reason.empty()) reason = "it has no device";
    return {std::move(found), std::move(reason)};
  } catch (const Error& error) {
    return {{}, error.what()};
  }
}

ResolvedDevice resolve_auto() {
  std::string reasons;
  for (Entry* entry : entries()) {
    const auto [found, reason] = probe(*entry);
    if (!found.empty()) {
      log(LogLevel::info, fmt::format("device auto: {}", found[0].name.to_string()));
      return {&entry->get(), found[0].name};
    }
    log(LogLevel::info, fmt::format("device auto: {} passed over: {}", entry->name, reason));
    reasons += fmt::format("{}{}: {}", reasons.empty() ? "" : "; ", entry->name, reason);
  }
  throw Error(ErrorKind::kUnsupported, "device \"auto\"",
              "no backend is available: " + (reasons.empty() ? "none is registered" : reasons));
}

}  // namespace

void register_backend(std::string_view name, int rank, BackendFactory factory) {
  ensure_builtins();
  const DeviceName parsed = DeviceName::parse(name);
  if (parsed.backend_name() != name || name == "auto" || !factory)
    throw Error(ErrorKind::kInvalidArgument, fmt::format("backend \"{}\"", name), "cannot be registered",
                "a lower-case name that is no alias, and a factory");
  std::lock_guard lock(registry().mutex);
  auto& all = registry().entries;
  if (std::any_of(all.begin(), all.end(), [&](const auto& e) { return e->name == name; }))
    throw Error(ErrorKind::kInvalidArgument, fmt::format("backend \"{}\"", name), "the name is taken");
  auto entry = std::make_unique<Entry>();
  entry->name = name;
  entry->rank = rank;
  entry->factory = std::move(factory);
  all.insert(std::upper_bound(all.begin(), all.end(), rank, [](int r, const auto& e) { return r < e->rank; }),
             std::move(entry));
}

std::vector<std::string> backend_names() {
  std::vector<std::string> names;
  for (const Entry* entry : entries()) names.push_back(entry->name);
  return names;
}

Backend& backend(std::string_view name) {
  for (Entry* entry : entries())
    if (entry->name == name) return entry->get();
  const std::string reason = why_absent(name);
  throw Error(ErrorKind::kNotFound, fmt::format("device \"{}\"", name),
              reason.empty() ? "this build has no backend of that name" : reason, "one of " + joined_names());
}

ResolvedDevice resolve(const DeviceName& name) {
  if (name.backend == "auto") return resolve_auto();
  Backend& found = backend(name.backend_name());
  const std::vector<DeviceInfo> devices = found.devices();
  if (devices.empty()) {
    const std::string reason = found.unavailable_reason();
    throw Error(ErrorKind::kUnsupported, fmt::format("device \"{}\"", name.to_string()),
                "not available: " + (reason.empty() ? "it has no device" : reason));
  }
  const bool exists = std::any_of(devices.begin(), devices.end(),
                                  [&](const DeviceInfo& d) { return d.name.ordinal == name.ordinal; });
  if (!exists) {
    std::string there;
    for (const DeviceInfo& d : devices) there += (there.empty() ? "" : ", ") + d.name.to_string();
    const std::string reason = found.unavailable_reason();  // of others that cannot be used
    throw Error(ErrorKind::kNotFound, fmt::format("device \"{}\"", name.to_string()),
                "no device of that number" + (reason.empty() ? "" : " can be used: " + reason),
                (devices.size() == 1 ? "" : "one of ") + there, std::to_string(name.ordinal));
  }
  return {&found, name};
}

}  // namespace systole::runtime

namespace systole {

std::vector<runtime::DeviceInfo> devices() {
  std::vector<runtime::DeviceInfo> all;
  for (runtime::Entry* entry : runtime::entries()) {
    auto [found, reason] = runtime::probe(*entry);
    if (found.empty()) log(LogLevel::debug, fmt::format("backend {}: {}", entry->name, reason));
    all.insert(all.end(), std::make_move_iterator(found.begin()), std::make_move_iterator(found.end()));
  }
  return all;
}

}  // namespace systole
