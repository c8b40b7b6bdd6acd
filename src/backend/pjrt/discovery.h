#pragma once

// Where plugins may be: SYSTOLE_PJRT_PLUGIN (a path), PJRT_NAMES_AND_LIBRARY_PATHS ("name:path,name2:path2"),
// the file systole/plugins of XDG_CONFIG_HOME or ~/.config (lines of NAME:PATH, # before a comment), then
// packages: in the folders of SYSTOLE_PLUGIN_PATH, of PYTHONPATH and of the Python installations found,
// and in the dependencies folder beside the program. Finding loads nothing. Of plugins with one name the
// first counts.

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace systole::pjrt {

struct PluginSpec {
  std::string name;  // fits "pjrt:NAME"
  std::filesystem::path library;
  std::string source;  // for messages: the variable or folder that named it
};

// Entries that are no NAME:PATH are passed over with a warning; `complaints` gets their words too.
std::vector<PluginSpec> discover(std::vector<std::string>* complaints = nullptr);

// Of a plugin that discover() does not give: where it was looked for, and how to get it.
std::string why_not_found(std::string_view name);
// "`pip install libtpu` …": how to get the plugin of this name; without a name, those of this machine.
std::string how_to_get(std::string_view name = {});

// The plugins among the Python packages of a folder: jax_plugins/*/, xla_plugins/*/, libtpu/.
std::vector<PluginSpec> plugins_in(const std::filesystem::path& folder);

// "cpu" of xla_cpu_pjrt.so, "tpu" of libtpu.so, "cuda" of xla_cuda_plugin.so.
std::string plugin_name(const std::filesystem::path& library);

// The CUDA toolkit (libdevice, ptxas) that an XLA plugin for CUDA needs while it compiles: CUDA_ROOT, or what
// Python packages installed beside the plugin's. Empty when neither is there: XLA then looks in the usual
// places.
std::filesystem::path cuda_toolkit(const std::filesystem::path& library);

// Whether the machine has a TPU, by its device files and PCI numbers; `root` is "/" outside tests.
bool has_tpu(const std::filesystem::path& root = "/");

}  // namespace systole::pjrt
