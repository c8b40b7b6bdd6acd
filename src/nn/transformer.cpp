#include "systole/nn/transformer.h"

#include <string>
#include <vector>

#include "nn/parameter.h"
#include "systole/base/error.h"
#include "systole/nn/init.h"
#include "systole/ops.h"
#include "systole/tensor/math.h"
#include "systole/tensor/neural.h"
#include "tensor/record.h"

namespace systole::nn {

namespace {

using recording::built;

// Rows `part` · width … of a parameter of three parts.
Tensor third(const Variable& parameter, std::int64_t part) {
  if (!parameter.defined()) return {};
  const std::int64_t rows = parameter.size(0) / 3;
  return built({parameter},
               [&](const ir::Values& v) { return ops::slice_axis(v[0], 0, part * rows, (part + 1) * rows); });
}

}  // namespace

Tensor split_heads(const Tensor& x, std::int64_t heads) {
  const Shape& shape = recording::checked(x, "split_heads").type.shape;
  if (shape.rank() != 3 || heads < 1 || x.size(2) % heads != 0)
    throw Error(ErrorKind::kShape, "split_heads", "x for " + std::to_string(heads) + " heads",
                "[batch, length, heads · depth]", x.type().to_string());
  return built({x}, [&](const ir::Values& v) {
    const ir::Value split = ops::reshape(v[0], {shape[0], shape[1], heads, x.size(2) / heads});
    return ops::transpose(split, {0, 2, 1, 3});
  });
}

Tensor merge_heads(const Tensor& x) {
  const Shape& shape = recording::checked(x, "merge_heads").type.shape;
  if (shape.rank() != 4)
    throw Error(ErrorKind::kShape, "merge_heads", "the rank of x", "[batch, heads, length, depth]",
                x.type().to_string());
  return built({x}, [&](const ir::Values& v) {
    const ir::Value together = ops::transpose(v[0], {0, 2, 1, 3});
    return ops::reshape(together, {shape[0], shape[2], shape[1] * shape[3]});
  });
}

MultiHeadAttention::MultiHeadAttention(std::int64_t width, std::int64_t heads,
                                       MultiHeadAttentionOptions options)
    : in_proj_weight(new_parameter({3 * width, width})),
      out_proj(width, width, {.bias = options.bias}),
      heads(heads),
      causal(options.causal) {
  if (heads < 1 || width % heads != 0)
    throw Error(ErrorKind::kInvalidArgument, "MultiHeadAttention", "the width does not divide into the heads",
                "a multiple of " + std::to_string(heads), std::to_string(width));
  init::xavier_uniform(in_proj_weight);
  if (!options.bias) return;
  in_proj_bias = new_parameter({3 * width});
  init::zeros(out_proj.bias);
}

Tensor MultiHeadAttention::forward(const Tensor& x) const {
  const Tensor all = linear(x, in_proj_weight, in_proj_bias.defined() ? in_proj_bias.value() : Tensor());
  const Tensor operands[] = {all};
  const std::int64_t width = in_proj_weight.size(1);
  const std::vector<Tensor> parts = recording::record_built(operands, [&](ir::Graph&, const ir::Values& v) {
    ir::Values slices;
    for (std::int64_t i = 0; i < 3; ++i)
      slices.push_back(ops::slice_axis(v[0], -1, i * width, (i + 1) * width));
    return slices;
  });
  const Tensor mixed = attention(split_heads(parts[0], heads), split_heads(parts[1], heads),
                                 split_heads(parts[2], heads), {.causal = causal});
  return observed(*this, out_proj(merge_heads(mixed)));
}

Tensor MultiHeadAttention::forward(const Tensor& query, const Tensor& key, const Tensor& value) const {
  const Tensor* inputs[] = {&query, &key, &value};
  Tensor parts[3];
  for (std::int64_t i = 0; i < 3; ++i)
    parts[i] = split_heads(linear(*inputs[i], third(in_proj_weight, i), third(in_proj_bias, i)), heads);
  const Tensor mixed = attention(parts[0], parts[1], parts[2], {.causal = causal});
  return observed(*this, out_proj(merge_heads(mixed)));
}

TransformerBlock::TransformerBlock(std::int64_t width, std::int64_t heads, TransformerBlockOptions options)
    : ln1(width),
      attn(width, heads, {.causal = options.causal}),
      ln2(width),
      fc1(width, options.mlp_width > 0 ? options.mlp_width : 4 * width),
      fc2(options.mlp_width > 0 ? options.mlp_width : 4 * width, width),
      dropout{options.dropout},
      gelu_form(options.gelu) {}

Tensor TransformerBlock::forward(const Tensor& x) const {
  const Tensor attended = x + dropout(attn(ln1(x)));
  return observed(*this, attended + dropout(fc2(gelu(fc1(ln2(attended)), gelu_form))));
}

}  // namespace systole::nn
