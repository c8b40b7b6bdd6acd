#pragma once

#include <cstdint>

#include "systole/base/export.h"
#include "systole/nn/layers.h"
#include "systole/nn/module.h"
#include "systole/nn/recurrent.h"

namespace systole::nn::models {

// Words in, classes out: embedding, LSTM layers, a dense layer on the last output; of a bidirectional LSTM on
// the last states of both directions.
struct LstmClassifierOptions {
  std::int64_t vocabulary = 10000, embedding = 64, hidden = 128, classes = 10, layers = 1;
  bool bidirectional = false;
  double dropout = 0;  // between LSTM layers
};
struct SYSTOLE_API LstmClassifier {
  LstmClassifierOptions options;
  Embedding emb{options.vocabulary, options.embedding};
  LSTM lstm{options.embedding,
            options.hidden,
            {.layers = options.layers,
             .batch_first = true,
             .bidirectional = options.bidirectional,
             .dropout = options.dropout}};
  Linear fc{(options.bidirectional ? 2 : 1) * options.hidden, options.classes};

  Tensor forward(const Tensor& words) const;  // i32 [batch, length] to [batch, classes]
  Tensor operator()(const Tensor& words) const { return forward(words); }
};

// The next word after each: embedding, LSTM layers, a dense layer on every output.
struct LstmLanguageModelOptions {
  std::int64_t vocabulary = 10000, embedding = 64, hidden = 128, layers = 1;
  double dropout = 0;
};
struct SYSTOLE_API LstmLanguageModel {
  LstmLanguageModelOptions options;
  Embedding emb{options.vocabulary, options.embedding};
  LSTM lstm{options.embedding,
            options.hidden,
            {.layers = options.layers, .batch_first = true, .dropout = options.dropout}};
  Linear fc{options.hidden, options.vocabulary};

  Tensor forward(const Tensor& words) const;  // i32 [batch, length] to logits [batch, length, vocabulary]
  Tensor operator()(const Tensor& words) const { return forward(words); }
};

}  // namespace systole::nn::models
