#pragma once

// Whether oneDNN's sums of bytes are exact, found by trying: on twice the depth, so that they are beyond what
// f32 has, at some points, against a plain loop. Each is tried once in a process.

#include "backend/patterns/convolution.h"
#include "backend/patterns/product.h"

namespace systole::cpu {

bool is_exact(const patterns::Product& product, DType first);
bool is_exact(const patterns::Convolution& convolution);

}  // namespace systole::cpu
