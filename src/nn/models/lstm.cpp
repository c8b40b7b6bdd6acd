#include "systole/nn/models/lstm.h"

#include "nn/last_output.h"

namespace systole::nn::models {

Tensor LstmClassifier::forward(const Tensor& words) const {
  const LSTMOutput out = lstm(emb(words));
  return observed(*this, fc(last_output(out.y, out.state.h, options.bidirectional)));
}

Tensor LstmLanguageModel::forward(const Tensor& words) const {
  return observed(*this, fc(lstm(emb(words)).y));
}

}  // namespace systole::nn::models
