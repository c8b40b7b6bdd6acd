#pragma once

// Data to learn from, and pictures to look at.
//
//   auto [train, test] = data::open("mnist:data/mnist");
//   data::Loader loader(train, {.batch = 64, .map = {data::Flip{}, data::Normalize{}}});
//   for (const data::Batch& b : loader) step(b.x(), b.y());
//
// sets.h: files; source.h: what to do with sets; words: vocabulary.h.

#include <cstdint>

#include "systole/base/export.h"
#include "systole/base/literal.h"
#include "systole/data/audio.h"
#include "systole/data/bad_samples.h"
#include "systole/data/folds.h"
#include "systole/data/labels.h"
#include "systole/data/loader.h"
#include "systole/data/sets.h"
#include "systole/data/source.h"
#include "systole/data/transforms.h"
#include "systole/data/vocabulary.h"

namespace systole::data {

struct Digits {
  Literal images;  // u8[count,28,28]: 0 is paper, 255 is ink
  Literal labels;  // i32[count]: 0 to 9
};

// Digits as a hand might write them, drawn from strokes with random slant, rotation, size, thickness, shift
// and noise. The same seed gives the same pixels on every machine, and image i does not depend on `count`:
// use different seeds for training and test. Throws kInvalidArgument when `count` is negative.
SYSTOLE_API Digits digits(std::int64_t count, std::uint64_t seed);

// A picture u8[height,width,3] of images u8[count,h,w], each with its predicted digit (i32[count]) below it.
// A wrong one is framed in red and followed by the right digit. For io::save_png.
SYSTOLE_API Literal contact_sheet(const Literal& images, const Literal& predicted, const Literal& labels,
                                  std::int64_t columns = 10);

}  // namespace systole::data
