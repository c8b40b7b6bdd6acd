#pragma once

// Tensors: values that record what is to be computed, Variables, functions on them, transforms, compiled
// functions.

#include "systole/tensor/compiled.h"
#include "systole/tensor/control.h"
#include "systole/tensor/creation.h"
#include "systole/tensor/distributions.h"
#include "systole/tensor/dlpack.h"
#include "systole/tensor/gradcheck.h"
#include "systole/tensor/linalg.h"
#include "systole/tensor/math.h"
#include "systole/tensor/mesh.h"
#include "systole/tensor/neural.h"
#include "systole/tensor/random.h"
#include "systole/tensor/shaping.h"
#include "systole/tensor/tensor.h"
#include "systole/tensor/transforms.h"
#include "systole/tensor/tree.h"
#include "systole/tensor/variable.h"
