// Constants, indices and random bits. Philox is written as integer arithmetic, so that every plugin gives the
// bits that docs/ir.md fixes.

#include <array>
#include <type_traits>
#include <utility>

#include "codegen/stablehlo_emitter.h"

namespace systole::codegen::hlo {

namespace {

std::optional<std::int64_t> common_integer(const Literal& value) {
  if (!is_integer(value.dtype()) || value.count() == 0) return std::nullopt;
  return visit_dtype(value.dtype(), [&]<class T>() -> std::optional<std::int64_t> {
    if constexpr (std::is_integral_v<T> && !std::is_same_v<T, bool>) {
      const T first = value.values<T>()[0];
      for (const T v : value.values<T>())
        if (v != first || !std::in_range<std::int64_t>(v)) return std::nullopt;
      return static_cast<std::int64_t>(first);
    }
    return std::nullopt;
  });
}

// Ten rounds on words of shape [blocks].
class Philox {
 public:
  Philox(Emitter& e, std::int64_t blocks) : e_(e), type_{DType::u32, {blocks}}, wide_{DType::u64, {blocks}} {}

  std::array<Value, 4> words(const Value& key) {
    const Value zero = number(0);
    std::array<Value, 4> c{e_.iota(type_, 0), zero, zero, zero};
    if (type_.shape[0].value() > std::int64_t{1} << 32) {
      const Value block = e_.iota(wide_, 0);
      c[0] = e_.cast(block, DType::u32);
      c[1] = high(block);
    }
    Value k0 = key_word(key, 0), k1 = key_word(key, 1);
    for (int round = 0; round < 10; ++round) {
      if (round > 0) {
        k0 = e_.binary("add", k0, number(0x9E3779B9));
        k1 = e_.binary("add", k1, number(0xBB67AE85));
      }
      const Value a = product(c[0], 0xD2511F53), b = product(c[2], 0xCD9E8D57);
      c = {mixed(high(b), c[1], k0), e_.cast(b, DType::u32), mixed(high(a), c[3], k1),
           e_.cast(a, DType::u32)};
    }
    return c;
  }

 private:
  Value number(std::int64_t n) { return e_.splat(type_, n); }
  Value product(const Value& x, std::int64_t factor) {
    const Value widened = e_.cast(x, DType::u64);
    return e_.binary("multiply", widened, e_.splat(wide_, factor));
  }
  Value high(const Value& x) {
    return e_.cast(e_.binary("shift_right_logical", x, e_.splat(wide_, std::int64_t{32})), DType::u32);
  }
  Value mixed(const Value& a, const Value& b, const Value& c) {
    return e_.binary("xor", e_.binary("xor", a, b), c);
  }
  Value key_word(const Value& key, std::int64_t i) {
    return e_.broadcast(e_.reshape(e_.slice(key, {i}, {i + 1}, {1}), {}), type_.shape, {});
  }

  Emitter& e_;
  Type type_, wide_;
};

}  // namespace

Value constant(Emitter& e, const Literal& value) {
  if (value.dtype() == DType::boolean && is_blob(value)) {
    // How bools are packed in a blob depends on the reader's version; bytes are bytes.
    const Literal bytes = value.reinterpreted(DType::u8);
    const Value loaded = e.constant(bytes);
    return e.compare("NE", loaded, e.splat(loaded.type, std::int64_t{0}));
  }
  Value result = e.constant(value);
  result.known = common_integer(value);
  return result;
}

Value iota(Emitter& e, const ir::Node& node) {
  const auto& a = node.as<ir::IotaAttrs>();
  const bool direct = size_of(a.dtype) >= 4;
  const Value index = e.iota({direct ? a.dtype : DType::i32, a.shape}, a.axis);
  return convert(e, index, a.dtype);
}

Value random_bits(Emitter& e, const ir::Node& node, const Value& key) {
  const Type& type = node.types[0];
  const std::int64_t count = type.shape.count();
  if (count == 0) return e.splat(type, std::int64_t{0});
  const bool joins = type.dtype == DType::u64;
  const std::int64_t words = joins ? 2 * count : count, blocks = (words + 3) / 4;
  Values columns;
  for (const Value& word : Philox(e, blocks).words(key)) columns.push_back(e.reshape(word, {blocks, 1}));
  Value bits = e.op("concatenate", columns, {DType::u32, {blocks, 4}}, "dimension = 1 : i64");
  bits = e.reshape(bits, {4 * blocks});
  if (words != 4 * blocks) bits = e.slice(bits, {0}, {words}, {1});
  if (!joins) return e.cast(e.reshape(bits, type.shape), type.dtype);
  const Type wide{DType::u64, {count}};
  const auto half = [&](std::int64_t i) { return e.cast(e.slice(bits, {i}, {words}, {2}), DType::u64); };
  const Value low = half(0), high = half(1);
  const Value shifted = e.binary("shift_left", high, e.splat(wide, std::int64_t{32}));
  return e.reshape(e.binary("or", shifted, low), type.shape);
}

}  // namespace systole::codegen::hlo
