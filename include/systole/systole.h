#pragma once

// Everything.

#include "systole/autodiff.h"
#include "systole/base.h"
#include "systole/compile.h"
#include "systole/io.h"
#include "systole/ir.h"
#include "systole/ops.h"
#include "systole/runtime.h"
