// The digits, the counter hash and pictures. Numbers of the hash were made by the peers' suite in Python.

#include <gtest/gtest.h>
#if __has_include(<png.h>)
#include <png.h>
#endif
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <numeric>
#include <span>
#include <string>
#include <vector>

#include "data/counter_hash.h"
#include "error_check.h"
#include "io/crc32.h"
#include "scratch_folder.h"
#include "systole/data.h"
#include "systole/io.h"

namespace systole {
namespace {

namespace fs = std::filesystem;

TEST(CounterHash, WordsEqualThePeers) {
  const std::uint32_t by_numpy[] = {1364076727, 2527132011, 314344336, 2535364964, 2041432039};
  for (std::uint32_t i = 0; i < 5; ++i) EXPECT_EQ(data::hashed(1, i), by_numpy[i]);
  EXPECT_EQ(data::hashed(3378657847u, 1), 96002750u);
}

TEST(CounterHash, UniformNumbersEqualThePeersToTheBit) {
  const Literal x = data::hashed_uniform(1, {DType::f32, {50, 64, 784}});
  const float by_numpy[] = {-0.6318562030792236f, 0.3062049150466919f, -1.4785168170928955f,
                            0.3128452003002167f, -0.08553600311279297f};
  for (std::size_t i = 0; i < 5; ++i) EXPECT_EQ(x.values<float>()[i], by_numpy[i]);
  EXPECT_EQ(x.values<float>().back(), -0.8554498553276062f);
}

TEST(CounterHash, ParametersEqualThePeersByName) {
  const Literal weight = data::hashed_parameter("0.weight", {DType::f32, {128, 784}});
  EXPECT_EQ(weight.values<float>()[0], -0.029930509626865387f);
  EXPECT_EQ(weight.values<float>()[2], -0.0569201223552227f);
  EXPECT_EQ(weight.values<float>().back(), 0.0027643509674817324f);
  const std::vector<double> all = weight.to_doubles();
  EXPECT_NEAR(std::accumulate(all.begin(), all.end(), 0.0), -20.2177519713926, 1e-9);
  EXPECT_EQ(data::hashed_parameter("0.bias", {DType::f32, {128}}).values<float>()[1], -0.013431177474558353f);
  EXPECT_EQ(data::hashed_parameter("h.0.ln1.weight", {DType::f32, {4}}).values<float>()[3], 1.0f);
  EXPECT_EQ(data::hashed_parameter("wte.weight", {DType::f32, {7, 5}}, 0.02).values<float>().back(),
            -0.008233404718339443f);
}

TEST(CounterHash, IntegersEqualThePeers) {
  const std::int32_t by_numpy[] = {8, 5, 9, 8, 0, 7, 2, 6};
  const Literal y = data::hashed_integers(2, {50, 64}, 10);
  for (std::size_t i = 0; i < 8; ++i) EXPECT_EQ(y.values<std::int32_t>()[i], by_numpy[i]);
  EXPECT_EQ(std::accumulate(y.values<std::int32_t>().begin(), y.values<std::int32_t>().end(), 0), 14507);
  EXPECT_EQ(data::hashed_integers(1, {4, 128}, 50304).values<std::int32_t>().back(), 48388);
}

TEST(Digits, SameSeedGivesTheSamePixelsEverywhere) {
  const data::Digits made = data::digits(200, 7);
  EXPECT_EQ(made.images.type(), (Type{DType::u8, {200, 28, 28}}));
  EXPECT_EQ(made.labels.type(), (Type{DType::i32, {200}}));
  // Written down once: whatever machine or compiler disagrees draws other digits.
  EXPECT_EQ(io::crc32(0, made.images.as_bytes()), 3630167744u);
  EXPECT_TRUE(data::digits(200, 7).images.same_bits(made.images));
}

TEST(Digits, AnImageDoesNotDependOnHowManyAreDrawn) {
  const data::Digits few = data::digits(10, 3), many = data::digits(50, 3);
  EXPECT_TRUE(std::ranges::equal(few.images.as_bytes(), many.images.as_bytes().first(10 * 28 * 28)));
  EXPECT_TRUE(std::ranges::equal(few.labels.as_bytes(), many.labels.as_bytes().first(10 * 4)));
}

TEST(Digits, AnotherSeedGivesOtherDigits) {
  const data::Digits a = data::digits(500, 1), b = data::digits(500, 2);
  std::int64_t equal = 0;
  for (std::size_t i = 0; i < 500; ++i)
    equal += std::ranges::equal(a.images.as_bytes().subspan(i * 784, 784),
                                b.images.as_bytes().subspan(i * 784, 784));
  EXPECT_EQ(equal, 0);
}

TEST(Digits, EveryDigitComesAboutEquallyOften) {
  std::array<int, 10> counts{};
  const data::Digits made = data::digits(5000, 11);
  for (const std::int32_t label : made.labels.values<std::int32_t>())
    ++counts.at(static_cast<std::size_t>(label));
  for (const int count : counts) EXPECT_NEAR(count, 500, 100);  // 4.7 standard deviations
}

TEST(Digits, EveryPictureHasInkInsideAndPaperAround) {
  const data::Digits made = data::digits(2000, 5);
  const std::span<const std::uint8_t> pixels = made.images.values<std::uint8_t>();
  int inked_corners = 0;
  for (std::size_t i = 0; i < 2000; ++i) {
    const std::span<const std::uint8_t> image = pixels.subspan(i * 784, 784);
    const auto ink = std::ranges::count_if(image, [](std::uint8_t p) { return p > 128; });
    EXPECT_GT(ink, 10) << "image " << i;
    EXPECT_LT(ink, 392) << "image " << i;
    for (const std::size_t corner : {0, 27, 27 * 28, 783}) inked_corners += image[corner] > 128;
  }
  EXPECT_LT(inked_corners, 20);  // few digits are so large and so far off the middle
}

TEST(Digits, NegativeCountIsRefused) {
  EXPECT_NE(error_of(ErrorKind::kInvalidArgument, [] { data::digits(-1, 0); }).find("-1"), std::string::npos);
  EXPECT_EQ(data::digits(0, 0).images.count(), 0);
}

bool has_red(const Literal& sheet) {
  const std::span<const std::uint8_t> p = sheet.values<std::uint8_t>();
  for (std::size_t i = 0; i < p.size(); i += 3)
    if (p[i] > 200 && p[i + 1] < 100 && p[i + 2] < 100) return true;
  return false;
}

TEST(ContactSheet, OnlyAWrongPredictionIsRed) {
  const data::Digits made = data::digits(23, 1);
  const Literal right = data::contact_sheet(made.images, made.labels, made.labels, 10);
  EXPECT_EQ(right.type(), (Type{DType::u8, {3 * (2 * 28 + 2 * 5 + 12), 10 * (2 * 28 + 8), 3}}));
  EXPECT_FALSE(has_red(right));
  Literal guess = made.labels;
  guess.mutable_values<std::int32_t>()[22] = (guess.values<std::int32_t>()[22] + 1) % 10;
  EXPECT_TRUE(has_red(data::contact_sheet(made.images, guess, made.labels, 10)));
}

TEST(ContactSheet, WhatDoesNotFitIsRefused) {
  const data::Digits made = data::digits(3, 1);
  Literal guess = made.labels;
  guess.mutable_values<std::int32_t>()[0] = 10;
  error_of(ErrorKind::kInvalidArgument, [&] { data::contact_sheet(made.images, guess, made.labels); });
  error_of(ErrorKind::kInvalidArgument,
           [&] { data::contact_sheet(made.images, made.labels, made.labels, 0); });
  error_of(ErrorKind::kShape,
           [&] { data::contact_sheet(made.images, data::digits(2, 1).labels, made.labels); });
  error_of(ErrorKind::kShape, [&] { data::contact_sheet(made.labels, made.labels, made.labels); });
}

using PngTest = ScratchFolder;

#if __has_include(<png.h>)
std::vector<std::uint8_t> read_png(const fs::path& file, png_uint_32 format, std::uint32_t width,
                                   std::uint32_t height) {
  png_image image{};
  image.version = PNG_IMAGE_VERSION;
  EXPECT_NE(png_image_begin_read_from_file(&image, file.c_str()), 0) << image.message;
  EXPECT_EQ(image.format, format);
  EXPECT_EQ(image.width, width);
  EXPECT_EQ(image.height, height);
  std::vector<std::uint8_t> pixels(PNG_IMAGE_SIZE(image));
  EXPECT_NE(png_image_finish_read(&image, nullptr, pixels.data(), 0, nullptr), 0) << image.message;
  return pixels;
}

TEST_F(PngTest, AFileHoldsThePixelsInGreyAndColour) {
  const std::vector<std::uint8_t> grey = {0, 1, 2, 253, 254, 255};
  io::save_png(folder_ / "grey.png", Literal::of<std::uint8_t>({2, 3}, grey));
  EXPECT_EQ(read_png(folder_ / "grey.png", PNG_FORMAT_GRAY, 3, 2), grey);
  io::save_png(folder_ / "one_channel.png", Literal::of<std::uint8_t>({2, 3, 1}, grey));
  EXPECT_EQ(read_png(folder_ / "one_channel.png", PNG_FORMAT_GRAY, 3, 2), grey);
  const std::vector<std::uint8_t> colours = {255, 0, 0, 0, 255, 0, 0, 0, 255, 1, 2, 3};
  io::save_png(folder_ / "colour.png", Literal::of<std::uint8_t>({4, 1, 3}, colours));
  EXPECT_EQ(read_png(folder_ / "colour.png", PNG_FORMAT_RGB, 1, 4), colours);
}

TEST_F(PngTest, AFolderThatIsNotThereIsNamed) {
  const Literal picture({DType::u8, {2, 2}});
  EXPECT_NE(
      error_of(ErrorKind::kNotFound, [&] { io::save_png(folder_ / "no" / "x.png", picture); }).find("x.png"),
      std::string::npos);
}
#endif

TEST_F(PngTest, WhatIsNoPictureIsRefusedAndNothingWritten) {
  for (const Type& type : {Type{DType::f32, {2, 2}}, Type{DType::u8, {4}}, Type{DType::u8, {2, 2, 4}},
                           Type{DType::u8, {2, 2, 2}}, Type{DType::u8, {2, 2, 0}}, Type{DType::u8, {0, 2}},
                           Type{DType::u8, {2, 2, 3, 1}}})
    error_of(ErrorKind::kShape, [&] { io::save_png(folder_ / "x.png", Literal(type)); });
  EXPECT_TRUE(fs::is_empty(folder_));
}

}  // namespace
}  // namespace systole
