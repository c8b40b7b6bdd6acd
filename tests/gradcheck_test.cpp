// Gradients against differences. Numbers of the errors are by hand.

#include <gtest/gtest.h>

#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "error_check.h"
#include "systole/tensor.h"

namespace systole {

namespace {

bool contains(const std::string& text, std::string_view part) { return text.find(part) != std::string::npos; }

Tensor doubles(const std::vector<double>& values, Shape shape) { return tensor(values, std::move(shape)); }

// A square whose way back says that its slope is 3x.
Tensor wrong_square(const Tensor& x) {
  return custom_gradient([](const Tensor& x) { return std::pair{x * x, x}; },
                         [](const Tensor& x, const Tensor& dy) { return 3 * x * dy; })(x);
}

TEST(Gradcheck, PassesWhereGradientsAreRight) {
  const Tensor x = doubles({0.5, -1, 2, 0.25, 1, -3}, {2, 3}), w = doubles({1, 2, -1, 0.5, 0.3, 2}, {3, 2});
  gradcheck([](const Tensor& x, const Tensor& w) { return tanh(matmul(x, w)); }, std::tuple(x, w));
  gradcheck([](const Tensor& x) { return std::pair{sum(exp(x)), x * x}; }, x);
  gradcheck([](const Tensor& x) { return x * 2; }, doubles({3}, {}));
  gradcheck([](const std::vector<Tensor>& all) { return all[0] * all[1]; },
            std::tuple(std::vector<Tensor>{doubles({1, 2}, {2}), doubles({3, 4}, {2})}));
  // Of what is no float there is no gradient.
  gradcheck([](const Tensor& x, const Tensor& i) { return std::pair{x * i.to(DType::f64), i + 1}; },
            std::tuple(doubles({1, 2}, {2}), tensor({3, 4}, DType::i32)));
}

TEST(Gradcheck, NamesTheWorstOfThoseThatAreWrong) {
  const Tensor x = doubles({0, 1, 0, 5, 2, 0}, {2, 3}), y = doubles({1, 1, 1, 1, 1, 1}, {2, 3});
  const std::string words = error_of(ErrorKind::kInvalidArgument, [&] {
    gradcheck([](const Tensor& y, const Tensor& x) { return std::pair{y * 2, wrong_square(x)}; },
              std::tuple(y, x));
  });
  EXPECT_TRUE(contains(words, "gradcheck: 3 gradients are wrong") &&
              contains(words, "argument 1, element [1, 0], of result 1, element [1, 0]") &&
              contains(words, "expected 10") && contains(words, "by differences, got 15"))
      << words;
  const std::string inside = error_of(ErrorKind::kInvalidArgument, [&] {
    gradcheck([](const std::vector<Tensor>& all) { return sum(all[0]) + sum(wrong_square(all[1])); },
              std::tuple(std::vector<Tensor>{y, x}));
  });
  EXPECT_TRUE(contains(inside, "argument 0, Tensor 1, element [1, 0], of result 0, element []")) << inside;
  // A NaN is no gradient.
  error_of(ErrorKind::kInvalidArgument,
           [] { gradcheck([](const Tensor& x) { return sqrt(x); }, doubles({-1}, {1})); });
}

TEST(Gradcheck, TakesTolerances) {
  const Tensor x = doubles({1, 2}, {2});
  gradcheck(wrong_square, x, {.rtol = 0.51});
  gradcheck(wrong_square, x, {.atol = 2.1});
  error_of(ErrorKind::kInvalidArgument, [&] { gradcheck(wrong_square, x, {.rtol = 0.49}); });
}

TEST(Gradcheck, WantsDoublesOrAnEps) {
  const Tensor x = tensor({0.5f, -1.0f});
  const auto f = [](const Tensor& x) { return tanh(x); };
  const std::string words = error_of(ErrorKind::kDType, [&] { gradcheck(f, x); });
  EXPECT_TRUE(contains(words, "argument 0") && contains(words, "f64") && contains(words, "f32")) << words;
  gradcheck(f, x, {.eps = 1e-2, .atol = 1e-3});
  const std::string rounded = error_of(ErrorKind::kInvalidArgument, [&] {  // floats are 1/16 apart there
    gradcheck(f, tensor({0.5f, 1e6f}), {.eps = 1e-2, .atol = 1e-3});
  });
  EXPECT_TRUE(contains(rounded, "argument 0, element [1]") && contains(rounded, "a larger eps") &&
              contains(rounded, "0.01 at 1e+06"))
      << rounded;
  error_of(ErrorKind::kInvalidArgument,
           [] { gradcheck([](const Tensor& x) { return x + 1; }, tensor({1, 2}, DType::i32)); });
}

}  // namespace

}  // namespace systole
