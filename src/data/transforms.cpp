// The list of transforms: checks, words, and the parts both forms share.

#include "systole/data/transforms.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "data/gather.h"
#include "data/transform_batch.h"
#include "systole/base/error.h"

namespace systole::data {

namespace {

template <class... F>
struct Overloaded : F... {
  using F::operator()...;
};
template <class... F>
Overloaded(F...) -> Overloaded<F...>;

void check(bool fine, const char* transform, const char* what, const char* expected, double got) {
  if (!fine) throw Error(ErrorKind::kInvalidArgument, transform, what, expected, fmt::format("{}", got));
}

// I_x(a, a), the distribution of Beta(a, a), by Lentz's form of its continued fraction.
double beta_distribution(double x, double a) {
  if (x <= 0) return 0;
  if (x >= 1) return 1;
  if (x > 0.5) return 1 - beta_distribution(1 - x, a);
  constexpr double kTiny = 1e-300;
  double c = 1, d = 1 - 2 * a * x / (a + 1);
  d = 1 / (std::abs(d) < kTiny ? kTiny : d);
  double fraction = d;
  for (int m = 1; m < 500; ++m) {
    const double m2 = 2.0 * m;
    for (const double term : {m * (a - m) * x / ((a + m2 - 1) * (a + m2)),
                              -(a + m) * (2 * a + m) * x / ((a + m2) * (a + m2 + 1))}) {
      d = 1 + term * d;
      d = 1 / (std::abs(d) < kTiny ? kTiny : d);
      c = 1 + term / c;
      if (std::abs(c) < kTiny) c = kTiny;
      fraction *= c * d;
    }
    if (std::abs(c * d - 1) < 1e-15) break;
  }
  int sign = 1;  // lgamma itself keeps it in a variable that all threads share
  const double log_beta = 2 * ::lgamma_r(a, &sign) - ::lgamma_r(2 * a, &sign);
  return std::exp(a * (std::log(x) + std::log1p(-x)) - log_beta) * fraction / a;
}

bool resizes(const Transform& transform) {
  if (const auto* crop = std::get_if<Crop>(&transform)) return crop->height != 0 || crop->width != 0;
  return std::holds_alternative<Resize>(transform);
}

}  // namespace

void refuse_transform(const char* transform, const std::string& message, const std::string& expected,
                      const std::string& got) {
  throw Error(ErrorKind::kShape, transform, message, expected, got);
}

std::vector<double> beta_quantiles(double alpha, std::size_t count) {
  std::vector<double> result;
  for (std::size_t i = 0; i < count; ++i) {
    const double wanted = static_cast<double>(i) / static_cast<double>(count - 1);
    double low = 0, high = 1;
    for (int step = 0; step < 80 && low < high; ++step) {
      const double middle = (low + high) / 2;
      (beta_distribution(middle, alpha) < wanted ? low : high) = middle;
    }
    result.push_back(i == 0 ? 0 : i + 1 == count ? 1 : (low + high) / 2);
  }
  return result;
}

Line line_of(const Normalize& normalise, DType dtype, std::int64_t channels) {
  const double scale = normalise.scale.value_or(dtype == DType::u8 ? 1.0 / 255 : 1.0);
  const std::size_t many = std::max(normalise.mean.size(), normalise.stddev.size());
  for (const std::size_t size : {normalise.mean.size(), normalise.stddev.size()})
    if (size != 1 && (size != many || static_cast<std::int64_t>(size) != channels))
      refuse_transform("data::Normalize", "a number per channel, the last axis, or one for all",
                       fmt::format("1 or {} numbers", channels), fmt::format("{}", size));
  Line line;
  for (std::size_t c = 0; c < many; ++c) {
    const double mean = normalise.mean[normalise.mean.size() == 1 ? 0 : c];
    const double stddev = normalise.stddev[normalise.stddev.size() == 1 ? 0 : c];
    line.factor.push_back(static_cast<float>(scale / stddev));
    line.offset.push_back(static_cast<float>(-mean / stddev));
  }
  return line;
}

Pictures pictures_of(const Type& type, const char* transform) {
  const Shape& shape = type.shape;
  if ((shape.rank() != 3 && shape.rank() != 4) || (type.dtype != DType::u8 && !is_float(type.dtype)))
    refuse_transform(transform, "not a picture",
                     "u8 or floating-point [height,width] or [height,width,channels]",
                     Type{type.dtype, without_leading(shape)}.to_string());
  return {shape[0].value(), shape[1].value(), shape[2].value(), shape.rank() == 4 ? shape[3].value() : 1};
}

Pictures after_crop(const Crop& crop, const Pictures& in) {
  Pictures out = in;
  if (crop.height != 0) out.height = crop.height;
  if (crop.width != 0) out.width = crop.width;
  if (out.height > in.height + 2 * crop.padding || out.width > in.width + 2 * crop.padding)
    refuse_transform("data::Crop", "the part is larger than the picture",
                     fmt::format("at most {}×{}", in.height + 2 * crop.padding, in.width + 2 * crop.padding),
                     fmt::format("{}×{}", out.height, out.width));
  return out;
}

void check_parameters(const Transform& transform) {
  std::visit(
      Overloaded{
          [](const Normalize& t) {
            check(!t.mean.empty() && !t.stddev.empty(), "data::Normalize", "no numbers", "one or more", 0);
            for (const double s : t.stddev)
              check(s != 0 && std::isfinite(s), "data::Normalize", "wrong deviation", "not 0", s);
          },
          [](const Resize& t) {
            check(t.height > 0 && t.width > 0, "data::Resize", "wrong size", "1 or more",
                  static_cast<double>(std::min(t.height, t.width)));
          },
          [](const Flip& t) {
            check(t.probability >= 0 && t.probability <= 1, "data::Flip", "wrong probability", "0 to 1",
                  t.probability);
          },
          [](const Crop& t) {
            const std::int64_t least = std::min({t.padding, t.height, t.width});
            check(least >= 0, "data::Crop", "wrong size", "0 or more", static_cast<double>(least));
          },
          [](const Rotate& t) {
            check(std::isfinite(t.degrees), "data::Rotate", "wrong angle", "a number", t.degrees);
          },
          [](const ColorJitter& t) {
            for (const double v : {t.brightness, t.contrast, t.saturation})
              check(v >= 0, "data::ColorJitter", "wrong range", "0 or more", v);
            check(t.hue >= 0 && t.hue <= 0.5, "data::ColorJitter", "wrong hue", "0 to 0.5", t.hue);
          },
          [](const Cutout& t) {
            check(t.size > 0 && t.count >= 0, "data::Cutout", "wrong size", "1 or more",
                  static_cast<double>(t.size));
          },
          [](const OneHot& t) {
            check(t.classes > 0, "data::OneHot", "wrong number of classes", "1 or more",
                  static_cast<double>(t.classes));
            check(t.smoothing >= 0 && t.smoothing < 1, "data::OneHot", "wrong smoothing", "0 to 1",
                  t.smoothing);
          },
          [](const Mixup& t) {
            check(t.alpha > 0 && std::isfinite(t.alpha), "data::Mixup", "wrong alpha", "above 0", t.alpha);
          },
          [](const auto&) {},
      },
      transform);
}

std::size_t sample_part(std::span<const Transform> list) {
  for (std::size_t i = list.size(); i-- > 0;)
    if (resizes(list[i])) return i + 1;
  return 0;
}

Transforms::Transforms() = default;
Transforms::Transforms(std::initializer_list<Transform> list) : list_(list) {}
Transforms::Transforms(std::vector<Transform> list) : list_(std::move(list)) {}
Transforms::Transforms(const Transforms&) = default;
Transforms::Transforms(Transforms&&) noexcept = default;
Transforms& Transforms::operator=(const Transforms&) = default;
Transforms& Transforms::operator=(Transforms&&) noexcept = default;
Transforms::~Transforms() = default;

Transforms& Transforms::then(Transform next) {
  list_.push_back(std::move(next));
  return *this;
}

bool Transforms::resizes() const { return sample_part(list_) != 0; }

bool Transforms::random() const {
  return std::any_of(list_.begin(), list_.end(), [](const Transform& transform) {
    return std::visit(
        Overloaded{[](const Flip& t) { return t.probability > 0 && t.probability < 1; },
                   [](const Crop& t) { return t.random; }, [](const Rotate& t) { return t.random; },
                   [](const ColorJitter&) { return true; }, [](const Cutout&) { return true; },
                   [](const Mixup&) { return true; }, [](const Custom&) { return true; },
                   [](const auto&) { return false; }},
        transform);
  });
}

std::string Transforms::to_string() const {
  std::string text;
  for (const Transform& transform : list_) {
    if (!text.empty()) text += ", ";
    text += std::visit(
        Overloaded{
            [](const Normalize& t) {
              return fmt::format("normalise mean {} stddev {}{}", fmt::join(t.mean, " "),
                                 fmt::join(t.stddev, " "), t.scale ? fmt::format(" scale {}", *t.scale) : "");
            },
            [](const Standardize&) { return std::string("standardise"); },
            [](const Resize& t) { return fmt::format("resize {}x{}", t.height, t.width); },
            [](const Flip& t) {
              return fmt::format("flip {}{}", t.probability, t.vertical ? " vertical" : "");
            },
            [](const Crop& t) {
              return fmt::format("crop {}x{} padding {} fill {}{}", t.height, t.width, t.padding, t.fill,
                                 t.random ? "" : " middle");
            },
            [](const Rotate& t) {
              return fmt::format("rotate {} fill {}{}", t.degrees, t.fill, t.random ? "" : " exactly");
            },
            [](const ColorJitter& t) {
              return fmt::format("colour jitter {} {} {} {}", t.brightness, t.contrast, t.saturation, t.hue);
            },
            [](const Cutout& t) {
              return fmt::format("cutout {} times {} fill {}", t.size, t.count, t.fill);
            },
            [](const OneHot& t) {
              return fmt::format("one-hot {} smoothing {} field {}", t.classes, t.smoothing,
                                 t.field == kLastField ? "last" : std::to_string(t.field));
            },
            [](const Mixup& t) { return fmt::format("mixup {} classes {}", t.alpha, t.classes); },
            [](const Custom& t) { return t.name; },
        },
        transform);
  }
  return text;
}

Sample Transforms::operator()(Sample sample, std::uint64_t seed, std::int64_t epoch,
                              std::int64_t index) const {
  return transform_sample(list_, 0, list_.size(), std::move(sample), index, {seed, epoch, 0});
}

void Transforms::apply(std::vector<Literal>& batch, std::span<const std::int64_t> indices, std::uint64_t seed,
                       std::int64_t epoch, std::int64_t step) const {
  transform_batch(list_, 0, list_.size(), batch, indices, {seed, epoch, step});
}

}  // namespace systole::data
