#pragma once

// Work on a product's result that a library of products does along with it:
//
//   D = f(scale · A·B + added + bias)      f: nothing, relu, gelu, or the product with gelu's gradient
//
// and what it gives besides: the operand of gelu, D summed over its rows (the gradient of a bias), or an
// operand summed over what is contracted (likewise). Between the steps numbers may stay wider than the graph
// rounds them.

#include <cstdint>
#include <string>

#include "backend/patterns/pointwise.h"
#include "backend/patterns/product.h"
#include "compile/target.h"

namespace systole::patterns {

struct OnResult {
  double scale = 1;
  std::int32_t added = -1, bias = -1;         // among the region's inputs; -1: none
  Pointwise function = Pointwise::identity;   // relu, gelu or gelu_gradient
  std::int32_t gelu_of = -1;                  // among the inputs, of gelu_gradient
  std::int32_t result = 0;                    // among the region's outputs
  std::int32_t before = -1, row_sum = -1;     // likewise; -1: not wanted. `before`: gelu's operand
  std::int32_t operand_sum = -1, summed = 0;  // likewise, and of which operand
  bool is_plain() const { return text().empty(); }
  std::string text() const;  // "+bias+gelu+before"
};

// A composite of this name is a product with work on its result, as its body says; made by with_epilogues().
inline constexpr std::string_view kProductComposite = "library.product";
bool is_product(const ir::Node& node);  // a dot_general, or such a composite

// The region with such a composite's body in its place; the anchor is the dot_general then, -1 where the body
// has none.
lower::Region flat(const lower::Region& region);

// A flat region. Empty when it is a product with such work, or with none, else why not. The product's result
// has the dtype of D.
std::string read_on_result(const lower::Region& region, Product& product, OnResult& out);

}  // namespace systole::patterns
