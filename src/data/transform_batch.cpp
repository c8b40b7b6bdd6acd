// The transforms on the CPU. Everything works on batches; one sample is a batch of one. Each row of a batch
// has its own stream of chance, begun from (seed, epoch, sample, place in the list).

#include "data/transform_batch.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numbers>
#include <numeric>
#include <type_traits>

#include "data/chance.h"
#include "data/gather.h"
#include "data/pixels.h"
#include "systole/base/error.h"

namespace systole::data {

namespace {

Chance chance_of(const Occasion& occasion, std::int64_t index, std::size_t place) {
  std::uint64_t state = Chance::mixed(occasion.seed + 0x9E3779B97F4A7C15u);
  state = Chance::mixed(state + static_cast<std::uint64_t>(occasion.epoch));
  state = Chance::mixed(state + static_cast<std::uint64_t>(index));
  return Chance(state + Chance::mixed(place + 1));
}

struct Run {
  std::vector<Literal>& batch;
  std::span<const std::int64_t> indices;
  const Occasion& occasion;
  std::size_t place;

  Chance chance(std::size_t row) const { return chance_of(occasion, indices[row], place); }
  Literal& x() const { return batch[0]; }
};

Literal& label_field(const Run& run, std::size_t field, const char* transform) {
  if (field == kLastField) field = run.batch.size() > 1 ? run.batch.size() - 1 : 1;  // the first is no label
  if (field >= run.batch.size())
    refuse_transform(transform, "samples have no such field",
                     fmt::format("fields 0 to {}", run.batch.size() - 1), fmt::format("field {}", field));
  return run.batch[field];
}

// Calls work.template operator()<T>() for u8 and the floating-point types that pictures have.
template <class F>
void with_pixels(DType dtype, const char* transform, F&& work) {
  switch (dtype) {
    case DType::u8: return work.template operator()<std::uint8_t>();
    case DType::f32: return work.template operator()<float>();
    case DType::f64: return work.template operator()<double>();
    default:
      throw Error(ErrorKind::kDType, transform, "no picture", "u8, f32 or f64", std::string(name(dtype)));
  }
}

Shape shape_of(const Pictures& pictures, int rank) {
  Shape shape{pictures.batch, pictures.height, pictures.width};
  if (rank == 4) shape.push_back(pictures.channels);
  return shape;
}

// Every picture of the batch into another of the size `to`: work(in, out, row).
template <class F>
void each_picture(const Run& run, const char* transform, const Pictures& from, const Pictures& to, F&& work) {
  with_pixels(run.x().dtype(), transform, [&]<class T>() {
    BatchArray made({run.x().dtype(), shape_of(to, run.x().rank())});
    const T* in = run.x().values<T>().data();
    T* out = made.as<T>();
    const std::int64_t in_step = from.height * from.width * from.channels;
    const std::int64_t out_step = to.height * to.width * to.channels;
    for (std::int64_t i = 0; i < from.batch; ++i)
      work(Picture<const T>{in + i * in_step, from.height, from.width, from.channels},
           Picture<T>{out + i * out_step, to.height, to.width, to.channels}, static_cast<std::size_t>(i));
    run.x() = std::move(made.value);
  });
}

template <class T>
void normalise_into(const T* in, float* out, std::int64_t count, const Line& line) {
  const std::size_t channels = line.factor.size();
  if (channels == 1) {
    const float factor = line.factor[0], offset = line.offset[0];
    for (std::int64_t i = 0; i < count; ++i) out[i] = static_cast<float>(in[i]) * factor + offset;
    return;
  }
  for (std::int64_t i = 0; i < count; i += static_cast<std::int64_t>(channels))
    for (std::size_t c = 0; c < channels; ++c)
      out[i + static_cast<std::int64_t>(c)] =
          static_cast<float>(in[i + static_cast<std::int64_t>(c)]) * line.factor[c] + line.offset[c];
}

void apply(const Normalize& t, const Run& run) {
  const Literal& x = run.x();
  const std::int64_t channels = x.rank() > 1 ? x.shape()[x.shape().size() - 1].value() : 1;
  const Line line = line_of(t, x.dtype(), channels);
  BatchArray made({DType::f32, x.shape()});
  float* const out = made.as<float>();
  visit_dtype(x.dtype(), [&]<class T>() { normalise_into(x.values<T>().data(), out, x.count(), line); });
  run.x() = std::move(made.value);
}

void apply(const Standardize&, const Run& run) {
  const Literal& x = run.x();
  BatchArray made({DType::f32, x.shape()});
  float* const out = made.as<float>();
  const std::int64_t rows = x.shape()[0].value(), count = rows == 0 ? 0 : x.count() / rows;
  visit_dtype(x.dtype(), [&]<class T>() {
    const T* const in = x.values<T>().data();
    for (std::int64_t row = 0; row < rows; ++row) {
      const T* const from = in + row * count;
      double sum = 0, squares = 0;
      for (std::int64_t i = 0; i < count; ++i) sum += static_cast<double>(from[i]);
      const double mean = sum / static_cast<double>(count);
      for (std::int64_t i = 0; i < count; ++i) {
        const double d = static_cast<double>(from[i]) - mean;
        squares += d * d;
      }
      const double n = static_cast<double>(count);
      const double stddev = std::max(std::sqrt(squares / n), 1 / std::sqrt(n));
      for (std::int64_t i = 0; i < count; ++i)
        out[row * count + i] = static_cast<float>((static_cast<double>(from[i]) - mean) / stddev);
    }
  });
  run.x() = std::move(made.value);
}

void apply(const Resize& t, const Run& run) {
  const Pictures from = pictures_of(run.x().type(), "data::Resize");
  Pictures to = from;
  to.height = t.height;
  to.width = t.width;
  if (to.height == from.height && to.width == from.width) return;
  each_picture(run, "data::Resize", from, to,
               [](auto in, auto out, std::size_t) { resize_picture(in, out); });
}

void apply(const Flip& t, const Run& run) {
  const Pictures size = pictures_of(run.x().type(), "data::Flip");
  each_picture(run, "data::Flip", size, size, [&](auto in, auto out, std::size_t row) {
    if (run.chance(row).uniform() < t.probability)
      flip_picture(in, out, t.vertical);
    else
      copy_picture(in, out);
  });
}

void apply(const Crop& t, const Run& run) {
  const Pictures from = pictures_of(run.x().type(), "data::Crop"), to = after_crop(t, from);
  const std::int64_t spare_y = from.height + 2 * t.padding - to.height;
  const std::int64_t spare_x = from.width + 2 * t.padding - to.width;
  each_picture(run, "data::Crop", from, to, [&](auto in, auto out, std::size_t row) {
    Chance chance = run.chance(row);
    const std::int64_t top = t.random ? chance.below(spare_y + 1) : spare_y / 2;
    const std::int64_t left = t.random ? chance.below(spare_x + 1) : spare_x / 2;
    using T = std::remove_reference_t<decltype(*out.data)>;
    crop_picture(in, out, top - t.padding, left - t.padding, pixel_of<T>(static_cast<float>(t.fill)));
  });
}

void apply(const Rotate& t, const Run& run) {
  const Pictures size = pictures_of(run.x().type(), "data::Rotate");
  each_picture(run, "data::Rotate", size, size, [&](auto in, auto out, std::size_t row) {
    const double degrees = t.random ? (2 * run.chance(row).uniform() - 1) * t.degrees : t.degrees;
    const double angle = degrees * std::numbers::pi / 180;
    rotate_picture(in, out, static_cast<float>(std::cos(angle)), static_cast<float>(std::sin(angle)),
                   static_cast<float>(t.fill));
  });
}

void apply(const ColorJitter& t, const Run& run) {
  const Pictures size = pictures_of(run.x().type(), "data::ColorJitter");
  if ((t.saturation != 0 || t.hue != 0) && size.channels != 3)
    refuse_transform("data::ColorJitter", "saturation and hue are of colours", "3 channels",
                     fmt::format("{}", size.channels));
  std::vector<float> floats(static_cast<std::size_t>(size.height * size.width * size.channels));
  each_picture(run, "data::ColorJitter", size, size, [&](auto in, auto out, std::size_t row) {
    Chance chance = run.chance(row);
    const auto factor = [&](double range) {
      const double low = std::max(0.0, 1 - range);
      return static_cast<float>(low + chance.uniform() * (1 + range - low));
    };
    Jitter jitter{factor(t.brightness), factor(t.contrast), factor(t.saturation), 0};
    jitter.hue = static_cast<float>((2 * chance.uniform() - 1) * t.hue);
    using T = std::remove_reference_t<decltype(*out.data)>;
    const float unit = std::is_integral_v<T> ? 255.0f : 1.0f;
    for (std::size_t i = 0; i < floats.size(); ++i) floats[i] = static_cast<float>(in.data[i]) / unit;
    jitter_picture({floats.data(), size.height, size.width, size.channels}, jitter);
    for (std::size_t i = 0; i < floats.size(); ++i) out.data[i] = pixel_of<T>(floats[i] * unit);
  });
}

void apply(const Cutout& t, const Run& run) {
  const Pictures size = pictures_of(run.x().type(), "data::Cutout");
  each_picture(run, "data::Cutout", size, size, [&](auto in, auto out, std::size_t row) {
    copy_picture(in, out);
    Chance chance = run.chance(row);
    using T = std::remove_reference_t<decltype(*out.data)>;
    for (std::int64_t n = 0; n < t.count; ++n) {
      const std::int64_t top = chance.below(size.height) - t.size / 2;
      const std::int64_t left = chance.below(size.width) - t.size / 2;
      cut_out(out, top, left, t.size, pixel_of<T>(static_cast<float>(t.fill)));
    }
  });
}

void apply(const OneHot& t, const Run& run) {
  Literal& y = label_field(run, t.field, "data::OneHot");
  if (!is_integer(y.dtype()))
    throw Error(ErrorKind::kDType, "data::OneHot", "labels are whole numbers", "an integer field",
                y.type().to_string());
  Shape shape = y.shape();
  shape.push_back(t.classes);
  const float rest = static_cast<float>(t.smoothing / static_cast<double>(t.classes));
  Literal made = Literal::full({DType::f32, shape}, static_cast<double>(rest));
  float* out = made.mutable_values<float>().data();
  const std::int64_t per_row = y.count() / std::max<std::int64_t>(1, y.shape()[0].value());
  visit_dtype(y.dtype(), [&]<class T>() {
    if constexpr (std::is_integral_v<T>) {
      std::int64_t i = 0;
      for (const T value : y.values<T>()) {
        const std::int64_t label = static_cast<std::int64_t>(value);
        if (label < 0 || label >= t.classes)
          throw Error(
              ErrorKind::kInvalidArgument,
              fmt::format("sample {}: data::OneHot", run.indices[static_cast<std::size_t>(i / per_row)]),
              "there is no such class", fmt::format("0 to {}", t.classes - 1), fmt::format("{}", label));
        out[label] += static_cast<float>(1 - t.smoothing);
        out += t.classes;
        ++i;
      }
    }
  });
  y = std::move(made);
}

// λ·row + (1-λ)·row of the partner, as f32.
Literal mixed(const Literal& x, std::span<const std::int64_t> partners, float share) {
  BatchArray made({DType::f32, x.shape()});
  float* out = made.as<float>();
  const std::int64_t count = x.count() / std::max<std::int64_t>(1, std::ssize(partners));
  visit_dtype(x.dtype(), [&]<class T>() {
    const T* const in = x.values<T>().data();
    for (std::size_t row = 0; row < partners.size(); ++row) {
      const T* const a = in + static_cast<std::int64_t>(row) * count;
      const T* const b = in + partners[row] * count;
      for (std::int64_t i = 0; i < count; ++i)
        *out++ = static_cast<float>(a[i]) * share + static_cast<float>(b[i]) * (1 - share);
    }
  });
  return made.value;
}

void apply(const Mixup& t, const Run& run) {
  Literal& y = label_field(run, kLastField, "data::Mixup");
  if (is_integer(y.dtype())) {
    if (t.classes <= 0)
      throw Error(ErrorKind::kInvalidArgument, "data::Mixup", "labels that are whole numbers cannot be mixed",
                  "Mixup{.classes = n}, or OneHot before it", y.type().to_string());
    apply(OneHot{.classes = t.classes}, run);
  }
  Chance chance = chance_of(run.occasion, ~run.occasion.step, run.place);  // no sample has such an index
  static thread_local std::pair<double, std::vector<double>> table;
  if (table.second.empty() || table.first != t.alpha) table = {t.alpha, beta_quantiles(t.alpha, kQuantiles)};
  const double at = chance.uniform() * static_cast<double>(kQuantiles - 1);
  const std::size_t low = static_cast<std::size_t>(at);
  const double share =
      table.second[low] + (table.second[low + 1] - table.second[low]) * (at - static_cast<double>(low));
  const std::vector<std::int64_t> partners = permutation(std::ssize(run.indices), chance.word());
  run.x() = mixed(run.x(), partners, static_cast<float>(share));
  y = mixed(y, partners, static_cast<float>(share));
}

void apply(const Custom& t, const Run& run) {
  if (!t.on_sample)
    throw Error(ErrorKind::kUnsupported, "data::Custom " + t.name, "it has no form for samples on the CPU",
                "on_sample set");
  std::vector<Sample> samples;
  for (std::size_t row = 0; row < run.indices.size(); ++row) {
    Sample sample;
    for (const Literal& field : run.batch)
      sample.push_back(
          rows_of(field, static_cast<std::int64_t>(row), 1).reshaped(without_leading(field.shape())));
    samples.push_back(naming_sample(run.indices[row],
                                    [&] { return t.on_sample(std::move(sample), run.chance(row).word()); }));
  }
  run.batch = stacked(samples, run.indices);
}

}  // namespace

void transform_batch(std::span<const Transform> list, std::size_t first, std::size_t last,
                     std::vector<Literal>& batch, std::span<const std::int64_t> indices,
                     const Occasion& occasion) {
  if (indices.empty() || first == last) return;
  for (const Literal& field : batch)
    if (field.rank() == 0 || field.shape()[0] != Dim(std::ssize(indices)))
      refuse_transform("data::Transforms", "not a batch of these samples",
                       fmt::format("a leading axis of {}", indices.size()), field.type().to_string());
  if (batch.empty()) return;
  for (std::size_t place = first; place < last; ++place) {
    check_parameters(list[place]);
    const Run run{batch, indices, occasion, place};
    std::visit([&](const auto& transform) { apply(transform, run); }, list[place]);
  }
}

Sample transform_sample(std::span<const Transform> list, std::size_t first, std::size_t last, Sample sample,
                        std::int64_t index, const Occasion& occasion) {
  for (std::size_t place = first; place < last; ++place)
    if (std::holds_alternative<Mixup>(list[place]))
      throw Error(ErrorKind::kInvalidArgument, "data::Mixup", "one sample has no other to be mixed with",
                  "a batch: apply(), or a Loader");
  for (Literal& field : sample) field = field.reshaped(with_leading(1, field.shape()));
  transform_batch(list, first, last, sample, std::span(&index, 1), occasion);
  for (Literal& field : sample) field = field.reshaped(without_leading(field.shape()));
  return sample;
}

}  // namespace systole::data
