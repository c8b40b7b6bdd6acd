#include "backend/cuda/dnn_layers.h"

#include <fmt/format.h>

#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "backend/cuda/dnn_plan.h"
#include "backend/cuda/preferences.h"
#include "backend/cuda/tuning.h"
#include "base/log.h"
#include "systole/base/error.h"

namespace systole::cuda {

using namespace patterns;

namespace {

class LayerCall final : public LibraryCall {
 public:
  LayerCall(dnn::Shared& shared, std::shared_ptr<const DnnLayer> layer, std::vector<std::size_t> inputs)
      : shared_(shared), layer_(std::move(layer)), inputs_(std::move(inputs)) {}

  void run(Stream stream, std::span<const Address> inputs, std::span<const Address> outputs,
           Address workspace) const override {
    std::vector<Address> operands;
    for (const std::size_t i : inputs_) operands.push_back(inputs[i]);
    const std::lock_guard lock(shared_.mutex);
    dnn::check(dnn::api().set_stream(shared_.handle, stream), "cudnnSetStream");
    layer_->run(shared_.handle, stream, operands, outputs, workspace);
  }

 private:
  dnn::Shared& shared_;
  const std::shared_ptr<const DnnLayer> layer_;
  const std::vector<std::size_t> inputs_;
};

struct Made {
  std::shared_ptr<const DnnLayer> layer;
  std::string reason;  // when there is none
};

std::shared_ptr<const DnnLayer> make(const Device& device, dnn::Shared& shared, const Layer& layer,
                                     const DnnWishes& wishes) {
  if (const auto* pooling = std::get_if<PoolingLayer>(&layer.what)) return make_dnn_pooling(*pooling);
  if (const auto* norm = std::get_if<NormLayer>(&layer.what)) return make_dnn_norm(device, *norm);
  const std::lock_guard lock(shared.mutex);
  return make_dnn_rnn(shared.handle, std::get<RecurrentLayer>(layer.what), wishes.math);
}

// These functions tell what they do not support when they run.
void try_out(const Device& device, dnn::Shared& shared, const Layer& layer,
             const std::shared_ptr<const DnnLayer>& made) {
  std::vector<std::int64_t> bytes;
  for (const Type& type : layer.operands) bytes.push_back(type.bytes());
  for (const Type& type : layer.results) bytes.push_back(type.bytes());
  bytes.push_back(made->workspace());
  const BorrowedStream stream(device);
  const Scratch scratch(device, stream.get(), bytes);
  std::vector<std::size_t> inputs;
  for (std::size_t i = 0; i < layer.operands.size(); ++i) inputs.push_back(i);
  const std::span<const Address> all(scratch.addresses());
  LayerCall(shared, made, inputs)
      .run(stream.get(), all.first(inputs.size()), all.subspan(inputs.size(), layer.results.size()),
           all.back());
  check(driver().cuStreamSynchronize(stream.get()), "cuStreamSynchronize");
}

// Equal layers share one. A refusal for want of memory or of a handle says nothing of the next try.
Made made(const Device& device, const Layer& layer, const DnnWishes& wishes) {
  static std::mutex mutex;
  static auto* const all = new std::map<std::string, Made>;  // never destroyed, as devices
  const std::string key = fmt::format("{} {}{}", device.ordinal(), layer.text(),
                                      wishes.math == runtime::Math::tf32 ? " tf32" : "");
  const std::lock_guard lock(mutex);
  if (const auto found = all->find(key); found != all->end()) return found->second;
  Made made;
  dnn::Shared* making = nullptr;
  try {
    device.activate();
    making = &dnn::handles(device).making;
    std::shared_ptr<const DnnLayer> tried = make(device, *making, layer, wishes);
    try_out(device, *making, layer, tried);
    made.layer = std::move(tried);
  } catch (const Error& error) {
    if (error.kind() == ErrorKind::kContextLost) throw;
    made.reason = error.message();
    log(LogLevel::info, fmt::format("cuda: cudnn declines {}: {}", layer.text(), error.message()));
    if (making == nullptr || error.kind() == ErrorKind::kOutOfMemory) return made;
  }
  return all->emplace(key, std::move(made)).first->second;
}

std::string read(const lower::Region& region, const DnnWishes& wishes, Layer& layer) {
  if (!dnn::absence().empty()) return "cudnn: " + dnn::absence();
  if (std::string reason = read_layer(region, layer); !reason.empty())
    return fmt::format("cudnn: {}", reason);
  if (const auto* pooling = std::get_if<PoolingLayer>(&layer.what))
    if (wishes.is_deterministic && pooling->kind == PoolingLayer::Kind::sum_grad)
      return "cudnn.pooling: its sums may come in any order";
  return layer_refusal(layer);
}

// A composite that is declined is inlined before anybody asks why.
void tell_once(const lower::Region& region, const std::string& reason) {
  const ir::Node& anchor = region.graph.node(region.anchor);
  if (anchor.op != ir::Op::composite || !log_enabled(LogLevel::info)) return;
  static std::mutex mutex;
  static auto* const told = new std::set<std::string>;
  std::string line = fmt::format("cuda: {} of {}: {}", anchor.as<ir::CompositeAttrs>().name,
                                 anchor.types[0].to_string(), reason);
  const std::lock_guard lock(mutex);
  if (told->insert(line).second) log(LogLevel::info, line);
}

}  // namespace

std::string layer_refusal(const Layer& layer) {
  const Preferred own = preferred(fmt::format("cudnn.{}", layer.name()));
  const bool is_asked_for = own.is_asked_for;
  if (!own.is_taken)
    return is_asked_for
               ? fmt::format("cudnn.{}: {} is against it", layer.name(), kPrefer)
               : fmt::format("cudnn.{}: {}; {}=cudnn.{} takes it", layer.name(),
                             layer.name() == "rnn_grad" ? "it computes the forward net once more"
                                                        : "generated kernels fuse with their neighbours",
                             kPrefer, layer.name());
  if (const auto* net = std::get_if<RecurrentLayer>(&layer.what))
    if (net->dtype != DType::f32 && net->dtype != DType::f64 && !is_asked_for)
      return fmt::format("cudnn.{}: its state is {} between steps; {}=cudnn.{} takes it", layer.name(),
                         systole::name(net->dtype), kPrefer, layer.name());
  return {};
}

lower::Claim dnn_layer_offer(const Device& device, const lower::Region& region, const DnnWishes& wishes) {
  Layer layer;
  if (std::string reason = read(region, wishes, layer); !reason.empty()) {
    tell_once(region, reason);
    return lower::Claim::declined(std::move(reason));
  }
  const Made own = made(device, layer, wishes);
  if (!own.layer) return lower::Claim::declined(fmt::format("cudnn.{}: {}", layer.name(), own.reason));
  return {fmt::format("cudnn.{}", layer.name()), {}, 10, own.layer->workspace()};
}

std::shared_ptr<const LibraryCall> dnn_layer_call(const Device& device, const lower::Region& region,
                                                  const DnnWishes& wishes) {
  Layer layer;
  if (std::string reason = read(region, wishes, layer); !reason.empty())
    throw Error(ErrorKind::kInternal, "cudnn", reason);
  const Made own = made(device, layer, wishes);
  if (!own.layer) throw Error(ErrorKind::kInternal, "cudnn", own.reason);
  return std::make_shared<LayerCall>(dnn::handles(device).calls, own.layer, layer.inputs);
}

bool is_dnn_layer(std::string_view implementation) {
  return implementation.starts_with("cudnn.") && can_be_preferred(implementation);
}

}  // namespace systole::cuda
