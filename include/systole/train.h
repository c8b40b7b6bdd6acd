#pragma once

// Training, and what a person looks at while a model learns and after it.

#include "systole/train/history.h"
#include "systole/train/metrics.h"
#include "systole/train/plot.h"
#include "systole/train/tensorboard.h"
