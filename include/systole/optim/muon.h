#pragma once

// Muon: momentum whose matrices are brought near an orthogonal one by Newton-Schulz iterations (Jordan 2024;
// torch.optim.Muon). Parameters of one axis or none, and those named in `adamw` (embeddings, the last layer),
// are updated as by AdamW, at lr · adam_lr_ratio; convolution kernels are matrices [out, the rest].
//
//   optim::Muon opt(model, {.lr = 0.02, .adamw = {"wte.*", "head.*"}, .adam_lr_ratio = 0.1});

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "systole/optim/optimizer.h"

namespace systole::optim {

// By what the rate of an A × B matrix is multiplied: √max(1, A/B), 0.2·√max(A, B), 1.
enum class MuonAdjust { original, match_rms_adamw, none };

struct MuonOptions {
  Schedule lr = 1e-3;
  double weight_decay = 0.1;  // of the parameter itself
  double momentum = 0.95;
  bool nesterov = true;
  std::int64_t ns_steps = 5;
  double ns_a = 3.4445, ns_b = -4.7750, ns_c = 2.0315;
  double eps = 1e-7;  // the least norm that a matrix is divided by; Keras adds it to the norm
  MuonAdjust adjust_lr = MuonAdjust::original;
  // Of the iterations' products. Unset: the dtype that the parameter is computed in; PyTorch has bf16.
  std::optional<DType> ns_dtype = {};
  std::vector<std::string> adamw = {};  // names as in a Group
  double adam_lr_ratio = 1;
  double adam_beta1 = 0.9, adam_beta2 = 0.999;
  double adam_eps = 1e-8;
  double adam_weight_decay = 0.01;
  Flavor flavor = Flavor::pytorch;
  std::vector<Group> groups = {};
};
class SYSTOLE_API Muon : public Optimizer {
 public:
  explicit Muon(Parameters parameters, MuonOptions options = {});
  template <nn::Module M>
  explicit Muon(const M& module, MuonOptions options = {})
      : Muon(nn::parameters(module), std::move(options)) {}

 private:
  void update_one(std::size_t i, const Tensor& grad, const Tensor& lr, const Tensor& step) override;
  MuonOptions options_;
  std::vector<Variable> m_;  // momentum, or AdamW's m
  std::vector<Variable> v_;  // undefined for matrices
};

}  // namespace systole::optim
