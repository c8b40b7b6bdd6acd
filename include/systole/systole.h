#pragma once

// Everything.

#include "systole/base.h"
#include "systole/compile.h"
#include "systole/io.h"
#include "systole/ir.h"
#include "systole/ops.h"
#include "systole/runtime.h"
