// The list of built-in composites. The registry calls this once, before its first answer; `add` is the only
// way in, since the registry is locked meanwhile.

#include "ops/composites/definitions.h"

namespace systole::ir {

void register_builtin_composites(void (*add)(CompositeDef));

void register_builtin_composites(void (*add)(CompositeDef)) {
  add(ops::adam_update_def());
  add(ops::adamw_update_def());
  add(ops::attention_def());
  add(ops::avg_pool_def());
  add(ops::batch_norm_grad_def());
  add(ops::batch_norm_inference_def());
  add(ops::batch_norm_train_def());
  add(ops::conv_input_grad_def());
  add(ops::conv_weight_grad_def());
  add(ops::cross_entropy_def());
  add(ops::embedding_def());
  add(ops::gelu_def());
  add(ops::gru_def());
  add(ops::layer_norm_def());
  add(ops::layer_norm_grad_def());
  add(ops::log_softmax_def());
  add(ops::lstm_def());
  add(ops::max_pool_def());
  add(ops::momentum_update_def());
  add(ops::sgd_update_def());
  add(ops::softmax_def());
}

}  // namespace systole::ir
