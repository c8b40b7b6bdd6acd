#pragma once

// Attention layers on [batch, length, width].

#include <cstdint>

#include "systole/base/export.h"
#include "systole/nn/layers.h"
#include "systole/nn/module.h"
#include "systole/tensor/tensor.h"
#include "systole/tensor/variable.h"

namespace systole::nn {

// [batch, length, heads · depth] as [batch, heads, length, depth], and back.
SYSTOLE_API Tensor split_heads(const Tensor& x, std::int64_t heads);
SYSTOLE_API Tensor merge_heads(const Tensor& x);

struct MultiHeadAttentionOptions {
  bool bias = true;
  bool causal = false;  // a query sees the keys up to its own place
};
struct SYSTOLE_API MultiHeadAttention {
  MultiHeadAttention(std::int64_t width, std::int64_t heads, MultiHeadAttentionOptions options = {});
  Tensor forward(const Tensor& x) const;  // of x to itself
  Tensor forward(const Tensor& query, const Tensor& key, const Tensor& value) const;
  Tensor operator()(const Tensor& x) const { return forward(x); }
  Tensor operator()(const Tensor& query, const Tensor& key, const Tensor& value) const {
    return forward(query, key, value);
  }

  Variable in_proj_weight, in_proj_bias;  // of query, key and value: [3 · width, width], [3 · width]
  Linear out_proj;
  std::int64_t heads;
  bool causal;

  template <class V>
  static void visit(MultiHeadAttention& self, V&& v) {
    v("in_proj_weight", self.in_proj_weight);
    v("in_proj_bias", self.in_proj_bias);
    v("out_proj", self.out_proj);
  }
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

}  // namespace systole::nn
