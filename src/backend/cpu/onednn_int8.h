#pragma once

// Products and convolutions of i8 or u8 by i8 with sums in i32, by oneDNN with instructions that add four
// products of bytes into 32 bits. The sums are exact. Where a processor lacks those instructions the library
// adds pairs in 16 bits: declined. Its sums of signed by signed bytes pass through f32: where they may be
// longer than that holds, the library is tried out (onednn_int8_trial.h), and a product is made of parts.
// Work of a quantised layer behind the sums comes along (onednn_scaling.h).

#include "backend/cpu/onednn_plan.h"

namespace systole::cpu {

bool is_int8(const lower::Region& region);  // its anchor, a dot_general or convolution
Made make_onednn_int8(const lower::Region& region);

}  // namespace systole::cpu
