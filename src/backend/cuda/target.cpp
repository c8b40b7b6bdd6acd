#include "backend/cuda/target.h"

#include "backend/cuda/blas.h"
#include "backend/cuda/dnn.h"
#include "backend/cuda/dnn_attention.h"
#include "backend/cuda/dnn_layers.h"
#include "backend/cuda/library_call.h"
#include "backend/cuda/lstm.h"
#include "backend/cuda/preferences.h"
#include "backend/patterns/attention.h"
#include "backend/patterns/convolution.h"
#include "backend/patterns/layers.h"
#include "backend/patterns/on_result.h"
#include "backend/patterns/product.h"
#include "codegen/few_channels.h"
#include "systole/base/error.h"
#include "systole/compile/passes.h"

namespace systole::cuda {

using namespace patterns;

std::vector<lower::Claim> Target::offers(const lower::Region& region) const {
  std::vector<lower::Claim> claims;
  const ir::Node& anchor = region.graph.node(region.anchor);
  switch (anchor.op) {
    case ir::Op::dot_general:
      claims.push_back(blas_offer(device_, region, {math_, is_deterministic_}));
      break;
    case ir::Op::convolution:
      claims.push_back(
          few_channels(region)
              ? lower::Claim::declined("cudnn: few channels: generated kernels read them as they are; "
                                       "SYSTOLE_CUDA_PREFER=cudnn.few_channels takes it")
              : dnn_offer(device_, region, {math_, is_deterministic_}));
      break;
    case ir::Op::composite:
      if (is_attention(anchor))
        claims.push_back(dnn_attention_offer(device_, region, {math_, is_deterministic_}));
      else if (is_layer(anchor))
        claims.push_back(dnn_layer_offer(device_, region, {math_, is_deterministic_}));
      else if (is_lstm_loop(anchor))
        claims.push_back(lstm_offer(device_, region, math_));
      else if (is_product(anchor))
        claims.push_back(blas_offer(device_, region, {math_, is_deterministic_}));
      break;
    case ir::Op::reduce_window:
      claims.push_back(dnn_layer_offer(device_, region, {math_, is_deterministic_}));
      break;
    default: break;
  }
  return claims;
}

bool Target::takes_few_channels() const {
  return has_tensor_cores() && !preferred("cudnn.few_channels").is_taken;
}

// Generated kernels take along what stands on the result, too.
std::optional<codegen::FewChannels> Target::few_channels(const lower::Region& region) const {
  if (!takes_few_channels()) return std::nullopt;
  std::optional<codegen::FewChannels> few = codegen::few_channels(region);
  return few && few->operands == DType::f32 && !has_tf32() ? std::nullopt : few;
}

std::int64_t Target::kernel_scratch(const lower::Region& region) const {
  const std::optional<codegen::FewChannels> few = few_channels(region);
  return few ? codegen::few_channels_scratch(*few) : 0;
}

ir::Graph Target::restated(const ir::Graph& graph) const {
  return with_lstm_loops(graph, [&](const LstmLoop& loop) { return suits_lstm(device_, loop, math_); });
}

ir::Graph Target::adapted(const ir::Graph& graph) const {
  if (!dnn_absence().empty()) return with_blas_epilogues(device_, graph, {math_, is_deterministic_});
  const DnnWishes wishes{math_, is_deterministic_};
  const auto channels = [&](const Convolution& c) {
    const bool is_for_tensor_cores = c.operands == DType::bf16 || c.operands == DType::f16 ||
                                     (c.operands == DType::f32 && math_ == runtime::Math::tf32);
    const bool is_generated = takes_few_channels() && c.groups == 1 &&
                              codegen::suits_few_channels(c.channels, c.window[0] * c.window[1], c.filters,
                                                          c.batch * c.result[0] * c.result[1]);
    return is_for_tensor_cores && !is_generated && c.channels < 8 && c.channels != 4
               ? dnn_channels(device_, c, wishes)
               : c.channels;
  };
  ir::Graph made =
      passes::run_passes(with_more_channels(with_channels_last(graph), channels), passes::standard_passes());
  dnn_prepare(device_, made, wishes,
              [this](const lower::Region& region) { return !few_channels(region).has_value(); });
  return with_blas_epilogues(device_, made, {math_, is_deterministic_});
}

bool Target::reads_moved(const ir::Node& reader, std::size_t operand, const lower::Strided& view) const {
  if (reader.op == ir::Op::convolution) return !dnn_absence().empty();
  if (reader.op == ir::Op::composite)
    return is_attention(reader) && reads_attention_operand(reader, operand, view);
  return is_matrix(reader, operand, view) || !blas_absence().empty();
}

std::shared_ptr<const LibraryCall> Target::library_call(const lower::Step& step) const {
  if (step.implementation.starts_with("cublasLt."))
    return blas_call(device_, step.region, {math_, is_deterministic_});
  if (step.implementation.starts_with("cudnn.attention"))
    return dnn_attention_call(device_, step.region, {math_, is_deterministic_});
  if (step.implementation == kLstm) return lstm_call(device_, step.region);
  if (is_dnn_layer(step.implementation))
    return dnn_layer_call(device_, step.region, {math_, is_deterministic_});
  if (step.implementation.starts_with("cudnn."))
    return dnn_call(device_, step.region, {math_, is_deterministic_});
  throw Error(ErrorKind::kInternal, "cuda", "no library has this", {}, step.implementation);
}

}  // namespace systole::cuda
