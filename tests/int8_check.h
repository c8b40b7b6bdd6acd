#pragma once

// Products and convolutions of bytes in tests: their graphs, arguments over the whole range, and the sums as
// plain loops give them.

#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "backend/cpu/executor.h"
#include "backend/cpu/onednn.h"
#include "systole/base/literal.h"
#include "systole/ops.h"

namespace systole::cpu {

using ir::Graph;
using ir::Value;

inline std::string library_calls(const Graph& graph) {
  std::string names;
  const std::shared_ptr<const Module> module = make_module(graph);
  for (const lower::Step& step : module->program.steps)
    if (step.kind == lower::StepKind::library) names += (names.empty() ? "" : " ") + step.implementation;
  return names;
}

// Bytes over their whole range, the ends more often than others.
inline Literal bytes(const Type& type, std::uint32_t seed) {
  Literal out = Literal::uninitialized(type);
  std::mt19937 random(seed);
  const bool is_signed = type.dtype == DType::i8;
  for (std::size_t i = 0; i < out.byte_size(); ++i) {
    const std::uint32_t r = random() >> 8;
    const int low = is_signed ? -128 : 0, value = r % 4 == 0   ? low
                                                  : r % 4 == 1 ? low + 255
                                                               : low + static_cast<int>(r / 4 % 256);
    if (is_signed)
      out.mutable_values<std::int8_t>()[i] = static_cast<std::int8_t>(value);
    else
      out.mutable_values<std::uint8_t>()[i] = static_cast<std::uint8_t>(value);
  }
  return out;
}

inline std::int64_t byte_at(const Literal& x, std::size_t i) {
  return x.dtype() == DType::i8 ? x.values<std::int8_t>()[i] : x.values<std::uint8_t>()[i];
}

// [rows, depth] or [depth, rows] by [depth, columns] or [columns, depth]
struct Factors {
  std::int64_t rows, depth, columns;
  DType a = DType::i8, b = DType::i8;
  bool a_across = false, b_across = false;

  Shape a_shape() const { return a_across ? Shape{depth, rows} : Shape{rows, depth}; }
  Shape b_shape() const { return b_across ? Shape{columns, depth} : Shape{depth, columns}; }
  Value product(Graph& graph) const {
    const Value x = graph.input("x", {a, a_shape()}), w = graph.input("w", {b, b_shape()});
    return ops::dot_general(x, w, {a_across ? 0 : 1}, {b_across ? 1 : 0}, {}, {}, DType::i32);
  }
  std::vector<std::int32_t> sums(const Literal& x, const Literal& w) const {
    std::vector<std::int32_t> out;
    for (std::int64_t m = 0; m < rows; ++m)
      for (std::int64_t n = 0; n < columns; ++n) {
        std::int64_t sum = 0;
        for (std::int64_t k = 0; k < depth; ++k)
          sum += byte_at(x, static_cast<std::size_t>(a_across ? k * rows + m : m * depth + k)) *
                 byte_at(w, static_cast<std::size_t>(b_across ? n * depth + k : k * columns + n));
        out.push_back(static_cast<std::int32_t>(sum));
      }
    return out;
  }
};

template <class T>
void expect_same(const Literal& got, const std::vector<T>& wanted) {
  ASSERT_EQ(got.values<T>().size(), wanted.size());
  for (std::size_t i = 0; i < wanted.size(); ++i) ASSERT_EQ(got.values<T>()[i], wanted[i]) << i;
}

// Why oneDNN takes no bytes; empty: it does.
inline std::string no_onednn() {
  if (!onednn_absence().empty()) return onednn_absence();
  return __builtin_cpu_supports("avx512vnni") != 0 ? "" : "the processor has no AVX512-VNNI";
}
inline bool has_onednn() { return no_onednn().empty(); }

struct BytesLayer {
  const char* name;
  std::int64_t batch, channels, filters, image, window, stride = 1, padding = 0, dilation = 1, groups = 1;
  DType dtype = DType::i8;
  bool is_last = true;  // channels, in memory

  std::int64_t result() const { return (image + 2 * padding - (window - 1) * dilation - 1) / stride + 1; }
  Type x() const {
    return {dtype, is_last ? Shape{batch, image, image, channels} : Shape{batch, channels, image, image}};
  }
  Type w() const {
    const std::int64_t in = channels / groups;
    return {DType::i8, is_last ? Shape{window, window, in, filters} : Shape{filters, in, window, window}};
  }
  Value convolution(Graph& graph) const {
    ir::ConvolutionAttrs attrs;
    attrs.layout = is_last ? "b01f_01io->b01f" : "bf01_oi01->bf01";
    attrs.strides = {stride, stride};
    attrs.pad_low = attrs.pad_high = {padding, padding};
    attrs.kernel_dilation = {dilation, dilation};
    attrs.feature_groups = groups;
    attrs.dtype = DType::i32;
    return graph.add(ir::Op::convolution, {graph.input("x", x()), graph.input("w", w())}, attrs);
  }
  // With the channels last.
  std::vector<std::int32_t> sums(const Literal& x, const Literal& w) const {
    std::vector<std::int32_t> out;
    const std::int64_t in = channels / groups, per = filters / groups, size = result();
    for (std::int64_t p = 0; p < batch * size * size * filters; ++p) {
      const std::int64_t f = p % filters, column = p / filters % size, row = p / filters / size % size,
                         n = p / filters / size / size;
      std::int64_t sum = 0;
      for (std::int64_t i = 0; i < window; ++i)
        for (std::int64_t j = 0; j < window; ++j) {
          const std::int64_t y = row * stride - padding + i * dilation,
                             z = column * stride - padding + j * dilation;
          if (y < 0 || y >= image || z < 0 || z >= image) continue;
          for (std::int64_t k = 0; k < in; ++k) {
            const std::int64_t c = f / per * in + k;
            const std::int64_t a = is_last ? ((n * image + y) * image + z) * channels + c
                                           : ((n * channels + c) * image + y) * image + z,
                               b = is_last ? ((i * window + j) * in + k) * filters + f
                                           : ((f * in + k) * window + i) * window + j;
            sum += byte_at(x, static_cast<std::size_t>(a)) * byte_at(w, static_cast<std::size_t>(b));
          }
        }
      out.push_back(static_cast<std::int32_t>(sum));
    }
    return out;
  }
};

}  // namespace systole::cpu
