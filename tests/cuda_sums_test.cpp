// Sums that many threads of a device share out, where the numbers are such that any order gives the same
// bits: rows of thousands of points that a later pass needs the sum of, and updates of few places by many.

#include <gtest/gtest.h>

#include <cstdint>
#include <tuple>
#include <vector>

#include "model_devices.h"
#include "systole/systole.h"

namespace systole {
namespace {

using Floats = std::vector<float>;

std::int64_t whole(std::int64_t i) { return (i * 7919 + i / 13) % 101; }

class CudaSums : public ModelDevice {};

// 8192 rows and 128 columns are cut in 128 chunks, whose sums a launch of its own adds up.
TEST_P(CudaSums, OfLongColumnsReachWhatIsMadeOfThem) {
  constexpr std::int64_t kRows = 8192, kColumns = 128;
  Floats x(kRows * kColumns);
  for (std::size_t i = 0; i < x.size(); ++i)
    x[i] = static_cast<float>(whole(static_cast<std::int64_t>(i)) % 9 - 4);
  const auto fn = compile([&](const Tensor& v) {
    const Tensor mean = sum(v, {0}) / double{kRows}, square = sum(v * v, {0}) / double{kRows};
    return std::tuple(v - mean, v * square, mean);
  });
  const auto [less, times, mean] = fn(Tensor(Literal::of<float>({kRows, kColumns}, x)));
  Floats means(kColumns), squares(kColumns);
  for (std::size_t i = 0; i < x.size(); ++i) {
    means[i % kColumns] += x[i] / kRows;  // exact
    squares[i % kColumns] += x[i] * x[i] / kRows;
  }
  Floats wanted_less(x.size()), wanted_times(x.size());
  for (std::size_t i = 0; i < x.size(); ++i) {
    wanted_less[i] = x[i] - means[i % kColumns];
    wanted_times[i] = x[i] * squares[i % kColumns];
  }
  EXPECT_EQ(mean.to_vector<float>(), means);
  EXPECT_EQ(less.to_vector<float>(), wanted_less);
  EXPECT_EQ(times.to_vector<float>(), wanted_times);
}

// By the gradient of a table of which rows are looked up: more rows than threads of a group, and fewer.
TEST_P(CudaSums, OfManyUpdatesOfFewPlaces) {
  constexpr std::int64_t kUpdates = 3000;
  for (const std::int64_t places : {1, 7, 2000})
    for (const std::int64_t width : {1, 3, 100, 300, 1500}) {
      if (places * width > 600'000) continue;
      std::vector<std::int32_t> at(kUpdates);
      for (std::size_t i = 0; i < at.size(); ++i)
        at[i] = static_cast<std::int32_t>(whole(static_cast<std::int64_t>(i)) * 31 % places);
      Floats factors(static_cast<std::size_t>(kUpdates * width)),
          wanted(static_cast<std::size_t>(places * width));
      for (std::size_t i = 0; i < factors.size(); ++i) {
        factors[i] = static_cast<float>(whole(static_cast<std::int64_t>(i)) - 50);
        const std::size_t w = static_cast<std::size_t>(width);
        wanted[static_cast<std::size_t>(at[i / w]) * w + i % w] += factors[i];
      }
      const auto fn = compile([](const Tensor& table, const Tensor& rows, const Tensor& f) {
        return grad<0>([&](const Tensor& t) { return sum(take(t, rows, 0) * f); })(table);
      });
      const Tensor got = fn(zeros({places, width}), Tensor(Literal::of<std::int32_t>({kUpdates}, at)),
                            Tensor(Literal::of<float>({kUpdates, width}, factors)));
      EXPECT_EQ(got.to_vector<float>(), wanted) << places << " places, width " << width;
    }
}

INSTANTIATE_TEST_SUITE_P(, CudaSums, testing::Values("cpu", "opencl:0", "cuda:0"), device_suffix);

}  // namespace
}  // namespace systole
