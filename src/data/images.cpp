// Folders of pictures. The list of files is made at once and sorted, so that indices are the same everywhere;
// pictures are decoded when they are read.

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/log.h"
#include "base/naming_file.h"
#include "data/passed_over.h"
#include "data/set_files.h"
#include "systole/base/error.h"
#include "systole/data/sets.h"
#include "systole/data/transforms.h"
#include "systole/io/picture.h"

namespace systole::data {

namespace {

namespace fs = std::filesystem;

bool is_picture(const fs::path& file) {
  const std::string ending = ending_of(file);
  return ending == ".png" || ending == ".jpg" || ending == ".jpeg";
}

// What the folder holds of this kind, by name. Hidden names are passed over; of files, what is no picture is
// counted.
std::vector<std::string> names_in(const fs::path& folder, bool folders, PassedOver& passed_over) {
  std::vector<std::string> names;
  std::error_code code;
  for (fs::directory_iterator at(folder, code), end; !code && at != end; at.increment(code)) {
    const std::string name = at->path().filename().string();
    if (name.starts_with('.')) continue;
    std::error_code unused;
    const bool is_folder = at->is_directory(unused),
               picture = at->is_regular_file(unused) && is_picture(at->path());
    if (folders ? is_folder : picture)
      names.push_back(name);
    else if (!folders)
      passed_over.add(is_folder ? "folder inside a class" : kind_of(at->path()));
  }
  if (code)
    throw Error(code == std::errc::no_such_file_or_directory ? ErrorKind::kNotFound : ErrorKind::kIo,
                folder.string(), "cannot read the folder: " + code.message());
  std::sort(names.begin(), names.end());
  return names;
}

// Between two numbers of a mask there is none.
Literal nearest_pixels(const Literal& picture, std::int64_t height, std::int64_t width) {
  const std::int64_t from_height = picture.dims()[0], from_width = picture.dims()[1];
  Literal result = Literal::uninitialized({picture.dtype(), {height, width}});
  const std::size_t pixel = size_of(picture.dtype());
  const std::byte* const in = picture.as_bytes().data();
  std::byte* out = result.mutable_bytes();
  for (std::int64_t y = 0; y < height; ++y)
    for (std::int64_t x = 0; x < width; ++x, out += pixel) {
      // The pixel that the middle of this one lies in.
      const std::int64_t row = (2 * y + 1) * from_height / (2 * height);
      const std::int64_t column = (2 * x + 1) * from_width / (2 * width);
      std::memcpy(out, in + static_cast<std::size_t>(row * from_width + column) * pixel, pixel);
    }
  return result;
}

class PictureRows final : public Rows {
 public:
  PictureRows(std::vector<fs::path> files, std::vector<std::int32_t> labels, Info info, ImageOptions options)
      : files_(std::move(files)), labels_(std::move(labels)), info_(std::move(info)), options_(options) {}

  std::int64_t size() const override { return std::ssize(files_); }
  Sample get(std::int64_t i) const override {
    const std::size_t at = static_cast<std::size_t>(i);
    Sample sample{naming_file(files_[at], [&] {
      return io::load_picture(files_[at],
                              {options_.channels, options_.largest_pixels, options_.mode, options_.upright});
    })};
    if (options_.height != 0 && options_.mode != io::PictureMode::colours)
      sample[0] = nearest_pixels(sample[0], options_.height, options_.width);
    else if (options_.height != 0)
      sample = Transforms{Resize{options_.height, options_.width}}(std::move(sample));
    if (!labels_.empty()) sample.push_back(Literal::scalar(labels_[at]));
    return sample;
  }
  Info info() const override { return info_; }
  std::optional<std::vector<std::int64_t>> known_labels(std::size_t field) const override {
    if (field != 1 || labels_.empty()) return {};
    return std::vector<std::int64_t>(labels_.begin(), labels_.end());
  }

 private:
  std::vector<fs::path> files_;
  std::vector<std::int32_t> labels_;
  Info info_;
  ImageOptions options_;
};

}  // namespace

Source images(const fs::path& folder, const ImageOptions& options) {
  return images_like(folder, options, {});
}

Source images_like(const fs::path& folder, const ImageOptions& options, std::vector<std::string> classes) {
  if ((options.height == 0) != (options.width == 0) || options.height < 0 || options.width < 0)
    throw Error(ErrorKind::kInvalidArgument, "data::images", "half a size", "height and width, or neither",
                fmt::format("{}×{}", options.height, options.width));
  if (options.channels != 1 && options.channels != 3)
    throw Error(ErrorKind::kInvalidArgument, "data::images", "wrong number of channels", "1 or 3",
                fmt::format("{}", options.channels));
  PassedOver passed_over;
  const std::vector<std::string> found = in_order(names_in(folder, true, passed_over));
  if (classes.empty()) classes = found;
  std::vector<fs::path> files;
  std::vector<std::int32_t> labels;
  const auto add = [&](const fs::path& place, std::int32_t label) {
    for (const std::string& name : names_in(place, false, passed_over)) {
      files.push_back(place / name);
      if (label >= 0) labels.push_back(label);
    }
  };
  if (found.empty()) {
    add(folder, -1);
  } else {
    PassedOver beside;  // without the classes themselves
    const std::vector<std::string> pictures = names_in(folder, false, beside);
    beside.counts.erase("folder inside a class");
    for (const auto& [kind, count] : beside.counts) passed_over.add(kind, count);
    passed_over.add("picture beside the classes", std::ssize(pictures));
  }
  std::vector<std::string> empty;  // classes without a picture
  for (const std::string& name : found) {
    const auto at = std::find(classes.begin(), classes.end(), name);
    if (at == classes.end())
      throw Error(ErrorKind::kInvalidArgument, (folder / name).string(), "no class of the training data",
                  fmt::format("{}", fmt::join(classes, ", ")), name);
    const std::size_t before = files.size();
    add(folder / name, static_cast<std::int32_t>(at - classes.begin()));
    if (files.size() == before) empty.push_back(name);
  }
  passed_over.warn(folder);
  if (files.empty())
    throw Error(ErrorKind::kNotFound, folder.string(), "no pictures",
                "FOLDER/CLASS/*.png, .jpg or .jpeg, or pictures in the folder itself");
  if (!empty.empty())
    log(LogLevel::warn,
        fmt::format("{}: no pictures in {}, which {}; remove what is no class", folder.string(),
                    fmt::join(empty, ", "), empty.size() == 1 ? "counts as a class" : "count as classes"));
  const Dim height = options.height != 0 ? Dim(options.height) : Dim::symbol("height");
  const Dim width = options.height != 0 ? Dim(options.width) : Dim::symbol("width");
  const Type label{DType::i32, {}};
  const bool flat = options.channels == 1 || options.mode != io::PictureMode::colours;
  const Type picture{options.mode == io::PictureMode::gray16 ? DType::u16 : DType::u8,
                     flat ? Shape{height, width} : Shape{height, width, 3}};
  Info info{folder.filename().string(), {}, std::ssize(files)};
  info.fields.push_back(Field{"x", picture, {}});
  if (!found.empty()) info.fields.push_back(Field{"y", label, classes});
  return Source(
      std::make_shared<const PictureRows>(std::move(files), std::move(labels), std::move(info), options));
}

}  // namespace systole::data
