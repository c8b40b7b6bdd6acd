// systole doctor: what this machine has and lacks. Every line is ok, missing (optional, and what it would
// give) or FAIL (broken); what is not ok comes with its repair. Only a FAIL makes the exit code 1.

#include <fmt/format.h>
#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "backend/cpu/jit.h"
#include "backend/cpu/onednn.h"
#include "backend/cuda/blas.h"
#include "backend/cuda/dnn.h"
#include "backend/cuda/nvrtc.h"
#include "base/env.h"
#include "base/nearest.h"
#include "cli/cli.h"
#include "cli/options.h"
#include "cli/probe.h"
#include "cli/terminal.h"
#include "runtime/disk_cache.h"
#include "systole/base/error.h"
#include "systole/ir/graph.h"
#include "systole/runtime.h"

#ifdef SYSTOLE_HAVE_PJRT
#include "backend/pjrt/discovery.h"
#endif

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

// The compilers that kernels of the processor are made by, each tried on a kernel without content.
void check_compiler(Report& report) try {
  report.section("compiler for kernels made at run time");
  const std::vector<cpu::CompilerState> states = cpu::compiler_states();
  const std::string words = "cpu: " + cpu::kernels_in_words();  // now that all were tried
  if (cpu::makes_kernels())
    report.ok(words);
  else if (env::text("SYSTOLE_JIT") == "portable")
    report.missing(words, "unset SYSTOLE_JIT: kernels are much faster");
  else
    report.missing(words, "much slower than kernels: apt install clang-19 or gcc, or set CC to a C compiler");
  for (const auto& [name, trouble] : states)
    if (trouble.empty())
      report.ok(fmt::format("{} compiles", name));
    else
      report.fail(fmt::format("{}: {}", name, trouble),
                  "set CC, SYSTOLE_CLANG_PATH and TMPDIR to what works, or unset them");
} catch (const Error& error) {  // of a variable
  report.fail(error.what(), "unset the variable, or correct it");
}

void check_onednn(Report& report) try {
  if (const std::string absence = cpu::onednn_absence(); absence.empty())
    report.ok(cpu::onednn_name());
  else
    report.missing(
        fmt::format("oneDNN, without it products and convolutions on cpu run by slower kernels: {}", absence),
        cpu::onednn_repair());
} catch (const Error& error) {  // of the variable
  report.fail(error.what(), "correct the variable, or unset it");
}

void check_libraries(Report& report) {
  report.section("libraries");
#ifdef SYSTOLE_HAVE_ZLIB
  report.ok(fmt::format("zlib {}: compressed .npz and .gz files", ::zlibVersion()));
#else
  report.missing("zlib: compressed .npz and .gz files are refused", "apt install zlib1g-dev and build again");
#endif
  report.ok(fmt::format("fmt {}.{}.{}", FMT_VERSION / 10000, FMT_VERSION / 100 % 100, FMT_VERSION % 100));
  check_onednn(report);
}

void check_cuda_libraries(Report& report) {
  struct Library {
    const char *name, *lack;
    std::string absence;
  };
  for (const Library& library :
       {Library{"NVRTC", "without it there are no cuda devices", cuda::nvrtc_absence()},
        Library{"cuBLASLt", "without it products run by slower kernels", cuda::blas_absence()},
        Library{"cuDNN", "without it convolutions and attention run by slower kernels", cuda::dnn_absence()}})
    if (library.absence.empty())
      report.ok(library.name);
    else
      report.missing(fmt::format("{}, {}: {}", library.name, library.lack, library.absence),
                     "install the CUDA toolkit and cuDNN 9, or set SYSTOLE_CUDA_LIBRARIES to their folders");
}

void check_drivers(Report& report) {
  report.section("drivers");
  if (const Probe cuda = probe_library("libcuda.so.1", "cuInit"); cuda.ok) {
    report.ok("NVIDIA driver (libcuda.so.1)");
    check_cuda_libraries(report);
  } else {
    report.missing("NVIDIA driver: " + cuda.detail,
                   "only for cuda devices: install the driver of the GPU, then nvidia-smi must work");
  }
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

#ifdef SYSTOLE_HAVE_PJRT

// What a plugin that is not broken may lack; empty when it should start.
std::string missing_hardware(const pjrt::PluginSpec& spec) {
  if (spec.name == "tpu" && !pjrt::has_tpu()) return "this machine has no TPU";
  if (spec.name.starts_with("cuda") && !probe_library("libcuda.so.1", "cuInit").ok)
    return "this machine has no NVIDIA driver";
  return {};
}

// Starts the plugin as a program would: in a child first, which may hang or abort.
void check_plugin(Report& report, const pjrt::PluginSpec& spec) {
  const std::string name = "pjrt:" + spec.name;
  const std::string file = fmt::format("{}: {} ({})", name, spec.library.string(), spec.source);
  if (const std::string lack = missing_hardware(spec); !lack.empty())
    return report.missing(fmt::format("{}: {}", file, lack),
                          spec.name == "tpu" ? "run on one (docs/tpu.md); `systole tpu` compiles for one here"
                                             : "only for its devices: install the driver");
  std::string reason;
  try {
    runtime::Backend& backend = runtime::backend(name);
    const std::size_t devices = backend.devices().size();
    if (devices > 0) return report.ok(fmt::format("{}, {} device{}", file, devices, devices == 1 ? "" : "s"));
    reason = backend.unavailable_reason();
  } catch (const Error& error) {
    reason = error.what();
  }
  report.fail(fmt::format("{}: {}", file, reason),
              "put a plugin for this machine in its place, or remove it from there");
}

void check_plugins(Report& report) {
  report.section("PJRT plugins");
  std::vector<std::string> complaints;
  const std::vector<pjrt::PluginSpec> found = pjrt::discover(&complaints);
  for (const std::string& complaint : complaints)
    report.fail(complaint, "correct it or take it out; entries of the variable are separated by commas");
  for (const pjrt::PluginSpec& spec : found) check_plugin(report, spec);
  if (found.empty())
    report.missing("no plugin is found", "only for tpu and pjrt devices: " + pjrt::how_to_get());
}

#else

void check_plugins(Report& report) {
  report.section("PJRT plugins");
  report.missing(
      "this build takes none: pjrt_c_api.h was not found",
      "only for tpu and pjrt devices: run scripts/setup in Systole's source, then build and install again");
}

#endif

void check_cache(Report& report) try {
  report.section("cache of compiled code");
  const std::string folder = runtime::cache_folder().string();
  const std::string repair = "set SYSTOLE_CACHE_DIR to a folder of your own";
  if (!env::flag("SYSTOLE_CACHE", true))
    return report.missing("turned off by SYSTOLE_CACHE: every process compiles anew", "unset SYSTOLE_CACHE");
  if (folder.empty()) return report.missing("no folder: neither SYSTOLE_CACHE_DIR nor HOME is set", repair);
  const runtime::DiskCache cache = *runtime::disk_cache();
  if (const std::string reason = cache.refusal(); !reason.empty())
    return report.fail(reason, fmt::format("make it writable for you alone, or {}", repair));
  std::error_code code;
  if (!fs::exists(folder, code)) return report.ok(fmt::format("{}: made when first needed", folder));
  const runtime::DiskCache::Usage usage = cache.usage();
  report.ok(fmt::format("{}: {} compiled program{}, {} of {}", folder, usage.entries,
                        usage.entries == 1 ? "" : "s", size_text(static_cast<double>(usage.bytes)),
                        size_text(static_cast<double>(cache.limit()))));
} catch (const Error& error) {  // of a variable
  report.fail(error.what(), "correct the variable, or unset it");
}

void describe_variable(Report& report, const std::string& entry) {
  const std::string_view name = std::string_view(entry).substr(0, entry.find('='));
  std::vector<std::string_view> names;
  for (const env::Variable& variable : env::variables()) {
    names.emplace_back(variable.name);
    if (variable.name != name) continue;
    try {
      env::check(variable);
      return report.note(entry);
    } catch (const Error& error) {
      return report.fail(error.what(), "correct the variable, or unset it");
    }
  }
  const std::string_view near = nearest(name, names);
  report.note(fmt::format("{}: nothing reads it{}", entry,
                          near.empty() ? "" : fmt::format("; did you mean {}?", near)));
}

void list_variables(Report& report) {
  report.section("variables");
  std::vector<std::string> set;
  for (char** entry = environ; *entry != nullptr; ++entry)
    if (std::string_view(*entry).starts_with("SYSTOLE_")) set.emplace_back(*entry);
  std::sort(set.begin(), set.end());
  for (const std::string& entry : set) describe_variable(report, entry);
  if (set.empty()) report.note("no SYSTOLE_* variable is set");
}

// All that there are; as the table of docs/compiler.md, or for a terminal.
int show_variables(bool markdown) {
  if (markdown) put("| variable | value | unset | meaning |\n|---|---|---|---|\n");
  for (const env::Variable& variable : env::variables()) {
    const std::string kind = env::kind_in_words(variable);
    if (markdown) {
      put(fmt::format("| `{}` | {} | {} | {} |\n", variable.name, kind, variable.standard, variable.meaning));
      continue;
    }
    put(coloured(Colour::bold, variable.name) + fmt::format(" ({}; unset: {})\n", kind, variable.standard));
    for (const std::string& line : wrapped(variable.meaning, terminal_width() - 2)) put("  " + line + "\n");
  }
  return 0;
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
        report.note(fmt::format("{}: no device: {}", name, backend.unavailable_reason()));
        continue;
      }
      for (const runtime::DeviceInfo& device : devices) {
        self_test(device.name.to_string());
        report.ok(fmt::format("{}: a small graph gives the right result", device.name.to_string()));
      }
      const std::string reason = backend.unavailable_reason();
      if (!reason.empty() && name == "cuda")  // an old card is not broken
        report.note(fmt::format("cuda: left out: {}", reason));
      else if (!reason.empty())
        report.fail(fmt::format("{}: {}", name, reason), "reinstall the driver of that device, or remove it");
    } catch (const Error& error) {
      report.fail(fmt::format("{}: {}", name, error.what()),
                  name == "reference"
                      ? "build again with `make clean build`; if it stays, report it"
                      : "try another version of its plugin or driver; if it stays, report it");
    }
  }
}

int examine() {
  Report report;
  report.section("systole " SYSTOLE_VERSION);
  list_variables(report);
  if (report.failed()) {
    put("\nA variable has a wrong value: nothing works before it is corrected.\n");
    return 1;
  }
  check_compiler(report);
  check_libraries(report);
  check_drivers(report);
  check_plugins(report);
  check_cache(report);
  check_backends(report);
  put(report.failed() ? "\nSomething is broken: see FAIL above.\n"
                      : "\nNothing is broken; what is missing is optional.\n");
  return report.failed() ? 1 : 0;
}

}  // namespace

Action add_doctor(App& app) {
  struct Options {
    bool variables = false, markdown = false;
  };
  auto options = std::make_shared<Options>();
  app.add_flag("--variables", options->variables,
               "list every environment variable with its values, and leave");
  app.add_flag("--markdown", options->markdown, "with --variables: as the table of docs/compiler.md");
  app.footer(
      "Lines say ok, missing (optional) or FAIL (broken); what is not ok comes with its repair.\n"
      "The exit code is 1 only after a FAIL.");
  return [options] { return options->variables ? show_variables(options->markdown) : examine(); };
}

}  // namespace systole::cli
