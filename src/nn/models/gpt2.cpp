#include "systole/nn/models/gpt2.h"

#include <array>
#include <cmath>
#include <string>
#include <string_view>
#include <utility>

#include "nn/parameter.h"
#include "systole/base/error.h"
#include "systole/nn/init.h"
#include "systole/nn/transformer.h"
#include "systole/ops.h"
#include "systole/tensor/math.h"
#include "systole/tensor/neural.h"
#include "systole/tensor/shaping.h"
#include "tensor/record.h"

namespace systole::nn::models {

namespace {

using recording::built;

Tensor dropped(const Dropout& dropout, const Tensor& x) { return dropout.p > 0 ? dropout(x) : x; }

}  // namespace

std::vector<Tensor> Gpt2Layer::heads_of(const Tensor& x) const {
  const Tensor all = qkv(ln1(x));  // [batch, length, 3 · width]
  std::vector<Tensor> parts;
  for (std::int64_t i = 0; i < 3; ++i) {
    const Tensor third = built(
        {all}, [&](const ir::Values& v) { return ops::slice_axis(v[0], -1, i * width, (i + 1) * width); });
    parts.push_back(split_heads(third, heads));
  }
  return parts;
}

Tensor Gpt2Layer::after_attention(const Tensor& x, const Tensor& attended) const {
  const Tensor sum = x + dropped(drop, proj(merge_heads(attended)));
  return observed(*this, sum + dropped(drop, fc2(activate(activation, fc(ln2(sum))))));
}

Tensor Gpt2Layer::forward(const Tensor& x) const {
  const std::vector<Tensor> parts = heads_of(x);
  return after_attention(x, attention(parts[0], parts[1], parts[2], {.causal = true}));
}

std::vector<Gpt2Layer> Gpt2::make_layers(const Gpt2Options& options) {
  std::vector<Gpt2Layer> layers;
  for (std::int64_t i = 0; i < options.layers; ++i)
    layers.push_back(Gpt2Layer{options.width, options.heads, options.dropout,
                               options.intermediate > 0 ? options.intermediate : 4 * options.width,
                               options.epsilon, options.activation});
  return layers;
}

std::optional<Linear> Gpt2::make_head(const Gpt2Options& options) {
  if (options.tied) return std::nullopt;
  return Linear(options.width, options.vocabulary, {.bias = false});
}

Tensor Gpt2::logits(const Tensor& x) const {
  const Tensor normed = lnf(x);
  return lm_head ? (*lm_head)(normed) : linear(normed, wte.weight);
}

Tensor Gpt2::forward(const Tensor& words) const {
  if (recording::checked(words, "Gpt2").type.shape.rank() != 2 || words.size(1) > options.length)
    throw Error(ErrorKind::kShape, "Gpt2", "the words",
                "[batch, length] of at most " + std::to_string(options.length) + " words",
                words.type().to_string());
  const std::int64_t length = words.size(1);
  const Tensor positions =
      built({wpe.weight}, [&](const ir::Values& v) { return ops::slice_axis(v[0], 0, 0, length); });
  Tensor x = dropped(drop, wte(words) + positions);
  for (const Gpt2Layer& layer : h) x = layer.forward(x);
  return observed(*this, logits(x));
}

void init_gpt2(const Gpt2& model) {
  constexpr double kDeviation = 0.02;
  // Each block adds twice to the sum that runs through all of them.
  const double added = kDeviation / std::sqrt(2.0 * static_cast<double>(model.options.layers));
  for (const auto& [name, variable] : parameters(model)) {
    if (variable.rank() == 2)
      init::normal(variable, 0,
                   name.ends_with(".proj.weight") || name.ends_with(".fc2.weight") ? added : kDeviation);
    else if (name.ends_with("bias"))
      init::zeros(variable);
  }
}

namespace {

struct Renamed {
  std::string_view theirs, ours;
  bool transposed = false;
};
constexpr std::array kRenamed{
    Renamed{"attn.c_attn.", "qkv.", true},
    Renamed{"attn.c_proj.", "proj.", true},
    Renamed{"mlp.c_fc.", "fc.", true},
    Renamed{"mlp.c_proj.", "fc2.", true},
    Renamed{"ln_1.", "ln1."},
    Renamed{"ln_2.", "ln2."},
    Renamed{"ln_f.", "lnf."},
};

// "model/h0/attn/c_attn/w" of the first checkpoints as "h.0.attn.c_attn.weight".
std::string with_dots(std::string name) {
  if (name.find('/') == std::string::npos) return name;
  if (name.starts_with("model/")) name.erase(0, 6);
  if (name.size() > 1 && name[0] == 'h' && name[1] >= '0' && name[1] <= '9') name.insert(1, ".");
  for (char& c : name)
    if (c == '/') c = '.';
  const auto ending = [&](std::string_view end, std::string_view full) {
    if (name.ends_with(end)) name.replace(name.size() - end.size(), end.size(), full);
  };
  ending(".w", ".weight");
  ending(".g", ".weight");
  ending(".b", ".bias");
  return name == "wte" || name == "wpe" ? name + ".weight" : name;
}

}  // namespace

std::map<std::string, Tensor> gpt2_state_dict(const std::map<std::string, Tensor>& published,
                                              const Gpt2Options& options) {
  std::map<std::string, Tensor> values;
  for (const auto& [full, value] : published) {
    std::string name = with_dots(full);
    if (name.ends_with(".attn.bias") || name.ends_with(".attn.masked_bias")) continue;
    if (name.starts_with("transformer.")) name.erase(0, std::string_view("transformer.").size());
    Tensor ours = value;
    for (const Renamed& renamed : kRenamed) {
      const std::size_t at = name.find(renamed.theirs);
      if (at == std::string::npos || (at > 0 && name[at - 1] != '.')) continue;
      name.replace(at, renamed.theirs.size(), renamed.ours);
      if (!renamed.transposed || !name.ends_with(".weight")) break;
      if (ours.rank() == 3 && ours.size(0) == 1) ours = ours.squeeze(0);
      if (ours.rank() != 2)
        throw Error(ErrorKind::kShape, "gpt2_state_dict", "the weight \"" + full + "\"", "[in, out]",
                    value.type().to_string());
      ours = matrix_transpose(ours);
      break;
    }
    values.emplace(std::move(name), std::move(ours));
  }
  const auto head = values.find("lm_head.weight"), words = values.find("wte.weight");
  if (options.tied && head != values.end() && words != values.end() &&
      same_values(head->second, words->second))
    values.erase(head);
  return values;
}

}  // namespace systole::nn::models
