#pragma once

// Training: the Trainer, what it keeps and what it shows.

#include "systole/train/callback.h"
#include "systole/train/checkpoint.h"
#include "systole/train/history.h"
#include "systole/train/metrics.h"
#include "systole/train/plot.h"
#include "systole/train/saved_model.h"
#include "systole/train/tensorboard.h"
#include "systole/train/trainer.h"
