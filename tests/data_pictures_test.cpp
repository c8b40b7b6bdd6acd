// Pictures as Pillow reads them: masks and depth maps with their numbers, cameras' pictures turned as EXIF
// says, printing colours, files with bytes too many; and folders that hold more than pictures.
// tests/data/sets/make_masks.py made the files.

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <string>
#include <vector>

#include "base/log.h"
#include "error_check.h"
#include "scratch_folder.h"
#include "systole/data.h"
#include "systole/io.h"

namespace systole::data {
namespace {

namespace fs = std::filesystem;

const fs::path kMasks = fs::path(SYSTOLE_TEST_DATA) / "sets" / "masks";

Literal wanted(const std::string& name) {
  for (io::NamedArray& array : io::load_npz(kMasks / "masks.npz"))
    if (array.name == name) return array.value;
  ADD_FAILURE() << "no array " << name;
  return {};
}

class MaskPictures : public ScratchFolder {
 protected:
  void SetUp() override {
    try {
      io::load_picture(kMasks / "grey.png");
      io::load_picture(kMasks / "turned1.jpg");
    } catch (const Error& error) {
      if (error.kind() != ErrorKind::kUnsupported) throw;
      GTEST_SKIP() << error.what();
    }
  }
  void expect(const std::string& file, const std::string& name, const io::PictureOptions& options) {
    const Literal got = io::load_picture(kMasks / file, options);
    EXPECT_TRUE(got.same_bits(wanted(name))) << file << ": " << got.to_string();
  }
};

constexpr io::PictureOptions kIndex{.mode = io::PictureMode::index}, kGray16{.mode = io::PictureMode::gray16};

TEST_F(MaskPictures, KeepTheirNumbersWhenAsked) {
  expect("palette.png", "palette", kIndex);
  expect("palette.png", "palette_seen", {.channels = 1});
  expect("grey.png", "grey", kIndex);
  expect("one_bit.png", "one_bit", kIndex);
  expect("depth.png", "depth", kGray16);
  const Literal grey = io::load_picture(kMasks / "grey.png", kGray16);
  EXPECT_EQ(grey.dtype(), DType::u16);
  EXPECT_EQ(grey.to_doubles(), wanted("grey").to_doubles());
  const auto refused = [&](const char* file, const io::PictureOptions& options, const char* part) {
    const std::string message =
        error_of(ErrorKind::kUnsupported, [&] { io::load_picture(kMasks / file, options); });
    EXPECT_NE(message.find(part), std::string::npos) << message;
  };
  refused("depth.png", kIndex, "gray16");
  refused("palette.png", kGray16, "index");
  refused("turned3.png", kIndex, "colours");
  refused("turned1.jpg", kIndex, ".png");
}

TEST_F(MaskPictures, AreTurnedAsExifSays) {
  for (int orientation = 1; orientation <= 8; ++orientation) {
    const std::string name = "turned" + std::to_string(orientation) + ".jpg";
    expect(name, name, {});
  }
  expect("turned3.png", "turned3.png", {});
  expect("turned6.png", "turned6.png", {});
  expect("turned6.jpg", "turned6.jpg_stored", {.upright = false});
  expect("turned6.png", "turned6.png_stored", {.upright = false});
}

TEST_F(MaskPictures, OfPrintingColoursAreSeenAsPillowShowsThem) { expect("cmyk.jpg", "cmyk", {}); }

TEST_F(MaskPictures, BytesTooManyAreNoDamageAndDamageIs) {
  expect("extra_end.jpg", "extra_end", {});
  for (const char* name :
       {"extra_head", "extra_exif", "extra_tables", "extra_scan", "restarts", "few_restart"})
    expect(std::string(name) + ".jpg", name, {});
  std::ifstream in(kMasks / "extra_head.jpg", std::ios::binary);
  const std::string text((std::istreambuf_iterator<char>(in)), {});
  const auto bytes = std::as_bytes(std::span(text));
  error_of(ErrorKind::kParse, [&] { io::parse_picture(bytes.first(bytes.size() - 200), "short.jpg"); });
  // The decoder goes on at a restart marker, whatever was lost before it; a few bytes it counts at the end.
  EXPECT_NE(error_of(ErrorKind::kParse, [&] { io::load_picture(kMasks / "extra_restart.jpg"); })
                .find("extraneous bytes"),
            std::string::npos);
}

TEST_F(MaskPictures, OfAFolderKeepTheirNumbersBySetting) {
  fs::create_directories(folder_ / "a");
  fs::copy_file(kMasks / "palette.png", folder_ / "a" / "1.png");
  const Source set = open("images:" + folder_.string() + "?mode=index").train;
  EXPECT_TRUE(set[0][0].same_bits(wanted("palette")));
  EXPECT_EQ(set.info().fields[0].type.to_string(), "u8[height,width]");
  // Another size takes the nearest pixel: there is no number between two classes.
  const Literal small = open("images:" + folder_.string() + "?mode=index&height=10&width=14").train[0][0];
  const Literal mask = wanted("palette");
  for (std::size_t y = 0; y < 10; ++y)
    for (std::size_t x = 0; x < 14; ++x)
      EXPECT_EQ(small.values<std::uint8_t>()[14 * y + x], mask.values<std::uint8_t>()[7 * (y / 2) + x / 2]);
  fs::copy_file(kMasks / "depth.png", folder_ / "a" / "1.png", fs::copy_options::overwrite_existing);
  const Source depth = open("images:" + folder_.string() + "?mode=gray16").train;
  EXPECT_TRUE(depth[0][0].same_bits(wanted("depth")));
  EXPECT_EQ(depth.info().fields[0].type.dtype, DType::u16);
  EXPECT_NE(
      error_of(ErrorKind::kInvalidArgument, [&] { open("images:" + folder_.string() + "?mode=palette"); })
          .find("index"),
      std::string::npos);
}

TEST_F(MaskPictures, OfAFolderAreTurnedUnlessToldNotTo) {
  fs::create_directories(folder_ / "a");
  fs::copy_file(kMasks / "turned6.jpg", folder_ / "a" / "1.jpg");
  const std::string place = "images:" + folder_.string();
  EXPECT_EQ(open(place).train[0][0].shape(), (Shape{24, 16, 3}));
  EXPECT_EQ(open(place + "?upright=0").train[0][0].shape(), (Shape{16, 24, 3}));
}

TEST_F(MaskPictures, WhatAFolderHoldsBesideIsCountedInOneLine) {
  for (const char* name : {"a/1.png", "b/1.png", "b/deep/2.png", "3.png"}) {
    fs::create_directories((folder_ / name).parent_path());
    fs::copy_file(kMasks / "grey.png", folder_ / name);
  }
  for (const char* name :
       {"a/2.webp", "a/3.WEBP", "a/4.bmp", "b/5.gif", "b/6.tiff", "a/notes.txt", "b/README", "a/.hidden"})
    std::ofstream(folder_ / name) << "x";
  std::vector<std::string> warnings;
  set_log_sink([&](LogLevel, std::string_view message) { warnings.emplace_back(message); }, LogLevel::warn);
  EXPECT_EQ(images(folder_).size(), 2);
  set_log_sink({});
  ASSERT_EQ(warnings.size(), 1u);
  EXPECT_EQ(warnings[0],
            folder_.string() +
                ": passed over 9: 2 .webp, 1 .bmp, 1 .gif, 1 .tiff, 1 .txt, 1 folder inside a class, 1 "
                "picture beside the classes, 1 without an ending");
}

TEST_F(MaskPictures, AClassFolderWithoutPicturesIsNamed) {
  for (const char* part : {"cat", "dog", "new folder"}) fs::create_directories(folder_ / part);
  for (const char* file : {"cat/0.png", "dog/1.png"}) fs::copy_file(kMasks / "grey.png", folder_ / file);
  std::vector<std::string> warnings;
  set_log_sink([&](LogLevel, std::string_view message) { warnings.emplace_back(message); }, LogLevel::warn);
  EXPECT_EQ(images(folder_).info().fields[1].classes.size(), 3u);
  set_log_sink({});
  ASSERT_EQ(warnings.size(), 1u);
  EXPECT_EQ(warnings[0], folder_.string() +
                             ": no pictures in new folder, which counts as a class; remove what is no class");
}

// A damaged file among good ones.
class DamagedPictures : public MaskPictures {
 protected:
  Source folder() {
    for (int i = 0; i < 6; ++i) {
      const fs::path place = folder_ / "set" / (i % 2 == 0 ? "a" : "b");
      fs::create_directories(place);
      fs::copy_file(kMasks / "grey.png", place / (std::to_string(i) + ".png"),
                    fs::copy_options::overwrite_existing);
    }
    std::ofstream(folder_ / "set" / "a" / "2.png") << "no picture";
    return images(folder_ / "set", {.channels = 1});
  }
};

TEST_F(DamagedPictures, AreReplacedByTheNextAndCounted) {
  const Source set = folder();
  EXPECT_NE(error_of(ErrorKind::kParse, [&] { set.read({0, 1}); }).find("sample 1"), std::string::npos);
  std::vector<std::string> warnings;
  set_log_sink([&](LogLevel, std::string_view message) { warnings.emplace_back(message); }, LogLevel::warn);
  const auto bad = std::make_shared<BadSamples>();
  const Source skipping = without_bad(set, bad);
  EXPECT_EQ(skipping.size(), 6);
  for (int round = 0; round < 2; ++round) {
    const std::vector<Literal> batch = skipping.read({0, 1, 5});
    EXPECT_EQ(batch[0].shape(), (Shape{3, 5, 7}));
    EXPECT_EQ(batch[1].to_doubles(), (std::vector<double>{0, 0, 1}));
  }
  set_log_sink({});
  EXPECT_EQ(bad->count(), 1);
  ASSERT_EQ(warnings.size(), 1u) << "each file is named once";
  EXPECT_NE(warnings[0].find("2.png"), std::string::npos) << warnings[0];
  EXPECT_NE(warnings[0].find("sample 1 of the data cannot be read"), std::string::npos) << warnings[0];
  warnings.clear();
  set_log_sink([&](LogLevel, std::string_view message) { warnings.emplace_back(message); }, LogLevel::warn);
  without_bad(set.skip(1))[0];
  set_log_sink({});
  ASSERT_EQ(warnings.size(), 1u);
  EXPECT_NE(warnings[0].find("sample 1 of the data cannot be read"), std::string::npos) << warnings[0];
  EXPECT_EQ(skipping.labels(), set.labels());
  // Sample 1 is a/2.png: a score is measured on the others.
  EXPECT_EQ(good_samples(skipping).labels(), (std::vector<std::int64_t>{0, 0, 1, 1, 1}));
  EXPECT_EQ(good_samples(set).size(), 6) << "nothing is skipped";
  EXPECT_EQ(good_samples(without_bad(set)).size(), 6) << "nothing was read";
}

TEST_F(DamagedPictures, ThatAreAllThereIsAreAnError) {
  folder();
  for (const char* name : {"a/0.png", "a/4.png", "b/1.png", "b/3.png", "b/5.png"})
    std::ofstream(folder_ / "set" / name) << "no picture";
  error_of(ErrorKind::kParse, [&] { without_bad(images(folder_ / "set"))[3]; });
}

}  // namespace
}  // namespace systole::data
