#pragma once

// One PJRT plugin, loaded into this process. It is loaded with its symbols to itself and stays until the
// process ends: plugins leave threads behind. A plugin nobody has tried before goes through probe() first.

#include <array>
#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "backend/pjrt/api.h"
#include "backend/pjrt/discovery.h"

namespace systole::pjrt {

// What plugins say about themselves and their programs: numbers, or the text of anything else.
struct NamedValue {
  std::string text;
  std::vector<std::int64_t> integers;  // of an integer or a list
  double number = 0;                   // of an integer or a float
};
using NamedValues = std::map<std::string, NamedValue, std::less<>>;

// Reads an array whose elements may be longer or shorter than this build's.
NamedValues named_values(const PJRT_NamedValue* values, std::size_t count);

// The StableHLO that programs are written in: the oldest that all of them were tried on.
inline constexpr std::array<std::int64_t, 3> kStableHloVersion = {1, 13, 3};

class Plugin {
 public:
  // Loads and initialises. Throws kNotFound when there is no such file, else kUnsupported, also for a plugin
  // that no longer takes kStableHloVersion, or the plugin's error.
  explicit Plugin(const PluginSpec& spec);

  const PluginSpec& spec() const { return spec_; }
  const Api& api() const { return api_; }
  const NamedValues& attributes() const { return attributes_; }

 private:
  void check_stablehlo() const;

  PluginSpec spec_;
  Api api_;
  NamedValues attributes_;
};

// "pjrt:NAME", as errors and devices say it.
std::string label(const PluginSpec& spec);

// Why the file is no library for this machine; empty when it is one. The dynamic loader calls a library of
// another machine type "not found".
std::string wrong_file(const std::filesystem::path& library);

// The library's path, size and time, and the variables that plugins read, in lines of text: what they do
// depends on these.
std::string file_identity(const std::filesystem::path& library);  // empty when there is none
std::string plugin_variables();

}  // namespace systole::pjrt
