// What lies side by side is read at once, under a padding that decides whether there is anything, too: the
// gradients of pooled images on every device, against loops over windows.

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <tuple>
#include <utility>
#include <vector>

#include "model_devices.h"
#include "systole/systole.h"

namespace systole {
namespace {

using Floats = std::vector<float>;

struct Pooling {
  std::int64_t images, size, channels, window, stride, padding;
};

// Whole numbers, so that sums are exact in any order, and those of two in bf16; each differs from its
// neighbours.
float number(std::int64_t i) { return static_cast<float>((i * 7919 + i / 13) % 101 - 50); }

class PaddingOn : public ModelDevice {
 protected:
  static Floats numbers(std::int64_t count) {
    Floats all(static_cast<std::size_t>(count));
    for (std::int64_t i = 0; i < count; ++i) all[static_cast<std::size_t>(i)] = number(i);
    return all;
  }

  // Of the sum of relu(x + bias), pooled, times whole numbers: by x and by the bias.
  static std::pair<Floats, Floats> expected(const Pooling& p, const Floats& x, const Floats& bias) {
    Floats by_x(x.size(), 0.0f), by_bias(bias.size(), 0.0f);
    const std::int64_t pooled = (p.size + 2 * p.padding - p.window) / p.stride + 1;
    const auto place = [&](std::int64_t n, std::int64_t row, std::int64_t column, std::int64_t c) {
      return static_cast<std::size_t>(((n * p.size + row) * p.size + column) * p.channels + c);
    };
    std::int64_t next = 0;
    for (std::int64_t n = 0; n < p.images; ++n)
      for (std::int64_t i = 0; i < pooled; ++i)
        for (std::int64_t j = 0; j < pooled; ++j)
          for (std::int64_t c = 0; c < p.channels; ++c) {
            const float factor = number(next++);
            float most = -1;
            std::size_t first = 0;
            for (std::int64_t row = i * p.stride - p.padding; row < i * p.stride - p.padding + p.window;
                 ++row)
              for (std::int64_t column = j * p.stride - p.padding;
                   column < j * p.stride - p.padding + p.window; ++column) {
                if (row < 0 || column < 0 || row >= p.size || column >= p.size) continue;
                const float sum = x[place(n, row, column, c)] + bias[static_cast<std::size_t>(c)];
                if (const float v = sum > 0 ? sum : 0; v > most) {
                  most = v;
                  first = place(n, row, column, c);
                }
              }
            if (most <= 0) continue;
            by_x[first] += factor;
            by_bias[static_cast<std::size_t>(c)] += factor;
          }
    return {by_x, by_bias};
  }

  static void expect_gradients(const Pooling& p, DType dtype) {
    const std::int64_t pooled = (p.size + 2 * p.padding - p.window) / p.stride + 1;
    const Shape images{p.images, p.size, p.size, p.channels}, results{p.images, pooled, pooled, p.channels};
    const Floats x = numbers(images.count()), bias = numbers(p.channels);
    const Tensor factors = Tensor(Literal::of<float>(results, numbers(results.count())));
    const auto gradients = compile([&](const Tensor& v, const Tensor& b, const Tensor& f) {
      return grad<0, 1>([&](const Tensor& image, const Tensor& of_channels) {
        const Tensor y = max_pool2d(relu(image.to(dtype) + of_channels.to(dtype)), {p.window, p.window},
                                    {.stride = p.stride, .padding = p.padding});
        return sum(y.to(DType::f32) * f);
      })(v, b);
    });
    const std::tuple<Tensor, Tensor> both = gradients(
        Tensor(Literal::of<float>(images, x)), Tensor(Literal::of<float>({p.channels}, bias)), factors);
    const auto& [by_x, by_bias] = both;
    const auto [wanted_by_x, wanted_by_bias] = expected(p, x, bias);
    EXPECT_EQ(by_x.to_vector<float>(), wanted_by_x);
    if (dtype != DType::f32) return;  // sums of many are rounded
    EXPECT_EQ(by_bias.to_vector<float>(), wanted_by_bias);
  }
};

TEST_P(PaddingOn, GradientsOfPooledImagesAreThoseOfTheFirstLargest) {
  for (const Pooling& p :
       {Pooling{3, 8, 32, 2, 2, 0}, Pooling{3, 9, 32, 2, 2, 0}, Pooling{2, 9, 16, 3, 2, 1},
        Pooling{2, 7, 24, 3, 3, 0}, Pooling{2, 6, 5, 2, 2, 0}, Pooling{1, 1, 16, 1, 1, 0}}) {
    SCOPED_TRACE(testing::Message() << p.size << "² of " << p.channels << ", windows of " << p.window);
    expect_gradients(p, DType::f32);
  }
}

// Enough points for vectors in elementwise kernels, and for reductions in several launches.
TEST_P(PaddingOn, GradientsOfManyPooledImagesToo) {
  expect_gradients({16, 48, 16, 2, 2, 0}, DType::f32);
  expect_gradients({16, 48, 24, 2, 2, 0}, DType::bf16);
  expect_gradients({9, 100, 24, 2, 2, 0}, DType::f32);
  expect_gradients({8, 128, 16, 2, 2, 0}, DType::f32);  // 8 MB: forms are tried
  expect_gradients({2, 128, 100, 2, 2, 0}, DType::f32);
  expect_gradients({16, 49, 16, 3, 2, 1}, DType::f32);
}

// An element gets the sixteenth of what the means of 4 by 4 have that it is part of; there are holes between
// those.
TEST_P(PaddingOn, GradientsOfMeansAreSpreadOverTheirWindows) {
  constexpr std::int64_t kImages = 4, kSize = 64, kChannels = 16, kWindow = 4, kStride = 2, kPadding = 1,
                         kPooled = 32;
  const Shape images{kImages, kSize, kSize, kChannels}, results{kImages, kPooled, kPooled, kChannels};
  const Floats factors = numbers(results.count());
  Floats wanted(static_cast<std::size_t>(images.count()), 0.0f);
  for (std::size_t i = 0; i < factors.size(); ++i) {
    const auto at = static_cast<std::int64_t>(i);
    const std::int64_t c = at % kChannels, column = at / kChannels % kPooled * kStride - kPadding,
                       row = at / kChannels / kPooled % kPooled * kStride - kPadding,
                       n = at / kChannels / kPooled / kPooled;
    for (std::int64_t y = std::max<std::int64_t>(row, 0); y < std::min(row + kWindow, kSize); ++y)
      for (std::int64_t x = std::max<std::int64_t>(column, 0); x < std::min(column + kWindow, kSize); ++x)
        wanted[static_cast<std::size_t>(((n * kSize + y) * kSize + x) * kChannels + c)] += factors[i] / 16;
  }
  const auto gradient = compile([&](const Tensor& v, const Tensor& f) {
    return grad([&](const Tensor& image) {
      return sum(avg_pool2d(image, {kWindow, kWindow}, {.stride = kStride, .padding = kPadding}) * f);
    })(v);
  });
  EXPECT_EQ(
      gradient(Tensor(Literal::full({DType::f32, images}, 1)), Tensor(Literal::of<float>(results, factors)))
          .to_vector<float>(),
      wanted);
}

INSTANTIATE_TEST_SUITE_P(On, PaddingOn, model_devices(), device_suffix);

}  // namespace
}  // namespace systole
