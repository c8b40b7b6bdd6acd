// systole doctor: what this machine has and lacks. Every line is ok, missing (optional, and what it would
// give) or FAIL (broken); what is not ok comes with its repair. Only a FAIL makes the exit code 1.

#include <fmt/format.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/env.h"
#include "cli/cli.h"
#include "cli/probe.h"
#include "cli/terminal.h"
#include "runtime/disk_cache.h"
#include "systole/base/error.h"
#include "systole/ir/graph.h"
#include "systole/runtime.h"

#ifdef SYSTOLE_HAVE_ZLIB
#include <zlib.h>
#endif

extern char** environ;

namespace systole::cli {

namespace {

namespace fs = std::filesystem;

class Report {
 public:
  void section(std::string_view title) { put(coloured(Colour::bold, title) + "\n"); }
  void ok(std::string_view text) { line(Colour::green, "ok", text, {}); }
  void missing(std::string_view text, std::string_view repair) {
    line(Colour::yellow, "missing", text, repair);
  }
  void fail(std::string_view text, std::string_view repair) {
    failed_ = true;
    line(Colour::red, "FAIL", text, repair);
  }
  void note(std::string_view text) { line(Colour::bold, "", text, {}); }
  bool failed() const { return failed_; }

 private:
  void line(Colour colour, std::string_view state, std::string_view text, std::string_view repair) {
    const std::string indent(11, ' ');
    const int width = terminal_width() - 11;
    bool first = true;
    for (const std::string& part : wrapped(text, width)) {
      put((first ? "  " + coloured(colour, padded(state, 7)) + "  " : indent) + part + "\n");
      first = false;
    }
    if (repair.empty()) return;
    for (const std::string& part : wrapped(fmt::format("repair: {}", repair), width))
      put(indent + part + "\n");
  }

  bool failed_ = false;
};

void check_compiler(Report& report) {
  report.section("compiler for kernels made at run time (not used by this build)");
  const std::optional<std::string> chosen = env::text("CC");
  std::vector<std::string> candidates = {"g++", "clang++-19", "clang++"};
  if (chosen) candidates.insert(candidates.begin(), *chosen);
  bool found = false;
  for (const std::string& candidate : candidates) {
    const std::string version = first_line_of(candidate + " --version");
    if (!version.empty()) {
      report.ok(fmt::format("{}: {}", candidate, version));
      found = true;
    } else if (chosen && candidate == *chosen) {
      report.fail(fmt::format("CC={} does not run", candidate), "set CC to a C++ compiler, or unset it");
    }
  }
  if (!found) report.missing("no C++ compiler", "apt install g++ (or clang-19), or set CC");
}

void check_libraries(Report& report) {
  report.section("libraries");
#ifdef SYSTOLE_HAVE_ZLIB
  report.ok(fmt::format("zlib {}: compressed .npz files", ::zlibVersion()));
#else
  report.missing("zlib: compressed .npz files are refused", "apt install zlib1g-dev and build again");
#endif
  report.ok(fmt::format("fmt {}.{}.{}", FMT_VERSION / 10000, FMT_VERSION / 100 % 100, FMT_VERSION % 100));
}

void check_drivers(Report& report) {
  report.section("drivers");
  if (const Probe cuda = probe_library("libcuda.so.1", "cuInit"); cuda.ok)
    report.ok("NVIDIA driver (libcuda.so.1)");
  else
    report.missing("NVIDIA driver: " + cuda.detail,
                   "only for cuda devices: install the driver of the GPU, then nvidia-smi must work");
  if (const Probe opencl = probe_library("libOpenCL.so.1", "clGetPlatformIDs"); opencl.ok) {
    std::vector<std::string> vendors;
    std::error_code ignored;
    for (const fs::directory_entry& entry : fs::directory_iterator("/etc/OpenCL/vendors", ignored))
      if (entry.path().extension() == ".icd") vendors.push_back(entry.path().stem().string());
    if (!vendors.empty())
      report.ok(fmt::format("OpenCL loader, drivers: {}", fmt::join(vendors, ", ")));
    else
      report.missing("OpenCL loader without a driver in /etc/OpenCL/vendors",
                     "only for opencl devices: apt install pocl-opencl-icd, or the driver of the GPU");
  } else {
    report.missing("OpenCL: " + opencl.detail,
                   "only for opencl devices: apt install ocl-icd-libopencl1 pocl-opencl-icd");
  }
}

void check_plugin(Report& report, const std::string& variable, const std::string& path) {
  if (const Probe plugin = probe_library(path, "GetPjrtApi"); plugin.ok)
    report.ok(fmt::format("{} ({})", path, variable));
  else
    report.fail(fmt::format("{}: {}", variable, plugin.detail),
                fmt::format("set {} to a PJRT plugin for this machine, or unset it", variable));
}

void check_plugins(Report& report) {
  report.section("PJRT plugins");
  const char* const single = "SYSTOLE_PJRT_PLUGIN";
  const char* const list = "PJRT_NAMES_AND_LIBRARY_PATHS";
  const std::optional<std::string> path = env::text(single), paths = env::text(list);
  if (path) check_plugin(report, single, *path);
  // NAME:PATH, separated by commas.
  for (std::string_view rest = paths ? *paths : std::string_view(); !rest.empty();) {
    const std::string_view entry = rest.substr(0, rest.find(','));
    rest.remove_prefix(std::min(entry.size() + 1, rest.size()));
    if (const std::size_t colon = entry.find(':'); colon != std::string_view::npos)
      check_plugin(report, list, std::string(entry.substr(colon + 1)));
    else
      report.fail(fmt::format("{}: '{}' is not NAME:PATH", list, entry), "separate entries with commas");
  }
  if (!path && !paths)
    report.missing("no plugin is named",
                   fmt::format("only for tpu and pjrt devices: set {} to the plugin's path", single));
}

void check_cache(Report& report) try {
  report.section("cache of compiled code");
  const fs::path folder = runtime::cache_folder();
  const std::string repair = "set SYSTOLE_CACHE_DIR to a folder of your own";
  if (!env::flag("SYSTOLE_CACHE", true))
    return report.missing("turned off by SYSTOLE_CACHE: every process compiles anew", "unset SYSTOLE_CACHE");
  if (folder.empty()) return report.missing("no folder: neither SYSTOLE_CACHE_DIR nor HOME is set", repair);
  std::error_code code;
  if (fs::exists(folder, code)) {
    if (!fs::is_directory(folder, code))
      return report.fail(fmt::format("{} is not a folder", folder.string()), repair);
    if (::access(folder.c_str(), W_OK | X_OK) != 0)
      return report.fail(fmt::format("{} is not writable", folder.string()), repair);
    const runtime::DiskCache cache = *runtime::disk_cache();
    const runtime::DiskCache::Usage usage = cache.usage();
    return report.ok(fmt::format("{}: {} compiled program{}, {} of {}", folder.string(), usage.entries,
                                 usage.entries == 1 ? "" : "s", size_text(static_cast<double>(usage.bytes)),
                                 size_text(static_cast<double>(cache.limit()))));
  }
  fs::path parent = folder;
  while (!parent.empty() && !fs::exists(parent, code) && parent != parent.parent_path())
    parent = parent.parent_path();
  if (::access(parent.empty() ? "." : parent.c_str(), W_OK | X_OK) == 0)
    report.ok(fmt::format("{}: made when first needed", folder.string()));
  else
    report.fail(fmt::format("{} cannot be made: {} is not writable", folder.string(), parent.string()),
                repair);
} catch (const Error& error) {  // of a variable
  report.fail(error.what(), "correct the variable, or unset it");
}

void list_variables(Report& report) {
  report.section("variables");
  std::vector<std::string> set;
  for (char** entry = environ; *entry != nullptr; ++entry)
    if (std::string_view(*entry).starts_with("SYSTOLE_")) set.emplace_back(*entry);
  std::sort(set.begin(), set.end());
  for (const std::string& entry : set) report.note(entry);
  if (set.empty()) report.note("no SYSTOLE_* variable is set");
}

// (x + x)·x summed over x = 1, 2, 3 is 28.
void self_test(const std::string& device) {
  ir::Graph graph;
  const ir::Value x = graph.input("x", {DType::f32, {3}});
  const ir::Value product = graph.add(ir::Op::mul, {graph.add(ir::Op::add, {x, x}), x});
  graph.output(graph.add(ir::Op::reduce, {product}, ir::ReduceAttrs{ir::Combine::sum, {0}}), "y");
  const float y = compile(graph, device).run({Literal::of<float>({3}, {1, 2, 3})})[0].item<float>();
  if (y != 28) throw Error(ErrorKind::kInternal, "self-test", "wrong result", "28", fmt::format("{}", y));
}

void check_backends(Report& report) {
  report.section("backends");
  for (const std::string& name : runtime::backend_names()) {
    try {
      runtime::Backend& backend = runtime::backend(name);
      const std::vector<runtime::DeviceInfo> devices = backend.devices();
      if (devices.empty()) {
        report.missing(fmt::format("{}: {}", name, backend.unavailable_reason()), "see the sections above");
        continue;
      }
      for (const runtime::DeviceInfo& device : devices) {
        self_test(device.name.to_string());
        report.ok(fmt::format("{}: a small graph gives the right result", device.name.to_string()));
      }
    } catch (const Error& error) {
      report.fail(fmt::format("{}: {}", name, error.what()),
                  "build again with `make clean build`; if it stays, report it");
    }
  }
}

int examine() {
  Report report;
  report.section("systole " SYSTOLE_VERSION);
  check_compiler(report);
  check_libraries(report);
  check_drivers(report);
  check_plugins(report);
  check_cache(report);
  list_variables(report);
  check_backends(report);
  put(report.failed() ? "\nSomething is broken: see FAIL above.\n"
                      : "\nNothing is broken; what is missing is optional.\n");
  return report.failed() ? 1 : 0;
}

}  // namespace

Action add_doctor(CLI::App& app) {
  app.footer(
      "Lines say ok, missing (optional) or FAIL (broken); what is not ok comes with its repair.\n"
      "The exit code is 1 only after a FAIL.");
  return examine;
}

}  // namespace systole::cli
