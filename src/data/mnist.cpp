// MNIST, its kin, and the digits that are drawn here.

#include <string>

#include "base/naming_file.h"
#include "data/set_files.h"
#include "systole/base/error.h"
#include "systole/data.h"
#include "systole/data/sets.h"
#include "systole/io/archive.h"

namespace systole::data {

namespace {

namespace fs = std::filesystem;

std::vector<std::string> digit_names() { return {"0", "1", "2", "3", "4", "5", "6", "7", "8", "9"}; }

Literal read_idx(const fs::path& file) {
  return parse_idx(io::read_unpacked(file, io::kLargestUnpacked, idx_length), file.string());
}

Source part(const fs::path& folder, const std::string& prefix, const MnistOptions& options,
            const std::string& name, const std::vector<std::string>& classes) {
  const char* const set =
      name.starts_with("fashion") ? "fashion" : "mnist";  // as `systole data get` names it
  const fs::path image_file = found_in(folder, prefix + "-images-idx3-ubyte", set);
  const fs::path label_file = found_in(folder, prefix + "-labels-idx1-ubyte", set);
  const auto read = [](const fs::path& file) { return naming_file(file, [&] { return read_idx(file); }); };
  Literal images = read(image_file);
  const Literal labels = read(label_file);
  if (images.dtype() != DType::u8 || images.rank() != 3 || images.shape()[1] != Dim(28) ||
      images.shape()[2] != Dim(28))
    throw Error(ErrorKind::kParse, image_file.string(), "not MNIST's pictures", "u8[count,28,28]",
                images.type().to_string());
  if (labels.type() != Type{DType::u8, {images.shape()[0]}})
    throw Error(ErrorKind::kParse, label_file.string(), "not one label per picture",
                Type{DType::u8, {images.shape()[0]}}.to_string(), labels.type().to_string());
  const Literal numbers =
      class_numbers(labels.values<std::uint8_t>(), std::ssize(classes), label_file.string(), 8, 1);
  if (options.channel) images = images.reshaped({images.shape()[0], 28, 28, 1});
  return arrays({images, numbers}).named(name, {}, classes);
}

TrainTest both(const fs::path& folder, const MnistOptions& options, const std::string& name,
               const std::vector<std::string>& classes) {
  return {part(folder, "train", options, name, classes),
          part(folder, "t10k", options, name + " test", classes)};
}

}  // namespace

TrainTest mnist(const fs::path& folder, const MnistOptions& options) {
  return both(folder, options, "mnist", digit_names());
}

TrainTest fashion_mnist(const fs::path& folder, const MnistOptions& options) {
  return both(folder, options, "fashion-mnist",
              {"T-shirt/top", "Trouser", "Pullover", "Dress", "Coat", "Sandal", "Shirt", "Sneaker", "Bag",
               "Ankle boot"});
}

TrainTest embedded_digits(std::int64_t train, std::int64_t test) {
  const auto made = [](std::int64_t count, std::uint64_t seed, const char* name) {
    const Digits set = digits(count, seed);
    return arrays(set.images, set.labels).named(name, {}, digit_names());
  };
  return {made(train, 1, "digits"), made(test, 2, "digits test")};
}

}  // namespace systole::data
