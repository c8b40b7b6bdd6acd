#include "cli/bench/measurement.h"

#include <fmt/format.h>

#include <cmath>

#include "cli/bench/kernels.h"

namespace systole::cli::bench {

namespace {

using Json = nlohmann::ordered_json;

double to_tenths(double value) { return std::round(10 * value) / 10; }

bool called_singly(const Workload& work) {
  return work.kind == Workload::Kind::infer && (work.batch == 1 || work.name == "I1");
}

Measurement single_calls(const Prepared& prepared, const Effort& effort) {
  const Latency single = latency([&] { prepared.run(1); }, effort.singly);
  const Window pipelined = measure(prepared.run, effort);
  return {std::string(kMilliseconds),
          single.seconds * 1e3,
          {{"p99_ms", rounded(single.p99 * 1e3, 4)},
           {"calls", single.calls},
           {"spread_pct", to_tenths(single.spread_pct)},
           {"ms_pipelined", rounded(pipelined.seconds * 1e3, 4)}}};
}

}  // namespace

double rounded(double value, int digits) { return std::stod(fmt::format("{:.{}g}", value, digits)); }

Measurement measured(const Workload& work, const Prepared& prepared, const Effort& effort) {
  if (called_singly(work)) return single_calls(prepared, effort);
  const Window window = measure(prepared.run, effort);
  const double step_s = window.seconds / static_cast<double>(prepared.steps_per_call);
  Json extra = {{"spread_pct", to_tenths(window.spread_pct)},
                {"reps", window.repetitions},
                {"iters", window.iterations},
                {"ms", rounded(step_s * 1e3, 5)}};
  if (work.kind == Workload::Kind::kernel) {
    const Cost least = cost(work);
    if (work.model == "matmul") return {"TFLOP/s", least.operations / step_s / 1e12, std::move(extra)};
    return {"GB/s", least.bytes / step_s / 1e9, std::move(extra)};
  }
  const double rate = static_cast<double>(work.batch) / step_s;
  if (work.model == "gpt") extra["tokens_per_s"] = std::llround(rate * static_cast<double>(work.length));
  return {std::string(kSamples), rate, std::move(extra)};
}

double times_as_fast(const std::string& metric, double ours, double theirs) {
  return metric == kMilliseconds ? theirs / ours : ours / theirs;
}

}  // namespace systole::cli::bench
