#include "systole/nn/transformer.h"

#include <cmath>
#include <string>
#include <string_view>
#include <vector>

#include "nn/parameter.h"
#include "systole/base/error.h"
#include "systole/nn/activations.h"
#include "systole/nn/init.h"
#include "systole/ops.h"
#include "systole/tensor/creation.h"
#include "systole/tensor/math.h"
#include "systole/tensor/neural.h"
#include "systole/tensor/random.h"
#include "systole/tensor/shaping.h"
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
      causal(options.causal),
      dropout(options.dropout) {
  if (heads < 1 || width % heads != 0)
    throw Error(ErrorKind::kInvalidArgument, "MultiHeadAttention", "the width does not divide into the heads",
                "a multiple of " + std::to_string(heads), std::to_string(width));
  init::xavier_uniform(in_proj_weight);
  if (!options.bias) return;
  in_proj_bias = new_parameter({3 * width});
  init::zeros(out_proj.bias);
}

namespace {

void check_sequence(std::string_view where, const char* what, const Tensor& x, std::int64_t width) {
  const Shape& shape = recording::checked(x, where).type.shape;
  if (shape.rank() != 3 || shape[2] != Dim(width))
    throw Error(ErrorKind::kShape, std::string(where), what, "[batch, length, " + std::to_string(width) + "]",
                x.type().to_string());
}

// What is added to scores: a bool mask that is true at what is hidden, or a float one as it is.
Tensor penalty(const Tensor& mask, DType dtype) {
  if (mask.dtype() != DType::boolean) return mask.to(dtype);
  return built({mask}, [&](const ir::Values& v) {
    const ir::Value none = ops::full(v[0].graph(), {dtype, {}}, 0);
    return ops::select(v[0], ops::scalar_like(none, -HUGE_VAL), none);
  });
}

// Both masks as one for attention(); undefined when there is none.
Tensor joined_mask(const AttentionMasks& masks, const Shape& q, const Shape& k, DType dtype) {
  Tensor mask;
  if (masks.attn_mask.defined()) {
    const Shape wanted{q[0], q[1], q[2], k[2]};
    const Shape& shape = masks.attn_mask.shape();
    bool fits = shape.rank() >= 2 && shape.rank() <= 4;
    for (std::size_t i = 1; fits && i <= shape.size(); ++i) {
      const Dim size = shape[shape.size() - i];
      fits = size == wanted[4 - i] || size == Dim(1);
    }
    if (!fits)
      throw Error(ErrorKind::kShape, "MultiHeadAttention", "attn_mask",
                  "[queries, keys] or what broadcasts to " + wanted.to_string(),
                  masks.attn_mask.type().to_string());
    mask = penalty(masks.attn_mask, dtype);
  }
  if (masks.key_padding_mask.defined()) {
    if (masks.key_padding_mask.shape() != Shape{k[0], k[2]})
      throw Error(ErrorKind::kShape, "MultiHeadAttention", "key_padding_mask of [batch, keys]",
                  Shape{k[0], k[2]}.to_string(), masks.key_padding_mask.type().to_string());
    const Tensor padding = penalty(masks.key_padding_mask, dtype).reshape({k[0], 1, 1, k[2]});
    mask = mask.defined() ? mask + padding : padding;
  }
  return mask;
}

}  // namespace

// Operands [batch, heads, length, depth].
Tensor MultiHeadAttention::attended(const Tensor& q, const Tensor& k, const Tensor& v,
                                    const AttentionMasks& masks) const {
  AttentionOptions options{.causal = causal || masks.is_causal,
                           .mask = joined_mask(masks, q.shape(), k.shape(), q.dtype())};
  if (masks.is_causal && !(q.shape()[2] == k.shape()[2])) {
    // attention() lines up the last query with the last key; here both begin at place 0.
    const Tensor later = unsqueeze(arange(q.size(2)), 1) < unsqueeze(arange(k.size(2)), 0);
    const Tensor hidden = penalty(later, q.dtype());
    options.mask = options.mask.defined() ? options.mask + hidden : hidden;
    options.causal = causal;
  }
  if (training && dropout > 0) {
    options.dropout = dropout;
    options.key = random::next_key();
  }
  return observed(*this, out_proj(merge_heads(attention(q, k, v, options))));
}

Tensor MultiHeadAttention::forward(const Tensor& x, const AttentionMasks& masks) const {
  const std::int64_t width = in_proj_weight.size(1);
  check_sequence("MultiHeadAttention", "x", x, width);
  const Tensor all = linear(x, in_proj_weight, in_proj_bias.defined() ? in_proj_bias.value() : Tensor());
  const Tensor operands[] = {all};
  const std::vector<Tensor> parts = recording::record_built(operands, [&](ir::Graph&, const ir::Values& v) {
    ir::Values slices;
    for (std::int64_t i = 0; i < 3; ++i)
      slices.push_back(ops::slice_axis(v[0], -1, i * width, (i + 1) * width));
    return slices;
  });
  return attended(split_heads(parts[0], heads), split_heads(parts[1], heads), split_heads(parts[2], heads),
                  masks);
}

Tensor MultiHeadAttention::forward(const Tensor& query, const Tensor& key, const Tensor& value,
                                   const AttentionMasks& masks) const {
  const Tensor* inputs[] = {&query, &key, &value};
  constexpr const char* kNames[] = {"the query", "the key", "the value"};
  Tensor parts[3];
  for (std::int64_t i = 0; i < 3; ++i) {
    check_sequence("MultiHeadAttention", kNames[i], *inputs[i], in_proj_weight.size(1));
    parts[i] = split_heads(linear(*inputs[i], third(in_proj_weight, i), third(in_proj_bias, i)), heads);
  }
  return attended(parts[0], parts[1], parts[2], masks);
}

Tensor square_subsequent_mask(std::int64_t length, DType dtype) {
  return recording::record_built({}, [&](ir::Graph& graph, const ir::Values&) {
    const Type places{DType::i32, {length, length}};
    const ir::Value row = ops::iota(graph, places, 0), column = ops::iota(graph, places, 1);
    const ir::Value seen = ops::full(graph, {dtype, {}}, 0);
    return ir::Values{ops::select(ops::less_equal(column, row), seen, ops::scalar_like(seen, -HUGE_VAL))};
  })[0];
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

TransformerEncoderLayer::TransformerEncoderLayer(std::int64_t width, std::int64_t heads,
                                                 TransformerLayerOptions options)
    : self_attn(width, heads, {.bias = options.bias, .dropout = options.dropout}),
      linear1(width, options.dim_feedforward, {.bias = options.bias}),
      linear2(options.dim_feedforward, width, {.bias = options.bias}),
      norm1(width, {.eps = options.layer_norm_eps, .bias = options.bias}),
      norm2(width, {.eps = options.layer_norm_eps, .bias = options.bias}),
      dropout{options.dropout},
      activation(nn::activation(options.activation)),
      norm_first(options.norm_first) {}

Tensor TransformerEncoderLayer::forward(const Tensor& src, const AttentionMasks& masks) const {
  check_sequence("TransformerEncoderLayer", "src", src, linear1.weight.size(1));
  const auto attend = [&](const Tensor& x) { return dropout(self_attn(x, masks)); };
  const auto feed = [&](const Tensor& x) { return dropout(linear2(dropout(activation(linear1(x))))); };
  if (norm_first) {
    const Tensor x = src + attend(norm1(src));
    return observed(*this, x + feed(norm2(x)));
  }
  const Tensor x = norm1(src + attend(src));
  return observed(*this, norm2(x + feed(x)));
}

TransformerDecoderLayer::TransformerDecoderLayer(std::int64_t width, std::int64_t heads,
                                                 TransformerLayerOptions options)
    : self_attn(width, heads, {.bias = options.bias, .dropout = options.dropout}),
      multihead_attn(width, heads, {.bias = options.bias, .dropout = options.dropout}),
      linear1(width, options.dim_feedforward, {.bias = options.bias}),
      linear2(options.dim_feedforward, width, {.bias = options.bias}),
      norm1(width, {.eps = options.layer_norm_eps, .bias = options.bias}),
      norm2(width, {.eps = options.layer_norm_eps, .bias = options.bias}),
      norm3(width, {.eps = options.layer_norm_eps, .bias = options.bias}),
      dropout{options.dropout},
      activation(nn::activation(options.activation)),
      norm_first(options.norm_first) {}

Tensor TransformerDecoderLayer::forward(const Tensor& tgt, const Tensor& memory,
                                        const DecoderMasks& masks) const {
  check_sequence("TransformerDecoderLayer", "tgt", tgt, linear1.weight.size(1));
  check_sequence("TransformerDecoderLayer", "memory", memory, linear1.weight.size(1));
  const auto attend = [&](const Tensor& x) { return dropout(self_attn(x, masks.tgt)); };
  const auto look = [&](const Tensor& x) { return dropout(multihead_attn(x, memory, memory, masks.memory)); };
  const auto feed = [&](const Tensor& x) { return dropout(linear2(dropout(activation(linear1(x))))); };
  if (norm_first) {
    Tensor x = tgt + attend(norm1(tgt));
    x += look(norm2(x));
    return observed(*this, x + feed(norm3(x)));
  }
  Tensor x = norm1(tgt + attend(tgt));
  x = norm2(x + look(x));
  return observed(*this, norm3(x + feed(x)));
}

namespace {

void check_layers(std::string_view where, std::int64_t layers) {
  if (layers < 1)
    throw Error(ErrorKind::kInvalidArgument, std::string(where), "layers", "1 or more",
                std::to_string(layers));
}

}  // namespace

TransformerEncoder::TransformerEncoder(std::int64_t width, std::int64_t heads,
                                       TransformerStackOptions options) {
  check_layers("TransformerEncoder", options.layers);
  for (std::int64_t i = 0; i < options.layers; ++i) layers.emplace_back(width, heads, options.layer);
  if (options.norm) norm.emplace(width, LayerNormOptions{options.layer.layer_norm_eps, options.layer.bias});
}

Tensor TransformerEncoder::forward(const Tensor& src, const AttentionMasks& masks) const {
  Tensor x = src;
  for (const TransformerEncoderLayer& layer : layers) x = layer(x, masks);
  return observed(*this, norm ? (*norm)(x) : x);
}

TransformerDecoder::TransformerDecoder(std::int64_t width, std::int64_t heads,
                                       TransformerStackOptions options) {
  check_layers("TransformerDecoder", options.layers);
  for (std::int64_t i = 0; i < options.layers; ++i) layers.emplace_back(width, heads, options.layer);
  if (options.norm) norm.emplace(width, LayerNormOptions{options.layer.layer_norm_eps, options.layer.bias});
}

Tensor TransformerDecoder::forward(const Tensor& tgt, const Tensor& memory, const DecoderMasks& masks) const {
  Tensor x = tgt;
  for (const TransformerDecoderLayer& layer : layers) x = layer(x, memory, masks);
  return observed(*this, norm ? (*norm)(x) : x);
}

Transformer::Transformer(std::int64_t width, std::int64_t heads, TransformerOptions options)
    : encoder(width, heads, {options.encoder_layers, options.layer, true}),
      decoder(width, heads, {options.decoder_layers, options.layer, true}) {
  for (const Variable& variable : parameters(*this).variables())
    if (variable.rank() > 1) init::xavier_uniform(variable);
}

Tensor Transformer::forward(const Tensor& src, const Tensor& tgt, const TransformerMasks& masks) const {
  const Tensor memory = encoder(src, masks.src);
  return observed(*this, decoder(tgt, memory, {masks.tgt, masks.memory}));
}

}  // namespace systole::nn
