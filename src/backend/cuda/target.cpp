#include "backend/cuda/target.h"

#include "backend/cuda/blas.h"
#include "backend/cuda/executor.h"
#include "base/env.h"
#include "systole/base/error.h"

namespace systole::cuda {

std::vector<lower::Claim> Target::offers(const lower::Region& region) const {
  std::vector<lower::Claim> claims;
  if (region.graph.node(region.anchor).op == ir::Op::dot_general) claims.push_back(blas_offer(region, math_));
  return claims;
}

std::shared_ptr<const LibraryCall> Target::library_call(const lower::Step& step) const {
  if (step.implementation.starts_with("cublasLt.")) return blas_call(device_, step.region, math_);
  throw Error(ErrorKind::kInternal, "cuda", "no library has this", {}, step.implementation);
}

}  // namespace systole::cuda
