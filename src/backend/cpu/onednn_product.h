#pragma once

// Matrix products by oneDNN in f32, and how it is told where their matrices lie.

#include <cstdint>
#include <string>

#include "backend/cpu/onednn_plan.h"
#include "backend/patterns/product.h"

namespace systole::cpu {

struct ProductTypes {
  int a, b, c;
};
struct ProductArrays {
  dnnl::OwnedDescription a, b, c;  // [outer, batch,] rows × depth, depth × columns, rows × columns
};
ProductArrays product_arrays(const patterns::Product& product, const ProductTypes& types);
dnnl::OwnedDescription row_of(const patterns::Product& product, int type);  // [1, 1,] 1 × columns
std::int64_t multiplications(const patterns::Product& product);

// Why a generated kernel is better by the rules; empty: it is not.
std::string small_product(const patterns::Product& product);

// The region's anchor is a dot_general.
Made make_onednn_product(const lower::Region& region);

}  // namespace systole::cpu
