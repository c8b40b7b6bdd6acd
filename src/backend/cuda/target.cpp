#include "backend/cuda/target.h"

#include "backend/cuda/blas.h"
#include "backend/cuda/dnn.h"
#include "backend/cuda/dnn_attention.h"
#include "backend/cuda/dnn_layers.h"
#include "backend/cuda/library_call.h"
#include "backend/patterns/attention.h"
#include "backend/patterns/convolution.h"
#include "backend/patterns/layers.h"
#include "backend/patterns/on_result.h"
#include "backend/patterns/product.h"
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
    case ir::Op::convolution: claims.push_back(dnn_offer(device_, region, {math_, is_deterministic_})); break;
    case ir::Op::composite:
      if (is_attention(anchor))
        claims.push_back(dnn_attention_offer(device_, region, {math_, is_deterministic_}));
      else if (is_layer(anchor))
        claims.push_back(dnn_layer_offer(device_, region, {math_, is_deterministic_}));
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

ir::Graph Target::adapted(const ir::Graph& graph) const {
  if (!dnn_absence().empty()) return with_blas_epilogues(device_, graph, {math_, is_deterministic_});
  const DnnWishes wishes{math_, is_deterministic_};
  const auto channels = [&](const Convolution& c) {
    const bool has_tensor_cores = c.operands == DType::bf16 || c.operands == DType::f16 ||
                                  (c.operands == DType::f32 && math_ == runtime::Math::tf32);
    return has_tensor_cores && c.channels < 8 && c.channels != 4 ? dnn_channels(device_, c, wishes)
                                                                 : c.channels;
  };
  ir::Graph made =
      passes::run_passes(with_more_channels(with_channels_last(graph), channels), passes::standard_passes());
  dnn_prepare(device_, made, wishes);
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
  if (is_dnn_layer(step.implementation))
    return dnn_layer_call(device_, step.region, {math_, is_deterministic_});
  if (step.implementation.starts_with("cudnn."))
    return dnn_call(device_, step.region, {math_, is_deterministic_});
  throw Error(ErrorKind::kInternal, "cuda", "no library has this", {}, step.implementation);
}

}  // namespace systole::cuda
