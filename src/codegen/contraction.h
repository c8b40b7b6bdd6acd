#pragma once

// Dots and convolutions as batches of matrix products, for kernels that multiply tiles: where the elements of
// the factors and of the result lie.

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "codegen/kernel_parts.h"

namespace systole::codegen {

// A batch of matrix products: rows × depth times depth × columns.
struct Product {
  std::int64_t batches = 1, rows = 1, columns = 1, depth = 0;
  // Lines that prepare reading a row of the left factor (variables batch and row), and its element kk of the
  // depth; the element (kk, n) of the right one.
  std::function<void(Writer&)> prepare_row;
  std::function<void(Writer&, const std::string& target)> store_left;
  std::string right;
  // Of a factor that has neighbours along the depth side by side, four beginning at a multiple of four: where
  // they are, by the left one's row or the right one's n, and kk.
  struct Run {
    std::size_t input;
    std::string place;
  };
  std::optional<Run> left_run, right_run;
  bool left_is_transposed = false;   // neighbours along the rows are neighbours in memory
  bool right_is_transposed = false;  // neighbours along the depth are neighbours in memory
  Index point;                       // of the result, in batch, m and n, or in `place`
  std::string place;                 // declared in the innermost loop when not empty
};

// The function and the step outlive the product.
Product product_of(const lower::Step& step, Function& function);

// Products in C that are read along their depth, of this dtype.
bool has_few_rows(const Product& product, DType dtype);
Kernel few_rows_kernel(const lower::Step& step, Function& function, const Product& product);

// Lines that store a thread's results: its values, with what follows them in the step. All is computed before
// anything is stored: what is read may lie where results go, and one waits for memory once, not again for
// each.
struct Results {
  std::int64_t count = 1;
  std::function<void(Writer&)> place;  // declares m and n of result i
  std::function<void(Writer&)> value;  // declares `value`
  std::string condition = {};          // of i, besides that there is such a place
};
void store_results(const lower::Step& step, Function& function, const Product& product,
                   const Results& results);

std::string_view accumulator_type(DType dtype);  // unsigned for integers, so that sums wrap

}  // namespace systole::codegen
