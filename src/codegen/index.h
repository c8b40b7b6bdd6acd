#pragma once

// Where an element lies, as arithmetic on loop variables. An index stays a sum of multiples as long as it
// can, so that neighbouring elements are seen to be neighbours; what cannot be said so is a named variable.

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "systole/base/shape.h"

namespace systole::codegen {

// constant + Σ factor · variable; every variable is below its extent and at least 0.
class Index {
 public:
  Index(std::int64_t constant = 0) : constant_(constant) {}  // NOLINT: a number is an index
  static Index variable(std::string name, std::int64_t extent);

  Index operator+(const Index& other) const;
  Index operator*(std::int64_t factor) const;

  std::int64_t constant() const { return constant_; }
  std::int64_t factor(const std::string& variable) const;  // 0 when it does not occur
  bool is_constant() const { return terms_.empty(); }
  std::int64_t lowest() const;
  std::int64_t highest() const;
  std::string to_string() const;  // C
  bool operator==(const Index&) const = default;

  struct Term {
    std::int64_t factor = 0, extent = 1;
    bool operator==(const Term&) const = default;
  };
  const std::map<std::string, Term>& terms() const { return terms_; }

 private:
  std::int64_t constant_;
  std::map<std::string, Term> terms_;
};

// One index per axis; or one for all of them, the row-major place, where finding each would take divisions.
using Indices = std::vector<Index>;

Index linear(const Indices& indices, const Shape& shape);  // row-major
// The indices under `shape` of the element with a linear index; false when it takes divisions.
bool split(const Index& linear, const Shape& shape, Indices& out);

// The coarsest sizes of which both shapes' axes are products, when there are such: [6, 4] and [2, 12] give
// [2, 3, 4].
bool refine(std::vector<std::int64_t>& sizes, const Shape& shape);

}  // namespace systole::codegen
