// Readers of data sets: right ones, ones that lie (row 12 of the list of faults), and downloads. Pictures and
// spectra were made by Pillow, numpy and scipy: tests/data/sets/make_sets.py.

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <numeric>

#include "base/file.h"
#include "base/log.h"
#include "data/csv_columns.h"
#include "data/fetch.h"
#include "data/open.h"
#include "error_check.h"
#include "io/digest.h"
#include "local_server.h"
#include "sanitized.h"
#include "scratch_folder.h"
#include "systole/data.h"
#include "systole/io.h"
#include "systole/io/archive.h"
#include "systole/io/picture.h"
#include "systole/io/wav.h"

namespace systole::data {
namespace {

namespace fs = std::filesystem;

const std::string kSets = SYSTOLE_TEST_DATA "/sets/";

std::vector<std::byte> bytes_of(std::string_view text) {
  const auto bytes = std::as_bytes(std::span(text));
  return {bytes.begin(), bytes.end()};
}
std::vector<std::byte> file_bytes(const fs::path& file) { return bytes_of(read_text_file(file)); }
void write(const fs::path& file, std::string_view text) {
  fs::create_directories(file.parent_path());
  write_file(file, std::as_bytes(std::span(text)));
}

std::map<std::string, Literal> fixtures(const std::string& name) {
  std::map<std::string, Literal> all;
  for (io::NamedArray& array : io::load_npz(kSets + name)) all.emplace(array.name, std::move(array.value));
  return all;
}

// What a build without a library says.
bool can_unpack(const std::string& packed) {
  try {
    io::unpack(bytes_of(packed), "probe");
  } catch (const Error& error) {
    return error.kind() != ErrorKind::kUnsupported;
  }
  return true;
}

// The shared folder of real data, or empty.
fs::path shared() {
  if (const char* folder = std::getenv("SYSTOLE_SHARED")) return fs::path(folder) / "data";
  const fs::path beside = fs::path(SYSTOLE_SOURCE_DIR) / "../shared/data";
  return fs::exists(beside) ? beside : fs::path();
}
#define NEEDS_SHARED(name) \
  if (!fs::exists(shared() / (name))) GTEST_SKIP() << "no shared/data/" << (name)

std::string big_endian(std::uint32_t value) {
  std::string text;
  for (int shift = 24; shift >= 0; shift -= 8) text += static_cast<char>(value >> shift & 0xff);
  return text;
}
std::string idx(int type, std::initializer_list<std::uint32_t> dims, const std::string& data) {
  std::string text{0, 0, static_cast<char>(type), static_cast<char>(dims.size())};
  for (const std::uint32_t dim : dims) text += big_endian(dim);
  return text + data;
}

class Sets : public ScratchFolder {};

TEST_F(Sets, IdxOfEveryType) {
  const Literal u8 = parse_idx(bytes_of(idx(8, {2, 3}, "abcdef")), "a.idx");
  EXPECT_EQ(u8.type(), (Type{DType::u8, {2, 3}}));
  EXPECT_EQ(u8.values<std::uint8_t>()[5], 'f');
  const Literal i32 = parse_idx(bytes_of(idx(12, {2}, big_endian(7) + big_endian(0xffffffff))), "a.idx");
  EXPECT_EQ(i32.values<std::int32_t>()[0], 7);
  EXPECT_EQ(i32.values<std::int32_t>()[1], -1);
  EXPECT_EQ(parse_idx(bytes_of(idx(13, {1}, big_endian(0x3fc00000))), "a.idx").values<float>()[0], 1.5f);
}

TEST_F(Sets, IdxThatLiesIsRefusedBeforeMemoryIsAskedFor) {
  const std::string good = idx(8, {2, 3}, "abcdef");
  for (std::size_t length = 0; length < good.size(); ++length)
    error_of(ErrorKind::kParse, [&] { parse_idx(bytes_of(good.substr(0, length)), "a.idx"); });
  error_of(ErrorKind::kParse, [&] { parse_idx(bytes_of(good + "x"), "a.idx"); });
  const std::string huge = idx(14, {0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff}, "x");
  EXPECT_NE(error_of(ErrorKind::kParse, [&] { parse_idx(bytes_of(huge), "a.idx"); }).find("a.idx: byte"),
            std::string::npos);
  error_of(ErrorKind::kParse, [&] { parse_idx(bytes_of(idx(8, {60000, 28, 28}, "x")), "a.idx"); });
  error_of(ErrorKind::kParse, [&] { parse_idx(bytes_of(idx(7, {1}, "x")), "a.idx"); });
}

TEST_F(Sets, MnistFromFourFiles) {
  const auto make = [&](const char* prefix, std::uint32_t count, const std::string& labels) {
    write(folder_ / (std::string(prefix) + "-images-idx3-ubyte"),
          idx(8, {count, 28, 28}, std::string(count * 784, '\7')));
    write(folder_ / (std::string(prefix) + "-labels-idx1-ubyte"), idx(8, {count}, labels));
  };
  make("train", 3, {1, 9, 0});
  make("t10k", 2, {5, 5});
  const auto [train, test] = mnist(folder_);
  EXPECT_EQ(train.info().to_string(), "mnist: 3 samples, x u8[28,28], y i32[] of 10 classes");
  EXPECT_EQ(train.labels(), (std::vector<std::int64_t>{1, 9, 0}));
  EXPECT_EQ(test.size(), 2);
  EXPECT_TRUE(train.in_memory());
  EXPECT_EQ(mnist(folder_, {.channel = true}).train[0][0].shape(), (Shape{28, 28, 1}));
  EXPECT_EQ(open("fashion:" + folder_.string()).train.info().fields[1].classes[9], "Ankle boot");
  make("train", 3, {1, 10, 0});
  EXPECT_NE(error_of(ErrorKind::kParse, [&] { mnist(folder_); }).find("sample 1"), std::string::npos);
  make("train", 2, {1, 1, 0});
  error_of(ErrorKind::kParse, [&] { mnist(folder_); });
  fs::remove(folder_ / "train-labels-idx1-ubyte");
  EXPECT_NE(error_of(ErrorKind::kNotFound, [&] { mnist(folder_); }).find("train-labels-idx1-ubyte"),
            std::string::npos);
}

std::string cifar_record(int label, int number) {
  std::string record(1, static_cast<char>(label));
  for (int c = 0; c < 3; ++c)
    for (int i = 0; i < 1024; ++i) record += static_cast<char>((i + c * 100 + number) & 0xff);
  return record;
}

// A tar archive of the files, by hand.
std::string tar_of(const std::vector<std::pair<std::string, std::string>>& files) {
  std::string archive;
  for (const auto& [name, content] : files) {
    std::string header(512, '\0');
    name.copy(header.data(), 100);
    std::snprintf(header.data() + 124, 12, "%011zo", content.size());
    header[156] = '0';
    std::memcpy(header.data() + 257, "ustar\00000", 8);
    std::memset(header.data() + 148, ' ', 8);
    unsigned sum = 0;
    for (const unsigned char c : header) sum += c;
    std::snprintf(header.data() + 148, 8, "%06o", sum);
    archive += header + content + std::string((512 - content.size() % 512) % 512, '\0');
  }
  return archive + std::string(1024, '\0');
}

TEST_F(Sets, Cifar10FromFilesAndArchive) {
  std::vector<std::pair<std::string, std::string>> files{{"cifar-10-batches-bin/readme.html", "text"}};
  for (int i = 0; i < 6; ++i) {
    const std::string name = i == 5 ? "test_batch.bin" : "data_batch_" + std::to_string(i + 1) + ".bin";
    const std::string content = cifar_record(i, i) + cifar_record(9, i + 50);
    write(folder_ / "files" / name, content);
    files.emplace_back("cifar-10-batches-bin/" + name, content);
  }
  write(folder_ / "packed" / "cifar-10-binary.tar", tar_of(files));
  for (const char* place : {"files", "packed", "packed/cifar-10-binary.tar"}) {
    const auto [train, test] = cifar10(folder_ / place);
    EXPECT_EQ(train.info().to_string(), "cifar10: 10 samples, x u8[32,32,3], y i32[] of 10 classes");
    EXPECT_EQ(train.labels(), (std::vector<std::int64_t>{0, 9, 1, 9, 2, 9, 3, 9, 4, 9}));
    EXPECT_EQ(test.size(), 2);
    const Literal picture = train[2][0];  // number 1: pixel i of channel c is i + 100·c + 1
    const auto pixels = picture.values<std::uint8_t>();
    EXPECT_EQ(pixels[0], 1);
    EXPECT_EQ(pixels[1], 101);
    EXPECT_EQ(pixels[2], 201);
    EXPECT_EQ(pixels[(5 * 32 + 7) * 3 + 1], (5 * 32 + 7 + 100 + 1) & 0xff);
  }
  error_of(ErrorKind::kParse, [] { parse_cifar10(bytes_of(cifar_record(1, 1) + "x"), "b.bin"); });
  error_of(ErrorKind::kParse, [] { parse_cifar10({}, "b.bin"); });
  EXPECT_NE(error_of(ErrorKind::kParse,
                     [] { parse_cifar10(bytes_of(cifar_record(1, 1) + cifar_record(10, 1)), "b.bin"); })
                .find("sample 1"),
            std::string::npos);
  error_of(ErrorKind::kNotFound, [&] { cifar10(folder_ / "nowhere"); });
}

TEST_F(Sets, ArchivesThatLieAreRefused) {
  const std::string good = tar_of({{"a/b.txt", "hello"}, {"c.bin", std::string(600, 'x')}});
  const std::vector<io::Member> members = io::parse_tar(bytes_of(good), "t.tar");
  ASSERT_EQ(members.size(), 2u);
  EXPECT_EQ(members[0].name, "a/b.txt");
  EXPECT_EQ(members[0].bytes, bytes_of("hello"));
  EXPECT_EQ(members[1].bytes.size(), 600u);
  for (std::size_t length = 0; length < 2500; length += 100)
    error_of(ErrorKind::kParse, [&] { io::parse_tar(bytes_of(good.substr(0, length)), "t.tar"); });
  std::string lying = good;
  lying[125] = '7';  // the checksum no longer agrees
  error_of(ErrorKind::kParse, [&] { io::parse_tar(bytes_of(lying), "t.tar"); });
  error_of(ErrorKind::kParse, [] { io::parse_tar(bytes_of(std::string(1024, '\0')), "t.tar"); });
  error_of(ErrorKind::kParse, [] { io::parse_tar(bytes_of(std::string(600, 'x')), "t.tar"); });
}

// Python's gzip.compress(b"hello").
const unsigned char kHelloGz[] = {0x1f, 0x8b, 8,    0,    0,    0,    0,    0,    0, 3, 0xcb, 0x48, 0xcd,
                                  0xc9, 0xc9, 0x07, 0x00, 0x86, 0xa6, 0x10, 0x36, 5, 0, 0,    0};

TEST_F(Sets, PackedFilesUnpackUpToALimit) {
  const std::string hello(reinterpret_cast<const char*>(kHelloGz), sizeof(kHelloGz));
  if (!can_unpack(hello)) GTEST_SKIP() << "this build has no zlib";
  EXPECT_EQ(io::unpack(bytes_of(hello), "h.gz"), bytes_of("hello"));
  EXPECT_EQ(io::unpack(bytes_of(hello + hello), "h.gz"), bytes_of("hellohello"));
  EXPECT_EQ(io::unpack(bytes_of("plain"), "h.txt"), bytes_of("plain"));
  error_of(ErrorKind::kLimit, [&] { io::unpack(bytes_of(hello), "h.gz", 4); });
  EXPECT_EQ(io::unpack(bytes_of(hello), "h.gz", 5).size(), 5u);
  for (std::size_t length = 2; length < hello.size(); ++length)
    error_of(ErrorKind::kParse, [&] { io::unpack(bytes_of(hello.substr(0, length)), "h.gz"); });
  error_of(ErrorKind::kParse, [&] { io::unpack(bytes_of(hello + "x"), "h.gz"); });
  std::string wrong = hello;
  wrong[17] ^= 1;  // of the checksum
  error_of(ErrorKind::kParse, [&] { io::unpack(bytes_of(wrong), "h.gz"); });
}

class Pictures : public testing::TestWithParam<std::tuple<const char*, const char*, int>> {};

TEST_P(Pictures, AreDecodedAsPillowDoes) {
  const auto [file, wanted, channels] = GetParam();
  try {
    const Literal got = io::load_picture(kSets + file, {.channels = channels});
    EXPECT_TRUE(got.same_bits(fixtures("pictures.npz").at(wanted))) << got.to_string();
  } catch (const Error& error) {
    if (error.kind() == ErrorKind::kUnsupported) GTEST_SKIP() << error.what();
    throw;
  }
}
INSTANTIATE_TEST_SUITE_P(
    Files, Pictures,
    testing::Values(std::tuple{"colours.png", "colours", 0}, std::tuple{"grey.png", "grey", 0},
                    std::tuple{"colours.png", "colours_grey", 1}, std::tuple{"alpha.png", "alpha", 3},
                    std::tuple{"deep.png", "deep", 3}, std::tuple{"deep_grey.png", "deep_grey", 1},
                    std::tuple{"palette.png", "palette", 0}, std::tuple{"photo.jpg", "photo", 3},
                    std::tuple{"grey.jpg", "grey_jpg", 0}));

TEST(PictureFaults, BombsAndDamageAreRefused) {
  try {
    io::load_picture(kSets + "grey.png");
    io::load_picture(kSets + "photo.jpg");
  } catch (const Error& error) {
    GTEST_SKIP() << error.what();
  }
  error_of(ErrorKind::kLimit, [] { io::load_picture(kSets + "bomb.png"); });
  error_of(ErrorKind::kLimit, [] { io::load_picture(kSets + "bomb.jpg"); });
  error_of(ErrorKind::kParse, [] { io::load_picture(kSets + "short.png"); });
  error_of(ErrorKind::kLimit, [] { io::load_picture(kSets + "grey.png", {.largest_pixels = 29}); });
  EXPECT_EQ(io::load_picture(kSets + "grey.png", {.largest_pixels = 30}).count(), 30);
  for (const char* name : {"colours.png", "palette.png", "deep.png", "photo.jpg"}) {
    const std::vector<std::byte> good = file_bytes(kSets + name);
    for (std::size_t length = 0; length + 2 < good.size(); ++length)  // a .jpg may miss its end mark alone
      try {
        io::parse_picture(std::span(good).first(length), name);
        ADD_FAILURE() << name << " of " << length << " bytes";
      } catch (const Error& error) {
        EXPECT_EQ(error.kind(), ErrorKind::kParse) << error.what();
      }
    for (std::size_t at = 0; at < good.size(); ++at) {
      std::vector<std::byte> bad = good;
      bad[at] ^= std::byte{0x55};
      try {
        io::parse_picture(bad, name);
      } catch (const Error& error) {
        EXPECT_TRUE(error.kind() == ErrorKind::kParse || error.kind() == ErrorKind::kLimit ||
                    error.kind() == ErrorKind::kUnsupported)
            << error.what();
      }
    }
  }
}

// The folder of test pictures may lack a class: the others keep their numbers. It may not have one more.
TEST_F(Sets, TestPicturesHaveTheClassesOfTheTrainingOnes) {
  try {
    const auto place = [&](const char* name) {
      fs::create_directories((folder_ / name).parent_path());
      fs::copy_file(kSets + "colours.png", folder_ / name);
    };
    for (const char* name :
         {"train/a/1.png", "train/b/1.png", "train/c/1.png", "test/c/1.png", "test/b/1.png"})
      place(name);
    const TrainTest both = open("images:" + folder_.string());
    EXPECT_EQ(both.train.labels(), (std::vector<std::int64_t>{0, 1, 2}));
    EXPECT_EQ(both.test.labels(), (std::vector<std::int64_t>{1, 2}));
    EXPECT_EQ(both.test.info().fields[1].classes, (std::vector<std::string>{"a", "b", "c"}));
    place("test/d/1.png");
    EXPECT_NE(
        error_of(ErrorKind::kInvalidArgument, [&] { open("images:" + folder_.string()); }).find("a, b, c"),
        std::string::npos);
  } catch (const Error& error) {
    if (error.kind() == ErrorKind::kUnsupported) GTEST_SKIP() << error.what();
    throw;
  }
}

TEST_F(Sets, FoldersOfPicturesAreClasses) {
  try {
    for (const char* name : {"10/b.png", "10/a.PNG", "2/only.png"}) {
      fs::create_directories((folder_ / name).parent_path());
      fs::copy_file(kSets + "colours.png", folder_ / name);
    }
    fs::copy_file(kSets + "photo.jpg", folder_ / "2" / "photo.jpg");
    write(folder_ / "2" / "notes.txt", "no picture");
    const Source set = images(folder_);
    EXPECT_EQ(set.size(), 4);
    EXPECT_EQ(set.labels(), (std::vector<std::int64_t>{0, 0, 1, 1}));  // 2 before 10
    EXPECT_EQ(set.info().fields[1].classes, (std::vector<std::string>{"2", "10"}));
    EXPECT_EQ(set.info().fields[0].type.to_string(), "u8[height,width,3]");
    EXPECT_EQ(set[0][0].shape(), (Shape{5, 6, 3}));
    EXPECT_EQ(set[1][0].shape(), (Shape{16, 24, 3}));
    const Source equal = images(folder_, {.channels = 1, .height = 8, .width = 8});
    EXPECT_EQ(equal.read({0, 1, 2})[0].type(), (Type{DType::u8, {3, 8, 8}}));
    write(folder_ / "2" / "zz.png", "not a picture");
    const Source broken = images(folder_);
    EXPECT_NE(error_of(ErrorKind::kParse, [&] { broken.read({0, 2}); }).find("sample 2"), std::string::npos);
    EXPECT_EQ(open("images:" + folder_.string() + "?size=8").train[0][0].shape(), (Shape{8, 8, 3}));
  } catch (const Error& error) {
    if (error.kind() == ErrorKind::kUnsupported) GTEST_SKIP() << error.what();
    throw;
  }
  error_of(ErrorKind::kNotFound, [&] { images(folder_ / "nowhere"); });
  fs::create_directories(folder_ / "nothing");
  error_of(ErrorKind::kNotFound, [&] { images(folder_ / "nothing"); });
}

TEST_F(Sets, CsvHasTypes) {
  const Table table = parse_csv(
      "\xef\xbb\xbfid,\"the, name\",size,kind\r\n"
      "1,\"a \"\"b\"\"\",2.5,cat\r\n"
      "\r\n"
      "-2,c, ,dog\r\n"
      "3,\"two\nlines\",1e2,cat",
      "t.csv");
  EXPECT_EQ(table.rows, 3);
  EXPECT_EQ(table["id"].values.type(), (Type{DType::i64, {3}}));
  EXPECT_EQ(table["id"].values.values<std::int64_t>()[1], -2);
  EXPECT_EQ(table["size"].values.dtype(), DType::f32);
  EXPECT_TRUE(std::isnan(table["size"].values.values<float>()[1]));
  EXPECT_EQ(table["size"].values.values<float>()[2], 100);
  EXPECT_EQ(table["the, name"].categories, (std::vector<std::string>{"a \"b\"", "c", "two\nlines"}));
  EXPECT_EQ(table["kind"].values.values<std::int32_t>()[1], 1);
  EXPECT_NE(error_of(ErrorKind::kNotFound, [&] { table["sice"]; }).find("size"), std::string::npos);
  EXPECT_EQ(parse_csv("1;2\n3;4\n", "t.csv").columns.size(), 2u);
  EXPECT_EQ(parse_csv("1,2\n", "t.csv", {.types = {{"0", CsvType::kText}}}).columns[0].categories[0], "1");
}

TEST_F(Sets, CsvGivesFeaturesAndLabel) {
  write(folder_ / "t.csv", "a,b,y\n1,2,no\n3,4,yes\n5,6,no\n");
  const Source set = csv(folder_ / "t.csv");
  EXPECT_EQ(set.info().to_string(), "t.csv: 3 samples, x f32[2], y i32[] of 2 classes");
  EXPECT_EQ(set.labels(), (std::vector<std::int64_t>{0, 1, 0}));
  EXPECT_EQ(set[1][0].values<float>()[1], 4);
  const Source other = csv(folder_ / "t.csv", {.label = "a", .drop = {"y"}, .regression = true});
  EXPECT_EQ(other[2][1].item<float>(), 5);
  EXPECT_EQ(other[2][0].shape(), (Shape{1}));
  EXPECT_EQ(open("csv:" + (folder_ / "t.csv").string() + "?label=a&drop=y").train.labels(),
            (std::vector<std::int64_t>{0, 1, 2}));
  EXPECT_NE(error_of(ErrorKind::kNotFound, [&] { csv(folder_ / "t.csv", {.label = "yy"}); }).find("'y'"),
            std::string::npos);
  write(folder_ / "counts.csv", "2,2,apple,pear\n1,2,1\n3,4,0\n");
  const Source counts = csv(folder_ / "counts.csv");
  EXPECT_EQ(counts.info().fields[1].classes, (std::vector<std::string>{"apple", "pear"}));
  EXPECT_EQ(counts.labels(), (std::vector<std::int64_t>{1, 0}));
}

TEST_F(Sets, AMissingLabelIsNoClass) {
  for (const char* cell : {"", "NA"}) {
    write(folder_ / "t.csv", std::string("a,y\n1,no\n2,") + cell + "\n3,yes\n4,no\n");
    const std::string message = error_of(ErrorKind::kInvalidArgument, [&] { csv(folder_ / "t.csv"); });
    EXPECT_NE(message.find("line 3, column 'y': the label is missing"), std::string::npos) << message;
    EXPECT_NE(message.find("skip_unlabelled"), std::string::npos) << message;
    const Source set = csv(folder_ / "t.csv", {.skip_unlabelled = true});
    EXPECT_EQ(set.size(), 3);
    EXPECT_EQ(set.info().fields[1].classes, (std::vector<std::string>{"no", "yes"}));
    EXPECT_EQ(set.labels(), (std::vector<std::int64_t>{0, 1, 0}));
    EXPECT_EQ(set[1][0].values<float>()[0], 3);
  }
  write(folder_ / "t.csv", "a,y\n1,0.5\n2,\n3,1.5\n");
  error_of(ErrorKind::kInvalidArgument, [&] { csv(folder_ / "t.csv", {.regression = true}); });
  EXPECT_EQ(open("csv:" + (folder_ / "t.csv").string() + "?regression&skip_unlabelled").train.size(), 2);
  write(folder_ / "t.csv", "a,y\n1,0\n2,\n3,1\n");
  error_of(ErrorKind::kInvalidArgument, [&] { csv(folder_ / "t.csv"); });
  EXPECT_EQ(csv(folder_ / "t.csv", {.skip_unlabelled = true}).labels(), (std::vector<std::int64_t>{0, 1}));
}

TEST_F(Sets, TextColumnsAreOneHotUpToALimit) {
  write(folder_ / "t.csv", "city,size,y\nrome,1,0\n,2,1\noslo,3,0\nrome,4,1\n");
  const Source set = csv(folder_ / "t.csv");
  EXPECT_EQ(set.info().fields[0].type, (Type{DType::f32, {3}}));  // oslo, rome, size
  const Literal x = set.columns()[0];
  EXPECT_EQ((std::vector<float>(x.values<float>().begin(), x.values<float>().end())),
            (std::vector<float>{0, 1, 1, 0, 0, 2, 1, 0, 3, 0, 1, 4}));
  std::string many = "name,y\n";
  for (int i = 0; i < 66; ++i) many += "person" + std::to_string(i % 33) + "," + std::to_string(i % 2) + "\n";
  write(folder_ / "t.csv", many);
  const std::string message = error_of(ErrorKind::kInvalidArgument, [&] { csv(folder_ / "t.csv"); });
  for (const char* part : {"column name", "33 values", "at most 32", "drop=name", "one_hot=33"})
    EXPECT_NE(message.find(part), std::string::npos) << message;
  EXPECT_EQ(csv(folder_ / "t.csv", {.one_hot = 33}).info().fields[0].type.shape, (Shape{33}));
  EXPECT_EQ(open("csv:" + (folder_ / "t.csv").string() + "?one_hot=40").train.info().fields[0].type.shape,
            (Shape{33}));
}

// As a training left them with its model: one of before 0.2 has numbers for text.
TEST_F(Sets, ATableHasTheFeaturesOfAModel) {
  write(folder_ / "t.csv", "city,size,y\nrome,1,0\noslo,2,1\n");
  const auto x = [&](const CsvFeatures& like) {
    const Literal all = csv_set(folder_ / "t.csv", {}, &like).source.columns()[0];
    return std::vector<float>(all.values<float>().begin(), all.values<float>().end());
  };
  EXPECT_EQ(x({{.name = "size"}, {.name = "city", .categories = {"bern", "oslo", "rome"}}}),
            (std::vector<float>{1, 2, 2, 1}));
  EXPECT_EQ(x({{.name = "city", .categories = {"bern", "oslo", "rome"}, .one_hot = true}}),
            (std::vector<float>{0, 0, 1, 0, 1, 0}));
  const CsvFeatures other{{.name = "city", .categories = {"oslo"}, .one_hot = true}};
  EXPECT_NE(error_of(ErrorKind::kInvalidArgument, [&] { read_features(folder_ / "t.csv", other); })
                .find("line 2, column 'city': the training had no such value; expected"),
            std::string::npos);
}

TEST_F(Sets, CsvColumnsSayTypeUseAndMissingValues) {
  std::string table = "CustomerID,row,city,size,note,y\n";
  for (int i = 0; i < 12; ++i)
    table += std::to_string(i / 2) + "," + std::to_string(100 + i) + (i % 3 == 0 ? ",," : ",rome,") +
             (i == 5 ? "NA" : "1.5") + ",x" + std::to_string(i) + (i % 2 == 0 ? ",a\n" : ",b\n");
  write(folder_ / "t.csv", table);
  const CsvOptions options{.drop = {"size"}, .one_hot = 11};
  const std::vector<CsvColumn> columns = csv_columns(folder_ / "t.csv", options);
  ASSERT_EQ(columns.size(), 6u);
  const auto expect = [&](std::size_t i, CsvType type, ColumnUse use, std::int64_t missing,
                          std::int64_t distinct, bool identifier) {
    EXPECT_EQ(columns[i].type, type) << columns[i].name;
    EXPECT_EQ(columns[i].use, use) << columns[i].name;
    EXPECT_EQ(columns[i].missing, missing) << columns[i].name;
    EXPECT_EQ(columns[i].distinct, distinct) << columns[i].name;
    EXPECT_EQ(!columns[i].identifier.empty(), identifier) << columns[i].name << columns[i].identifier;
  };
  expect(0, CsvType::kInteger, ColumnUse::kFeature, 0, 6, true);
  expect(1, CsvType::kInteger, ColumnUse::kFeature, 0, 12, true);
  expect(2, CsvType::kText, ColumnUse::kOneHot, 4, 1, false);
  expect(3, CsvType::kNumber, ColumnUse::kLeftOut, 1, 1, false);
  expect(4, CsvType::kText, ColumnUse::kTooManyValues, 0, 12, true);
  expect(5, CsvType::kText, ColumnUse::kLabel, 0, 2, false);
}

TEST_F(Sets, ColumnsOfYesAndNoAndWordsThatEndInIdAreNoIdentifiers) {
  std::string table = "PAID,COVID,valid,id,UserID,ORDER_ID,Item2Id,y\n";
  for (int i = 0; i < 9; ++i) {
    const std::string few = std::to_string(i % 2), some = std::to_string(i % 3);
    table += few + "," + some + "," + some + "," + few + "," + some + "," + some + "," + some + ",0\n";
  }
  write(folder_ / "t.csv", table);
  const std::vector<CsvColumn> columns = csv_columns(folder_ / "t.csv", {});
  std::vector<std::string> found;
  for (const CsvColumn& column : columns)
    if (!column.identifier.empty()) found.push_back(column.name);
  EXPECT_EQ(found, (std::vector<std::string>{"UserID", "ORDER_ID", "Item2Id"}));
}

// The spellings that pandas knows, too.
TEST_F(Sets, MissingCellsHaveSeveralSpellings) {
  const std::vector<std::string> spellings = {"",    "NA",  "N/A",  "n/a",  "NaN",
                                              "nan", "NAN", "null", "NULL", "None"};
  std::string table = "size,city,y\n1.5,rome,0\n2,oslo,1\n";
  for (const std::string& cell : spellings) table += cell + "," + cell + ",1\n";
  write(folder_ / "t.csv", table);
  const std::vector<CsvColumn> columns = csv_columns(folder_ / "t.csv", {});
  const auto count = static_cast<std::int64_t>(spellings.size());
  EXPECT_EQ(columns[0].type, CsvType::kNumber);
  EXPECT_EQ(columns[0].missing, count);
  EXPECT_EQ(columns[1].missing, count);
  EXPECT_EQ(columns[1].distinct, 2);
}

TEST_F(Sets, ColumnsThatLookLikeIdentifiersAreWarnedOf) {
  std::string table = "ID,age,y\n";
  for (int i = 0; i < 30; ++i) table += std::to_string(7000 + 13 * i % 31) + ",5,0\n";
  write(folder_ / "t.csv", table);
  std::vector<std::string> warnings;
  set_log_sink([&](LogLevel, std::string_view message) { warnings.emplace_back(message); }, LogLevel::warn);
  csv(folder_ / "t.csv");
  csv(folder_ / "t.csv", {.drop = {"ID"}});
  set_log_sink({});
  ASSERT_EQ(warnings.size(), 1u);
  EXPECT_NE(warnings[0].find("column ID looks like an identifier"), std::string::npos) << warnings[0];
  EXPECT_NE(warnings[0].find("drop=ID"), std::string::npos) << warnings[0];
}

TEST_F(Sets, ATableOfTextAloneHasNamesWhenTheyAreAskedForOrOccurOnce) {
  const std::string table = "city,kind\nrome,a\noslo,b\nrome,b\n";
  EXPECT_EQ(parse_csv(table, "t.csv").columns[0].name, "city");
  EXPECT_EQ(parse_csv(table, "t.csv", {.header = CsvHeader::kNone}).rows, 4);
  EXPECT_EQ(parse_csv("a,b\nb,a\na,a\n", "t.csv").rows, 3);
  EXPECT_EQ(parse_csv("a,b\nb,a\na,a\n", "t.csv", {.label = "b"}).rows, 2);
}

TEST_F(Sets, TextThatIsNotUtf8SaysHowToConvertIt) {
  const std::string gbk = "\xb3\xc7\xca\xd0,y\n1,\xca\xc7\n";  // 城市 and 是
  const std::string message = error_of(ErrorKind::kParse, [&] { parse_csv(gbk, "t.csv"); });
  EXPECT_NE(message.find("t.csv: line 1: byte 0: the text is not UTF-8"), std::string::npos) << message;
  EXPECT_NE(message.find("iconv -f GB18030 -t UTF-8"), std::string::npos) << message;
  EXPECT_NE(error_of(ErrorKind::kParse, [] { parse_csv("a,y\n1,caf\xe9\n", "t.csv"); })
                .find("line 2: byte 9: the text is not UTF-8"),
            std::string::npos);
  for (const char* bom : {"\xff\xfe", ""})
    EXPECT_NE(error_of(ErrorKind::kParse, [&] { parse_csv(bom + std::string("a\0,\0", 4), "t.csv"); })
                  .find("iconv -f UTF-16"),
              std::string::npos);
  EXPECT_NE(error_of(ErrorKind::kParse, [&] { text_of(gbk, {.window = 2}, "t.txt"); }).find("bytes"),
            std::string::npos);
  EXPECT_EQ(text_of(gbk, {.window = 2, .bytes = true}).size(), 10);
}

TEST_F(Sets, CsvThatLiesNamesLineAndSample) {
  EXPECT_NE(error_of(ErrorKind::kParse, [] { parse_csv("a,b\n1,2\n3\n", "t.csv"); }).find("line 3: sample 1"),
            std::string::npos);
  error_of(ErrorKind::kParse, [] { parse_csv("", "t.csv"); });
  error_of(ErrorKind::kParse, [] { parse_csv("a,\"b\n1,2", "t.csv"); });
  error_of(ErrorKind::kParse, [] { parse_csv("a,\"b\"c\n", "t.csv"); });
  error_of(ErrorKind::kParse,
           [] { parse_csv("9,2,x\n1,2,1\n3,4,0\n", "t.csv", {.header = CsvHeader::kCounts}); });
  error_of(ErrorKind::kParse, [] { parse_csv("1\nx\n", "t.csv", {.types = {{"0", CsvType::kNumber}}}); });
  write(folder_ / "t.csv", "a,y\n1,0.5\n");
  error_of(ErrorKind::kInvalidArgument, [&] { csv(folder_ / "t.csv"); });
  error_of(ErrorKind::kLimit, [&] { csv(folder_ / "t.csv", {.largest_bytes = 5}); });
}

TEST_F(Sets, ArraysFromNpyAndNpz) {
  const Literal x = Literal::of<float>({2, 1}, {1, 2}), y = Literal::of<std::int32_t>({2}, {3, 4});
  io::save_npy(folder_ / "x.npy", x);
  EXPECT_EQ(npy(folder_ / "x.npy").size(), 2);
  io::save_npz(folder_ / "a.npz", std::vector<io::NamedArray>{{"images", x}, {"labels", y}});
  EXPECT_EQ(npz(folder_ / "a.npz").info().to_string(), "a.npz: 2 samples, images f32[1], labels i32[]");
  EXPECT_EQ(npz(folder_ / "a.npz", {"labels"}).info().fields.size(), 1u);
  error_of(ErrorKind::kNotFound, [&] { npz(folder_ / "a.npz", {"label"}); });
  io::save_npz(folder_ / "k.npz",
               std::vector<io::NamedArray>{{"x_train", x}, {"y_train", y}, {"x_test", x}, {"y_test", y}});
  EXPECT_EQ(open("npz:" + (folder_ / "k.npz").string()).test.size(), 2);
  io::save_npz(folder_ / "b.npz",
               std::vector<io::NamedArray>{{"x", x}, {"y", Literal::of<float>({3}, {1, 2, 3})}});
  error_of(ErrorKind::kShape, [&] { npz(folder_ / "b.npz"); });
}

TEST_F(Sets, TextIsWindowsOfSymbols) {
  const Source set = text_of("h\xc3\xa9llo", {.window = 3});
  const std::vector<std::string> vocabulary = set.info().fields[0].classes;
  EXPECT_EQ(vocabulary, (std::vector<std::string>{"h", "l", "o", "\xc3\xa9"}));
  EXPECT_EQ(set.size(), 2);
  EXPECT_EQ(decode(set[1][0].values<std::int32_t>(), vocabulary), "\xc3\xa9ll");
  EXPECT_EQ(decode(set[1][1].values<std::int32_t>(), vocabulary), "llo");
  EXPECT_EQ(set.read({1, 0})[1].type(), (Type{DType::i32, {2, 3}}));
  EXPECT_EQ(decode(set.read({1, 0})[1].values<std::int32_t>(), vocabulary), "llo\xc3\xa9ll");
  EXPECT_EQ(text_of("abcdefg", {.window = 2, .stride = 2}).size(), 3);
  const Source bytes = text_of("\xff\x01\x02", {.window = 1, .bytes = true});
  EXPECT_EQ(bytes[0][0].values<std::int32_t>()[0], 255);
  EXPECT_EQ(bytes.info().fields[1].classes.size(), 256u);
  EXPECT_EQ(text_of("bab", {.window = 1, .vocabulary = {"a", "b"}})[0][0].values<std::int32_t>()[0], 1);
  error_of(ErrorKind::kParse, [] { text_of("abc", {.window = 1, .vocabulary = {"a", "b"}}); });
  EXPECT_NE(error_of(ErrorKind::kParse, [] { text_of("ab\xff", {.window = 1}); }).find("byte 2"),
            std::string::npos);
  error_of(ErrorKind::kInvalidArgument, [] { text_of("abc", {.window = 3}); });
}

TEST_F(Sets, SoundKeepsItsSamples) {
  const io::Sound sound{Literal::of<float>({4}, {0, 0.5f, -1, 0.999969482421875f}), 8000};
  io::save_wav(folder_ / "7_me_0.wav", sound);
  const io::Sound again = io::load_wav(folder_ / "7_me_0.wav");
  EXPECT_TRUE(again.samples.same_bits(sound.samples));
  EXPECT_EQ(again.rate, 8000);
  const io::Sound stereo{Literal::of<float>({2, 2}, {0.5f, 0.25f, -0.5f, 0}), 8000};
  io::save_wav(folder_ / "10_me_0.wav", stereo);
  EXPECT_TRUE(io::load_wav(folder_ / "10_me_0.wav").samples.same_bits(stereo.samples));
  const AudioSet set = audio(folder_);
  EXPECT_EQ(set.rate, 8000);
  EXPECT_EQ(open_all("audio:" + folder_.string()).rate, 8000);
  EXPECT_EQ(set.files, (std::vector<std::string>{"10_me_0.wav", "7_me_0.wav"}));
  EXPECT_EQ(set.source.info().fields[1].classes, (std::vector<std::string>{"7", "10"}));
  EXPECT_EQ(set.source.labels(), (std::vector<std::int64_t>{1, 0}));
  EXPECT_EQ(set.source[0][0].values<float>()[0], 0.375f);
  EXPECT_EQ(audio(folder_, {.samples = 3}).source.columns()[0].type(), (Type{DType::f32, {2, 3}}));
  EXPECT_EQ(audio(folder_, {.samples = 3}).source[0][0].values<float>()[2], 0);
}

TEST_F(Sets, DamagedSoundsStopOrAreSkippedAndCounted) {
  const io::Sound sound{Literal::of<float>({2}, {0.5f, -0.5f}), 8000};
  io::save_wav(folder_ / "1_a.wav", sound);
  io::save_wav(folder_ / "2_a.WAV", sound);
  for (const char* name : {"1_b.wav", "3_a.wav"}) write(folder_ / name, "no sound");
  EXPECT_NE(error_of(ErrorKind::kParse, [&] { audio(folder_); }).find("1_b.wav"), std::string::npos);
  std::vector<std::string> warnings;
  set_log_sink([&](LogLevel, std::string_view message) { warnings.emplace_back(message); }, LogLevel::warn);
  const auto bad = std::make_shared<BadSamples>();
  const AudioSet set = audio(folder_, {.samples = 2, .skipped = bad});
  EXPECT_EQ(set.files, (std::vector<std::string>{"1_a.wav", "2_a.WAV"}));
  EXPECT_EQ(set.source.labels(), (std::vector<std::int64_t>{0, 1}));
  EXPECT_EQ(set.source.info().fields[1].classes, (std::vector<std::string>{"1", "2"}));
  EXPECT_EQ(bad->count(), 2);
  ASSERT_EQ(warnings.size(), 2u);
  EXPECT_NE(warnings[0].find("1_b.wav"), std::string::npos) << warnings[0];
  for (const char* name : {"1_a.wav", "2_a.WAV"}) fs::remove(folder_ / name);
  EXPECT_NE(error_of(ErrorKind::kParse, [&] { audio(folder_, {.skipped = bad}); }).find("1_b.wav"),
            std::string::npos)
      << "all that there is";
  set_log_sink({});
}

TEST_F(Sets, WhatIsBesideSoundsAndPartsIsCountedInOneLine) {
  for (const char* name : {"2_b.mp3", "deep/3_c.MP3", "4_d.flac", "README", ".hidden"})
    write(folder_ / "sounds" / name, "x");
  io::save_wav(folder_ / "sounds" / "1_a.wav", {Literal::of<float>({1}, {0.5f}), 8000});
  std::vector<std::string> warnings;
  set_log_sink([&](LogLevel, std::string_view message) { warnings.emplace_back(message); }, LogLevel::warn);
  EXPECT_EQ(audio(folder_ / "sounds").source.size(), 1);
  EXPECT_EQ(warnings, (std::vector<std::string>{(folder_ / "sounds").string() +
                                                ": passed over 4: 2 .mp3, 1 .flac, 1 without an ending"}));
  warnings.clear();
  // Of a folder with train/ and test/, the rest is not read.
  const fs::path parts = folder_ / "parts";
  for (const char* name : {"train/a/1.png", "test/a/1.png", "val/a/1.png", "more/a/1.png", "b.png"}) {
    fs::create_directories((parts / name).parent_path());
    fs::copy_file(kSets + "grey.png", parts / name);
  }
  const TrainTest both = open("images:" + parts.string());
  set_log_sink({});
  EXPECT_EQ(both.train.size() + both.test.size(), 2);
  EXPECT_EQ(warnings, (std::vector<std::string>{parts.string() +
                                                ": passed over 3: 1 .png, 1 folder more, 1 folder val"}));
}

// 24 and 8 bits, and floats, by hand.
std::string wav(int kind, int channels, int bits, const std::string& data) {
  const auto little = [](std::uint32_t value, int width) {
    std::string text;
    for (int i = 0; i < width; ++i) text += static_cast<char>(value >> (8 * i) & 0xff);
    return text;
  };
  const int frame = channels * bits / 8;
  return "RIFF" + little(static_cast<std::uint32_t>(36 + data.size()), 4) + "WAVEfmt " + little(16, 4) +
         little(static_cast<std::uint32_t>(kind), 2) + little(static_cast<std::uint32_t>(channels), 2) +
         little(8000, 4) + little(static_cast<std::uint32_t>(8000 * frame), 4) +
         little(static_cast<std::uint32_t>(frame), 2) + little(static_cast<std::uint32_t>(bits), 2) + "data" +
         little(static_cast<std::uint32_t>(data.size()), 4) + data;
}

TEST_F(Sets, WavOfOtherFormsAndOnesThatLie) {
  const auto first = [](const std::string& file) {
    return io::parse_wav(bytes_of(file), "a.wav").samples.item<float>();
  };
  EXPECT_EQ(first(wav(1, 1, 8, "\xc0")), 0.5f);
  EXPECT_EQ(first(wav(1, 1, 24, std::string("\0\0\xc0", 3))), -0.5f);
  EXPECT_EQ(first(wav(1, 1, 32, std::string("\0\0\0\x40", 4))), 0.5f);
  EXPECT_EQ(first(wav(3, 1, 32, std::string("\0\0\x80\x3e", 4))), 0.25f);
  EXPECT_EQ(first(wav(3, 1, 64, std::string("\0\0\0\0\0\0\xd0\x3f", 8))), 0.25f);
  const std::string good = wav(1, 1, 16, "abcd");
  for (std::size_t length = 0; length < good.size(); ++length)
    error_of(ErrorKind::kParse, [&] { io::parse_wav(bytes_of(good.substr(0, length)), "a.wav"); });
  std::string lying = good;
  lying[41] = '\x7f';  // the data's size
  EXPECT_NE(error_of(ErrorKind::kParse, [&] { io::parse_wav(bytes_of(lying), "a.wav"); }).find("byte 40"),
            std::string::npos);
  error_of(ErrorKind::kParse, [&] { io::parse_wav(bytes_of(wav(1, 0, 16, "ab")), "a.wav"); });
  error_of(ErrorKind::kParse, [&] { io::parse_wav(bytes_of(wav(1, 1, 16, "abc")), "a.wav"); });
  error_of(ErrorKind::kUnsupported, [&] { io::parse_wav(bytes_of(wav(2, 1, 4, "ab")), "a.wav"); });
}

TEST(Spectra, AreNumpysAndScipys) {
  const std::map<std::string, Literal> wanted = fixtures("sound.npz");
  const auto expect_close = [&](const Literal& got, const char* name) {
    ASSERT_EQ(got.type(), wanted.at(name).type()) << name;
    const std::vector<double> a = got.to_doubles(), b = wanted.at(name).to_doubles();
    for (std::size_t i = 0; i < a.size(); ++i)
      ASSERT_NEAR(a[i], b[i], 1e-6 * std::max(1.0, std::abs(b[i]))) << name << " " << i;
  };
  const Literal& x = wanted.at("samples");
  const MelOptions mel{.rate = 8000, .mels = 20};
  expect_close(spectrogram(x), "spectrogram");
  expect_close(spectrogram(x, {.frame = 60, .hop = 50, .centred = false}), "spectrogram_60");
  expect_close(log_mel(x, mel), "log_mel");
  expect_close(mfcc(x, mel), "mfcc");
  error_of(ErrorKind::kInvalidArgument, [&] { log_mel(x, {.rate = 8000, .highest = 5000}); });
  error_of(ErrorKind::kInvalidArgument, [&] { spectrogram(x, {.frame = 0}); });
  error_of(ErrorKind::kShape, [] { spectrogram(Literal(Type{DType::f64, {3}})); });
}

TEST(Open, NamesTheNearest) {
  EXPECT_EQ(open("digits?train=30&test=20").train.info().to_string(),
            "digits: 30 samples, x u8[28,28], y i32[] of 10 classes");
  EXPECT_NE(error_of(ErrorKind::kNotFound, [] { open("minst:x"); }).find("'mnist'"), std::string::npos);
  EXPECT_NE(error_of(ErrorKind::kNotFound, [] { open("digits?trian=3"); }).find("'train'"),
            std::string::npos);
  error_of(ErrorKind::kInvalidArgument, [] { open("mnist"); });
  error_of(ErrorKind::kInvalidArgument, [] { open("digits?train=x"); });
  error_of(ErrorKind::kNotFound, [] { open("csv:/nowhere.csv"); });
}

TEST(RealData, Mnist) {
  NEEDS_SHARED("mnist");
  const auto [train, test] = open("mnist:" + (shared() / "mnist").string());
  EXPECT_EQ(train.size(), 60000);
  EXPECT_EQ(test.size(), 10000);
  EXPECT_EQ(train.take(5).labels(), (std::vector<std::int64_t>{5, 0, 4, 1, 9}));
  const Literal pixels = train.columns()[0];
  double sum = 0;
  for (const std::uint8_t v : pixels.values<std::uint8_t>()) sum += v;
  EXPECT_NEAR(sum / 255 / static_cast<double>(pixels.count()), 0.1307, 5e-5);
}

TEST(RealData, TablesTextAndSound) {
  NEEDS_SHARED("tabular");
  const fs::path tables = shared() / "tabular";
  const Source credit = csv(tables / "uci_credit_default.csv", {.drop = {"ID"}});
  EXPECT_EQ(credit.info().fields[0].type, (Type{DType::f32, {23}}));
  EXPECT_EQ(credit.size(), 30000);
  const std::vector<std::int64_t> labels = credit.labels();
  EXPECT_EQ(std::accumulate(labels.begin(), labels.end(), std::int64_t{0}), 6636);
  const Source cancer = csv(tables / "breast_cancer.csv");
  EXPECT_EQ(cancer.info().to_string(), "breast_cancer.csv: 569 samples, x f32[30], y i32[] of 2 classes");
  EXPECT_EQ(cancer.info().fields[1].classes[0], "malignant");
  EXPECT_EQ(csv(tables / "digits.csv.gz").info().to_string(),
            "digits.csv.gz: 1797 samples, x f32[64], y i32[] of 10 classes");
  const Source words = text(shared() / "text" / "tinyshakespeare.txt", {.window = 64});
  EXPECT_EQ(words.info().fields[0].classes.size(), 65u);
  EXPECT_EQ(words.size(), 1115394 - 64);
  try {
    const AudioSet digits = audio(shared() / "audio" / "free-spoken-digit-dataset.tar.xz");
    EXPECT_EQ(digits.source.size(), 3000);
    EXPECT_EQ(digits.rate, 8000);
    EXPECT_EQ(digits.source.info().fields[1].classes.size(), 10u);
    EXPECT_EQ(log_mel(digits.source[0][0], {.rate = 8000}).shape()[1], Dim(40));
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::kUnsupported) throw;
  }
}

TEST(RealData, Cifar10) {
  NEEDS_SHARED("cifar-10");
  try {
    const std::vector<std::byte> packed = io::read_unpacked(shared() / "cifar-10" / "test_batch.bin.xz");
    EXPECT_EQ(io::digest(io::DigestKind::md5, packed), "803d5f7f4d78ea53de84dbe85f74fb6d");
    const std::vector<Literal> test = parse_cifar10(packed, "test_batch.bin");
    EXPECT_EQ(test[0].shape(), (Shape{10000, 32, 32, 3}));
    EXPECT_EQ(test[1].values<std::int32_t>()[0], 3);  // the first test picture is a cat
  } catch (const Error& error) {
    if (error.kind() == ErrorKind::kUnsupported) GTEST_SKIP() << error.what();
    throw;
  }
}

TEST(Digest, KnownOnes) {
  const auto sha = [](std::string_view text) {
    return io::digest(io::DigestKind::sha256, std::as_bytes(std::span(text)));
  };
  const auto md5 = [](std::string_view text) {
    return io::digest(io::DigestKind::md5, std::as_bytes(std::span(text)));
  };
  EXPECT_EQ(sha(""),
            "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");  // FIPS 180 and RFC 1321
  EXPECT_EQ(sha("abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_EQ(sha("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq"),
            "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
  EXPECT_EQ(md5(""), "d41d8cd98f00b204e9800998ecf8427e");
  EXPECT_EQ(md5("message digest"), "f96b697d7cb7938d525a2f31aaf161d0");
  EXPECT_EQ(md5("12345678901234567890123456789012345678901234567890123456789012345678901234567890"),
            "57edf4a22be3c955ac49da2e2107b67a");
}

class Fetch : public ScratchFolder {
 protected:
  Fetch() {
    for (int i = 0; i < 300'000; ++i) content_ += static_cast<char>(i * 7 + i / 256);
    wanted_ = {"file.bin", io::DigestKind::sha256,
               io::digest(io::DigestKind::sha256, std::as_bytes(std::span(std::as_const(content_))))};
    server_.put("file.bin", content_);
  }
  void SetUp() override {
    if (std::system("curl --version > /dev/null 2>&1") != 0) GTEST_SKIP() << "no curl";
    ::setenv("no_proxy", "127.0.0.1", 1);
  }
  bool run() { return fetch(server_.address() + "file.bin", folder_ / "file.bin", wanted_); }
  void expect_there() {
    EXPECT_EQ(read_text_file(folder_ / "file.bin"), content_);
    EXPECT_FALSE(fs::exists(folder_ / "file.bin.part"));
  }

  std::string content_;
  Download wanted_;
  LocalServer server_;
};

TEST_F(Fetch, BringsAFileOnce) {
  EXPECT_TRUE(run());
  expect_there();
  EXPECT_FALSE(run());
  EXPECT_EQ(server_.requests().size(), 1u);
}

TEST_F(Fetch, ContinuesWhereConnectionsBroke) {
  server_.break_after({100'000, 50'000, 0, 1});
  EXPECT_TRUE(run());
  expect_there();
  EXPECT_EQ(server_.requests(),
            (std::vector<std::string>{"/file.bin", "/file.bin from 100000", "/file.bin from 150000",
                                      "/file.bin from 150000", "/file.bin from 150001"}));
}

TEST_F(Fetch, ContinuesWhatAnotherRunLeft) {
  write(folder_ / "file.bin.part", content_.substr(0, 1234));
  EXPECT_TRUE(run());
  expect_there();
  EXPECT_EQ(server_.requests(), (std::vector<std::string>{"/file.bin from 1234"}));
  fs::rename(folder_ / "file.bin", folder_ / "file.bin.part");  // whole, but not renamed
  EXPECT_TRUE(run());
  expect_there();
  EXPECT_EQ(server_.requests().size(), 1u);
}

TEST_F(Fetch, StartsAgainWhenTheServerCannotContinue) {
  server_.without_ranges();
  write(folder_ / "file.bin.part", content_.substr(0, 1234));
  EXPECT_TRUE(run());
  expect_there();
}

TEST_F(Fetch, StartsAgainWhenMoreIsThereThanTheFileHas) {
  write(folder_ / "file.bin.part", content_ + "more");
  EXPECT_TRUE(run());
  expect_there();
}

TEST_F(Fetch, AWrongFileIsRefusedAndNotKept) {
  server_.put("file.bin", "something else");
  EXPECT_NE(error_of(ErrorKind::kParse, [&] { run(); }).find(wanted_.digest), std::string::npos);
  EXPECT_TRUE(fs::is_empty(folder_));
  write(folder_ / "file.bin", "old");  // of another version: replaced only by the right one
  error_of(ErrorKind::kParse, [&] { run(); });
  EXPECT_EQ(read_text_file(folder_ / "file.bin"), "old");
}

TEST_F(Fetch, AMissingFileAndADeadServerAreErrors) {
  wanted_.name = "other.bin";
  error_of(ErrorKind::kIo, [&] { fetch(server_.address() + "other.bin", folder_ / "o", wanted_); });
  EXPECT_EQ(server_.requests().size(), 1u);  // it answered: asking again changes nothing
  server_.break_after(std::vector<std::size_t>(20, 0));
  error_of(ErrorKind::kIo, [&] { run(); });
  EXPECT_NE(error_of(ErrorKind::kNotFound, [] { known_set("cifar"); }).find("'cifar10'"), std::string::npos);
}

TEST_F(Fetch, TheCommandGetsMnist) {
#ifndef SYSTOLE_COMMAND
  GTEST_SKIP() << "this build has no command systole";
#else
  NEEDS_SHARED("mnist");
  for (const Download& file : known_set("mnist").files)
    server_.put(file.name, read_text_file(shared() / "mnist" / file.name));
  server_.break_after({1'000'000});
  const std::string out = (folder_ / "out.txt").string();
  const std::string command = std::string(SYSTOLE_COMMAND) + " data get mnist --from " + server_.address() +
                              " --out " + (folder_ / "mnist").string() + " > " + out + " 2>&1";
  EXPECT_EQ(std::system(command.c_str()), 0) << read_text_file(out);
  EXPECT_NE(read_text_file(out).find("from byte 1000000"), std::string::npos) << read_text_file(out);
  EXPECT_EQ(mnist(folder_ / "mnist").test.size(), 10000);
  const std::string info =
      std::string(SYSTOLE_COMMAND) + " data info mnist:" + (folder_ / "mnist").string() + " > " + out;
  EXPECT_EQ(std::system(info.c_str()), 0);
  EXPECT_TRUE(
      read_text_file(out).starts_with("mnist: 60000 samples, x u8[28,28], y i32[] of 10 classes\n"
                                      "mnist test: 10000 samples, x u8[28,28], y i32[] of 10 classes\n"))
      << read_text_file(out);
#endif
}

// A limit of the process's memory, so much above what it has.
class MemoryLimit {
 public:
  explicit MemoryLimit(std::size_t more) {
    ::getrlimit(RLIMIT_AS, &old_);
    std::ifstream statm("/proc/self/statm");
    std::size_t pages = 0;
    statm >> pages;
    rlimit limit = old_;
    limit.rlim_cur = pages * static_cast<std::size_t>(::sysconf(_SC_PAGESIZE)) + more;
    ::setrlimit(RLIMIT_AS, &limit);
  }
  ~MemoryLimit() { ::setrlimit(RLIMIT_AS, &old_); }
  MemoryLimit(const MemoryLimit&) = delete;
  MemoryLimit& operator=(const MemoryLimit&) = delete;

 private:
  rlimit old_{};
};

TEST_F(Sets, AFileForWhichThereIsNoMemoryIsNamed) {
  if (kSanitized) GTEST_SKIP() << "a sanitizer takes all addresses there are";
  std::string lines;
  for (int i = 0; i < 2'000'000; ++i) lines += "1,2,3\n";  // 6 million cells of 16 bytes
  write(folder_ / "large.csv", lines);
  io::save_npy(folder_ / "large.npy", Literal(Type{DType::u8, {64 << 20}}));
  write(folder_ / "large.txt", std::string(40 << 20, 'a'));
  lines = {};
  const fs::path csv_file = folder_ / "large.csv", npy_file = folder_ / "large.npy",
                 text_file = folder_ / "large.txt";
  const std::pair<fs::path, std::function<void()>> readers[] = {
      {csv_file, [&] { csv(csv_file); }},
      {csv_file, [&] { read_csv(csv_file); }},
      {csv_file, [&] { open("csv:" + csv_file.string()); }},
      {npy_file, [&] { npy(npy_file); }},
      {npy_file, [&] { io::load_npy(npy_file); }},
      {text_file, [&] { text(text_file, {.window = 8}); }},
      {text_file, [&] { open("text:" + text_file.string() + "?window=8"); }}};
  for (const auto& [file, read] : readers) {
    const MemoryLimit limit(std::size_t{32} << 20);
    const std::string message = error_of(ErrorKind::kOutOfMemory, read);
    EXPECT_TRUE(message.starts_with(file.string())) << message;
    EXPECT_EQ(message.find(file.string()), message.rfind(file.string())) << message;
  }
}

}  // namespace
}  // namespace systole::data
