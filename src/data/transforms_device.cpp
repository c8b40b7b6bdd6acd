// The transforms as graph ops on a batch: the same parameters and the same arithmetic as on the CPU, with
// chance from a key. Pictures are moved by gathering pixels, [batch·height·width, channels] by row numbers.

#include <fmt/format.h>

#include <cmath>
#include <numbers>

#include "data/pixels.h"
#include "data/transform_batch.h"
#include "systole/base/error.h"
#include "systole/data/transforms.h"
#include "systole/tensor/creation.h"
#include "systole/tensor/math.h"
#include "systole/tensor/random.h"
#include "systole/tensor/shaping.h"

namespace systole::data {

namespace {

struct Run {
  std::vector<Tensor>& batch;
  const Tensor& key;  // of this transform alone

  Tensor& x() const { return batch[0]; }
};

// [batch, height, width, channels], and back.
Tensor with_channels(const Tensor& x, const Pictures& size) {
  return reshape(x, {size.batch, size.height, size.width, size.channels});
}
Tensor as_before(const Tensor& x, const Tensor& before, const Pictures& size) {
  return before.rank() == 4 ? x : reshape(x, {size.batch, size.height, size.width});
}

Tensor floats(const Tensor& x) { return is_float(x.dtype()) ? x : x.to(DType::f32); }
// Back to the pictures' dtype.
Tensor pixels(const Tensor& x, DType dtype) {
  return dtype == DType::u8 ? round(clip(x, 0.0, 255.0)).to(DType::u8) : x.to(dtype);
}
Tensor fill_of(double fill, DType dtype) {
  return dtype == DType::u8 ? tensor(pixel_of<std::uint8_t>(static_cast<float>(fill)), DType::u8)
                            : tensor(fill, dtype);
}

Tensor per_sample(const Tensor& numbers, int rank = 4) {  // [batch] as [batch, 1, …]
  Shape shape{numbers.shape()[0]};
  for (int i = 1; i < rank; ++i) shape.push_back(1);
  return reshape(numbers, shape);
}

// The pixels at rows and columns (i32, broadcast to [batch, h, w]) that are inside; elsewhere `fill`.
Tensor pixels_at(const Tensor& x, const Pictures& size, const Tensor& rows, const Tensor& columns,
                 const Tensor& fill) {
  const std::int32_t height = static_cast<std::int32_t>(size.height);
  const std::int32_t width = static_cast<std::int32_t>(size.width);
  const Tensor sample = reshape(arange(size.batch), {size.batch, 1, 1}) * (height * width);
  const Tensor inside = rows >= 0 && rows < height && columns >= 0 && columns < width;
  const Tensor place =
      sample + clip(rows, 0, height - 1) * width + clip(columns, 0, width - 1);  // [batch, h, w]
  const Tensor all = reshape(x, {size.batch * size.height * size.width, size.channels});
  return where(unsqueeze(inside, -1), take(all, place, 0), fill);  // [batch, h, w, channels]
}

void change(const Normalize& t, const Run& run) {
  const Tensor& x = run.x();
  const Line line = line_of(t, x.dtype(), x.rank() > 1 ? x.size(-1) : 1);
  const auto numbers = [](const std::vector<float>& list) {
    return list.size() == 1 ? Tensor(list[0]) : tensor(list);
  };
  run.x() = x.to(DType::f32) * numbers(line.factor) + numbers(line.offset);
}

void change(const Standardize&, const Run& run) {
  const Tensor x = run.x().to(DType::f32);
  Ints axes;
  for (int i = 1; i < x.rank(); ++i) axes.push_back(i);
  const double count = static_cast<double>(x.size()) / static_cast<double>(x.size(0));
  const Tensor centred = x - mean(x, axes, true);
  run.x() = centred / maximum(sqrt(mean(square(centred), axes, true)), 1 / std::sqrt(count));
}

void change(const Resize& t, const Run& run) {
  const Tensor before = run.x();
  Pictures size = pictures_of(before.type(), "data::Resize");
  if (size.height == t.height && size.width == t.width) return;
  Tensor x = floats(with_channels(before, size));
  for (const auto& [axis, in, out] : {std::tuple{1, size.height, t.height}, {2, size.width, t.width}}) {
    std::vector<std::int32_t> low, high;
    std::vector<float> weights;
    for (std::int64_t i = 0; i < out; ++i) {
      const Between place = between(i, in, out);
      low.push_back(static_cast<std::int32_t>(place.low));
      high.push_back(static_cast<std::int32_t>(place.high));
      weights.push_back(place.weight);
    }
    Shape along{1, 1, 1, 1};
    along[static_cast<std::size_t>(axis)] = out;
    const Tensor weight = reshape(tensor(weights), along).to(x.dtype());
    x = take(x, tensor(low), axis) * (1 - weight) + take(x, tensor(high), axis) * weight;
  }
  size.height = t.height;
  size.width = t.width;
  run.x() = as_before(pixels(x, before.dtype()), before, size);
}

void change(const Flip& t, const Run& run) {
  const Pictures size = pictures_of(run.x().type(), "data::Flip");
  if (t.probability <= 0) return;
  const Tensor flipped = flip(run.x(), t.vertical ? 1 : 2);
  if (t.probability >= 1) {
    run.x() = flipped;
    return;
  }
  const Tensor chosen = random::uniform(run.key, {size.batch}) < t.probability;
  run.x() = where(per_sample(chosen, run.x().rank()), flipped, run.x());
}

// 0 … spare, for each sample.
Tensor offsets(const Tensor& key, std::int64_t batch, std::int64_t spare, bool random) {
  if (random) return random::randint(key, {batch}, 0, spare + 1);
  return full({batch}, tensor(static_cast<std::int32_t>(spare / 2)));
}

void change(const Crop& t, const Run& run) {
  const Tensor before = run.x();
  const Pictures from = pictures_of(before.type(), "data::Crop"), to = after_crop(t, from);
  const std::vector<Tensor> keys = t.random ? random::split(run.key) : std::vector<Tensor>(2);
  const std::int32_t padding = static_cast<std::int32_t>(t.padding);
  const Tensor top = offsets(keys[0], from.batch, from.height + 2 * t.padding - to.height, t.random);
  const Tensor left = offsets(keys[1], from.batch, from.width + 2 * t.padding - to.width, t.random);
  const Tensor rows = per_sample(top, 3) + reshape(arange(to.height), {1, to.height, 1}) - padding;
  const Tensor columns = per_sample(left, 3) + reshape(arange(to.width), {1, 1, to.width}) - padding;
  run.x() = as_before(pixels_at(before, from, rows, columns, fill_of(t.fill, before.dtype())), before, to);
}

void change(const Rotate& t, const Run& run) {
  const Tensor before = run.x();
  const Pictures size = pictures_of(before.type(), "data::Rotate");
  const double radians = t.degrees * std::numbers::pi / 180;
  const Tensor angle = t.random ? random::uniform(run.key, {size.batch}, -radians, radians)
                                : full({size.batch}, tensor(radians));
  const Tensor cosine = per_sample(cos(angle), 3), sine = per_sample(sin(angle), 3);
  const float middle_x = static_cast<float>(size.width - 1) / 2;
  const float middle_y = static_cast<float>(size.height - 1) / 2;
  const Tensor dx = reshape(arange(size.width).to(DType::f32), {1, 1, size.width}) - middle_x;
  const Tensor dy = reshape(arange(size.height).to(DType::f32), {1, size.height, 1}) - middle_y;
  const Tensor from_x = cosine * dx - sine * dy + middle_x, from_y = sine * dx + cosine * dy + middle_y;
  const Tensor x0 = floor(from_x), y0 = floor(from_y);
  const Tensor wx = unsqueeze(from_x - x0, -1), wy = unsqueeze(from_y - y0, -1);
  const Tensor column = x0.to(DType::i32), row = y0.to(DType::i32);
  const Tensor fill = tensor(t.fill, is_float(before.dtype()) ? before.dtype() : DType::f32);
  const Tensor x = floats(before);
  const Tensor upper =
      pixels_at(x, size, row, column, fill) * (1 - wx) + pixels_at(x, size, row, column + 1, fill) * wx;
  const Tensor lower = pixels_at(x, size, row + 1, column, fill) * (1 - wx) +
                       pixels_at(x, size, row + 1, column + 1, fill) * wx;
  run.x() = as_before(pixels(upper * (1 - wy) + lower * wy, before.dtype()), before, size);
}

Tensor limited(const Tensor& x) { return clip(x, 0.0, 1.0); }

Tensor grey(const Tensor& x) {  // [batch, h, w, 3] as [batch, h, w, 1]
  return sum(x * tensor(std::vector<float>{kRedShare, kGreenShare, kBlueShare}).to(x.dtype()), -1, true);
}

Tensor turned(const Tensor& x, const Tensor& turn) {
  const Tensor red = x[{ellipsis, 0}], green = x[{ellipsis, 1}], blue = x[{ellipsis, 2}];
  const Tensor high = amax(x, -1), range = high - amin(x, -1);
  const Tensor safe = where(range == 0, 1.0, range);
  const Tensor saturation = range / where(high == 0, 1.0, high);
  const Tensor r = (high - red) / safe, g = (high - green) / safe, b = (high - blue) / safe;
  Tensor hue = where(high == red, b - g, where(high == green, 2 + r - b, 4 + g - r)) / 6 + 1 + turn;
  hue = hue - floor(hue);
  const Tensor sector = floor(hue * 6), part = hue * 6 - sector;
  const Tensor p = limited(high * (1 - saturation)), q = limited(high * (1 - saturation * part));
  const Tensor s = limited(high * (1 - saturation * (1 - part)));
  const auto chosen = [&](std::array<Tensor, 6> by_sector) {
    Tensor result = by_sector[5];
    for (std::size_t i = 5; i-- > 0;) result = where(sector == static_cast<double>(i), by_sector[i], result);
    return where(sector == 6.0, by_sector[0], result);  // a hue that was rounded up to 1
  };
  const Tensor colours = stack(
      {chosen({high, q, p, p, s, high}), chosen({s, high, high, q, p, p}), chosen({p, p, s, high, high, q})},
      -1);
  return where(unsqueeze(range == 0, -1), x, colours);
}

void change(const ColorJitter& t, const Run& run) {
  const Tensor before = run.x();
  const Pictures size = pictures_of(before.type(), "data::ColorJitter");
  if ((t.saturation != 0 || t.hue != 0) && size.channels != 3)
    refuse_transform("data::ColorJitter", "saturation and hue are of colours", "3 channels",
                     fmt::format("{}", size.channels));
  const std::vector<Tensor> keys = random::split(run.key, 4);
  const double unit = before.dtype() == DType::u8 ? 255 : 1;
  Tensor x = floats(with_channels(before, size)) / unit;
  const auto factor = [&](std::size_t i, double range) {
    return per_sample(random::uniform(keys[i], {size.batch}, std::max(0.0, 1 - range), 1 + range))
        .to(x.dtype());
  };
  if (t.brightness != 0) x = limited(x * factor(0, t.brightness));
  if (t.contrast != 0) {
    const Tensor f = factor(1, t.contrast);
    const Tensor middle = mean(size.channels == 3 ? grey(x) : x, {1, 2, 3}, true);
    x = limited(x * f + middle * (1 - f));
  }
  if (t.saturation != 0) {
    const Tensor f = factor(2, t.saturation);
    x = limited(x * f + grey(x) * (1 - f));
  }
  if (t.hue != 0)
    x = turned(x, per_sample(random::uniform(keys[3], {size.batch}, -t.hue, t.hue), 3).to(x.dtype()));
  run.x() = as_before(pixels(x * unit, before.dtype()), before, size);
}

void change(const Cutout& t, const Run& run) {
  const Pictures size = pictures_of(run.x().type(), "data::Cutout");
  if (t.count == 0) return;
  Tensor x = with_channels(run.x(), size);
  const std::vector<Tensor> keys = random::split(run.key, 2 * t.count);
  const Tensor row = reshape(arange(size.height), {1, size.height, 1, 1});
  const Tensor column = reshape(arange(size.width), {1, 1, size.width, 1});
  const std::int32_t side = static_cast<std::int32_t>(t.size);
  for (std::size_t n = 0; n < static_cast<std::size_t>(t.count); ++n) {
    const Tensor top = per_sample(random::randint(keys[2 * n], {size.batch}, 0, size.height)) - side / 2;
    const Tensor left = per_sample(random::randint(keys[2 * n + 1], {size.batch}, 0, size.width)) - side / 2;
    const Tensor inside = row >= top && row < top + side && column >= left && column < left + side;
    x = where(inside, fill_of(t.fill, x.dtype()), x);
  }
  run.x() = as_before(x, run.x(), size);
}

Tensor& label_field(const Run& run, std::size_t field, const char* transform) {
  if (field == kLastField) field = run.batch.size() > 1 ? run.batch.size() - 1 : 1;  // the first is no label
  if (field >= run.batch.size())
    refuse_transform(transform, "samples have no such field",
                     fmt::format("fields 0 to {}", run.batch.size() - 1), fmt::format("field {}", field));
  return run.batch[field];
}

void change(const OneHot& t, const Run& run) {
  Tensor& y = label_field(run, t.field, "data::OneHot");
  if (!is_integer(y.dtype()))
    throw Error(ErrorKind::kDType, "data::OneHot", "labels are whole numbers", "an integer field",
                y.type().to_string());
  const Tensor exact = one_hot(y, t.classes);
  y = t.smoothing == 0 ? exact : exact * (1 - t.smoothing) + t.smoothing / static_cast<double>(t.classes);
}

void change(const Mixup& t, const Run& run) {
  Tensor& y = label_field(run, kLastField, "data::Mixup");
  if (is_integer(y.dtype())) {
    if (t.classes <= 0)
      throw Error(ErrorKind::kInvalidArgument, "data::Mixup", "labels that are whole numbers cannot be mixed",
                  "Mixup{.classes = n}, or OneHot before it", y.type().to_string());
    change(OneHot{.classes = t.classes}, run);
  }
  const std::vector<Tensor> keys = random::split(run.key);
  // λ by the inverse of its distribution, between the points of a table.
  const std::vector<double> quantiles = beta_quantiles(t.alpha, kQuantiles);
  const Tensor table = tensor(std::vector<float>(quantiles.begin(), quantiles.end()));
  const Tensor at = random::uniform(keys[0], {}) * static_cast<double>(kQuantiles - 1);
  const Tensor low = clip(floor(at), 0.0, static_cast<double>(kQuantiles - 2));
  const Tensor below = take(table, low.to(DType::i32), 0), above = take(table, low.to(DType::i32) + 1, 0);
  const Tensor share = below + (above - below) * (at - low);
  const Tensor partners = random::permutation(keys[1], run.x().size(0));
  for (Tensor* field : {&run.x(), &y}) {
    const Tensor value = field->to(DType::f32);
    *field = value * share + take(value, partners, 0) * (1 - share);
  }
}

void change(const Custom& t, const Run& run) {
  if (!t.on_batch)
    throw Error(ErrorKind::kUnsupported, "data::Custom " + t.name, "it has no form for batches on a device",
                "on_batch set");
  run.batch = t.on_batch(std::move(run.batch), run.key);
}

}  // namespace

std::vector<Tensor> Transforms::operator()(std::vector<Tensor> batch, const Tensor& key) const {
  if (list_.empty() || batch.empty()) return batch;
  const std::vector<Tensor> keys =
      random() ? random::split(key, static_cast<std::int64_t>(list_.size())) : std::vector<Tensor>{};
  for (std::size_t i = 0; i < list_.size(); ++i) {
    check_parameters(list_[i]);
    const Run run{batch, keys.empty() ? key : keys[i]};
    std::visit([&](const auto& transform) { change(transform, run); }, list_[i]);
  }
  return batch;
}

}  // namespace systole::data
