#pragma once

// Models that benchmarks, tests, examples and the zoo share. Parameters have the names, order and layouts of
// the same models in PyTorch; images are channels-last.

#include "systole/nn/models/bert.h"
#include "systole/nn/models/generate.h"
#include "systole/nn/models/gpt2.h"
#include "systole/nn/models/images.h"
#include "systole/nn/models/lstm.h"
#include "systole/nn/models/mlp.h"
#include "systole/nn/models/resnet.h"
