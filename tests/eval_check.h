#pragma once

// How tests of eval/ read: one op on literals, and the bits it gives.

#include <gtest/gtest.h>

#include <cstring>
#include <initializer_list>
#include <limits>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "eval/eval.h"
#include "systole/ir/graph.h"

namespace systole::eval_check {

inline constexpr double kInf = std::numeric_limits<double>::infinity();
inline constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

// A graph of one op whose inputs have the operands' types.
inline ir::Graph graph_of(ir::Op op, const std::vector<Literal>& operands, ir::Attrs attrs = {},
                          std::vector<ir::GraphRef> graphs = {}) {
  ir::Graph graph;
  ir::Values inputs;
  for (const Literal& x : operands)
    inputs.push_back(graph.input("x" + std::to_string(inputs.size()), x.type()));
  for (ir::Value v : graph.add_multi(op, inputs, std::move(attrs), std::move(graphs))) graph.output(v);
  return graph;
}

inline std::vector<Literal> run_all(ir::Op op, const std::vector<Literal>& operands, ir::Attrs attrs = {},
                                    std::vector<ir::GraphRef> graphs = {}) {
  return eval::evaluate(graph_of(op, operands, std::move(attrs), std::move(graphs)),
                        std::span<const Literal>(operands));
}

inline Literal run(ir::Op op, const std::vector<Literal>& operands, ir::Attrs attrs = {}) {
  return run_all(op, operands, std::move(attrs))[0];
}

// Numbers of any dtype: floats from doubles, rounded.
template <class T>
using Given = std::conditional_t<std::is_integral_v<T>, T, double>;

template <class T>
Literal make(Shape shape, std::initializer_list<Given<T>> values) {
  Literal out(Type{dtype_of<T>, std::move(shape)});
  EXPECT_EQ(static_cast<std::size_t>(out.count()), values.size());
  std::size_t i = 0;
  for (Given<T> v : values) out.mutable_values<T>()[i++] = static_cast<T>(v);
  return out;
}

// A vector.
template <class T>
Literal row(std::initializer_list<Given<T>> values) {
  return make<T>({static_cast<std::int64_t>(values.size())}, values);
}

template <class T>
Literal scalar(Given<T> value) {
  return make<T>({}, {value});
}

// The same type and bits; any NaN equals any other.
inline void expect_same(const Literal& got, const Literal& wanted) {
  ASSERT_EQ(got.type().to_string(), wanted.type().to_string());
  const std::size_t size = size_of(got.dtype());
  const std::vector<double> a = got.to_doubles(), b = wanted.to_doubles();
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (is_float(got.dtype()) && a[i] != a[i] && b[i] != b[i]) continue;
    EXPECT_EQ(std::memcmp(got.bytes() + i * size, wanted.bytes() + i * size, size), 0)
        << "element " << i << ": got " << a[i] << ", wanted " << b[i];
  }
}

template <class T>
void expect_row(const Literal& got, std::initializer_list<Given<T>> wanted) {
  expect_same(got, row<T>(wanted));
}

template <class F>
void expect_error(ErrorKind kind, const std::string& part, F&& f) {
  try {
    f();
    FAIL() << "no error; wanted " << name(kind) << " with \"" << part << "\"";
  } catch (const Error& e) {
    EXPECT_EQ(name(e.kind()), name(kind)) << e.what();
    EXPECT_NE(std::string(e.what()).find(part), std::string::npos) << e.what();
  }
}

}  // namespace systole::eval_check
