#pragma once

// The definition of every built-in composite; each stands in the file of its subject.

#include "systole/ir/composite.h"

namespace systole::ops {

ir::CompositeDef adam_update_def();
ir::CompositeDef adamw_update_def();
ir::CompositeDef attention_def();
ir::CompositeDef avg_pool_def();
ir::CompositeDef batch_norm_grad_def();
ir::CompositeDef batch_norm_inference_def();
ir::CompositeDef batch_norm_train_def();
ir::CompositeDef conv_input_grad_def();
ir::CompositeDef conv_weight_grad_def();
ir::CompositeDef cross_entropy_def();
ir::CompositeDef embedding_def();
ir::CompositeDef gelu_def();
ir::CompositeDef gru_def();
ir::CompositeDef layer_norm_def();
ir::CompositeDef layer_norm_grad_def();
ir::CompositeDef log_softmax_def();
ir::CompositeDef lstm_def();
ir::CompositeDef max_pool_def();
ir::CompositeDef momentum_update_def();
ir::CompositeDef sgd_update_def();
ir::CompositeDef softmax_def();

}  // namespace systole::ops
