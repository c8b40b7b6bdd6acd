#pragma once

// BERT: post-norm blocks, exact GELU, learned positions and segments. Parameters have the names of the
// published checkpoints: embeddings.word_embeddings.weight, encoder.layer.0.attention.self.query.weight,
// pooler.dense.weight; in the models with a head "bert." stands before them. RoBERTa is a BERT whose
// positions begin after the number of its padding word. Published weights, from a folder with config.json and
// model.safetensors (io/pretrained.h):
//
//   models::BertMaskedLanguageModel model(io::bert_options("bert-base-uncased"));
//   nn::LoadedState loaded =
//       load_state_dict(model, models::bert_state_dict(io::load_safetensors("bert-base-uncased"),
//                                                      model.bert.options()), false);

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

struct BertOptions {
  std::int64_t layers = 12, width = 768, heads = 12, vocabulary = 30522, length = 512, segments = 2;
  std::int64_t intermediate = 0;  // 0: four times the width
  double dropout = 0.1;
  std::int64_t classes = 2;  // of a classifier
  double epsilon = 1e-12;    // of the norms
  Activation activation = Activation::gelu;
  // RoBERTa: the number of its padding word, 1. The words that are not it count their positions from the next
  // number, 2, and it has its own as position. -1: positions count from 0.
  std::int64_t padding = -1;
};

// Words i32 [batch, length]. Without segments all are of the first; `mask`, bool or integer [batch, length],
// says which words are seen, all unless given.
struct BertInput {
  Tensor words, segments = {}, mask = {};
};

class SYSTOLE_API BertLayer {
 public:
  explicit BertLayer(const BertOptions& options);
  Tensor forward(const Tensor& x, const Tensor& mask = {}) const;  // [batch, length, width]

  template <class V>
  static void visit(BertLayer& self, V&& v) {
    v("attention.self.query", self.query_);
    v("attention.self.key", self.key_);
    v("attention.self.value", self.value_);
    v("attention.output.dense", self.projection_);
    v("attention.output.LayerNorm", self.attention_norm_);
    v("intermediate.dense", self.intermediate_);
    v("output.dense", self.output_);
    v("output.LayerNorm", self.output_norm_);
    v("dropout", self.dropout_);
  }

 private:
  std::int64_t heads_;
  Activation activation_;
  Linear query_, key_, value_, projection_;
  LayerNorm attention_norm_;
  Linear intermediate_, output_;
  LayerNorm output_norm_;
  Dropout dropout_;
};

class SYSTOLE_API Bert {
 public:
  explicit Bert(const BertOptions& options = {}, bool pooler = true);
  Tensor forward(const BertInput& input) const;  // [batch, length, width]
  Tensor forward(const Tensor& words) const { return forward(BertInput{words}); }
  Tensor operator()(const Tensor& words) const { return forward(words); }
  Tensor pooled(const Tensor& hidden) const;  // of the first word: [batch, width]
  const Variable& words() const { return words_.weight; }
  const BertOptions& options() const { return options_; }

  template <class V>
  static void visit(Bert& self, V&& v) {
    v("embeddings.word_embeddings", self.words_);
    v("embeddings.position_embeddings", self.positions_);
    v("embeddings.token_type_embeddings", self.segments_);
    v("embeddings.LayerNorm", self.norm_);
    v("encoder.layer", self.layers_);
    v("pooler.dense", self.pooler_);
    v("dropout", self.dropout_);
  }

 private:
  Tensor positions_of(const Tensor& words) const;  // [length, width], or [batch, length, width]

  BertOptions options_;
  Embedding words_, positions_, segments_;
  LayerNorm norm_;
  std::vector<BertLayer> layers_;
  std::optional<Linear> pooler_;
  Dropout dropout_;
};

// The word at each place, for masked ones: logits [batch, length, vocabulary]. The output layer is tied to
// the word embedding; as published, this model has no pooler.
class SYSTOLE_API BertMaskedLanguageModel {
 public:
  explicit BertMaskedLanguageModel(const BertOptions& options = {});
  Tensor forward(const BertInput& input) const;
  Tensor forward(const Tensor& words) const { return forward(BertInput{words}); }
  Tensor operator()(const Tensor& words) const { return forward(words); }

  Bert bert;

  template <class V>
  static void visit(BertMaskedLanguageModel& self, V&& v) {
    v("bert", self.bert);
    v("cls.predictions.bias", self.bias_);
    v("cls.predictions.transform.dense", self.dense_);
    v("cls.predictions.transform.LayerNorm", self.norm_);
    v("cls.predictions.decoder.weight", self.decoder_weight_);
    v("cls.predictions.decoder.bias", self.decoder_bias_);
  }

 private:
  Activation activation_;
  Variable bias_;
  Linear dense_;
  LayerNorm norm_;
  Variable decoder_weight_, decoder_bias_;  // the word embedding, and bias_
};

// A class for the whole text: logits [batch, classes].
class SYSTOLE_API BertClassifier {
 public:
  explicit BertClassifier(const BertOptions& options = {});
  Tensor forward(const BertInput& input) const;
  Tensor forward(const Tensor& words) const { return forward(BertInput{words}); }
  Tensor operator()(const Tensor& words) const { return forward(words); }

  Bert bert;

  template <class V>
  static void visit(BertClassifier& self, V&& v) {
    v("bert", self.bert);
    v("dropout", self.dropout_);
    v("classifier", self.classifier_);
  }

 private:
  Dropout dropout_;
  Linear classifier_;
};

// Weights under the names of published checkpoints of BERT and RoBERTa, with `head` as those of
// BertMaskedLanguageModel and BertClassifier, else as those of Bert, without any head. The norms' old names,
// gamma and beta, become weight and bias, a RoBERTa's "roberta." and its heads BERT's names; position numbers
// that are stored are left out. RoBERTa's names are kUnsupported when the options have no `padding`: its
// positions would be wrong. A RoBERTa without any head has BERT's names and cannot be told apart: only its
// config.json says what it is.
SYSTOLE_API std::map<std::string, Tensor> bert_state_dict(const std::map<std::string, Tensor>& published,
                                                          const BertOptions& options = {}, bool head = true);

}  // namespace systole::nn::models
