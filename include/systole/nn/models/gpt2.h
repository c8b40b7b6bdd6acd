#pragma once

// GPT-2: pre-norm blocks, tanh GELU, learned positions, the output layer tied to the word embedding unless
// told. Published weights, from a folder with config.json and model.safetensors (io/pretrained.h):
//
//   models::Gpt2 gpt{io::gpt2_options("gpt2")};
//   load_state_dict(gpt, models::gpt2_state_dict(io::load_safetensors("gpt2"), gpt.options));

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "systole/base/export.h"
#include "systole/nn/layers.h"
#include "systole/nn/models/activation.h"
#include "systole/nn/module.h"

namespace systole::nn::models {

struct Gpt2Options {
  std::int64_t layers = 12, width = 768, heads = 12, vocabulary = 50304, length = 1024;
  double dropout = 0;             // on the embeddings and before each addition
  std::int64_t intermediate = 0;  // 0: four times the width
  double epsilon = 1e-5;          // of the norms
  Activation activation = Activation::gelu_tanh;
  bool tied = true;  // else the output layer, lm_head, has weights of its own
};
struct SYSTOLE_API Gpt2Layer {
  std::int64_t width, heads;
  double dropout = 0;
  std::int64_t intermediate = 4 * width;
  double epsilon = 1e-5;
  Activation activation = Activation::gelu_tanh;
  LayerNorm ln1{width, {.eps = epsilon}};
  Linear qkv{width, 3 * width}, proj{width, width};
  LayerNorm ln2{width, {.eps = epsilon}};
  Linear fc{width, intermediate}, fc2{intermediate, width};
  Dropout drop{dropout};

  Tensor forward(const Tensor& x) const;
  // The same in two parts, for attention to words seen before: query, key and value [batch, heads, length,
  // depth]; then the rest of the block, given what attention made of them.
  std::vector<Tensor> heads_of(const Tensor& x) const;
  Tensor after_attention(const Tensor& x, const Tensor& attended) const;
};
struct SYSTOLE_API Gpt2 {
  Gpt2Options options;
  Embedding wte{options.vocabulary, options.width}, wpe{options.length, options.width};
  std::vector<Gpt2Layer> h = make_layers(options);
  LayerNorm lnf{options.width, {.eps = options.epsilon}};
  Dropout drop{options.dropout};
  std::optional<Linear> lm_head = make_head(options);

  Tensor forward(const Tensor& words) const;  // i32 [batch, length] to logits [batch, length, vocabulary]
  Tensor operator()(const Tensor& words) const { return forward(words); }
  Tensor logits(const Tensor& x) const;  // of what the last block gives

 private:
  static std::vector<Gpt2Layer> make_layers(const Gpt2Options& options);
  static std::optional<Linear> make_head(const Gpt2Options& options);
};

// GPT-2's initial weights: deviation 0.02, less for the layers that are added to the sum of all blocks. A
// Gpt2 is made with PyTorch's defaults for its layers, which learn slower.
SYSTOLE_API void init_gpt2(const Gpt2& model);

// Weights under the names of the published checkpoints, with or without "transformer." before them, as those
// of Gpt2: "h.0.attn.c_attn.weight" [width, 3 · width] becomes "h.0.qkv.weight", transposed. Names of Gpt2
// stay as they are. Attention masks are left out, and so is an output layer that is the word embedding;
// another one is kept, so that a tied model refuses it.
SYSTOLE_API std::map<std::string, Tensor> gpt2_state_dict(const std::map<std::string, Tensor>& published,
                                                          const Gpt2Options& options = {});

}  // namespace systole::nn::models
