// CIFAR-10's binary version: six files of records, or an archive of them.

#include <fmt/format.h>

#include <array>
#include <cstring>
#include <string>

#include "base/naming_file.h"
#include "base/parallel.h"
#include "data/set_files.h"
#include "systole/base/error.h"
#include "systole/data/sets.h"
#include "systole/io/archive.h"

namespace systole::data {

namespace {

namespace fs = std::filesystem;

constexpr std::int64_t kSide = 32;
constexpr std::uint64_t kLargestFile = std::uint64_t{1} << 30;
constexpr std::size_t kTrainFiles = 5;

const std::vector<std::string> kClasses = {"airplane", "automobile", "bird",  "cat",  "deer",
                                           "dog",      "frog",       "horse", "ship", "truck"};

using Bytes = std::vector<std::byte>;

std::string file_name(std::size_t i) {  // the last is the test set
  return i == kTrainFiles ? "test_batch.bin" : fmt::format("data_batch_{}.bin", i + 1);
}

struct Batches {
  std::array<Bytes, kTrainFiles + 1> bytes;
  std::array<std::string, kTrainFiles + 1> names;
};

Batches from_archive(const fs::path& file) {
  Batches found;
  const auto number = [](std::string_view name) {
    const std::string_view base = name.substr(name.rfind('/') + 1);
    for (std::size_t i = 0; i <= kTrainFiles; ++i)
      if (base == file_name(i)) return i;
    return kTrainFiles + 1;
  };
  for (io::Member& member :
       io::read_tar(file, [&](std::string_view name) { return number(name) <= kTrainFiles; }, kLargestFile)) {
    const std::size_t i = number(member.name);
    found.names[i] = fmt::format("{}: {}", file.string(), member.name);
    found.bytes[i] = std::move(member.bytes);
  }
  for (std::size_t i = 0; i <= kTrainFiles; ++i)
    if (found.names[i].empty())
      throw Error(ErrorKind::kNotFound, file.string(), "a member is missing", file_name(i));
  return found;
}

// Unpacking is the work here: file by file on several threads.
Batches from_folder(const fs::path& folder) {
  Batches found;
  std::array<std::exception_ptr, kTrainFiles + 1> failures;
  std::array<fs::path, kTrainFiles + 1> files;
  for (std::size_t i = 0; i <= kTrainFiles; ++i) files[i] = found_in(folder, file_name(i), "cifar10");
  const auto read = [&](std::size_t i) {
    try {
      found.names[i] = files[i].string();
      found.bytes[i] = naming_file(files[i], [&] { return io::read_unpacked(files[i], kLargestFile); });
    } catch (...) {
      failures[i] = std::current_exception();
    }
  };
  using Read = decltype(read);
  parallel_for(
      kTrainFiles + 1, thread_count(),
      [](const void* context, std::int64_t begin, std::int64_t end) {
        for (std::int64_t i = begin; i < end; ++i)
          (*static_cast<const Read*>(context))(static_cast<std::size_t>(i));
      },
      &read);
  for (const std::exception_ptr& failure : failures)
    if (failure) std::rethrow_exception(failure);
  return found;
}

// The records of files first … last-1 as one set.
Source set_of(const Batches& batches, std::size_t first, std::size_t last, const char* name) {
  std::vector<std::vector<Literal>> parts;
  std::int64_t count = 0;
  for (std::size_t i = first; i < last; ++i) {
    parts.push_back(parse_cifar10(batches.bytes[i], batches.names[i]));
    count += parts.back()[1].count();
  }
  if (parts.size() == 1) return arrays(parts[0]).named(name, {}, kClasses);
  Literal images = Literal::uninitialized({DType::u8, {count, kSide, kSide, 3}});
  Literal labels = Literal::uninitialized({DType::i32, {count}});
  std::byte *image = images.mutable_bytes(), *label = labels.mutable_bytes();
  for (const std::vector<Literal>& part : parts) {
    std::memcpy(image, part[0].bytes(), part[0].byte_size());
    std::memcpy(label, part[1].bytes(), part[1].byte_size());
    image += part[0].byte_size();
    label += part[1].byte_size();
  }
  return arrays(images, labels).named(name, {}, kClasses);
}

}  // namespace

TrainTest cifar10(const fs::path& place) {
  std::error_code code;
  fs::path archive = place;
  if (fs::is_directory(place, code) || !fs::exists(place, code)) {
    archive.clear();
    for (const char* name : {"cifar-10-binary.tar.gz", "cifar-10-binary.tar.xz", "cifar-10-binary.tar"})
      if (fs::is_regular_file(place / name, code)) archive = place / name;
    if (fs::is_directory(place / "cifar-10-batches-bin", code))
      return cifar10(place / "cifar-10-batches-bin");  // the archive, unpacked
  }
  return naming_file(archive.empty() ? place : archive, [&] {
    const Batches batches = archive.empty() ? from_folder(place) : from_archive(archive);
    return TrainTest{set_of(batches, 0, kTrainFiles, "cifar10"),
                     set_of(batches, kTrainFiles, kTrainFiles + 1, "cifar10 test")};
  });
}

}  // namespace systole::data
