#pragma once

// Everything.

#include "systole/autodiff.h"
#include "systole/backend/cuda.h"
#include "systole/backend/tpu.h"
#include "systole/base.h"
#include "systole/compile.h"
#include "systole/data.h"
#include "systole/io.h"
#include "systole/io/pretrained.h"
#include "systole/ir.h"
#include "systole/nn.h"
#include "systole/ops.h"
#include "systole/optim.h"
#include "systole/profile.h"
#include "systole/runtime.h"
#include "systole/runtime/timeline.h"
#include "systole/tensor.h"
#include "systole/tensor/kernel_op.h"
#include "systole/tensor/kernels.h"
#include "systole/train.h"
