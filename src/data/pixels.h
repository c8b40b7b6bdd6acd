#pragma once

// Pixel work of the transforms on one picture in memory, channels last. Numbers are f32 on the way, as on a
// device; u8 results are rounded to nearest, half to even, and cut off at 0 and 255.

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <cstring>

namespace systole::data {

template <class T>
struct Picture {
  T* data;
  std::int64_t height, width, channels;

  T* at(std::int64_t y, std::int64_t x) const { return data + (y * width + x) * channels; }
};

template <class T>
T pixel_of(float value) {
  constexpr float kWhole = 0x1.8p23f;  // beside it a float has no fraction: adding rounds, half to even
  if constexpr (std::is_integral_v<T>)
    return static_cast<T>((std::clamp(value, 0.0f, 255.0f) + kWhole) - kWhole);
  else
    return static_cast<T>(value);
}

template <class T>
void copy_picture(Picture<const T> in, Picture<T> out) {
  std::memcpy(out.data, in.data, static_cast<std::size_t>(in.height * in.width * in.channels) * sizeof(T));
}

template <class T>
void flip_picture(Picture<const T> in, Picture<T> out, bool vertical) {
  const std::size_t pixel = static_cast<std::size_t>(in.channels) * sizeof(T);
  for (std::int64_t y = 0; y < in.height; ++y) {
    if (vertical) {
      std::memcpy(out.at(y, 0), in.at(in.height - 1 - y, 0), pixel * static_cast<std::size_t>(in.width));
      continue;
    }
    for (std::int64_t x = 0; x < in.width; ++x) std::memcpy(out.at(y, x), in.at(y, in.width - 1 - x), pixel);
  }
}

// `top` and `left` may be negative or beyond: there is `fill`.
template <class T>
void crop_picture(Picture<const T> in, Picture<T> out, std::int64_t top, std::int64_t left, T fill) {
  for (std::int64_t y = 0; y < out.height; ++y) {
    T* const row = out.at(y, 0);
    const std::int64_t from = y + top;
    const bool inside = from >= 0 && from < in.height;
    const std::int64_t begin = inside ? std::clamp<std::int64_t>(-left, 0, out.width) : out.width;
    const std::int64_t end = inside ? std::clamp<std::int64_t>(in.width - left, begin, out.width) : out.width;
    std::fill(row, row + begin * out.channels, fill);
    if (end > begin)
      std::memcpy(row + begin * out.channels, in.at(from, begin + left),
                  static_cast<std::size_t>((end - begin) * out.channels) * sizeof(T));
    std::fill(row + end * out.channels, row + out.width * out.channels, fill);
  }
}

// std::floor, which is a call where the processor's own is not assumed.
inline std::int64_t whole_below(float value) {
  const std::int64_t whole = static_cast<std::int64_t>(value);
  return static_cast<float>(whole) > value ? whole - 1 : whole;
}

template <class T>
void rotate_picture(Picture<const T> in, Picture<T> out, float cosine, float sine, float fill) {
  const float middle_x = static_cast<float>(in.width - 1) / 2,
              middle_y = static_cast<float>(in.height - 1) / 2;
  for (std::int64_t y = 0; y < in.height; ++y)
    for (std::int64_t x = 0; x < in.width; ++x) {
      const float dx = static_cast<float>(x) - middle_x, dy = static_cast<float>(y) - middle_y;
      const float from_x = cosine * dx - sine * dy + middle_x, from_y = sine * dx + cosine * dy + middle_y;
      const std::int64_t ix = whole_below(from_x), iy = whole_below(from_y);
      const float wx = from_x - static_cast<float>(ix), wy = from_y - static_cast<float>(iy);
      T* const to = out.at(y, x);
      const auto blend = [&](auto&& corner) {
        for (std::int64_t c = 0; c < in.channels; ++c) {
          const float upper = corner(iy, ix, c) * (1 - wx) + corner(iy, ix + 1, c) * wx;
          const float lower = corner(iy + 1, ix, c) * (1 - wx) + corner(iy + 1, ix + 1, c) * wx;
          to[c] = pixel_of<T>(upper * (1 - wy) + lower * wy);
        }
      };
      if (ix >= 0 && iy >= 0 && ix + 1 < in.width && iy + 1 < in.height)
        blend([&](std::int64_t v, std::int64_t u, std::int64_t c) {
          return static_cast<float>(in.at(v, u)[c]);
        });
      else
        blend([&](std::int64_t v, std::int64_t u, std::int64_t c) {
          const bool inside = v >= 0 && v < in.height && u >= 0 && u < in.width;
          return inside ? static_cast<float>(in.at(v, u)[c]) : fill;
        });
    }
}

// Where place `i` of `out` lies between two neighbours of `in`.
struct Between {
  std::int64_t low, high;
  float weight;  // of the high one
};
inline Between between(std::int64_t i, std::int64_t in, std::int64_t out) {
  const double at = std::max(
      0.0, (static_cast<double>(i) + 0.5) * static_cast<double>(in) / static_cast<double>(out) - 0.5);
  const std::int64_t low = std::min(static_cast<std::int64_t>(at), in - 1);
  return {low, std::min(low + 1, in - 1), static_cast<float>(at - static_cast<double>(low))};
}

template <class T>
void resize_picture(Picture<const T> in, Picture<T> out) {
  for (std::int64_t y = 0; y < out.height; ++y) {
    const Between v = between(y, in.height, out.height);
    for (std::int64_t x = 0; x < out.width; ++x) {
      const Between u = between(x, in.width, out.width);
      for (std::int64_t c = 0; c < in.channels; ++c) {
        const auto pixel = [&](std::int64_t row, std::int64_t column) {
          return static_cast<float>(in.at(row, column)[c]);
        };
        const float left = pixel(v.low, u.low) * (1 - v.weight) + pixel(v.high, u.low) * v.weight;
        const float right = pixel(v.low, u.high) * (1 - v.weight) + pixel(v.high, u.high) * v.weight;
        out.at(y, x)[c] = pixel_of<T>(left * (1 - u.weight) + right * u.weight);
      }
    }
  }
}

template <class T>
void cut_out(Picture<T> picture, std::int64_t top, std::int64_t left, std::int64_t size, T fill) {
  const std::int64_t bottom = std::min(top + size, picture.height),
                     right = std::min(left + size, picture.width);
  for (std::int64_t y = std::max<std::int64_t>(top, 0); y < bottom; ++y)
    if (const std::int64_t begin = std::max<std::int64_t>(left, 0); begin < right)
      std::fill(picture.at(y, begin), picture.at(y, 0) + right * picture.channels, fill);
}

struct Jitter {
  float brightness = 1, contrast = 1, saturation = 1, hue = 0;
};

inline constexpr float kRedShare = 0.2989f, kGreenShare = 0.587f, kBlueShare = 0.114f;

inline float grey_of(const float* rgb) {
  return kRedShare * rgb[0] + kGreenShare * rgb[1] + kBlueShare * rgb[2];
}

// Red, green and blue in [0, 1] with the hue turned, as torchvision does it by way of hue, saturation, value.
inline void turn_hue(float* rgb, float turn) {
  const float high = std::max({rgb[0], rgb[1], rgb[2]}), low = std::min({rgb[0], rgb[1], rgb[2]});
  const float range = high - low;
  if (range == 0) return;
  const float saturation = range / high;
  const float r = (high - rgb[0]) / range, g = (high - rgb[1]) / range, b = (high - rgb[2]) / range;
  float hue = high == rgb[0] ? b - g : high == rgb[1] ? 2 + r - b : 4 + g - r;
  hue = hue / 6 + 1 + turn;
  hue -= std::floor(hue);
  const float sector = std::floor(hue * 6), part = hue * 6 - sector;
  const float p = std::clamp(high * (1 - saturation), 0.0f, 1.0f);
  const float q = std::clamp(high * (1 - saturation * part), 0.0f, 1.0f);
  const float t = std::clamp(high * (1 - saturation * (1 - part)), 0.0f, 1.0f);
  const std::array<std::array<float, 3>, 6> choices = {
      {{high, t, p}, {q, high, p}, {p, high, t}, {p, q, high}, {t, p, high}, {high, p, q}}};
  std::copy_n(choices[static_cast<std::size_t>(sector) % 6].begin(), 3, rgb);
}

// `pixels`: floats in [0, 1].
inline void jitter_picture(Picture<float> picture, const Jitter& jitter) {
  const std::int64_t pixels = picture.height * picture.width, channels = picture.channels;
  const auto limited = [](float v) { return std::clamp(v, 0.0f, 1.0f); };
  const auto each = [&](auto&& change) {
    for (std::int64_t i = 0; i < pixels * channels; ++i) picture.data[i] = limited(change(picture.data[i]));
  };
  if (jitter.brightness != 1) each([&](float v) { return v * jitter.brightness; });
  if (jitter.contrast != 1) {
    double sum = 0;
    for (std::int64_t i = 0; i < pixels; ++i)
      sum += static_cast<double>(channels == 3 ? grey_of(picture.data + 3 * i) : picture.data[i]);
    const float mean = static_cast<float>(sum / static_cast<double>(pixels));
    each([&](float v) { return v * jitter.contrast + mean * (1 - jitter.contrast); });
  }
  if (channels != 3) return;
  for (std::int64_t i = 0; i < pixels; ++i) {
    float* const rgb = picture.data + 3 * i;
    if (jitter.saturation != 1) {
      const float grey = grey_of(rgb);
      for (int c = 0; c < 3; ++c)
        rgb[c] = limited(rgb[c] * jitter.saturation + grey * (1 - jitter.saturation));
    }
    if (jitter.hue != 0) turn_hue(rgb, jitter.hue);
  }
}

}  // namespace systole::data
