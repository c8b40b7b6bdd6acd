#pragma once

// The CPU form of the transforms, between the list and what runs it: Transforms and the Loader.

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "systole/base/literal.h"
#include "systole/data/transforms.h"

namespace systole::data {

struct Occasion {
  std::uint64_t seed = 0;
  std::int64_t epoch = 0, step = 0;
};

// list[first] … list[last-1] on a batch. Chance knows a transform by its place in the list, so that a list
// may be run in pieces.
void transform_batch(std::span<const Transform> list, std::size_t first, std::size_t last,
                     std::vector<Literal>& batch, std::span<const std::int64_t> indices,
                     const Occasion& occasion);

// The same on one sample. A Mixup in it is kInvalidArgument.
Sample transform_sample(std::span<const Transform> list, std::size_t first, std::size_t last, Sample sample,
                        std::int64_t index, const Occasion& occasion);

// How many from the start of the list must have run before samples make a batch.
std::size_t sample_part(std::span<const Transform> list);

// Beta(alpha, alpha): where its distribution reaches i/(count-1), for i = 0 … count-1.
std::vector<double> beta_quantiles(double alpha, std::size_t count);
inline constexpr std::size_t kQuantiles = 1025;

// Numbers of Normalize as x·factor + offset, one pair per channel, as f32.
struct Line {
  std::vector<float> factor, offset;
};
Line line_of(const Normalize& normalise, DType dtype, std::int64_t channels);

// A picture's batch as [batch, height, width, channels]; throws kShape naming the transform.
struct Pictures {
  std::int64_t batch = 0, height = 0, width = 0, channels = 1;
};
Pictures pictures_of(const Type& type, const char* transform);
Pictures after_crop(const Crop& crop, const Pictures& in);  // throws kShape when it does not fit

[[noreturn]] void refuse_transform(const char* transform, const std::string& message,
                                   const std::string& expected, const std::string& got);
void check_parameters(const Transform& transform);  // throws kInvalidArgument

}  // namespace systole::data
