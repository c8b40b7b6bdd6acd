// Folders of pictures. The list of files is made at once and sorted, so that indices are the same everywhere;
// pictures are decoded when they are read.

#include <fmt/format.h>

#include <algorithm>
#include <cctype>

#include "base/naming_file.h"
#include "data/set_files.h"
#include "systole/base/error.h"
#include "systole/data/sets.h"
#include "systole/data/transforms.h"
#include "systole/io/picture.h"

namespace systole::data {

namespace {

namespace fs = std::filesystem;

bool is_picture(const fs::path& file) {
  std::string ending = file.extension().string();
  for (char& c : ending) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return ending == ".png" || ending == ".jpg" || ending == ".jpeg";
}

// What the folder holds of this kind, by name. Hidden names are passed over.
std::vector<std::string> names_in(const fs::path& folder, bool folders) {
  std::vector<std::string> names;
  std::error_code code;
  for (fs::directory_iterator at(folder, code), end; !code && at != end; at.increment(code)) {
    const std::string name = at->path().filename().string();
    if (name.starts_with('.')) continue;
    std::error_code unused;
    if (folders ? at->is_directory(unused) : at->is_regular_file(unused) && is_picture(at->path()))
      names.push_back(name);
  }
  if (code)
    throw Error(code == std::errc::no_such_file_or_directory ? ErrorKind::kNotFound : ErrorKind::kIo,
                folder.string(), "cannot read the folder: " + code.message());
  std::sort(names.begin(), names.end());
  return names;
}

class PictureRows final : public Rows {
 public:
  PictureRows(std::vector<fs::path> files, std::vector<std::int32_t> labels, Info info, ImageOptions options)
      : files_(std::move(files)), labels_(std::move(labels)), info_(std::move(info)), options_(options) {}

  std::int64_t size() const override { return std::ssize(files_); }
  Sample get(std::int64_t i) const override {
    const std::size_t at = static_cast<std::size_t>(i);
    Sample sample{naming_file(files_[at], [&] {
      return io::load_picture(files_[at], {options_.channels, options_.largest_pixels});
    })};
    if (options_.height != 0) sample = Transforms{Resize{options_.height, options_.width}}(std::move(sample));
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
  const std::vector<std::string> found = in_order(names_in(folder, true));
  if (classes.empty()) classes = found;
  std::vector<fs::path> files;
  std::vector<std::int32_t> labels;
  const auto add = [&](const fs::path& place, std::int32_t label) {
    for (const std::string& name : names_in(place, false)) {
      files.push_back(place / name);
      if (label >= 0) labels.push_back(label);
    }
  };
  if (found.empty()) add(folder, -1);
  for (const std::string& name : found) {
    const auto at = std::find(classes.begin(), classes.end(), name);
    if (at == classes.end())
      throw Error(ErrorKind::kInvalidArgument, (folder / name).string(), "no class of the training data",
                  fmt::format("{}", fmt::join(classes, ", ")), name);
    add(folder / name, static_cast<std::int32_t>(at - classes.begin()));
  }
  if (files.empty())
    throw Error(ErrorKind::kNotFound, folder.string(), "no pictures",
                "FOLDER/CLASS/*.png, .jpg or .jpeg, or pictures in the folder itself");
  const Dim height = options.height != 0 ? Dim(options.height) : Dim::symbol("height");
  const Dim width = options.height != 0 ? Dim(options.width) : Dim::symbol("width");
  const Type label{DType::i32, {}};
  const Type picture{DType::u8, options.channels == 1 ? Shape{height, width} : Shape{height, width, 3}};
  Info info{folder.filename().string(), {}, std::ssize(files)};
  info.fields.push_back(Field{"x", picture, {}});
  if (!found.empty()) info.fields.push_back(Field{"y", label, classes});
  return Source(
      std::make_shared<const PictureRows>(std::move(files), std::move(labels), std::move(info), options));
}

}  // namespace systole::data
