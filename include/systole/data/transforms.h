#pragma once

// Changes to samples on their way to a model: numbers brought into range, pictures turned, cut and coloured
// by chance. Each is a plain struct of parameters with two forms of one meaning: on the CPU, sample by
// sample, in a Loader; and as graph ops on a whole batch, in a compiled step on any device.
//
//   data::Transforms augment{data::Crop{.padding = 4}, data::Flip{}, data::Normalize{.mean = {0.5}}};
//   data::Loader loader(train, {.batch = 64, .map = augment});             // on the CPU
//   std::vector<Tensor> xy = augment({x, y}, random::next_key());          // in a trace, on the device
//
// Field 0 is the picture, [height,width] or [height,width,channels], u8 or floating-point; the last is the
// label. Flip, Crop and Rotate move field 0 alone: a mask would no longer lie on it. What happens by chance
// to sample i is a function of (seed, epoch, i) on the CPU and of the key on a device. u8 stays u8 (rounded
// to nearest, half to even) until Normalize, Standardize or Mixup makes f32 of it.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <optional>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "systole/base/export.h"
#include "systole/base/literal.h"
#include "systole/data/source.h"
#include "systole/tensor/tensor.h"

namespace systole::data {

// (x·scale - mean) / stddev as f32; one number, or one per channel (the last axis). Left out, scale is 1/255
// for u8 and 1 for everything else.
struct Normalize {
  std::vector<double> mean = {0}, stddev = {1};
  std::optional<double> scale = {};
};

// Normalize with the mean and deviation of field 0 of these samples, per channel or, of rows of numbers, per
// feature. Numbers that are missing (NaN) or infinite do not count; what is everywhere the same keeps 1 as
// its deviation. Pictures are looked at until 65,536 of them were seen.
SYSTOLE_API Normalize fitted_normalize(const Source& source);

// (x - m) / max(s, 1/√n) with mean and deviation of each sample's n numbers.
struct Standardize {};

// To another size, bilinear with pixels as squares (PyTorch's align_corners = false, no antialiasing).
struct Resize {
  std::int64_t height = 0, width = 0;
};

struct Flip {
  double probability = 0.5;
  bool vertical = false;  // upside down in place of left and right
};

// A part of this size at a random place of the picture with a border around it; in the middle unless random.
// A size of 0 is the picture's own.
struct Crop {
  std::int64_t padding = 0, height = 0, width = 0;
  double fill = 0;
  bool random = true;
};

// By an angle between -degrees and degrees about the middle, bilinear; outside is `fill`. Counter-clockwise
// when positive. Not random: by exactly `degrees`.
struct Rotate {
  double degrees = 15;
  double fill = 0;
  bool random = true;
};

// torchvision's, in this order: brightness, contrast and saturation each by a factor in [1-v, 1+v], hue by a
// turn in [-hue, hue] (of 1). Pictures are in [0, 1], or u8, and stay there. Saturation and hue need three
// channels.
struct ColorJitter {
  double brightness = 0, contrast = 0, saturation = 0, hue = 0;
};

// Squares of this side at random places, cut off at the border, are filled.
struct Cutout {
  std::int64_t size = 8, count = 1;
  double fill = 0;
};

// Whole numbers in field `field` as vectors of 0 and 1; smoothing s gives 1-s+s/classes and s/classes.
struct OneHot {
  std::int64_t classes = 0;
  double smoothing = 0;
  std::size_t field = kLastField;
};

// Every sample with another of its batch: λ·a + (1-λ)·b in the first field and the last, one λ from
// Beta(alpha, alpha) per batch. Whole-number labels become one-hot first, of so many classes.
struct Mixup {
  double alpha = 0.2;
  std::int64_t classes = 0;  // needed when labels are whole numbers
};

// A change of your own. Where the form that is asked for is missing: kUnsupported.
struct Custom {
  std::string name = "custom";
  std::function<Sample(Sample, std::uint64_t chance)> on_sample = {};  // chance: a random word of this sample
  std::function<std::vector<Tensor>(std::vector<Tensor>, const Tensor& key)> on_batch = {};
};

using Transform = std::variant<Normalize, Standardize, Resize, Flip, Crop, Rotate, ColorJitter, Cutout,
                               OneHot, Mixup, Custom>;

class SYSTOLE_API Transforms {
 public:
  Transforms();
  Transforms(std::initializer_list<Transform> list);
  explicit Transforms(std::vector<Transform> list);
  Transforms(const Transforms&);
  Transforms(Transforms&&) noexcept;
  Transforms& operator=(const Transforms&);
  Transforms& operator=(Transforms&&) noexcept;
  ~Transforms();

  bool empty() const { return list_.empty(); }
  const std::vector<Transform>& list() const { return list_; }
  Transforms& then(Transform next);  // appended
  std::string to_string() const;     // "crop padding 4, flip 0.5, normalise", one line

  // One sample on the CPU. Mixup needs a batch and is left to apply().
  Sample operator()(Sample sample, std::uint64_t seed = 0, std::int64_t epoch = 0,
                    std::int64_t index = 0) const;
  // A batch on the CPU, changed in place: row i is sample indices[i]; `step` numbers the batch for Mixup.
  void apply(std::vector<Literal>& batch, std::span<const std::int64_t> indices, std::uint64_t seed,
             std::int64_t epoch, std::int64_t step = 0) const;
  // A batch on a device, as graph ops; also in a trace. Without random parts the key is not looked at.
  std::vector<Tensor> operator()(std::vector<Tensor> batch, const Tensor& key) const;

  // Whether some sample may change its size, so that it must happen before samples make a batch: Resize, and
  // Crop to a size.
  bool resizes() const;
  bool random() const;  // whether anything is left to chance

 private:
  std::vector<Transform> list_;
};

}  // namespace systole::data
