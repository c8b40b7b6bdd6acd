#pragma once

// A plugin that this machine has never tried is first loaded in a child process: it may crash, hang or call
// exit() while it starts, and none of that may reach this process. A success is remembered in the cache
// folder until the plugin, the machine's boot or the variables that plugins read change.

#include <chrono>
#include <filesystem>
#include <string>

#include "backend/pjrt/discovery.h"

namespace systole::pjrt {

struct ProbeOptions {
  std::chrono::milliseconds limit{60'000};
  std::filesystem::path helper;  // a `systole` command to run as the child; empty: a fork of this process
  std::filesystem::path cache;   // a folder; empty: nothing is remembered
};

// The limit from SYSTOLE_PJRT_TIMEOUT (seconds); this program or one beside it as the helper.
ProbeOptions default_probe_options();

// Throws the plugin's own error, or kUnsupported when it crashed, hung or left.
void probe(const PluginSpec& spec, const ProbeOptions& options);

// The child's part: loads the plugin, makes a client, writes the outcome to the descriptor and ends the
// process. Run as `systole pjrt-probe NAME PATH DESCRIPTOR`.
inline constexpr const char* kProbeCommand = "pjrt-probe";
[[noreturn]] void probe_here(const PluginSpec& spec, int descriptor);

}  // namespace systole::pjrt
