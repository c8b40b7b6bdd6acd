#include "backend/cuda/dnn.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <mutex>
#include <optional>
#include <vector>

#include "backend/cuda/convolution.h"
#include "backend/cuda/dnn_api.h"
#include "base/log.h"
#include "systole/base/error.h"

namespace systole::cuda {

namespace {

using dnn::Object;
using Kind = Convolution::Kind;

constexpr std::int64_t kX = 1, kW = 2, kY = 3;  // names of the arrays in a plan
constexpr std::int64_t kMostWorkspace = std::int64_t{256} << 20;
constexpr std::int64_t kMostConfigs = 16;

int type_number(DType dtype) {
  switch (dtype) {
    case DType::f32: return dnn::kFloat;
    case DType::f64: return dnn::kDouble;
    case DType::f16: return dnn::kHalf;
    case DType::bf16: return dnn::kBFloat16;
    default: return -1;
  }
}

// cuDNN's handle of a device; used by one thread at a time.
struct Shared {
  std::mutex mutex;
  dnn::Handle handle = nullptr;
};
Shared& shared(const Device& device) {
  static std::mutex mutex;
  static auto* const all = new std::map<int, Shared>;  // never destroyed, as devices
  const std::lock_guard lock(mutex);
  Shared& own = (*all)[device.ordinal()];
  if (own.handle == nullptr) dnn::check(dnn::api().create(&own.handle), "cudnnCreate");
  return own;
}

// Dimensions in the order N, C, H, W of an array with its channels last.
Object tensor(std::int64_t id, DType dtype, std::int64_t n, std::int64_t c, const Convolution::Pair& hw) {
  Object made(dnn::kTensor);
  made.set_word(dnn::kTensorType, dnn::kDataTypeType, type_number(dtype));
  made.set_numbers(dnn::kTensorDimensions, {n, c, hw[0], hw[1]});
  made.set_numbers(dnn::kTensorStrides, {c * hw[0] * hw[1], 1, c * hw[1], c});
  made.set_number(dnn::kTensorId, id);
  made.set_number(dnn::kTensorAlignment, 16);
  made.finalize();
  return made;
}

struct Plan {
  std::vector<Object> parts;  // that it is made of, and itself, last
  std::int64_t workspace = 0;
  const Object& object() const { return parts.back(); }
};

class Planner {
 public:
  Planner(dnn::Handle handle, const Convolution& convolution, runtime::Math math)
      : handle_(handle), c_(convolution), math_(math) {}

  // The first that the heuristics propose and that is as exact as asked for.
  Plan make() {
    Plan plan;
    std::vector<Object>& parts = plan.parts;
    const bool forward = c_.kind == Kind::forward, data = c_.kind == Kind::input_grad;
    const auto dtype = [&](bool is_output) { return is_output ? c_.output : c_.operands; };
    const auto x = add(parts, tensor(kX, dtype(data), c_.batch, c_.channels, c_.image));
    const auto w = add(parts, tensor(kW, dtype(c_.kind == Kind::weight_grad), c_.filters,
                                     c_.channels / c_.groups, c_.window));
    const auto y = add(parts, tensor(kY, dtype(forward), c_.batch, c_.filters, c_.result));
    const auto convolution = add(parts, geometry());
    Object operation(forward ? dnn::kForward : data ? dnn::kBackwardData : dnn::kBackwardFilter);
    const float one = 1, zero = 0;
    const double one_d = 1, zero_d = 0;
    const bool wide = c_.operands == DType::f64;
    const auto scale = [&](dnn::Attribute name, float value, double value_d) {
      wide ? operation.set(name, static_cast<dnn::Type>(5), &value_d)
           : operation.set(name, dnn::kFloatType, &value);
    };
    if (forward) {
      scale(dnn::kForwardAlpha, one, one_d);
      scale(dnn::kForwardBeta, zero, zero_d);
      operation.set_object(dnn::kForwardConvolution, parts[convolution]);
      operation.set_object(dnn::kForwardX, parts[x]);
      operation.set_object(dnn::kForwardW, parts[w]);
      operation.set_object(dnn::kForwardY, parts[y]);
    } else if (data) {
      scale(dnn::kDataAlpha, one, one_d);
      scale(dnn::kDataBeta, zero, zero_d);
      operation.set_object(dnn::kDataConvolution, parts[convolution]);
      operation.set_object(dnn::kDataDx, parts[x]);
      operation.set_object(dnn::kDataW, parts[w]);
      operation.set_object(dnn::kDataDy, parts[y]);
    } else {
      scale(dnn::kFilterAlpha, one, one_d);
      scale(dnn::kFilterBeta, zero, zero_d);
      operation.set_object(dnn::kFilterConvolution, parts[convolution]);
      operation.set_object(dnn::kFilterX, parts[x]);
      operation.set_object(dnn::kFilterDw, parts[w]);
      operation.set_object(dnn::kFilterDy, parts[y]);
    }
    operation.finalize();
    const auto done = add(parts, std::move(operation));
    Object graph(dnn::kGraph);
    graph.set(dnn::kGraphHandle, dnn::kHandleType, &handle_);
    graph.set_object(dnn::kGraphOperations, parts[done]);
    graph.finalize();
    const auto whole = add(parts, std::move(graph));
    std::string reason = "no engine for it";
    for (const int mode : {dnn::kHeuristicA, dnn::kHeuristicFallback})
      if (take_first(mode, whole, plan, reason)) return plan;
    throw Error(ErrorKind::kUnsupported, "cudnn", reason);
  }

 private:
  static std::size_t add(std::vector<Object>& parts, Object part) {
    parts.push_back(std::move(part));
    return parts.size() - 1;
  }

  Object geometry() const {
    Object made(dnn::kConvolution);
    made.set_word(dnn::kConvolutionComputeType, dnn::kDataTypeType,
                  c_.operands == DType::f64 ? dnn::kDouble : dnn::kFloat);
    made.set_word(dnn::kConvolutionMode, dnn::kConvolutionModeType, dnn::kCrossCorrelation);
    made.set_number(dnn::kConvolutionSpatialDims, 2);
    const auto list = [](const Convolution::Pair& pair) {
      return std::vector<std::int64_t>(pair.begin(), pair.end());
    };
    made.set_numbers(dnn::kConvolutionDilations, list(c_.dilations));
    made.set_numbers(dnn::kConvolutionStrides, list(c_.strides));
    made.set_numbers(dnn::kConvolutionPrePaddings, list(c_.before));
    made.set_numbers(dnn::kConvolutionPostPaddings, list(c_.after));
    made.finalize();
    return made;
  }

  bool take_first(int mode, std::size_t graph, Plan& plan, std::string& reason) {
    Object heuristic(dnn::kEngineHeuristic);
    heuristic.set_object(dnn::kHeuristicGraph, plan.parts[graph]);
    heuristic.set_word(dnn::kHeuristicMode, dnn::kHeuristicModeType, mode);
    try {
      heuristic.finalize();
    } catch (const Error& error) {
      reason = error.message();
      return false;
    }
    std::vector<Object> configs;
    std::vector<dnn::Descriptor> descriptors;
    for (std::int64_t i = 0; i < kMostConfigs; ++i) {
      configs.emplace_back(dnn::kEngineConfig);
      descriptors.push_back(configs.back().get());
    }
    std::int64_t count = 0;
    dnn::check(dnn::api().get(heuristic.get(), dnn::kHeuristicResults, dnn::kDescriptorType, kMostConfigs,
                              &count, descriptors.data()),
               "cudnnBackendGetAttribute");
    for (std::int64_t i = 0; i < std::min(count, kMostConfigs); ++i) {
      Object& config = configs[static_cast<std::size_t>(i)];
      if (!is_exact(config)) {
        reason = "its engines are less exact than asked for";
        continue;
      }
      Object made(dnn::kPlan);
      made.set(dnn::kPlanHandle, dnn::kHandleType, &handle_);
      made.set_object(dnn::kPlanConfig, config);
      try {
        made.finalize();
      } catch (const Error& error) {
        reason = error.message();
        continue;
      }
      plan.workspace = made.number(dnn::kPlanWorkspace);
      if (plan.workspace > kMostWorkspace) {
        reason = "it takes too much memory to work with";
        continue;
      }
      plan.parts.push_back(std::move(config));
      plan.parts.push_back(std::move(made));
      return true;
    }
    return false;
  }

  // f32 means f32, unless tf32 was asked for.
  bool is_exact(const Object& config) const {
    Object engine(dnn::kEngine);
    dnn::Descriptor descriptor = engine.get();
    std::int64_t count = 0;
    if (dnn::api().get(config.get(), dnn::kConfigEngine, dnn::kDescriptorType, 1, &count, &descriptor) != 0)
      return false;
    std::vector<int> notes(32, -1);
    if (dnn::api().get(engine.get(), dnn::kEngineNotes, dnn::kNoteType,
                       static_cast<std::int64_t>(notes.size()), &count, notes.data()) != 0)
      return false;
    const auto has = [&](int note) {
      return std::find(notes.begin(), notes.begin() + std::min<std::int64_t>(count, 32), note) !=
             notes.begin() + std::min<std::int64_t>(count, 32);
    };
    if (has(dnn::kNoteFft) || has(dnn::kNoteWinograd) || has(dnn::kNoteReducedPrecision)) return false;
    if (c_.operands == DType::f32 && math_ == runtime::Math::f32)
      return !has(dnn::kNoteTensorCore) && !has(dnn::kNoteDownConverts);
    return true;
  }

  const dnn::Handle handle_;
  const Convolution& c_;
  const runtime::Math math_;
};

class ConvolutionCall final : public LibraryCall {
 public:
  ConvolutionCall(Shared& shared, const Convolution& convolution, runtime::Math math)
      : shared_(shared), kind_(convolution.kind), plan_(Planner(shared.handle, convolution, math).make()) {}

  std::int64_t workspace() const { return plan_.workspace; }

  void run(Stream stream, std::span<const Address> inputs, std::span<const Address> outputs,
           Address workspace) const override {
    // Operands in the node's order, by the plan's names.
    const std::int64_t names[] = {kind_ == Kind::input_grad ? kY : kX, kind_ == Kind::weight_grad ? kY : kW,
                                  kind_ == Kind::forward      ? kY
                                  : kind_ == Kind::input_grad ? kX
                                                              : kW};
    void* const pointers[] = {reinterpret_cast<void*>(inputs[0]), reinterpret_cast<void*>(inputs[1]),
                              reinterpret_cast<void*>(outputs[0])};
    void* const scratch = reinterpret_cast<void*>(workspace);
    Object pack(dnn::kVariantPack);
    pack.set(dnn::kPackIds, dnn::kInt64Type, names, 3);
    pack.set(dnn::kPackPointers, dnn::kPointerType, pointers, 3);
    pack.set(dnn::kPackWorkspace, dnn::kPointerType, &scratch);
    pack.finalize();
    const std::lock_guard lock(shared_.mutex);
    dnn::check(dnn::api().set_stream(shared_.handle, stream), "cudnnSetStream");
    dnn::check(dnn::api().execute(shared_.handle, plan_.object().get(), pack.get()), "cudnnBackendExecute");
  }

 private:
  Shared& shared_;
  const Kind kind_;
  const Plan plan_;
};

struct Planned {
  std::shared_ptr<const ConvolutionCall> call;
  std::string reason;  // when there is none
};

// Plans are made once for equal convolutions.
const Planned& planned(const Device& device, const Convolution& convolution, runtime::Math math) {
  static std::mutex mutex;
  static auto* const all = new std::map<std::string, Planned>;
  const std::string key = fmt::format("{} {} {}", device.ordinal(), convolution.text(),
                                      math == runtime::Math::tf32 ? "tf32" : "f32");
  const std::lock_guard lock(mutex);
  const auto [found, is_new] = all->try_emplace(key);
  if (!is_new) return found->second;
  try {
    device.activate();
    Shared& own = shared(device);
    const std::lock_guard handle_lock(own.mutex);
    found->second.call = std::make_shared<const ConvolutionCall>(own, convolution, math);
  } catch (const Error& error) {
    found->second.reason = error.message();
    log(LogLevel::info, fmt::format("cuda: cudnn declines {}: {}", convolution.text(), error.message()));
  }
  return found->second;
}

std::string read(const lower::Region& region, Convolution& convolution) {
  if (!dnn::absence().empty()) return dnn::absence();
  const ir::Graph& graph = region.graph;
  const ir::Node& node = graph.node(region.anchor);
  if (graph.outputs().size() != 1 || graph.outputs()[0].value.node != region.anchor)
    return "no work on the result yet";
  for (const ir::ValueId v : node.operands)
    if (graph.node(v.node).op != ir::Op::input) return "an operand is computed on the way";
  if (graph.inputs().size() != 2) return "one array is both operands";
  if (std::string reason = read_convolution(graph, node, convolution); !reason.empty()) return reason;
  if (type_number(convolution.operands) < 0 || type_number(convolution.output) < 0)
    return fmt::format("no convolutions of {}", systole::name(convolution.operands));
  if (!is_channels_last(node, convolution)) return "channels are not last";
  return {};
}

}  // namespace

std::string dnn_absence() { return dnn::absence(); }

lower::Claim dnn_offer(const Device& device, const lower::Region& region, runtime::Math math) {
  Convolution convolution;
  if (std::string reason = read(region, convolution); !reason.empty())
    return lower::Claim::declined("cudnn: " + reason);
  const Planned& plan = planned(device, convolution, math);
  if (!plan.call) return lower::Claim::declined("cudnn: " + plan.reason);
  const char* const names[] = {"cudnn.convolution", "cudnn.input_grad", "cudnn.weight_grad"};
  return {names[static_cast<int>(convolution.kind)], {}, 10, plan.call->workspace()};
}

std::shared_ptr<const LibraryCall> dnn_call(const Device& device, const lower::Region& region,
                                            runtime::Math math) {
  Convolution convolution;
  if (std::string reason = read(region, convolution); !reason.empty())
    throw Error(ErrorKind::kInternal, "cudnn", reason);
  return planned(device, convolution, math).call;
}

}  // namespace systole::cuda
