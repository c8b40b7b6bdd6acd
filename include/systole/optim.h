#pragma once

// Optimisers, schedules and what stands around them in a training step.
//
//   optim::AdamW opt(model, {.lr = optim::schedules::cosine(3e-4, 10'000).after_warmup(500)});
//   optim::Ema ema(model, {.decay = 0.999});
//   auto step = compile([&](const Tensor& x, const Tensor& y) {
//     auto [loss, grads] = value_and_grad([&] { return cross_entropy(model(x), y); }, parameters(model));
//     optim::clip_by_norm(grads, 1.0);
//     opt.update(grads);
//     ema.update();
//     return loss;
//   });
//
// Formulas and defaults are PyTorch's; Keras's are optim::keras::adam() and so on, or "keras:adam".

#include "systole/optim/accumulation.h"
#include "systole/optim/adagrad.h"
#include "systole/optim/adam.h"
#include "systole/optim/clip.h"
#include "systole/optim/ema.h"
#include "systole/optim/lamb.h"
#include "systole/optim/lion.h"
#include "systole/optim/loss_scale.h"
#include "systole/optim/make.h"
#include "systole/optim/muon.h"
#include "systole/optim/optimizer.h"
#include "systole/optim/options.h"
#include "systole/optim/plateau.h"
#include "systole/optim/schedule.h"
#include "systole/optim/sgd.h"
