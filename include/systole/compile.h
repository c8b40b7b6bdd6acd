#pragma once

// Passes over graphs.

#include "systole/compile/passes.h"
