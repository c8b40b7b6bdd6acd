// Compiling for a TPU that is not there. What a chip can do comes from the table below; what a program costs
// on it, from libtpu.

#include "systole/backend/tpu.h"

#include <fmt/format.h>
#include <algorithm>
#include <charconv>
#include <chrono>
#include <cmath>
#include <optional>

#include "backend/tpu_work.h"
#include "base/env.h"
#include "base/log.h"
#include "codegen/stablehlo.h"
#include "systole/base/error.h"
#include "systole/compile/passes.h"
#include "systole/runtime.h"

#ifdef SYSTOLE_HAVE_PJRT
#include "backend/pjrt/discovery.h"
#include "backend/pjrt/tpu_child.h"
#endif

namespace systole::tpu {

namespace {

// Published figures, divided among the devices of a chip. libtpu's cost model agrees with the peaks (v5p and
// TPU7x: it reckons with 0.86 of them) and with 0.8 to 0.9 of the bandwidths.
struct Chip {
  std::string_view name, kind;
  std::string_view config;  // libtpu's way to show the cores; on v4, Cloud TPUs join two as one device
  int devices;              // per chip
  double hbm_gib, bf16_tera, hbm_giga_per_s;
  int matrix_unit;
};
constexpr Chip kChips[] = {
    {"v2", "TPU v2", "", 2, 8, 23, 350, 128},
    {"v3", "TPU v3", "", 2, 16, 61.5, 450, 128},
    {"v4", "TPU v4", "megacore", 1, 32, 275, 1228, 128},
    {"v5e", "TPU v5 lite", "", 1, 16, 197, 819, 128},
    {"v5p", "TPU v5", "", 1, 95, 459, 2765, 128},
    {"v6e", "TPU v6 lite", "", 1, 32, 918, 1640, 256},
    {"tpu7x", "TPU7x", "", 2, 96, 1153.5, 3690, 256},
};
constexpr std::string_view kUsual[] = {"v3:2x2",    "v4:2x2x1", "v5e:2x2",    "v5e:4x4",
                                       "v5p:2x2x1", "v6e:2x2",  "tpu7x:2x2x1"};
constexpr int kMostDevices = 1 << 14;

const Chip& chip_of(std::string_view name) {
  const std::string_view chip = name.substr(0, name.find(':'));
  for (const Chip& known : kChips)
    if (known.name == chip) return known;
  throw Error(ErrorKind::kNotFound, "tpu", fmt::format("there is no topology \"{}\"", name),
              fmt::format("one of {}, or another size of these", fmt::join(kUsual, ", ")));
}

// By the table alone.
Topology by_name(std::string_view name) {
  const Chip& chip = chip_of(name);
  std::int64_t chips = 1;
  const char* at = name.data() + std::min(chip.name.size() + 1, name.size());
  const char* const end = name.data() + name.size();
  bool good = at != end;
  while (good && at != end) {
    std::int64_t size = 0;
    const auto [rest, code] = std::from_chars(at, end, size);
    good = code == std::errc() && size > 0 && size <= kMostDevices && chips <= kMostDevices &&
           (rest == end || (*rest == 'x' && rest + 1 != end));
    if (good) chips *= size;
    at = rest == end ? end : rest + 1;
  }
  if (!good || chips * chip.devices > kMostDevices)
    throw Error(
        ErrorKind::kInvalidArgument, "tpu", fmt::format("\"{}\" is not the name of a topology", name),
        fmt::format("{}:SIZE with a size such as 2x2 or 2x2x1, {} devices at most", chip.name, kMostDevices));
  constexpr double kGibi = 1 << 30;
  return {std::string(name),
          std::string(chip.kind),
          static_cast<int>(chips) * chip.devices,
          static_cast<std::int64_t>(chip.hbm_gib * kGibi),
          chip.bf16_tera * 1e12,
          chip.hbm_giga_per_s * 1e9,
          chip.matrix_unit};
}

#ifdef SYSTOLE_HAVE_PJRT

constexpr std::chrono::seconds kCompileLimit{1800}, kFactsLimit{60};

std::chrono::milliseconds compile_limit() {
  const auto seconds = env::whole_number("SYSTOLE_TPU_TIMEOUT");
  return seconds ? std::chrono::seconds(*seconds) : kCompileLimit;
}

std::optional<pjrt::PluginSpec> find_libtpu() {
  for (pjrt::PluginSpec& spec : pjrt::discover())
    if (spec.name == "tpu") return std::move(spec);
  return std::nullopt;
}

pjrt::TpuQuestion question_about(const pjrt::PluginSpec& libtpu, const std::vector<Topology>& wanted) {
  pjrt::TpuQuestion question;
  question.plugin = libtpu;
  for (const Topology& topology : wanted)
    question.topologies.push_back({topology.name, std::string(chip_of(topology.name).config)});
  return question;
}

void correct(Topology& topology, const pjrt::TopologyFacts& facts) {
  if (!facts.kind.empty()) topology.chip = facts.kind;
  if (facts.devices > 0) topology.devices = static_cast<int>(facts.devices);
  if (facts.memory_bytes > 0) topology.hbm_bytes = facts.memory_bytes;
}

// With what libtpu says of them, when it is there.
std::vector<Topology> corrected(std::vector<Topology> wanted) {
  const auto libtpu = find_libtpu();
  if (!libtpu) return wanted;
  const pjrt::TpuAnswer answer = pjrt::ask_tpu_compiler(question_about(*libtpu, wanted), kFactsLimit);
  for (std::size_t i = 0; i < wanted.size(); ++i) correct(wanted[i], answer.topologies.at(i));
  return wanted;
}

// "… the total memory required … (56.00G) exceeds available HBM (15.75G) …", or "Used 19.07G of 15.75G hbm":
// the first figure is what the program needs.
std::int64_t bytes_in(std::string_view refusal) {
  for (std::size_t at = refusal.find_first_of("0123456789"); at != std::string_view::npos;
       at = refusal.find_first_of("0123456789", at + 1)) {
    double number = 0;
    const char* const end = refusal.data() + refusal.size();
    const auto [rest, code] = std::from_chars(refusal.data() + at, end, number);
    if (code != std::errc()) continue;
    constexpr std::string_view kUnits = "KMGT";
    if (rest == end || kUnits.find(*rest) == std::string_view::npos) {
      at = static_cast<std::size_t>(rest - refusal.data()) - 1;
      continue;
    }
    return static_cast<std::int64_t>(std::ldexp(number, 10 * static_cast<int>(1 + kUnits.find(*rest))));
  }
  return 0;
}

void check_mesh(const ir::Graph& graph, const Topology& topology) {
  if (!graph.is_static())
    throw Error(ErrorKind::kShape, "tpu", "a graph with symbolic sizes must be bound to numbers first");
  if (graph.mesh() && graph.mesh()->size() != topology.devices)
    throw Error(ErrorKind::kInvalidArgument, "tpu",
                fmt::format("the graph's mesh is not of the size of {}", topology.name),
                fmt::format("{} devices", topology.devices), std::to_string(graph.mesh()->size()));
}

// How many times a contraction in full f32 passes the matrix unit, which multiplies bf16 numbers.
constexpr double kPassesOfF32 = 6;

// The time for FLOPs and bytes at the chip's peaks; f32 contractions pass several times. Of contractions that
// the compiler made smaller the same share is f32.
double roofline(const Report& report, const Work& work, runtime::Math math) {
  const double again = math == runtime::Math::f32 ? kPassesOfF32 - 1 : 0,
               done = work.flops() > report.flops ? report.flops / work.flops() : 1,
               passes = report.flops + again * done * work.flops_of(DType::f32);
  return std::max(passes / report.topology.bf16_flops,
                  report.bytes_accessed / report.topology.hbm_bytes_per_s);
}

#else

std::vector<Topology> corrected(std::vector<Topology> wanted) { return wanted; }

#endif

}  // namespace

std::int64_t Report::peak_bytes() const {
  return refused_bytes != 0 ? refused_bytes
                            : argument_bytes + output_bytes - alias_bytes + temporary_bytes + code_bytes;
}

double Report::intensity() const { return bytes_accessed > 0 ? flops / bytes_accessed : 0; }

std::vector<Topology> topologies() {
  std::vector<Topology> all;
  for (const std::string_view name : kUsual) all.push_back(by_name(name));
  return corrected(std::move(all));
}

Topology topology(std::string_view name) { return corrected({by_name(name)}).at(0); }

#ifdef SYSTOLE_HAVE_PJRT

Report compile(const ir::Graph& graph, std::string_view name) {
  Report report;
  report.topology = by_name(name);
  const auto libtpu = find_libtpu();
  if (!libtpu)
    throw Error(
        ErrorKind::kUnsupported, "tpu",
        "compiling for a TPU needs libtpu, which is not here: `pip install libtpu`, or scripts/setup in "
        "Systole's source, or set SYSTOLE_PLUGIN_PATH to a folder that holds the package libtpu");
  check_mesh(graph, report.topology);
  const ir::Graph lowered = passes::run_passes(passes::inline_composites(graph), passes::standard_passes());
  const codegen::DeviceCounts counts = codegen::device_counts(lowered);
  report.devices = static_cast<int>(counts.replicas * counts.partitions);
  const Work work = work_of(lowered, report.topology.matrix_unit);

  pjrt::TpuQuestion question = question_about(*libtpu, {report.topology});
  codegen::StableHloOptions emit;
  emit.partitioner = codegen::Partitioner::shardy;
  const runtime::Math math = runtime::default_math();
  emit.reduced_precision = math == runtime::Math::tf32;
  question.program = codegen::stablehlo(lowered, emit);
  question.replicas = counts.replicas;
  question.partitions = counts.partitions;
  pjrt::TpuAnswer answer = pjrt::ask_tpu_compiler(question, compile_limit());

  correct(report.topology, answer.topologies.at(0));
  report.compile_seconds = answer.compile_seconds;
  report.waste = work.waste();
  report.advice = work.advice(math);
  if (!answer.too_large.empty()) {
    report.refused_bytes = bytes_in(answer.too_large);
    if (report.refused_bytes <= report.topology.hbm_bytes)
      throw Error(ErrorKind::kOutOfMemory, "libtpu", answer.too_large);
    return report;
  }
  const pjrt::ProgramFacts& facts = answer.program;
  report.argument_bytes = facts.argument_bytes;
  report.output_bytes = facts.output_bytes;
  report.alias_bytes = facts.alias_bytes;
  report.temporary_bytes = facts.temporary_bytes;
  report.code_bytes = facts.code_bytes;
  report.loops_once = work.repeated_flops() > 0;
  report.flops = facts.flops + work.repeated_flops();
  report.bytes_accessed = facts.bytes_accessed;
  // The compiler's time is a sum in which each op it knows nothing of counts -1 second.
  report.untimed_ops = static_cast<int>(-std::min(std::floor(facts.optimal_seconds), 0.0));
  const double known = facts.optimal_seconds + report.untimed_ops, least = roofline(report, work, math);
  report.estimate = known >= least ? Estimate::compiler : Estimate::roofline;
  report.seconds = std::max(known, least);
  log(LogLevel::debug, fmt::format("libtpu expects {:.4g} s on {}, the roofline is {:.4g} s",
                                   facts.optimal_seconds, report.topology.name, least));
  report.executable = std::move(answer.executable);
  return report;
}

#else

Report compile(const ir::Graph&, std::string_view) {
  throw Error(
      ErrorKind::kUnsupported, "tpu",
      "this build has no PJRT, since pjrt_c_api.h was not there: run scripts/setup in Systole's source and "
      "build again");
}

#endif

}  // namespace systole::tpu
