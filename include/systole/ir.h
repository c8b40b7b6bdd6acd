#pragma once

// The graph IR: build it, print it, parse it, rewrite it.

#include "systole/ir/attrs.h"
#include "systole/ir/composite.h"
#include "systole/ir/graph.h"
#include "systole/ir/op.h"
#include "systole/ir/rewriter.h"
#include "systole/ir/text.h"
