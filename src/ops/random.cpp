// Random numbers from an explicit key. random_bits is the primitive; keys are split here by the same
// generator, Philox-4x32-10, written in integer arithmetic on a counter range that random_bits never uses.

#include <array>
#include <string>
#include <utility>

#include "ops/common.h"
#include "systole/base/error.h"

namespace systole::ops {

namespace {

constexpr std::uint64_t kMultiplier0 = 0xD2511F53, kMultiplier1 = 0xCD9E8D57;
constexpr std::uint32_t kWeyl0 = 0x9E3779B9, kWeyl1 = 0xBB67AE85;  // what the key grows by each round

// The high and low halves of the 64-bit product of u32 elements.
std::pair<Value, Value> wide_product(Value x, std::uint64_t multiplier) {
  Graph& graph = x.graph();
  const Value factor = graph.constant(Literal::scalar(multiplier));
  const Value product = mul(convert(x, DType::u64), factor);
  const Value high = shift_right(product, graph.constant(Literal::scalar<std::uint64_t>(32)));
  return {convert(high, DType::u32), convert(product, DType::u32)};
}

// Philox-4x32-10 of a counter of four u32 words per element under the scalar key words.
std::array<Value, 4> philox(std::array<Value, 4> counter, Value key0, Value key1) {
  Graph& graph = key0.graph();
  for (int round = 0; round < 10; ++round) {
    if (round > 0) {
      key0 = add(key0, graph.constant(Literal::scalar(kWeyl0)));
      key1 = add(key1, graph.constant(Literal::scalar(kWeyl1)));
    }
    const auto [high0, low0] = wide_product(counter[0], kMultiplier0);
    const auto [high1, low1] = wide_product(counter[2], kMultiplier1);
    counter = {bitwise_xor(bitwise_xor(high1, counter[1]), key0), low1,
               bitwise_xor(bitwise_xor(high0, counter[3]), key1), low0};
  }
  return counter;
}

// The unsigned dtype to draw and how many of its bits a float in [0, 1) keeps: no more than the mantissa
// holds, so that rounding never gives 1.
struct UniformBits {
  DType dtype;
  int drawn, kept;
};

UniformBits uniform_bits(DType dtype) {
  switch (dtype) {
    case DType::f64: return {DType::u64, 64, 53};
    case DType::f32: return {DType::u32, 32, 24};
    case DType::f16: return {DType::u16, 16, 11};
    case DType::bf16: return {DType::u16, 16, 8};
    case DType::f8e4m3fn: return {DType::u8, 8, 4};
    case DType::f8e5m2: return {DType::u8, 8, 3};
    default:
      throw Error(ErrorKind::kDType, "random_uniform", "the dtype", "a float", std::string(name(dtype)));
  }
}

void check_key(std::string_view where, Value key) {
  if (!(key.type() == Type{DType::u32, {2}}))
    throw Error(ErrorKind::kShape, std::string(where), "the key", "u32[2]", key.type().to_string());
}

}  // namespace

Value random_bits(Value key, Shape shape, DType dtype) {
  return graph_of("random_bits", {key})
      .add(ir::Op::random_bits, {key}, ir::RandomBitsAttrs{dtype, std::move(shape)});
}

Value split_key(Value key, std::int64_t n) {
  Graph& graph = graph_of("split_key", {key});
  check_key("split_key", key);
  check_type({DType::u32, {n, 2}}, "split_key");
  const Shape shape{n};
  const auto word = [&](std::int64_t i) { return reshape(slice_axis(key, 0, i, i + 1), {}); };
  const Value zero = full(graph, {DType::u32, shape}, 0);
  const Value one = full(graph, {DType::u32, shape}, 1), index = iota(graph, {DType::u32, shape}, 0);
  const Value key0 = word(0), key1 = word(1);
  const auto words = philox({index, zero, zero, one}, key0, key1);
  return concat({reshape(words[0], {n, 1}), reshape(words[1], {n, 1})}, 1);
}

Value random_uniform(Value key, Shape shape, DType dtype) {
  graph_of("random_uniform", {key});
  const UniformBits bits = uniform_bits(dtype);
  const Value drawn = random_bits(key, std::move(shape), bits.dtype);
  const Value kept = shift_right_logical(drawn, scalar_like(drawn, bits.drawn - bits.kept));
  const double unit = 1.0 / static_cast<double>(std::uint64_t{1} << bits.kept);
  return times(convert(kept, dtype), unit);
}

}  // namespace systole::ops
