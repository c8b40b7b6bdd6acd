#include "systole/optim/muon.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "optim/adam_step.h"
#include "optim/common.h"
#include "systole/tensor/linalg.h"
#include "systole/tensor/math.h"
#include "tensor/record.h"

namespace systole::optim {

namespace {

// x near U·Vᵀ of its singular value decomposition; x: [rows, columns]
Tensor orthogonalised(Tensor x, const MuonOptions& o) {
  const bool is_tall = x.size(0) > x.size(1);
  if (is_tall) x = x.transpose();
  const Tensor length = norm(x);
  x = x / (o.flavor == Flavor::keras ? length + o.eps : max(length, o.eps));
  const auto product = [&](const Tensor& a, const Tensor& b) {
    if (!o.ns_dtype) return matmul(a, b);
    const Tensor narrow = matmul(recording::as_dtype(a, *o.ns_dtype), recording::as_dtype(b, *o.ns_dtype));
    return recording::as_dtype(narrow, x.dtype());
  };
  for (std::int64_t i = 0; i < o.ns_steps; ++i) {
    const Tensor gram = product(x, x.transpose());  // of the short axis
    x = x * o.ns_a + product(gram * o.ns_b + product(gram, gram) * o.ns_c, x);
  }
  return is_tall ? x.transpose() : x;
}

double rate_ratio(MuonAdjust adjust, double rows, double columns) {
  switch (adjust) {
    case MuonAdjust::original: return std::sqrt(std::max(1.0, rows / columns));
    case MuonAdjust::match_rms_adamw: return 0.2 * std::sqrt(std::max(rows, columns));
    case MuonAdjust::none: break;
  }
  return 1;
}

}  // namespace

Muon::Muon(Parameters parameters, MuonOptions options)
    : Optimizer("muon", std::move(parameters), options.lr, options.groups), options_(std::move(options)) {
  const MuonOptions& o = options_;
  check_number("muon", "weight_decay", o.weight_decay, 0, kInfinity);
  check_number("muon", "momentum", o.momentum, 0, 1);
  check_number("muon", "ns_steps", static_cast<double>(o.ns_steps), 1, 100);
  check_number("muon", "eps", o.eps, 0, kInfinity);
  check_number("muon", "adam_lr_ratio", o.adam_lr_ratio, 0, kInfinity);
  if (o.ns_dtype && !is_float(*o.ns_dtype))
    refuse("muon", "ns_dtype", "a floating-point dtype", std::string(systole::name(*o.ns_dtype)));
  check_adam("muon (adam)", {o.adam_beta1, o.adam_beta2, o.adam_eps, o.adam_weight_decay, true, o.flavor});
  const std::vector<std::string> lists[] = {o.adamw};
  const std::vector<std::size_t> list_of = first_fit("muon", this->parameters(), lists);
  for (std::size_t i = 0; i < list_of.size(); ++i) {
    // Keras leaves all but matrices to AdamW, and by its default embeddings too.
    const Variable& variable = this->parameters().variables()[i];
    const bool is_keras = o.flavor == Flavor::keras;
    const bool is_embedding =
        is_keras && this->parameters().names()[i].find("embedding") != std::string::npos;
    const bool is_matrix =
        (is_keras ? variable.rank() == 2 : variable.rank() >= 2) && !is_embedding && list_of[i] == 1;
    m_.push_back(new_moment("m", i));
    v_.push_back(is_matrix ? Variable() : new_moment("v", i));
  }
}

void Muon::update_one(std::size_t i, const Tensor& grad, const Tensor& lr, const Tensor& step) {
  const MuonOptions& o = options_;
  const Variable parameter = parameters().variables()[i];
  if (v_[i].defined()) {
    double decay = weight_decay(i, o.adam_weight_decay);
    if (o.flavor == Flavor::keras && o.adam_lr_ratio > 0) decay /= o.adam_lr_ratio;  // by the rate itself
    const AdamRule rule{.beta1 = o.adam_beta1,
                        .beta2 = o.adam_beta2,
                        .eps = o.adam_eps,
                        .weight_decay = decay,
                        .decoupled = true,
                        .flavor = o.flavor};
    const Tensor rate = o.adam_lr_ratio == 1 ? lr : lr * o.adam_lr_ratio;
    return adam_step(rule, parameter, m_[i], v_[i], {}, grad, rate, step);
  }
  const Tensor g = wide(grad), old = wide(parameter);
  const std::int64_t rows = parameter.size(0), columns = parameter.size() / std::max<std::int64_t>(rows, 1);
  Tensor m, direction;
  if (o.flavor == Flavor::keras) {
    m = wide(m_[i]) * o.momentum + g;
    direction = o.nesterov ? g + m * o.momentum : m;
  } else {
    m = averaged(o.momentum, wide(m_[i]), g);
    direction = o.nesterov ? averaged(o.momentum, m, g) : m;
  }
  const Tensor orthogonal = orthogonalised(direction.reshape({rows, columns}), o).reshape(parameter.shape());
  const double ratio = rate_ratio(o.adjust_lr, static_cast<double>(rows), static_cast<double>(columns));
  write(parameter, decayed(old, lr, weight_decay(i, o.weight_decay)) - lr * ratio * orthogonal);
  write(m_[i], m);
}

}  // namespace systole::optim
