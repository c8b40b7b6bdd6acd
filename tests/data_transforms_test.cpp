// The transforms: on the CPU against PyTorch, numpy and colorsys (tests/data/sets/make_sets.py), and the
// device form against the CPU form with the same choices of chance.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <numbers>
#include <numeric>

#include "data/pixels.h"
#include "data/transform_batch.h"
#include "error_check.h"
#include "systole/data.h"
#include "systole/io.h"
#include "systole/tensor.h"

namespace systole::data {
namespace {

const Literal& fixture(const std::string& name) {
  static const std::map<std::string, Literal> all = [] {
    std::map<std::string, Literal> arrays;
    for (io::NamedArray& array : io::load_npz(SYSTOLE_TEST_DATA "/sets/transforms.npz"))
      arrays.emplace(array.name, std::move(array.value));
    return arrays;
  }();
  return all.at(name);
}

void expect_near(const Literal& got, const Literal& wanted, double tolerance) {
  ASSERT_EQ(got.type(), wanted.type());
  const std::vector<double> a = got.to_doubles(), b = wanted.to_doubles();
  for (std::size_t i = 0; i < a.size(); ++i) ASSERT_NEAR(a[i], b[i], tolerance) << "element " << i;
}

std::vector<std::int64_t> rows_of_batch(const Literal& x) {
  std::vector<std::int64_t> rows(static_cast<std::size_t>(x.shape()[0].value()));
  std::iota(rows.begin(), rows.end(), 0);
  return rows;
}

Literal on_cpu(const Transforms& transforms, const Literal& x) {
  std::vector<Literal> batch{x};
  transforms.apply(batch, rows_of_batch(x), 1, 0);
  return batch[0];
}

Literal on_device(const Transforms& transforms, const Literal& x, const Tensor& key = random::key(1)) {
  return transforms({Tensor(x)}, key)[0].literal();
}

TEST(Transforms, DeterministicOnesAgreeWithPyTorchAndNumpyInBothForms) {
  const auto check = [](const Transforms& transforms, const char* input, const char* wanted) {
    SCOPED_TRACE(transforms.to_string());
    expect_near(on_cpu(transforms, fixture(input)), fixture(wanted), 2e-6);
    expect_near(on_device(transforms, fixture(input)), fixture(wanted), 2e-6);
  };
  check({Normalize{.mean = {0.4914, 0.4822, 0.4465}, .stddev = {0.2471, 0.2435, 0.2616}}}, "u8",
        "normalised");
  check({Standardize{}}, "f32", "standardised");
  check({Rotate{.degrees = 30, .random = false}}, "f32", "rotated_30");
  check({Rotate{.degrees = 90, .fill = 0.25, .random = false}}, "f32", "rotated_90");
  check({Resize{13, 10}}, "f32", "larger");
  check({Resize{4, 5}}, "f32", "smaller");
}

TEST(Transforms, ByHand) {
  const Literal x = Literal::of<std::uint8_t>({1, 3, 3}, {1, 2, 3, 4, 5, 6, 7, 8, 9});
  const auto check = [&](const Transforms& transforms, std::initializer_list<std::uint8_t> values,
                         Shape shape) {
    SCOPED_TRACE(transforms.to_string());
    const Literal wanted = Literal::of<std::uint8_t>(shape, values);
    expect_near(on_cpu(transforms, x), wanted, 0);
    expect_near(on_device(transforms, x), wanted, 0);
  };
  check({Flip{.probability = 1}}, {3, 2, 1, 6, 5, 4, 9, 8, 7}, {1, 3, 3});
  check({Flip{.probability = 1, .vertical = true}}, {7, 8, 9, 4, 5, 6, 1, 2, 3}, {1, 3, 3});
  check({Flip{.probability = 0}}, {1, 2, 3, 4, 5, 6, 7, 8, 9}, {1, 3, 3});
  check({Rotate{.degrees = 90, .random = false}}, {3, 6, 9, 2, 5, 8, 1, 4, 7},
        {1, 3, 3});  // counter-clockwise
  check({Crop{.height = 1, .width = 1, .random = false}}, {5}, {1, 1, 1});
  check({Crop{.padding = 1, .height = 5, .width = 5, .fill = 9, .random = false}},
        {9, 9, 9, 9, 9, 9, 1, 2, 3, 9, 9, 4, 5, 6, 9, 9, 7, 8, 9, 9, 9, 9, 9, 9, 9}, {1, 5, 5});
  check({Resize{1, 1}}, {5}, {1, 1, 1});
  check({Cutout{.size = 7, .fill = 2}}, {2, 2, 2, 2, 2, 2, 2, 2, 2}, {1, 3, 3});
}

TEST(Transforms, LabelsBecomeVectors) {
  const Literal y = Literal::of<std::int32_t>({2}, {2, 0});
  const Literal x(Type{DType::f32, {2, 1}});
  for (const double smoothing : {0.0, 0.3}) {
    const float high = static_cast<float>(1 - smoothing + smoothing / 3),
                low = static_cast<float>(smoothing / 3);
    const Literal wanted = Literal::of<float>({2, 3}, {low, low, high, high, low, low});
    const Transforms one_hot{OneHot{.classes = 3, .smoothing = smoothing}};
    std::vector<Literal> batch{x, y};
    one_hot.apply(batch, std::vector<std::int64_t>{0, 1}, 1, 0);
    expect_near(batch[1], wanted, 1e-7);
    expect_near(one_hot({Tensor(x), Tensor(y)}, random::key(1))[1].literal(), wanted, 1e-7);
  }
  std::vector<Literal> batch{x, y};
  const std::string message = error_of(ErrorKind::kInvalidArgument, [&] {
    Transforms{OneHot{.classes = 2}}.apply(batch, std::vector<std::int64_t>{8, 9}, 1, 0);
  });
  EXPECT_NE(message.find("sample 8"), std::string::npos) << message;
}

TEST(Transforms, LabelsAreTheLastField) {
  const Literal x = Literal::of<float>({2, 1}, {1.0f, 2.0f});
  const Literal y = Literal::of<std::int32_t>({2}, {1, 0});
  std::vector<Literal> batch{x, x, y};
  Transforms{OneHot{.classes = 2}}.apply(batch, std::vector<std::int64_t>{0, 1}, 1, 0);
  EXPECT_EQ(batch[2].to_doubles(), (std::vector<double>{0, 1, 1, 0}));
  const std::vector<Tensor> on_device =
      Transforms{OneHot{.classes = 2}}({Tensor(x), Tensor(x), Tensor(y)}, Tensor());
  EXPECT_EQ(on_device[2].literal().to_doubles(), (std::vector<double>{0, 1, 1, 0}));
}

// Means and deviations by hand; NaN does not count, a constant keeps 1.
TEST(Transforms, NormalizeIsFittedToData) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const Normalize rows = fitted_normalize(
      arrays(Literal::of<float>({4, 3}, {1, 5, 1e6f, 3, 5, 1e6f + 2, nan, 5, 1e6f, 5, 5, 1e6f + 2})));
  EXPECT_EQ(rows.mean, (std::vector<double>{3, 5, 1e6 + 1}));
  ASSERT_EQ(rows.stddev.size(), 3u);
  EXPECT_NEAR(rows.stddev[0], std::sqrt(8.0 / 3), 1e-12);
  EXPECT_EQ(rows.stddev[1], 1);
  EXPECT_NEAR(rows.stddev[2], 1, 1e-9);

  // u8 pictures are in [0, 1]; grey ones have one channel, others one for each on the last axis.
  const Source grey = arrays(Literal::of<std::uint8_t>({1, 2, 2}, {0, 255, 0, 255}));
  EXPECT_EQ(fitted_normalize(grey).mean, (std::vector<double>{0.5}));
  EXPECT_EQ(fitted_normalize(grey).stddev, (std::vector<double>{0.5}));
  const Source two = arrays(Literal::of<std::uint8_t>({1, 1, 2, 2}, {0, 51, 255, 51}));
  EXPECT_NEAR(fitted_normalize(two).mean[1], 0.2, 1e-12);
  const Sample made = Transforms{fitted_normalize(grey)}(grey[0]);
  EXPECT_EQ(made[0].to_doubles(), (std::vector<double>{-1, 1, -1, 1}));
  EXPECT_THROW(fitted_normalize(Source()), Error);
}

TEST(Transforms, ColoursAgreeWithColorsys) {
  Literal x = fixture("f32");
  float* const pixels = x.mutable_values<float>().data();
  for (int i = 0; i < 3; ++i) jitter_picture({pixels + i * 7 * 9 * 3, 7, 9, 3}, {1.3f, 0.8f, 1.5f, 0.1f});
  expect_near(x, fixture("jittered"), 2e-6);
}

// What the one transform of a list draws: its own key, split further.
Tensor own_key(const Tensor& key) { return random::split(key, 1)[0]; }

TEST(Transforms, TheDeviceDoesWhatTheCpuDoesWithTheSameChoices) {
  const Literal f32 = fixture("f32"), u8 = fixture("u8");
  const Tensor key = random::key(77);
  const std::vector<Tensor> two = random::split(own_key(key)), four = random::split(own_key(key), 4);
  const auto picture = [](Literal& x, std::int64_t i, std::int64_t height = 7, std::int64_t width = 9) {
    return Picture<float>{x.mutable_values<float>().data() + i * height * width * 3, height, width, 3};
  };
  const auto constant = [](const Literal& x, std::int64_t i) {
    return Picture<const float>{x.values<float>().data() + i * 7 * 9 * 3, 7, 9, 3};
  };

  Literal wanted(Type{DType::f32, {3, 7, 9, 3}});
  const auto tops = random::randint(two[0], {3}, 0, 5).to_vector<std::int32_t>();
  const auto lefts = random::randint(two[1], {3}, 0, 5).to_vector<std::int32_t>();
  for (std::int64_t i = 0; i < 3; ++i)
    crop_picture(constant(f32, i), picture(wanted, i), tops[static_cast<std::size_t>(i)] - 2,
                 lefts[static_cast<std::size_t>(i)] - 2, 0.5f);
  expect_near(on_device({Crop{.padding = 2, .fill = 0.5}}, f32, key), wanted, 0);

  const auto angles =
      random::uniform(own_key(key), {3}, -std::numbers::pi / 6, std::numbers::pi / 6).to_vector<float>();
  for (std::int64_t i = 0; i < 3; ++i) {
    const float angle = angles[static_cast<std::size_t>(i)];
    rotate_picture(constant(f32, i), picture(wanted, i), std::cos(angle), std::sin(angle), 0.0f);
  }
  expect_near(on_device({Rotate{.degrees = 30}}, f32, key), wanted, 2e-6);

  Literal jittered = f32;
  const auto factor = [&](std::size_t k, double range) {
    return random::uniform(four[k], {3}, 1 - range, 1 + range).to_vector<float>();
  };
  const auto bright = factor(0, 0.4), contrast = factor(1, 0.3), saturation = factor(2, 0.2);
  const auto hue = random::uniform(four[3], {3}, -0.1, 0.1).to_vector<float>();
  for (std::size_t i = 0; i < 3; ++i)
    jitter_picture(picture(jittered, static_cast<std::int64_t>(i)),
                   {bright[i], contrast[i], saturation[i], hue[i]});
  expect_near(on_device({ColorJitter{0.4, 0.3, 0.2, 0.1}}, f32, key), jittered, 2e-5);

  Literal cut = f32;
  const auto rows = random::randint(two[0], {3}, 0, 7).to_vector<std::int32_t>();
  const auto columns = random::randint(two[1], {3}, 0, 9).to_vector<std::int32_t>();
  for (std::size_t i = 0; i < 3; ++i)
    cut_out(picture(cut, static_cast<std::int64_t>(i)), rows[i] - 2, columns[i] - 2, 4, 0.0f);
  expect_near(on_device({Cutout{.size = 4}}, f32, key), cut, 0);

  // u8 is rounded alike: one number off only where a float's last bit decides.
  const Literal a = on_device({Rotate{.degrees = 30, .random = false}}, u8);
  const Literal b = on_cpu({Rotate{.degrees = 30, .random = false}}, u8);
  expect_near(a, b, 1);
}

TEST(Transforms, ChanceIsSharedOutAsItShould) {
  const std::int64_t count = 2000;
  Literal x(Type{DType::f32, {count, 1, 4}});
  for (std::int64_t i = 0; i < count; ++i) x.mutable_values<float>()[static_cast<std::size_t>(4 * i)] = 1;
  for (const bool device : {false, true}) {
    const auto apply = [&](const Transforms& t) { return device ? on_device(t, x) : on_cpu(t, x); };
    // Where the one is after the transform, per sample.
    const auto places = [&](const Literal& y) {
      std::map<std::int64_t, int> found;
      for (std::int64_t i = 0; i < count; ++i) {
        const auto row = y.values<float>().subspan(static_cast<std::size_t>(4 * i), 4);
        ++found[std::find(row.begin(), row.end(), 1.0f) - row.begin()];
      }
      return found;
    };
    std::map<std::int64_t, int> flipped = places(apply({Flip{.probability = 0.25}}));
    EXPECT_NEAR(flipped[3], 500, 100);
    EXPECT_EQ(flipped[0] + flipped[3], count);
    std::map<std::int64_t, int> moved = places(apply({Crop{.padding = 1}}));  // by -1, 0 or 1, and up or down
    EXPECT_NEAR(moved[0], 2000 / 9.0, 75);
    EXPECT_NEAR(moved[1], 2000 / 9.0, 75);
    EXPECT_NEAR(moved[4], 2000 * 7 / 9.0, 100);  // outside
    const Literal bright = apply({ColorJitter{.brightness = 0.5}});
    double sum = 0, least = 1;
    for (std::int64_t i = 0; i < count; ++i) {
      const double v = static_cast<double>(bright.values<float>()[static_cast<std::size_t>(4 * i)]);
      sum += v;
      least = std::min(least, v);
    }
    EXPECT_NEAR(sum / count, 0.875, 0.02);  // half of them are cut off at 1
    EXPECT_NEAR(least, 0.5, 0.01);
  }
}

TEST(Transforms, TheSamplesOfAnEpochAreTheSameAloneAndInABatch) {
  const Transforms augment{Crop{.padding = 2}, Flip{},     Rotate{}, ColorJitter{0.2, 0.2, 0.2, 0.1},
                           Cutout{.size = 3},  Normalize{}};
  const Literal u8 = fixture("u8");
  std::vector<Literal> batch{u8};
  augment.apply(batch, std::vector<std::int64_t>{40, 3, 17}, 9, 2);
  const Source source = arrays(u8);
  const std::int64_t indices[] = {40, 3, 17};
  for (std::int64_t i = 0; i < 3; ++i) {
    const Literal alone = augment(source[i], 9, 2, indices[i])[0];
    const std::span<const float> row =
        batch[0].values<float>().subspan(static_cast<std::size_t>(i) * 189, 189);
    EXPECT_TRUE(std::ranges::equal(alone.values<float>(), row));
  }
  EXPECT_FALSE(augment(source[0], 9, 3, 40)[0].same_bits(augment(source[0], 9, 2, 40)[0]));
  EXPECT_FALSE(augment(source[0], 8, 2, 40)[0].same_bits(augment(source[0], 9, 2, 40)[0]));
}

TEST(Transforms, MixupMixesPicturesAndLabelsAlike) {
  for (const auto& [name, alpha] : {std::pair{"beta_02", 0.2}, {"beta_1", 1.0}, {"beta_4", 4.0}}) {
    const std::vector<double> made = beta_quantiles(alpha, 17), wanted = fixture(name).to_doubles();
    for (std::size_t i = 0; i < made.size(); ++i) EXPECT_NEAR(made[i], wanted[i], 1e-9) << name << " " << i;
  }
  // x is the class itself, so that mixed x is the mixed labels' mean class.
  const Literal x = Literal::of<float>({4, 1}, {0, 1, 2, 3}),
                y = Literal::of<std::int32_t>({4}, {0, 1, 2, 3});
  const auto check = [](const Literal& mx, const Literal& my) {
    ASSERT_EQ(my.type(), (Type{DType::f32, {4, 4}}));
    for (std::size_t row = 0; row < 4; ++row) {
      const auto shares = my.values<float>().subspan(4 * row, 4);
      EXPECT_NEAR(std::accumulate(shares.begin(), shares.end(), 0.0), 1, 1e-6);
      EXPECT_NEAR(mx.values<float>()[row], shares[1] + 2 * shares[2] + 3 * shares[3], 1e-5);
    }
  };
  const Transforms mix{Mixup{.alpha = 1, .classes = 4}};
  double sum = 0;
  for (std::int64_t step = 0; step < 200; ++step) {
    std::vector<Literal> batch{x, y};
    mix.apply(batch, std::vector<std::int64_t>{0, 1, 2, 3}, 1, 0, step);
    check(batch[0], batch[1]);
    sum += static_cast<double>(batch[1].values<float>()[0]);
  }
  EXPECT_NEAR(sum / 200, 0.5 + 0.25 * 0.5,
              0.06);  // half of λ is its own, a quarter of the partners are itself
  for (std::uint64_t seed = 0; seed < 3; ++seed) {
    const std::vector<Tensor> got = mix({Tensor(x), Tensor(y)}, random::key(seed));
    check(got[0].literal(), got[1].literal());
  }
  std::vector<Literal> batch{x, y};
  error_of(ErrorKind::kInvalidArgument,
           [&] { Transforms{Mixup{}}.apply(batch, std::vector<std::int64_t>{0, 1, 2, 3}, 1, 0); });
  error_of(ErrorKind::kInvalidArgument,
           [&] { mix(Sample{Literal::scalar(1.0f), Literal::scalar(std::int32_t{1})}); });
}

TEST(Transforms, WithoutChanceNoKeyIsNeeded) {
  const Literal x = Literal::of<float>({1, 2, 3}, {1, 2, 3, 4, 5, 6});
  const auto made = [&](const Transforms& transforms) {
    EXPECT_FALSE(transforms.random());
    return transforms({Tensor(x)}, Tensor())[0].literal().to_doubles();
  };
  EXPECT_EQ(made({Crop{.height = 2, .width = 1, .random = false}}), (std::vector<double>{2, 5}));
  EXPECT_EQ(made({Flip{.probability = 1}}), (std::vector<double>{3, 2, 1, 6, 5, 4}));
  EXPECT_EQ(made({Flip{.probability = 0}}), x.to_doubles());
}

TEST(Transforms, RunInACompiledStepWithAKey) {
  const Transforms augment{
      Crop{.padding = 2},  Flip{}, Rotate{}, ColorJitter{0.2, 0.2, 0.2, 0.1}, Cutout{.size = 3}, Normalize{},
      Mixup{.classes = 10}};
  const auto step = compile([&](const Tensor& x, const Tensor& y, const Tensor& key) {
    const std::vector<Tensor> made = augment({x, y}, key);
    return std::pair{made[0], made[1]};
  });
  const Tensor x(fixture("u8")), y = tensor({1, 2, 3});
  const auto [a, labels] = step(x, y, random::key(1));
  EXPECT_EQ(a.type(), (Type{DType::f32, {3, 7, 9, 3}}));
  EXPECT_EQ(labels.type(), (Type{DType::f32, {3, 10}}));
  EXPECT_EQ(step.traces(), 1);
  EXPECT_TRUE(a.literal().same_bits(step(x, y, random::key(1)).first.literal()));
  EXPECT_FALSE(a.literal().same_bits(step(x, y, random::key(2)).first.literal()));
  EXPECT_EQ(step.traces(), 1);
}

TEST(Transforms, RefuseWhatIsNoPictureAndWrongNumbers) {
  const Literal row(Type{DType::f32, {2, 5}}), grey(Type{DType::u8, {2, 4, 4}});
  for (const Transforms& t : {Transforms{Flip{}}, {Crop{}}, {Rotate{}}, {Cutout{}}, {Resize{2, 2}}}) {
    error_of(ErrorKind::kShape, [&] { on_cpu(t, row); });
    error_of(ErrorKind::kShape, [&] { on_device(t, row); });
  }
  for (const auto& run : {on_cpu, +[](const Transforms& t, const Literal& x) { return on_device(t, x); }}) {
    error_of(ErrorKind::kShape, [&] { run({ColorJitter{.hue = 0.1}}, grey); });
    error_of(ErrorKind::kShape, [&] { run({Crop{.height = 9}}, grey); });
    error_of(ErrorKind::kShape, [&] { run({Normalize{.mean = {1, 2, 3}}}, grey); });
    error_of(ErrorKind::kInvalidArgument, [&] { run({Normalize{.stddev = {0}}}, grey); });
    error_of(ErrorKind::kInvalidArgument, [&] { run({Resize{}}, grey); });
    error_of(ErrorKind::kUnsupported, [&] { run({Custom{}}, grey); });
  }
}

TEST(Transforms, YourOwn) {
  const Transforms brighter{
      Custom{.name = "brighter",
             .on_sample =
                 [](Sample s, std::uint64_t) {
                   for (std::uint8_t& v : s[0].mutable_values<std::uint8_t>()) ++v;
                   return s;
                 },
             .on_batch = [](std::vector<Tensor> b, const Tensor&) { return std::vector{b[0] + 1}; }}};
  const Literal x(Type{DType::u8, {2, 3}});
  EXPECT_EQ(on_cpu(brighter, x).values<std::uint8_t>()[5], 1);
  EXPECT_EQ(on_device(brighter, x).values<std::uint8_t>()[5], 1);
  EXPECT_EQ(x.values<std::uint8_t>()[5], 0);
  EXPECT_EQ(brighter.to_string(), "brighter");
}

}  // namespace
}  // namespace systole::data
