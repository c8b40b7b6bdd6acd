#pragma once

// A dot_general as libraries of matrix products take it: batches of D = A·B, whose matrices lie in memory at
// one stride per row or column.

#include <cstdint>
#include <string>
#include <vector>

#include "compile/strided.h"
#include "compile/target.h"

namespace systole::patterns {

// Pieces of axes, neighbours that are one piece in memory joined.
using Pieces = std::vector<lower::Strided::Piece>;
Pieces joined(const Pieces& pieces);

// An operand, as it lies in one of the region's inputs.
struct Matrix {
  std::size_t input = 0;
  std::int64_t offset = 0;                            // in elements
  std::int64_t free_stride = 0, contract_stride = 0;  // one of them is 1
  std::int64_t batch_stride = 0, outer_stride = 0;    // between neighbouring batches
};

struct Product {
  DType operands = DType::f32, result = DType::f32;
  std::int64_t outer = 1, batch = 1, rows = 1, columns = 1, depth = 1;
  Matrix a, b;  // rows × depth, depth × columns; the result is dense, in row-major order
};

// Whether an operand of a dot_general that lies so is one of these.
bool is_matrix(const ir::Node& dot, std::size_t operand, const lower::Strided& view);

inline constexpr const char* kNoProduct = "there is no product in it";

// The region's anchor is a dot_general, or -1 where there is none. Empty when it is such a product, else why
// not.
std::string read_product(const lower::Region& region, Product& product);

}  // namespace systole::patterns
