#pragma once

// Errors, warnings, dtypes, shapes and host arrays.

#include "systole/base/dtype.h"
#include "systole/base/error.h"
#include "systole/base/literal.h"
#include "systole/base/log.h"
#include "systole/base/shape.h"
