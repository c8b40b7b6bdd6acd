#include "systole/nn/models/bert.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <string>
#include <string_view>
#include <utility>

#include "nn/parameter.h"
#include "systole/base/error.h"
#include "systole/nn/init.h"
#include "systole/nn/transformer.h"
#include "systole/tensor/math.h"
#include "systole/tensor/neural.h"
#include "systole/tensor/shaping.h"
#include "tensor/record.h"

namespace systole::nn::models {

namespace {

LayerNormOptions norm(const BertOptions& options) { return {.eps = options.epsilon}; }

std::int64_t inner_width(const BertOptions& options) {
  return options.intermediate > 0 ? options.intermediate : 4 * options.width;
}

Tensor dropped(const Dropout& dropout, const Tensor& x) { return dropout.p > 0 ? dropout(x) : x; }

// As published: deviation 0.02, no bias.
template <class M>
void init_bert(const M& module) {
  for (const auto& [name, variable] : parameters(module)) {
    if (variable.rank() == 2)
      init::normal(variable, 0, 0.02);
    else if (name.ends_with("bias"))
      init::zeros(variable);
  }
}

}  // namespace

BertLayer::BertLayer(const BertOptions& options)
    : heads_(options.heads),
      activation_(options.activation),
      query_(options.width, options.width),
      key_(options.width, options.width),
      value_(options.width, options.width),
      projection_(options.width, options.width),
      attention_norm_(options.width, norm(options)),
      intermediate_(options.width, inner_width(options)),
      output_(inner_width(options), options.width),
      output_norm_(options.width, norm(options)),
      dropout_{options.dropout} {
  if (heads_ < 1 || options.width % heads_ != 0)
    throw Error(ErrorKind::kInvalidArgument, "Bert", "the width does not divide into the heads",
                "a multiple of " + std::to_string(heads_), std::to_string(options.width));
}

Tensor BertLayer::forward(const Tensor& x, const Tensor& mask) const {
  const Tensor mixed = attention(split_heads(query_(x), heads_), split_heads(key_(x), heads_),
                                 split_heads(value_(x), heads_), {.mask = mask});
  const Tensor attended = attention_norm_(dropped(dropout_, projection_(merge_heads(mixed))) + x);
  const Tensor y = output_(activate(activation_, intermediate_(attended)));
  return observed(*this, output_norm_(dropped(dropout_, y) + attended));
}

Bert::Bert(const BertOptions& options, bool pooler)
    : options_(options),
      words_(options.vocabulary, options.width),
      positions_(options.length, options.width),
      segments_(options.segments, options.width),
      norm_(options.width, norm(options)),
      dropout_{options.dropout} {
  for (std::int64_t i = 0; i < options.layers; ++i) layers_.emplace_back(options);
  if (pooler) pooler_.emplace(options.width, options.width);
  init_bert(*this);
}

Tensor Bert::positions_of(const Tensor& words) const {
  const std::int64_t padding = options_.padding;
  if (padding < 0) return positions_.weight.value()[slice(0, words.size(1))];
  const Tensor counted = (words != padding).to(DType::i32);
  return positions_(cumsum(counted, 1, {.dtype = DType::i32}) * counted + padding);
}

Tensor Bert::forward(const BertInput& input) const {
  const Tensor& words = input.words;
  const std::int64_t most = positions_.weight.size(0) - (options_.padding + 1);
  if (recording::checked(words, "Bert").type.shape.rank() != 2 || words.size(1) > most)
    throw Error(ErrorKind::kShape, "Bert", "the words",
                "[batch, length] of at most " + std::to_string(most) + " words", words.type().to_string());
  const auto fits = [&](const Tensor& x, const char* what) {
    if (x.shape() != words.shape())
      throw Error(ErrorKind::kShape, "Bert", what, words.shape().to_string(), x.type().to_string());
  };
  const std::int64_t length = words.size(1);
  Tensor x = words_(words);
  if (input.segments.defined()) {
    fits(input.segments, "the segments");
    x = x + segments_(input.segments);
  } else {
    x = x + segments_.weight.value()[0];
  }
  x = x + positions_of(words);
  x = dropped(dropout_, norm_(x));
  Tensor mask;
  if (input.mask.defined()) {
    fits(input.mask, "the mask");
    mask = (input.mask != 0).reshape({words.shape()[0], 1, 1, length});
  }
  for (const BertLayer& layer : layers_) x = layer.forward(x, mask);
  return observed(*this, x);
}

Tensor Bert::pooled(const Tensor& hidden) const {
  if (!pooler_)
    throw Error(ErrorKind::kUnsupported, "Bert", "this model was made without a pooler",
                "Bert(options, true)");
  return tanh((*pooler_)(hidden[{all, 0}]));
}

BertMaskedLanguageModel::BertMaskedLanguageModel(const BertOptions& options)
    : bert(options, false),
      activation_(options.padding < 0 ? options.activation
                                      : Activation::gelu),  // RoBERTa's head has always GELU
      bias_(new_parameter({options.vocabulary})),
      dense_(options.width, options.width),
      norm_(options.width, norm(options)),
      decoder_weight_(bert.words()),
      decoder_bias_(bias_) {
  init_bert(dense_);
}

Tensor BertMaskedLanguageModel::forward(const BertInput& input) const {
  return observed(*this, linear(norm_(activate(activation_, dense_(bert.forward(input)))), decoder_weight_,
                                decoder_bias_));
}

BertClassifier::BertClassifier(const BertOptions& options)
    : bert(options), dropout_{options.dropout}, classifier_(options.width, options.classes) {
  init_bert(classifier_);
}

Tensor BertClassifier::forward(const BertInput& input) const {
  return observed(*this, classifier_(dropped(dropout_, bert.pooled(bert.forward(input)))));
}

namespace {

struct Renamed {
  std::string_view theirs, ours;
};
// Beginnings of names. RoBERTa's classifier is BERT's: a dense layer with tanh, the pooler, then another.
constexpr Renamed kBeginnings[] = {
    {"roberta.", "bert."},
    {"lm_head.dense.", "cls.predictions.transform.dense."},
    {"lm_head.layer_norm.", "cls.predictions.transform.LayerNorm."},
    {"lm_head.decoder.", "cls.predictions.decoder."},
    {"lm_head.bias", "cls.predictions.bias"},
    {"classifier.dense.", "bert.pooler.dense."},
    {"classifier.out_proj.", "classifier."},
};
constexpr std::string_view kRobertas[] = {"roberta.", "lm_head.", "classifier.dense.",
                                          "classifier.out_proj."};
constexpr Renamed kEndings[] = {{".gamma", ".weight"}, {".beta", ".bias"}};

}  // namespace

std::map<std::string, Tensor> bert_state_dict(const std::map<std::string, Tensor>& published,
                                              const BertOptions& options, bool head) {
  constexpr std::string_view kBody = "bert.";
  constexpr std::string_view kParts[] = {"embeddings.", "encoder.", "pooler."};
  std::map<std::string, Tensor> values;
  for (const auto& [full, value] : published) {
    std::string name = full;
    for (const std::string_view beginning : kRobertas)
      if (options.padding < 0 && name.starts_with(beginning))
        throw Error(
            ErrorKind::kUnsupported, "bert_state_dict",
            fmt::format("\"{}\" is a name of RoBERTa, whose positions begin after its padding word", name),
            "padding 1, as config.json beside the weights has it (io::bert_options reads it)");
    for (const Renamed& renamed : kBeginnings)
      if (name.starts_with(renamed.theirs)) {
        name.replace(0, renamed.theirs.size(), renamed.ours);
        break;
      }
    for (const Renamed& renamed : kEndings)
      if (name.ends_with(renamed.theirs))
        name.replace(name.size() - renamed.theirs.size(), renamed.theirs.size(), renamed.ours);
    if (name.ends_with("embeddings.position_ids") || name.ends_with("embeddings.token_type_ids")) continue;
    const bool part = std::any_of(std::begin(kParts), std::end(kParts),
                                  [&](std::string_view beginning) { return name.starts_with(beginning); });
    if (head && part) name.insert(0, kBody);
    if (!head && name.starts_with(kBody))
      name.erase(0, kBody.size());
    else if (!head && !part)
      continue;
    values.emplace(std::move(name), value);
  }
  return values;
}

}  // namespace systole::nn::models
