#include "backend/cuda/dnn_plan.h"

#include <algorithm>
#include <map>
#include <string>

#include "systole/base/error.h"

namespace systole::cuda::dnn {

namespace {

constexpr std::int64_t kMostConfigs = 16;

// The numerical notes of the configuration's engine; nothing when they cannot be read.
bool read_notes(const Object& config, std::vector<int>& notes) {
  constexpr std::int64_t kMostNotes = 32;
  Object engine(kEngine);
  Descriptor descriptor = engine.get();
  std::int64_t count = 0;
  if (api().get(config.get(), kConfigEngine, kDescriptorType, 1, &count, &descriptor) != 0) return false;
  notes.assign(static_cast<std::size_t>(kMostNotes), -1);
  if (api().get(engine.get(), kEngineNotes, kNoteType, kMostNotes, &count, notes.data()) != 0) return false;
  notes.resize(static_cast<std::size_t>(std::min(count, kMostNotes)));
  return true;
}

bool is_accepted(const Object& config, const PlanWishes& wishes) {
  std::vector<int> notes;
  return !wishes.accepts || (read_notes(config, notes) && wishes.accepts(notes));
}

// The configurations that one of the heuristics proposes, the fastest first.
std::vector<Object> proposals(const Object& graph, int mode) {
  Object heuristic(kEngineHeuristic);
  heuristic.set_object(kHeuristicGraph, graph);
  heuristic.set_word(kHeuristicMode, kHeuristicModeType, mode);
  heuristic.finalize();
  std::vector<Object> configs;
  std::vector<Descriptor> descriptors;
  for (std::int64_t i = 0; i < kMostConfigs; ++i) {
    configs.emplace_back(kEngineConfig);
    descriptors.push_back(configs.back().get());
  }
  std::int64_t count = 0;
  check(api().get(heuristic.get(), kHeuristicResults, kDescriptorType, kMostConfigs, &count,
                  descriptors.data()),
        "cudnnBackendGetAttribute");
  while (static_cast<std::int64_t>(configs.size()) > std::max<std::int64_t>(count, 0)) configs.pop_back();
  return configs;
}

Object graph_of(Handle handle, const std::vector<Object>& parts, const std::vector<std::size_t>& operations) {
  std::vector<Descriptor> descriptors;
  for (const std::size_t i : operations) descriptors.push_back(parts[i].get());
  Object graph(kGraph);
  graph.set(kGraphHandle, kHandleType, &handle);
  graph.set(kGraphOperations, kDescriptorType, descriptors.data(),
            static_cast<std::int64_t>(descriptors.size()));
  graph.finalize();
  return graph;
}

bool take_first(Handle handle, int mode, const PlanWishes& wishes, Plan& plan, std::string& reason) {
  try {
    for (Object& config : proposals(plan.parts.back(), mode)) {
      if (!is_accepted(config, wishes)) {
        reason = "its engines are less exact than asked for";
        continue;
      }
      Object made(kPlan);
      made.set(kPlanHandle, kHandleType, &handle);
      made.set_object(kPlanConfig, config);
      try {
        made.finalize();
      } catch (const Error& error) {
        reason = error.message();
        continue;
      }
      plan.workspace = made.number(kPlanWorkspace);
      if (plan.workspace > wishes.most_workspace) {
        reason = "it takes too much memory to work with";
        continue;
      }
      plan.parts.push_back(std::move(config));
      plan.parts.push_back(std::move(made));
      return true;
    }
  } catch (const Error& error) {
    reason = error.message();
  }
  return false;
}

}  // namespace

int type_number(DType dtype) {
  switch (dtype) {
    case DType::f32: return kFloat;
    case DType::f64: return kDouble;
    case DType::f16: return kHalf;
    case DType::bf16: return kBFloat16;
    default: return -1;
  }
}

Handles& handles(const Device& device) {
  static std::mutex mutex;
  static auto* const all = new std::map<int, Handles>;  // never destroyed, as devices
  const std::lock_guard lock(mutex);
  Handles& own = (*all)[device.ordinal()];
  for (Shared* const one : {&own.calls, &own.making}) {
    if (one->handle != nullptr) continue;
    device.activate();
    check(api().create(&one->handle), "cudnnCreate");
  }
  return own;
}

Plan make_plan(Handle handle, std::vector<Object> parts, const std::vector<std::size_t>& operations,
               const PlanWishes& wishes) {
  Object graph = graph_of(handle, parts, operations);
  Plan plan;
  plan.parts = std::move(parts);
  plan.parts.push_back(std::move(graph));
  std::string reason = "no engine for it";
  for (const int mode : {kHeuristicA, kHeuristicFallback})
    if (take_first(handle, mode, wishes, plan, reason)) return plan;
  throw Error(ErrorKind::kUnsupported, "cudnn", reason);
}

Engines::Engines(Handle handle, std::vector<Object> parts, const std::vector<std::size_t>& operations,
                 PlanWishes wishes)
    : wishes_(std::move(wishes)) {
  Object graph = graph_of(handle, parts, operations);
  std::string reason = "no engine for it";
  for (const int mode : {kHeuristicA, kHeuristicFallback}) {
    try {
      for (Object& config : proposals(graph, mode)) {
        if (is_accepted(config, wishes_))
          configs_.push_back(std::make_shared<const Object>(std::move(config)));
        else
          reason = "its engines are less exact than asked for";
      }
    } catch (const Error& error) {
      reason = error.message();
    }
  }
  if (configs_.empty()) throw Error(ErrorKind::kUnsupported, "cudnn", reason);
  parts.push_back(std::move(graph));
  parts_ = std::make_shared<const std::vector<Object>>(std::move(parts));
}

Plan Engines::plan(Handle handle, std::size_t engine) const {
  Plan plan;
  plan.common = parts_;
  plan.config = configs_[engine];
  Object made(kPlan);
  made.set(kPlanHandle, kHandleType, &handle);
  made.set_object(kPlanConfig, *configs_[engine]);
  made.finalize();
  plan.workspace = made.number(kPlanWorkspace);
  if (plan.workspace > wishes_.most_workspace)
    throw Error(ErrorKind::kUnsupported, "cudnn", "it takes too much memory to work with");
  plan.parts.push_back(std::move(made));
  return plan;
}

void execute(Shared& shared, Stream stream, const Plan& plan, std::span<const std::int64_t> names,
             std::span<void* const> pointers, void* workspace) {
  Object pack(kVariantPack);
  pack.set(kPackIds, kInt64Type, names.data(), static_cast<std::int64_t>(names.size()));
  pack.set(kPackPointers, kPointerType, pointers.data(), static_cast<std::int64_t>(pointers.size()));
  pack.set(kPackWorkspace, kPointerType, &workspace);
  pack.finalize();
  const std::lock_guard lock(shared.mutex);
  check(api().set_stream(shared.handle, stream), "cudnnSetStream");
  check(api().execute(shared.handle, plan.object().get(), pack.get()), "cudnnBackendExecute");
}

}  // namespace systole::cuda::dnn
