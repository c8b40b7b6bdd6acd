#pragma once

// Attention and transformers on [batch, length, width], with PyTorch's parameter names and defaults.
//
//   nn::TransformerEncoder encoder{512, 8, {.layers = 6, .layer = {.norm_first = true}, .norm = true}};
//   Tensor y = encoder(x, {.key_padding_mask = padding, .is_causal = true});

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "systole/base/export.h"
#include "systole/nn/layers.h"
#include "systole/nn/module.h"
#include "systole/tensor/tensor.h"
#include "systole/tensor/variable.h"

namespace systole::nn {

// [batch, length, heads · depth] as [batch, heads, length, depth], and back.
SYSTOLE_API Tensor split_heads(const Tensor& x, std::int64_t heads);
SYSTOLE_API Tensor merge_heads(const Tensor& x);

// What a query does not see. Bool masks are true at what is hidden, as in PyTorch's layers (and unlike the
// mask of attention(), which is true at what is seen); float masks are added to the scores.
struct AttentionMasks {
  Tensor attn_mask = {};         // [queries, keys], or what broadcasts to [batch, heads, queries, keys]
  Tensor key_padding_mask = {};  // [batch, keys]
  bool is_causal = false;        // a query sees the keys up to its own place
};
// [length, length] for attn_mask: 0 up to the diagonal, -infinity after it.
SYSTOLE_API Tensor square_subsequent_mask(std::int64_t length, DType dtype = DType::f32);

struct MultiHeadAttentionOptions {
  bool bias = true;
  bool causal = false;  // a query sees the keys up to its own place
  double dropout = 0;   // of the weights of keys, in training
};
struct SYSTOLE_API MultiHeadAttention {
  MultiHeadAttention(std::int64_t width, std::int64_t heads, MultiHeadAttentionOptions options = {});
  Tensor forward(const Tensor& x, const AttentionMasks& masks = {}) const;  // of x to itself
  Tensor forward(const Tensor& query, const Tensor& key, const Tensor& value,
                 const AttentionMasks& masks = {}) const;
  Tensor operator()(const Tensor& x, const AttentionMasks& masks = {}) const { return forward(x, masks); }
  Tensor operator()(const Tensor& query, const Tensor& key, const Tensor& value,
                    const AttentionMasks& masks = {}) const {
    return forward(query, key, value, masks);
  }

  Variable in_proj_weight, in_proj_bias;  // of query, key and value: [3 · width, width], [3 · width]
  Linear out_proj;
  std::int64_t heads;
  bool causal;
  double dropout;
  Setting<bool> training = true;

  template <class V>
  static void visit(MultiHeadAttention& self, V&& v) {
    v("in_proj_weight", self.in_proj_weight);
    v("in_proj_bias", self.in_proj_bias);
    v("out_proj", self.out_proj);
  }

 private:
  Tensor attended(const Tensor& q, const Tensor& k, const Tensor& v, const AttentionMasks& masks) const;
};

// x + attention(norm(x)), then x + mlp(norm(x)), as in GPT: the norms stand before the layers.
struct TransformerBlockOptions {
  std::int64_t mlp_width = 0;  // 0: four times the width
  bool causal = true;
  double dropout = 0;
  GeluForm gelu = GeluForm::tanh;
};
struct SYSTOLE_API TransformerBlock {
  TransformerBlock(std::int64_t width, std::int64_t heads, TransformerBlockOptions options = {});
  Tensor forward(const Tensor& x) const;
  Tensor operator()(const Tensor& x) const { return forward(x); }

  LayerNorm ln1;
  MultiHeadAttention attn;
  LayerNorm ln2;
  Linear fc1, fc2;
  Dropout dropout;
  GeluForm gelu_form;

  template <class V>
  static void visit(TransformerBlock& self, V&& v) {
    v("ln1", self.ln1);
    v("attn", self.attn);
    v("ln2", self.ln2);
    v("fc1", self.fc1);
    v("fc2", self.fc2);
    v("dropout", self.dropout);
  }
};

// The layers of "Attention is all you need". The norms stand after each sum, or, with norm_first, before
// attention and linear layers.
struct TransformerLayerOptions {
  std::int64_t dim_feedforward = 2048;
  double dropout = 0.1;
  std::string activation = "relu";  // by name: activations.h
  double layer_norm_eps = 1e-5;
  bool norm_first = false;
  bool bias = true;
};

struct SYSTOLE_API TransformerEncoderLayer {
  TransformerEncoderLayer(std::int64_t width, std::int64_t heads, TransformerLayerOptions options = {});
  Tensor forward(const Tensor& src, const AttentionMasks& masks = {}) const;
  Tensor operator()(const Tensor& src, const AttentionMasks& masks = {}) const { return forward(src, masks); }

  MultiHeadAttention self_attn;
  Linear linear1, linear2;
  LayerNorm norm1, norm2;
  Dropout dropout;
  std::function<Tensor(const Tensor&)> activation;
  bool norm_first;

  template <class V>
  static void visit(TransformerEncoderLayer& self, V&& v) {
    v("self_attn", self.self_attn);
    v("linear1", self.linear1);
    v("dropout", self.dropout);
    v("linear2", self.linear2);
    v("norm1", self.norm1);
    v("norm2", self.norm2);
  }
};

// `tgt` are the masks of the target's attention to itself, `memory` those of its attention to the encoder's
// output.
struct DecoderMasks {
  AttentionMasks tgt = {}, memory = {};
};
struct SYSTOLE_API TransformerDecoderLayer {
  TransformerDecoderLayer(std::int64_t width, std::int64_t heads, TransformerLayerOptions options = {});
  Tensor forward(const Tensor& tgt, const Tensor& memory, const DecoderMasks& masks = {}) const;
  Tensor operator()(const Tensor& tgt, const Tensor& memory, const DecoderMasks& masks = {}) const {
    return forward(tgt, memory, masks);
  }

  MultiHeadAttention self_attn, multihead_attn;
  Linear linear1, linear2;
  LayerNorm norm1, norm2, norm3;
  Dropout dropout;
  std::function<Tensor(const Tensor&)> activation;
  bool norm_first;

  template <class V>
  static void visit(TransformerDecoderLayer& self, V&& v) {
    v("self_attn", self.self_attn);
    v("multihead_attn", self.multihead_attn);
    v("linear1", self.linear1);
    v("dropout", self.dropout);
    v("linear2", self.linear2);
    v("norm1", self.norm1);
    v("norm2", self.norm2);
    v("norm3", self.norm3);
  }
};

// Layers one after the other. Unlike PyTorch's, which are copies of one, they start from different numbers.
struct TransformerStackOptions {
  std::int64_t layers = 6;
  TransformerLayerOptions layer = {};
  bool norm = false;  // one more after the last layer, which norm_first wants
};
struct SYSTOLE_API TransformerEncoder {
  TransformerEncoder(std::int64_t width, std::int64_t heads, TransformerStackOptions options = {});
  Tensor forward(const Tensor& src, const AttentionMasks& masks = {}) const;
  Tensor operator()(const Tensor& src, const AttentionMasks& masks = {}) const { return forward(src, masks); }

  std::vector<TransformerEncoderLayer> layers;
  std::optional<LayerNorm> norm;

  template <class V>
  static void visit(TransformerEncoder& self, V&& v) {
    v("layers", self.layers);
    v("norm", self.norm);
  }
};
struct SYSTOLE_API TransformerDecoder {
  TransformerDecoder(std::int64_t width, std::int64_t heads, TransformerStackOptions options = {});
  Tensor forward(const Tensor& tgt, const Tensor& memory, const DecoderMasks& masks = {}) const;
  Tensor operator()(const Tensor& tgt, const Tensor& memory, const DecoderMasks& masks = {}) const {
    return forward(tgt, memory, masks);
  }

  std::vector<TransformerDecoderLayer> layers;
  std::optional<LayerNorm> norm;

  template <class V>
  static void visit(TransformerDecoder& self, V&& v) {
    v("layers", self.layers);
    v("norm", self.norm);
  }
};

// Encoder and decoder, each with a last norm; matrices start as xavier_uniform makes them.
struct TransformerOptions {
  std::int64_t encoder_layers = 6, decoder_layers = 6;
  TransformerLayerOptions layer = {};
};
struct TransformerMasks {
  AttentionMasks src = {}, tgt = {}, memory = {};
};
struct SYSTOLE_API Transformer {
  explicit Transformer(std::int64_t width = 512, std::int64_t heads = 8, TransformerOptions options = {});
  Tensor forward(const Tensor& src, const Tensor& tgt, const TransformerMasks& masks = {}) const;
  Tensor operator()(const Tensor& src, const Tensor& tgt, const TransformerMasks& masks = {}) const {
    return forward(src, tgt, masks);
  }

  TransformerEncoder encoder;
  TransformerDecoder decoder;

  template <class V>
  static void visit(Transformer& self, V&& v) {
    v("encoder", self.encoder);
    v("decoder", self.decoder);
  }
};

}  // namespace systole::nn
