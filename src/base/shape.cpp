#include "systole/base/shape.h"

#include <algorithm>
#include <deque>
#include <limits>
#include <mutex>
#include <ostream>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/checked.h"
#include "base/lasting.h"
#include "systole/base/error.h"

namespace systole {

namespace {

// Symbol names, interned for the life of the process so that a Dim stays 16 bytes. The bound keeps a program
// that reads strangers' files from growing without end.
class SymbolTable {
 public:
  std::int32_t intern(std::string_view name) {
    std::lock_guard lock(mutex_);
    if (const auto it = ids_.find(name); it != ids_.end()) return it->second;
    if (names_.size() >= kMax)
      throw Error(ErrorKind::kLimit, "symbol", "too many symbol names in this process");
    const auto id = static_cast<std::int32_t>(names_.size() + 1);
    ids_.emplace(names_.emplace_back(name), id);  // deque: the string never moves
    return id;
  }
  std::string_view name(std::int32_t id) {
    std::lock_guard lock(mutex_);
    return names_[static_cast<std::size_t>(id - 1)];
  }

 private:
  static constexpr std::size_t kMax = 1 << 16;
  std::mutex mutex_;
  std::deque<std::string> names_;
  std::unordered_map<std::string_view, std::int32_t> ids_;
};

SymbolTable& table() {
  static SymbolTable& names = lasting<SymbolTable>();
  return names;
}

// What the text form can write: docs/ir.md.
bool is_symbol_name(std::string_view name) {
  const auto letter = [](char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; };
  const auto inner = [&](char c) { return letter(c) || (c >= '0' && c <= '9') || c == '.' || c == '$'; };
  return !name.empty() && letter(name[0]) && std::all_of(name.begin(), name.end(), inner);
}

constexpr std::string_view kWhere = "shape", kDimension = "a dimension";
constexpr std::size_t kMaxFactors = 16;

std::vector<std::string_view> factors_of(std::string_view product) {
  std::vector<std::string_view> factors;
  for (std::size_t begin = 0; begin <= product.size();) {
    const std::size_t end = std::min(product.find('*', begin), product.size());
    factors.push_back(product.substr(begin, end - begin));
    begin = end + 1;
  }
  return factors;
}

// One name for a product, in whatever order its factors come.
std::string product_of(std::vector<std::string_view> factors) {
  if (factors.size() > kMaxFactors)
    throw Error(ErrorKind::kLimit, "shape", "a product of too many symbols",
                "at most " + std::to_string(kMaxFactors), std::to_string(factors.size()));
  std::sort(factors.begin(), factors.end());
  std::string product;
  for (const std::string_view factor : factors) {
    if (!product.empty()) product += '*';
    product += factor;
  }
  return product;
}

std::int64_t checked_mul(std::int64_t a, std::int64_t b) {
  return systole::checked_mul(a, b, kWhere, kDimension);
}
std::int64_t checked_add(std::int64_t a, std::int64_t b) {
  return systole::checked_add(a, b, kWhere, kDimension);
}

}  // namespace

Dim Dim::symbol(std::string_view name) {
  if (name.find('*') != std::string_view::npos)
    throw Error(ErrorKind::kInvalidArgument, "symbol", "not a name", "one symbol",
                "\"" + std::string(name) + "\"");
  return affine(1, name, 0);
}

Dim Dim::affine(std::int64_t scale, std::string_view name, std::int64_t offset) {
  if (scale > std::numeric_limits<std::int32_t>::max() || scale < std::numeric_limits<std::int32_t>::min())
    throw Error(ErrorKind::kLimit, "shape", "the factor of a symbolic dimension does not fit 32 bits");
  Dim d(offset);
  if (scale == 0) return d;
  std::vector<std::string_view> factors = factors_of(name);
  for (const std::string_view factor : factors)
    if (!is_symbol_name(factor))
      throw Error(ErrorKind::kInvalidArgument, "symbol", "not a name",
                  "a letter or _, then letters, digits, _, . and $", "\"" + std::string(name) + "\"");
  d.scale_ = static_cast<std::int32_t>(scale);
  d.symbol_ = factors.size() == 1 ? table().intern(name) : table().intern(product_of(std::move(factors)));
  return d;
}

std::string_view Dim::symbol_name() const {
  return symbol_ == 0 ? std::string_view{} : table().name(symbol_);
}

std::vector<std::string_view> Dim::symbols() const {
  return symbol_ == 0 ? std::vector<std::string_view>{} : factors_of(symbol_name());
}

std::string Dim::to_string() const {
  if (is_static()) return std::to_string(offset_);
  std::string text;
  if (scale_ != 1) text += std::to_string(scale_) + "*";
  text += symbol_name();
  if (offset_ > 0) text += "+" + std::to_string(offset_);
  if (offset_ < 0) text += std::to_string(offset_);
  return text;
}

Dim operator+(Dim a, Dim b) {
  const std::int64_t offset = checked_add(a.offset_, b.offset_);
  if (b.is_static()) return a.is_static() ? Dim(offset) : Dim::affine(a.scale_, a.symbol_name(), offset);
  if (a.is_static() || a.symbol_ == b.symbol_)
    return Dim::affine(static_cast<std::int64_t>(a.scale_) + b.scale_, b.symbol_name(), offset);
  throw Error(ErrorKind::kShape, "shape", "a sum of different symbols is no dimension",
              "multiples of one symbol, or of one product of symbols", a.to_string() + " + " + b.to_string());
}

Dim operator-(Dim a, Dim b) { return a + b * Dim(-1); }

Dim operator*(Dim a, Dim b) {
  if (a.is_static() && b.is_static()) return checked_mul(a.offset_, b.offset_);
  if (a.is_static()) std::swap(a, b);
  if (!b.is_static()) {
    if (a.offset_ != 0 || b.offset_ != 0)
      throw Error(ErrorKind::kShape, "shape", "a product of symbolic sums is no dimension",
                  "multiples of symbols, without an offset", a.to_string() + " * " + b.to_string());
    std::vector<std::string_view> factors = a.symbols();
    for (const std::string_view factor : b.symbols()) factors.push_back(factor);
    return Dim::affine(checked_mul(a.scale_, b.scale_), product_of(std::move(factors)), 0);
  }
  return Dim::affine(checked_mul(a.scale_, b.offset_), a.symbol_name(), checked_mul(a.offset_, b.offset_));
}

Dim floor_div(Dim a, std::int64_t b) {
  if (b <= 0)
    throw Error(ErrorKind::kInvalidArgument, "shape", "division of a dimension", "a positive divisor",
                std::to_string(b));
  std::int64_t offset = a.offset() / b;
  if (a.offset() % b < 0) --offset;
  if (a.is_static()) return offset;
  if (a.scale() % b != 0)
    throw Error(ErrorKind::kShape, "shape", "a symbolic dimension is not divisible",
                "a multiple of " + std::to_string(b), a.to_string());
  return Dim::affine(a.scale() / b, a.symbol_name(), offset);
}

std::optional<Dim> exact_quotient(Dim a, Dim b) {
  if (b.is_static()) {
    const std::int64_t divisor = b.value();
    if (divisor <= 0 || a.offset() % divisor != 0 || a.scale() % divisor != 0) return std::nullopt;
    return floor_div(a, divisor);
  }
  if (a.is_static() || a.offset() != 0 || b.offset() != 0 || a.scale() % b.scale() != 0) return std::nullopt;
  std::vector<std::string_view> left = a.symbols();
  for (const std::string_view factor : b.symbols()) {
    const auto at = std::find(left.begin(), left.end(), factor);
    if (at == left.end()) return std::nullopt;
    left.erase(at);
  }
  const std::int64_t scale = a.scale() / b.scale();
  return left.empty() ? Dim(scale) : Dim::affine(scale, product_of(std::move(left)), 0);
}

void SymbolValues::set(std::string_view name, std::int64_t value) {
  const std::int32_t id = table().intern(name);
  for (Entry& e : values_)
    if (e.symbol == id) {
      e.value = value;
      return;
    }
  values_.push_back({id, value});
}

std::optional<std::int64_t> SymbolValues::find(std::string_view name) const {
  for (const Entry& e : values_)
    if (table().name(e.symbol) == name) return e.value;
  return std::nullopt;
}

Dim SymbolValues::bind(Dim dim) const {
  if (dim.is_static()) return dim;
  std::int64_t size = dim.scale();
  for (const std::string_view symbol : dim.symbols()) {
    const std::optional<std::int64_t> value = find(symbol);
    if (!value) throw Error(ErrorKind::kNotFound, "shape", "symbol " + std::string(symbol) + " has no value");
    size = checked_mul(size, *value);
  }
  return checked_add(size, dim.offset());
}

Shape::Shape(std::span<const std::int64_t> dims) : dims_(dims.begin(), dims.end()) {}
Shape::Shape(const std::vector<std::int64_t>& dims) : dims_(dims.begin(), dims.end()) {}
Shape::Shape(const Ints& dims) : dims_(dims.begin(), dims.end()) {}

bool Shape::is_static() const {
  for (const Dim& d : dims_)
    if (!d.is_static()) return false;
  return true;
}

Ints Shape::dims() const {
  Ints out;
  for (const Dim& d : dims_) {
    if (!d.is_static())
      throw Error(ErrorKind::kShape, "shape", "a symbol has no value yet", "numbers", to_string());
    out.push_back(d.value());
  }
  return out;
}

Dim Shape::elements() const {
  for (const Dim& d : dims_)
    if (d == Dim(0)) return 0;
  Dim n = 1;
  for (const Dim& d : dims_) n = n * d;
  return n;
}

std::int64_t Shape::count() const {
  const Dim n = elements();
  if (!n.is_static())
    throw Error(ErrorKind::kShape, "shape", "a symbol has no value yet", "numbers", to_string());
  return n.value();
}

std::string Shape::to_string() const {
  std::string text = "[";
  for (std::size_t i = 0; i < dims_.size(); ++i) text += (i ? "," : "") + dims_[i].to_string();
  return text + "]";
}

std::int64_t Type::bytes() const {
  return checked_mul(shape.count(), static_cast<std::int64_t>(size_of(dtype)));
}

std::string Type::to_string() const { return std::string(name(dtype)) + shape.to_string(); }

std::ostream& operator<<(std::ostream& out, const Dim& d) { return out << d.to_string(); }
std::ostream& operator<<(std::ostream& out, const Shape& shape) { return out << shape.to_string(); }
std::ostream& operator<<(std::ostream& out, const Type& type) { return out << type.to_string(); }

void check_type(const Type& type, std::string_view where) {
  if (type.shape.rank() > kMaxRank)
    throw Error(ErrorKind::kLimit, std::string(where), "too many dimensions",
                "at most " + std::to_string(kMaxRank), std::to_string(type.shape.rank()));
  // The product of the non-zero dimensions must fit too: strides are made of it.
  std::int64_t bytes = static_cast<std::int64_t>(size_of(type.dtype));
  for (const Dim& d : type.shape) {
    if (d.is_static() && d.value() < 0)
      throw Error(ErrorKind::kShape, std::string(where), "negative dimension", "0 or more", type.to_string());
    if (d.is_static() && d.value() > 0 && __builtin_mul_overflow(bytes, d.value(), &bytes))
      throw Error(ErrorKind::kLimit, std::string(where),
                  "the byte size of " + type.to_string() + " does not fit 64 bits");
  }
}

Ints row_major_strides(std::span<const std::int64_t> dims) {
  Ints strides(dims.size(), 1);
  for (std::size_t i = dims.size(); i-- > 1;)
    strides[i - 1] = strides[i] * std::max<std::int64_t>(dims[i], 1);
  return strides;
}

std::int64_t normalize_axis(std::int64_t axis, int rank, std::string_view where) {
  if (axis < -rank || axis >= rank)
    throw Error(
        ErrorKind::kInvalidArgument, std::string(where), "axis out of range",
        rank == 0 ? "an array with axes" : "-" + std::to_string(rank) + " to " + std::to_string(rank - 1),
        std::to_string(axis));
  return axis < 0 ? axis + rank : axis;
}

}  // namespace systole
