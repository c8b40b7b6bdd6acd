#pragma once

// Modules, layers, initialisers, losses and models.

#include "systole/nn/activations.h"
#include "systole/nn/any_module.h"
#include "systole/nn/convolution.h"
#include "systole/nn/fine_tune.h"
#include "systole/nn/init.h"
#include "systole/nn/layers.h"
#include "systole/nn/layers_model.h"
#include "systole/nn/losses.h"
#include "systole/nn/models.h"
#include "systole/nn/module.h"
#include "systole/nn/normalization.h"
#include "systole/nn/positional.h"
#include "systole/nn/recurrent.h"
#include "systole/nn/summary.h"
#include "systole/nn/transformer.h"
#include "systole/nn/zoo.h"
