#include "backend/cpu/tuned/recurrence.h"

#include <fmt/format.h>

#include <utility>

#include "backend/cpu/jit.h"
#include "backend/cpu/tuned/lstm_text.h"

namespace systole::cpu {

namespace {

constexpr std::int64_t kMostHidden = 512;  // r of a wider one is read from memory at each step anyway

}  // namespace

ir::Graph with_lstm_loops(const ir::Graph& graph) {
  if (!makes_kernels()) return graph;
  return patterns::with_lstm_loops(graph, [](const LstmLoop& loop) { return loop.hidden <= kMostHidden; });
}

bool is_recurrence(const ir::Node& node) { return patterns::is_lstm_loop(node); }

Tuned make_recurrence(const lower::Region& region, const std::string& kernel_name) {
  Tuned made;
  LstmLoop loop;
  made.reason = patterns::read_lstm_loop(region, loop);
  if (!made.reason.empty()) return made;
  made.name = loop.is_grad ? "systole.lstm_grad" : "systole.lstm";
  made.workspace_bytes = lstm_workspace(loop);
  const auto rows = static_cast<double>(loop.length * loop.batch), hidden = static_cast<double>(loop.hidden);
  made.nanoseconds = rows * hidden * (0.1 * hidden + 3);
  codegen::Kernel packing, running;
  packing.name = kernel_name + "_pack";
  packing.source = lstm_pack_text(loop, packing.name);
  packing.items = lstm_pack_items(loop);
  running.name = kernel_name;
  running.source = lstm_loop_text(loop, running.name);
  running.items = loop.batch;
  running.helpers = {"s_tanh_f32"};
  if (!loop.is_grad) running.helpers.insert("s_exp_near_f32");
  for (codegen::Kernel* const kernel : {&packing, &running}) {
    kernel->scratch = true;
    made.kernels.push_back(std::move(*kernel));
  }
  return made;
}

}  // namespace systole::cpu
