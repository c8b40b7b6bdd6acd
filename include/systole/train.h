#pragma once

// Training: checkpoints and saved models.

#include "systole/train/checkpoint.h"
#include "systole/train/saved_model.h"
