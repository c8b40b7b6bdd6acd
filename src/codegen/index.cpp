#include "codegen/index.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

namespace systole::codegen {

Index Index::variable(std::string name, std::int64_t extent) {
  Index index;
  if (extent > 1) index.terms_.emplace(std::move(name), Term{1, extent});
  return index;
}

Index Index::operator+(const Index& other) const {
  Index sum = *this;
  sum.constant_ += other.constant_;
  for (const auto& [name, term] : other.terms_) {
    Term& mine = sum.terms_.try_emplace(name, Term{0, term.extent}).first->second;
    mine.factor += term.factor;
    if (mine.factor == 0) sum.terms_.erase(name);
  }
  return sum;
}

Index Index::operator*(std::int64_t factor) const {
  if (factor == 0) return {};
  Index product = *this;
  product.constant_ *= factor;
  for (auto& [name, term] : product.terms_) term.factor *= factor;
  return product;
}

std::int64_t Index::factor(const std::string& variable) const {
  const auto found = terms_.find(variable);
  return found == terms_.end() ? 0 : found->second.factor;
}

std::int64_t Index::lowest() const {
  std::int64_t value = constant_;
  for (const auto& [name, term] : terms_) value += std::min<std::int64_t>(0, term.factor * (term.extent - 1));
  return value;
}

std::int64_t Index::highest() const {
  std::int64_t value = constant_;
  for (const auto& [name, term] : terms_) value += std::max<std::int64_t>(0, term.factor * (term.extent - 1));
  return value;
}

std::string Index::to_string() const {
  std::string text;
  for (const auto& [name, term] : terms_) {
    const std::int64_t size = std::abs(term.factor);
    const char* const sign = term.factor < 0 ? (text.empty() ? "-" : " - ") : (text.empty() ? "" : " + ");
    text += size == 1 ? fmt::format("{}{}", sign, name) : fmt::format("{}{} * {}", sign, name, size);
  }
  if (text.empty()) return std::to_string(constant_);
  if (constant_ != 0) text += fmt::format(" {} {}", constant_ < 0 ? '-' : '+', std::abs(constant_));
  return text;
}

Index linear(const Indices& indices, const Shape& shape) {
  if (indices.size() != shape.size()) return indices[0];
  Index sum;
  std::int64_t stride = 1;
  for (std::size_t i = shape.size(); i-- > 0;) {
    sum = sum + indices[i] * stride;
    stride *= shape[i].value();
  }
  return sum;
}

bool split(const Index& linear, const Shape& shape, Indices& out) {
  out.assign(shape.size(), Index());
  if (linear.lowest() < 0) return false;
  std::vector<std::int64_t> strides(shape.size(), 1);
  for (std::size_t i = shape.size(); i-- > 1;) strides[i - 1] = strides[i] * shape[i].value();
  // Each part belongs to the outermost axis whose stride divides it, the constant to several.
  std::int64_t constant = linear.constant();
  for (std::size_t i = 0; i < shape.size(); ++i) {
    if (strides[i] == 0) return false;
    out[i] = out[i] + Index(constant / strides[i]);
    constant %= strides[i];
  }
  for (const auto& [name, term] : linear.terms()) {
    if (term.factor < 0) return false;
    bool placed = false;
    for (std::size_t i = 0; i < shape.size() && !placed; ++i) {
      if (shape[i].value() == 1 || term.factor % strides[i] != 0) continue;
      const std::int64_t factor = term.factor / strides[i];
      if (factor >= shape[i].value() && i > 0) continue;
      out[i] = out[i] + Index::variable(name, term.extent) * factor;
      placed = true;
    }
    if (!placed) return false;
  }
  for (std::size_t i = 0; i < shape.size(); ++i)
    if (out[i].highest() >= std::max<std::int64_t>(shape[i].value(), 1)) return false;
  return true;
}

bool refine(std::vector<std::int64_t>& sizes, const Shape& shape) {
  std::set<std::int64_t> borders{1};
  std::int64_t product = 1;
  for (std::size_t i = sizes.size(); i-- > 0;) borders.insert(product *= sizes[i]);
  const std::int64_t all = product;
  product = 1;
  for (std::size_t i = shape.size(); i-- > 0;) borders.insert(product *= shape[i].value());
  if (product != all || all == 0) return false;
  std::vector<std::int64_t> finer;
  std::int64_t below = 1;
  for (const std::int64_t border : borders) {
    if (border % below != 0) return false;
    if (border != below) finer.insert(finer.begin(), border / below);
    below = border;
  }
  sizes = std::move(finer);
  return true;
}

}  // namespace systole::codegen
