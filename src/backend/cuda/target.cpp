#include "backend/cuda/target.h"

#include "backend/cuda/blas.h"
#include "backend/cuda/convolution.h"
#include "backend/cuda/dnn.h"
#include "backend/cuda/executor.h"
#include "backend/cuda/product.h"
#include "systole/base/error.h"
#include "systole/compile/passes.h"

namespace systole::cuda {

std::vector<lower::Claim> Target::offers(const lower::Region& region) const {
  std::vector<lower::Claim> claims;
  switch (region.graph.node(region.anchor).op) {
    case ir::Op::dot_general: claims.push_back(blas_offer(region, math_)); break;
    case ir::Op::convolution: claims.push_back(dnn_offer(device_, region, math_)); break;
    default: break;
  }
  return claims;
}

ir::Graph Target::adapted(const ir::Graph& graph) const {
  if (!dnn_absence().empty()) return graph;
  return passes::run_passes(with_channels_last(graph), passes::standard_passes());
}

bool Target::reads_moved(const ir::Node& contraction, std::size_t operand, const lower::Strided& view) const {
  if (contraction.op == ir::Op::convolution) return !dnn_absence().empty();
  return is_matrix(contraction, operand, view) || !blas_absence().empty();
}

std::shared_ptr<const LibraryCall> Target::library_call(const lower::Step& step) const {
  if (step.implementation.starts_with("cublasLt.")) return blas_call(device_, step.region, math_);
  if (step.implementation.starts_with("cudnn.")) return dnn_call(device_, step.region, math_);
  throw Error(ErrorKind::kInternal, "cuda", "no library has this", {}, step.implementation);
}

}  // namespace systole::cuda
