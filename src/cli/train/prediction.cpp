#include "cli/train/prediction.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <limits>
#include <numeric>
#include <optional>
#include <random>
#include <span>
#include <utility>

#include "base/whole_number.h"
#include "cli/train/data.h"
#include "cli/train/evaluation.h"
#include "cli/train/table.h"
#include "systole/base/error.h"
#include "systole/data.h"
#include "systole/io.h"
#include "systole/io/picture.h"
#include "systole/io/wav.h"
#include "systole/tensor/shaping.h"

namespace systole::cli {

namespace {

constexpr std::int64_t kAtOnce = 256;
constexpr std::int64_t kMostSamples = std::int64_t{1} << 28;  // of a sound: 93 minutes at 48 kHz

// The type of one row.
Type row_type(const SavedModel& model) {
  if (model.inputs().size() != 1)
    throw Error(ErrorKind::kUnsupported, fmt::format("model {}", model.name()), "it takes several inputs",
                "one", std::to_string(model.inputs().size()));
  const Type& whole = model.inputs()[0].type;
  Type row{whole.dtype, Shape(std::span(whole.shape.begin() + 1, whole.shape.end()))};
  if (!row.shape.is_static())
    throw Error(ErrorKind::kUnsupported, fmt::format("model {}", model.name()), "its input has no one size",
                "sizes that are numbers", whole.to_string());
  return row;
}

Shape with_rows(const Shape& row, std::int64_t count) {
  Shape shape{count};
  for (const Dim& d : row) shape.push_back(d);
  return shape;
}

Literal converted(const Literal& values, DType dtype) {
  return values.dtype() == dtype ? values : Tensor(values).to(dtype).literal();
}

// As the pictures of the training were read.
io::PictureOptions picture_options(const std::string& source, int channels) {
  io::PictureOptions options{.channels = channels};
  const std::string mode = option_of(source, "mode"), upright = option_of(source, "upright");
  if (mode == "index") options.mode = io::PictureMode::index;
  if (mode == "gray16") options.mode = io::PictureMode::gray16;
  options.upright = upright.empty() || (upright != "0" && upright != "false");
  return options;
}

Literal picture_row(const std::string& file, const Type& row, const Settings& settings, bool invert) {
  const int rank = row.shape.rank();
  const std::int64_t channels = rank == 3 ? row.shape[2].value() : 1;
  if (rank < 2 || rank > 3 || (channels != 1 && channels != 3))
    throw Error(ErrorKind::kShape, file, "the model takes no pictures", row.to_string(), "a picture");
  const io::PictureOptions options = picture_options(settings.data.source, static_cast<int>(channels));
  Literal picture = io::load_picture(file, options);
  const std::int64_t height = row.shape[0].value(), width = row.shape[1].value();
  const bool fits = picture.dims()[0] == height && picture.dims()[1] == width;
  if (!fits && options.mode != io::PictureMode::colours)
    throw Error(ErrorKind::kShape, file, "a picture whose numbers are kept is not brought to another size",
                row.to_string(), picture.type().to_string());
  if (!fits) picture = data::Transforms{data::Resize{height, width}}(data::Sample{picture})[0];
  if (invert && picture.dtype() == DType::u8)
    for (std::uint8_t& value : picture.mutable_values<std::uint8_t>())
      value = static_cast<std::uint8_t>(255 - value);
  picture = picture.reshaped(with_rows(row.shape, 1));
  if (row.dtype == picture.dtype()) return picture;
  return (Tensor(picture).to(DType::f32) / 255).to(row.dtype).literal();
}

Literal array_rows(const std::string& file, const Type& row) {
  Literal array = io::load_npy(file);
  if (array.shape() == row.shape) array = array.reshaped(with_rows(row.shape, 1));
  if (array.rank() != row.shape.rank() + 1 || with_rows(row.shape, array.dims()[0]) != array.shape())
    throw Error(ErrorKind::kShape, file, "its shape is not that of the model's input",
                fmt::format("{} or rows of it", row.to_string()), array.type().to_string());
  if (is_float(array.dtype()) && !is_float(row.dtype))
    throw Error(ErrorKind::kDType, file, "the model takes whole numbers", row.to_string(),
                array.type().to_string());
  return converted(array, row.dtype);
}

Literal table_rows(const std::string& file, const Type& row, const SavedModel& model) {
  Features features = features_of(model);
  Literal rows;
  if (!features.empty()) {
    rows = data::read_features(file, features);
  } else {
    rows = data::csv(file, {.unlabelled = true}).columns().at(0);
  }
  if (row.shape.rank() != 1 || rows.dims()[1] != row.shape[0].value())
    throw Error(ErrorKind::kShape, file, "another number of columns than the model takes", row.to_string(),
                rows.type().to_string());
  return converted(rows, row.dtype);
}

std::int64_t samples_of(const std::string& given) {
  const std::optional<std::int64_t> count = whole_number(given);
  if (!count || *count < 1 || *count > kMostSamples)
    throw Error(ErrorKind::kInvalidArgument, "data.source: samples", "not a length of a sound",
                fmt::format("1 to {} samples", kMostSamples), given);
  return *count;
}

Literal sound_row(const std::string& file, const Type& row, const SavedModel& model,
                  const Settings& settings) {
  const io::Sound sound = io::load_wav(file);
  require_rate(file, rate_of(model), sound.rate);
  Literal samples = sound.samples;
  if (samples.rank() == 2) samples = Tensor(samples).mean(1).literal();
  const std::int64_t mels = settings.data.mels;
  std::int64_t count = mels == 0 && row.shape.rank() == 1 ? row.shape[0].value() : sound.rate;
  if (const std::string given = option_of(settings.data.source, "samples"); !given.empty())
    count = samples_of(given);
  Literal values;
  if (mels > 0) {
    values = spectrum(samples, sound.rate, count, mels);
  } else {
    values = Literal({DType::f32, {count}});
    const std::span<const float> from = samples.values<float>();
    std::copy_n(from.begin(), std::min(from.size(), static_cast<std::size_t>(count)),
                values.mutable_values<float>().begin());
  }
  if (values.shape() != row.shape)
    throw Error(ErrorKind::kShape, file, "the sound is not as the model takes it", row.to_string(),
                values.type().to_string());
  return values.reshaped(with_rows(row.shape, 1));
}

Literal slice_rows(const Literal& all, std::int64_t from, std::int64_t count) {
  Shape shape = all.shape();
  shape[0] = count;
  const std::size_t bytes = all.byte_size() / static_cast<std::size_t>(all.dims()[0]);
  return Literal::copy_of({all.dtype(), shape},
                          all.as_bytes().subspan(static_cast<std::size_t>(from) * bytes,
                                                 static_cast<std::size_t>(count) * bytes));
}

bool are_probabilities(std::span<const float> row) {
  double sum = 0;
  for (const float x : row) {
    if (x < 0) return false;
    sum += x;
  }
  return std::abs(sum - 1) < 1e-3;
}

// Whether scores of classes say which is the most probable.
bool decide(std::span<const float> row) {
  return std::none_of(row.begin(), row.end(), [](float x) { return std::isnan(x); }) &&
         std::isfinite(*std::max_element(row.begin(), row.end()));
}

// In place.
void softmax(std::span<float> row, double temperature = 1) {
  const float largest = *std::max_element(row.begin(), row.end());
  double sum = 0;
  for (float& x : row) {
    const double e = std::exp((static_cast<double>(x) - largest) / temperature);
    x = static_cast<float>(e);
    sum += e;
  }
  for (float& x : row) x = static_cast<float>(x / sum);
}

}  // namespace

InputRows read_rows(const std::string& file, const SavedModel& model, const Settings& settings, bool invert) {
  const Type row = row_type(model);
  std::string extension = std::filesystem::path(file).extension().string();
  std::transform(extension.begin(), extension.end(), extension.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  if (!std::filesystem::exists(file)) throw Error(ErrorKind::kNotFound, file, "there is no such file");
  InputRows result;
  result.rows = extension == ".npy"                          ? array_rows(file, row)
                : extension == ".csv" || extension == ".tsv" ? table_rows(file, row, model)
                : extension == ".wav"                        ? sound_row(file, row, model, settings)
                                                             : picture_row(file, row, settings, invert);
  const std::int64_t count = result.rows.dims()[0];
  for (std::int64_t i = 0; i < count; ++i)
    result.names.push_back(count == 1 ? file : fmt::format("{}[{}]", file, i));
  return result;
}

Predicted predict_rows(const SavedModel& model, const Literal& rows, const std::string& device) {
  const std::int64_t count = rows.dims()[0];
  const bool classes = !model.classes().empty() || has_places(model);
  training::BadSamples bad([&] { return weights_of(model); });
  std::vector<float> all;
  Shape shape;
  for (std::int64_t from = 0; from < count; from += kAtOnce) {
    const Tensor x(slice_rows(rows, from, std::min(kAtOnce, count - from)));
    const std::array<Tensor, 1> inputs{device.empty() ? x : x.to(device)};
    const Tensor out = model.run(inputs).at(0).to(DType::f32);
    const Literal values = out.literal();
    // Numbers that are no scores of classes must all be finite, as if there were targets of their shape.
    bad.look_at(
        values, classes ? nullptr : &out.type(),
        [&] { return std::vector{training::NamedLiteral{model.inputs()[0].name, x.literal()}}; }, from);
    shape = out.shape();
    all.insert(all.end(), values.values<float>().begin(), values.values<float>().end());
  }
  if (shape.rank() == 1) shape.push_back(1);
  shape[0] = count;
  const std::int64_t width = shape[static_cast<std::size_t>(shape.rank()) - 1].value();
  const bool scores = !takes_probabilities(settings_of(model).train);
  if (classes && width > 0)
    for (std::size_t i = 0; i < all.size(); i += static_cast<std::size_t>(width)) {
      const std::span<float> row = std::span(all).subspan(i, static_cast<std::size_t>(width));
      if (!decide(row))
        std::fill(row.begin(), row.end(), std::numeric_limits<float>::quiet_NaN());
      else if (!scores)
        continue;
      else if (width == 1)
        row[0] = static_cast<float>(1 / (1 + std::exp(-static_cast<double>(row[0]))));
      else if (!are_probabilities(row))
        softmax(row);
    }
  return {Literal::of<float>(shape, all), bad.empty() ? "" : bad.text(count)};
}

bool has_places(const SavedModel& model) {
  const auto kind = model.metadata().find(kPlacesKey);
  return kind != model.metadata().end();
}

bool writes_text(const SavedModel& model) {
  if (model.inputs().size() != 1 || model.outputs().size() != 1) return false;
  const Type &in = model.inputs()[0].type, &out = model.outputs()[0].type;
  return is_integer(in.dtype) && in.shape.rank() == 2 && out.shape.rank() == 3 && !model.classes().empty();
}

void write_text(const SavedModel& model, const WriteOptions& options,
                const std::function<void(std::string_view)>& each) {
  const std::vector<std::string>& words = model.classes();
  const Type row = row_type(model);
  const auto window = static_cast<std::size_t>(row.shape[0].value());
  const Literal prompt = data::encode(options.prompt, words);
  std::vector<std::int32_t> text;
  for (const double word : prompt.to_doubles()) text.push_back(static_cast<std::int32_t>(word));
  if (text.empty()) text.push_back(0);
  std::mt19937_64 random(options.seed);
  for (std::int64_t n = 0; n < options.length; ++n) {
    // The model sees only what is before a word, so what stands after the text does not matter.
    const std::size_t seen = std::min(text.size(), window);
    std::vector<std::int32_t> shown(text.end() - static_cast<std::ptrdiff_t>(seen), text.end());
    shown.resize(window, 0);
    const Tensor x =
        Tensor(Literal::of<std::int32_t>({1, static_cast<std::int64_t>(window)}, shown)).to(row.dtype);
    const std::array<Tensor, 1> inputs{x};
    const Tensor all = model.run(inputs).at(0);
    std::vector<float> scores =
        all[{0, static_cast<std::int64_t>(seen) - 1}].to(DType::f32).to_vector<float>();
    scores.resize(std::min(scores.size(), words.size()));
    if (!decide(scores))
      throw Error(ErrorKind::kInvalidArgument, fmt::format("model {}", model.name()),
                  "its scores for the next word are not finite", "finite numbers",
                  fmt::format("after {} words of text", text.size()));
    std::size_t chosen =
        static_cast<std::size_t>(std::max_element(scores.begin(), scores.end()) - scores.begin());
    if (options.temperature > 0) {
      if (options.top_k > 0 && static_cast<std::size_t>(options.top_k) < scores.size()) {
        std::vector<float> sorted = scores;
        std::nth_element(sorted.begin(), sorted.begin() + (options.top_k - 1), sorted.end(),
                         std::greater<>());
        const float least = sorted[static_cast<std::size_t>(options.top_k) - 1];
        for (float& score : scores)
          if (score < least) score = -std::numeric_limits<float>::infinity();
      }
      softmax(scores, options.temperature);
      double left = static_cast<double>(random() >> 11) * 0x1p-53;
      for (std::size_t i = 0; i < scores.size(); ++i) {
        left -= scores[i];
        if (left < 0) {
          chosen = i;
          break;
        }
      }
    }
    text.push_back(static_cast<std::int32_t>(chosen));
    each(words[chosen]);
  }
}

}  // namespace systole::cli
