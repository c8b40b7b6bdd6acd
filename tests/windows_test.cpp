// Windows in generated kernels, over odd sizes, paddings, strides and holes, against a loop over all points.

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "graph_arguments.h"
#include "model_devices.h"
#include "systole/ops.h"
#include "systole/runtime.h"

namespace systole {

namespace {

using ir::Combine;
using ir::Graph;

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

std::int64_t entry(const Ints& list, std::size_t i, std::int64_t otherwise) {
  return list.empty() ? otherwise : list[i];
}

double together(Combine kind, double a, double b) {
  if (kind == Combine::sum) return a + b;
  if (std::isnan(a) || std::isnan(b)) return kNaN;
  return kind == Combine::max ? std::max(a, b) : std::min(a, b);
}

// Every point of the result's grid times every point of the window, one axis after the other by division.
std::vector<double> by_points(const std::vector<double>& x, const Shape& from, const Shape& to,
                              const ir::WindowAttrs& a) {
  std::vector<double> result;
  std::int64_t window = 1;
  for (const std::int64_t size : a.window) window *= size;
  const double none = a.kind == Combine::sum ? 0 : (a.kind == Combine::max ? -INFINITY : INFINITY);
  for (std::int64_t y = 0; y < to.count(); ++y) {
    double sum = none;
    for (std::int64_t k = 0; k < window; ++k) {
      std::int64_t left_y = y, left_k = k, place = 0, stride = 1;
      bool inside = true;
      for (std::size_t i = from.size(); i-- > 0;) {
        const std::int64_t holes = entry(a.base_dilation, i, 1);
        const std::int64_t at = left_y % to[i].value() * entry(a.strides, i, 1) +
                                left_k % a.window[i] * entry(a.window_dilation, i, 1) -
                                entry(a.pad_low, i, 0);
        left_y /= to[i].value();
        left_k /= a.window[i];
        inside = inside && at >= 0 && at <= (from[i].value() - 1) * holes && at % holes == 0;
        place += at / holes * stride;
        stride *= from[i].value();
      }
      if (inside) sum = together(a.kind, sum, x[static_cast<std::size_t>(place)]);
    }
    result.push_back(sum);
  }
  return result;
}

class Windows : public ModelDevice {
 protected:
  void expect_equal(const Shape& shape, ir::WindowAttrs attrs, std::size_t nan_at = SIZE_MAX);
};

// Of all kinds and several dtypes, in one graph: compiling is what takes time.
void Windows::expect_equal(const Shape& shape, ir::WindowAttrs attrs, std::size_t nan_at) {
  struct Case {
    DType dtype;
    Combine kind;
    double error;
  };
  constexpr Case kCases[] = {{DType::f32, Combine::max, 0},    {DType::f32, Combine::min, 0},
                             {DType::f32, Combine::sum, 1e-4}, {DType::f64, Combine::sum, 1e-12},
                             {DType::i32, Combine::max, 0},    {DType::bf16, Combine::sum, 1e-4}};
  Graph graph("windows");
  for (const Case& each : kCases) {
    attrs.kind = each.kind;
    const std::string name = "x" + std::to_string(graph.inputs().size());
    graph.output(ops::reduce_window(graph.input(name, {each.dtype, shape}), attrs));
  }
  std::vector<Literal> arguments = random_arguments(graph, 17, 10);
  if (nan_at != SIZE_MAX)
    for (Literal& value : arguments)
      if (value.dtype() == DType::f32)
        value.mutable_values<float>()[nan_at] = std::numeric_limits<float>::quiet_NaN();
  const std::vector<Literal> results = compile(graph, GetParam()).run(arguments);
  for (std::size_t k = 0; k < results.size(); ++k) {
    const auto& [dtype, kind, error] = kCases[k];
    attrs.kind = kind;
    const std::vector<double> got = results[k].to_doubles(),
                              wanted = by_points(arguments[k].to_doubles(), shape, graph.output_type(k).shape,
                                                 attrs);
    ASSERT_EQ(got.size(), wanted.size());
    for (std::size_t i = 0; i < got.size(); ++i) {
      if (std::isnan(wanted[i]))
        EXPECT_TRUE(std::isnan(got[i])) << i;
      else if (std::isinf(wanted[i]) && dtype == DType::i32)  // a window of padding alone
        EXPECT_EQ(got[i], std::numeric_limits<std::int32_t>::min()) << i;
      else if (error == 0)
        ASSERT_EQ(got[i], wanted[i]) << shape.to_string() << " " << name(dtype) << " " << i;
      else
        // A small float is rounded once more, by half a step.
        ASSERT_NEAR(got[i], wanted[i], error + (dtype == DType::bf16 ? std::abs(wanted[i]) / 256 : 0))
            << shape.to_string() << " " << name(dtype) << " " << i;
    }
  }
}

TEST_P(Windows, ChannelsLast) {
  expect_equal({2, 13, 11, 5}, {.window = {1, 2, 2, 1}, .strides = {1, 2, 2, 1}});
  expect_equal(
      {2, 13, 11, 33},
      {.window = {1, 3, 3, 1}, .strides = {1, 2, 2, 1}, .pad_low = {0, 1, 1, 0}, .pad_high = {0, 1, 1, 0}});
  expect_equal({1, 5, 3, 300}, {.window = {1, 3, 2, 1}, .pad_low = {0, 2, 1, 0}, .pad_high = {0, 2, 0, 0}});
}

TEST_P(Windows, AlongTheLastAxis) {
  expect_equal(
      {3, 2, 9, 17},
      {.window = {1, 1, 2, 3}, .strides = {1, 1, 2, 2}, .pad_low = {0, 0, 1, 2}, .pad_high = {0, 0, 0, 1}});
  expect_equal({2, 700}, {.window = {1, 5},
                          .strides = {1, 1},
                          .pad_low = {0, 4},
                          .pad_high = {0, 3},
                          .window_dilation = {1, 2}});
  expect_equal({700}, {.window = {3}, .strides = {3}, .pad_low = {-2}, .pad_high = {-1}});
  expect_equal({3}, {.window = {3}, .strides = {4}, .pad_low = {2}, .pad_high = {3}});
}

TEST_P(Windows, HolesAndAxesInFront) {
  expect_equal({3, 11}, {.window = {2, 3},
                         .strides = {1, 2},
                         .pad_low = {1, 2},
                         .pad_high = {0, 2},
                         .base_dilation = {1, 2},
                         .window_dilation = {1, 2}});
  expect_equal({7, 3, 4, 5}, {.window = {3, 1, 1, 1},
                              .strides = {2, 1, 1, 1},
                              .pad_low = {1, 0, 0, 0},
                              .pad_high = {1, 0, 0, 0},
                              .base_dilation = {3, 1, 1, 1}});
  expect_equal({}, {});
}

TEST_P(Windows, NaNIsNotLost) {
  for (const std::size_t at : {0, 7, 36, 94})
    expect_equal(
        {1, 5, 5, 4},
        {.window = {1, 2, 2, 1}, .strides = {1, 2, 2, 1}, .pad_low = {0, 1, 1, 0}, .pad_high = {0, 0, 0, 0}},
        at);
}

TEST_P(Windows, NothingIsReadBesideTheArray) {
  expect_equal({3, 4, 5, 30}, {.window = {1, 1, 1, 1}, .pad_low = {0, 1, 0, 0}, .pad_high = {0, -1, 0, 0}});
  expect_equal({3, 4, 5, 30}, {.window = {1, 1, 1, 1}, .pad_low = {-1, 0, 0, -2}, .pad_high = {1, 0, 0, 2}});
}

// So many that a thread of a GPU has neighbours, eight of the small ones.
TEST_P(Windows, OfManyPoints) {
  expect_equal({4, 66, 64, 32}, {.window = {1, 2, 2, 1}, .strides = {1, 2, 2, 1}});
  expect_equal({4, 33, 34, 32}, {.window = {1, 3, 3, 1},
                                 .strides = {1, 1, 1, 1},
                                 .pad_low = {0, 3, -1, 0},
                                 .pad_high = {0, 1, 2, 0},
                                 .window_dilation = {1, 1, 2, 1}});
  expect_equal({4, 17, 16, 64}, {.window = {1, 2, 3, 1},
                                 .strides = {1, 1, 1, 1},
                                 .pad_low = {0, 1, 2, 0},
                                 .pad_high = {0, 1, 1, 0},
                                 .base_dilation = {1, 2, 3, 1}});
  expect_equal({140, 16, 3, 20}, {.window = {1, 1, 1, 1}, .pad_low = {0, 0, -1, 0}, .pad_high = {0, 0, 1, 0}},
               99);
}

TEST_P(Windows, StridesAsFarAsTheyGo) {
  constexpr std::int64_t kFar = std::int64_t{1} << 30;
  expect_equal({3, 65536}, {.window = {1, 1}, .strides = {kFar, 1}, .base_dilation = {kFar, 1}});
}

TEST_P(Windows, NothingIsReadOfNothing) {
  expect_equal({0, 4, 3}, {.window = {1, 2, 1}});
  expect_equal({2, 0, 3}, {.window = {1, 2, 1}, .pad_low = {0, 2, 0}, .pad_high = {0, 1, 0}});
}

INSTANTIATE_TEST_SUITE_P(On, Windows, testing::Values("cpu", "opencl:0", "cuda:0"), device_suffix);

}  // namespace

}  // namespace systole
