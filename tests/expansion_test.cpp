// Small files that unpack to gigabytes: refused before the memory is taken (FAULTS 12). What an archive holds
// besides files is passed over, and its names are never those of files on the disk (FAULTS 43).

#include <gtest/gtest.h>
#include <sys/resource.h>

#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <span>
#include <string>
#include <vector>

#include "base/log.h"
#include "data/set_files.h"
#include "error_check.h"
#include "io/crc32.h"
#include "scratch_folder.h"
#include "systole/data/sets.h"
#include "systole/io.h"
#include "systole/io/archive.h"

namespace systole::io {
namespace {

namespace fs = std::filesystem;
using Bytes = std::vector<std::byte>;

constexpr std::uint64_t kMiB = std::uint64_t{1} << 20;

// Deflated: `head`, then 258·repeats bytes, the last `period` ones over and over, up to 4, which take 13 bits
// for each 258 (RFC 1951, fixed codes).
Bytes deflated(std::string_view head, std::uint64_t repeats, unsigned period) {
  Bytes bytes;
  unsigned used = 8;
  const auto bit = [&](unsigned value) {
    if (used == 8) {
      bytes.push_back(std::byte{0});
      used = 0;
    }
    bytes.back() |= static_cast<std::byte>(value << used++);
  };
  const auto code = [&](unsigned value, int bits) {
    while (bits-- > 0) bit(value >> bits & 1);
  };
  bit(1), bit(1), bit(0);  // the last block, fixed codes
  for (const char c : head) {
    const auto byte = static_cast<unsigned char>(c);
    byte < 144 ? code(0x30u + byte, 8) : code(0x190u + byte - 144, 9);
  }
  for (std::uint64_t i = 0; i < repeats; ++i) code(0b11000101, 8), code(period - 1, 5);
  code(0, 7);
  return bytes;
}
// As above, a zero and 258·repeats more of them.
Bytes deflated(std::string_view head, std::uint64_t repeats) {
  return deflated(std::string(head) + '\0', repeats, 1);
}

void add(Bytes& to, std::uint64_t value, int bytes) {
  for (int i = 0; i < bytes; ++i) to.push_back(static_cast<std::byte>(value >> 8 * i));
}
void add(Bytes& to, std::string_view text) {
  for (const char c : text) to.push_back(static_cast<std::byte>(c));
}

std::uint32_t crc_of(std::string_view head, std::uint64_t zeros) {
  std::uint32_t crc = crc32(0, std::as_bytes(std::span(head)));
  const Bytes block(kMiB, std::byte{0});
  for (; zeros > 0; zeros -= std::min(zeros, kMiB))
    crc = crc32(crc, std::span(block).first(static_cast<std::size_t>(std::min(zeros, kMiB))));
  return crc;
}

Bytes gzip_with(const Bytes& content, std::uint32_t crc, std::uint64_t size) {
  Bytes bytes;
  add(bytes, std::string_view("\x1f\x8b\x08\0\0\0\0\0\0\x03", 10));
  bytes.insert(bytes.end(), content.begin(), content.end());
  add(bytes, crc, 4);
  add(bytes, size, 4);
  return bytes;
}

Bytes gzip_of(std::string_view head, std::uint64_t repeats) {
  const std::uint64_t zeros = 1 + 258 * repeats;
  return gzip_with(deflated(head, repeats), crc_of(head, zeros), head.size() + zeros);
}

// `head`, and its last 4 bytes again and again until there are about so many bytes.
Bytes gzip_of_rows(const std::string& head, std::uint64_t size) {
  const std::uint64_t repeats = size / 516 * 2;  // whole rows
  std::string rows;
  while (rows.size() < 258 * 2) rows += head.substr(head.size() - 4);
  std::uint32_t crc = crc32(0, std::as_bytes(std::span(head)));
  for (std::uint64_t i = 0; i < repeats; i += 2) crc = crc32(crc, std::as_bytes(std::span(rows)));
  return gzip_with(deflated(head, repeats, 4), crc, head.size() + 258 * repeats);
}

// An .npz of equal members, u8 arrays of zeros.
Bytes npz_of(int members, std::uint64_t repeats) {
  const std::uint64_t zeros = 1 + 258 * repeats;
  std::string header =
      "{'descr': '|u1', 'fortran_order': False, 'shape': (" + std::to_string(zeros) + ",), }";
  while ((10 + header.size() + 1) % 64 != 0) header += ' ';
  header += '\n';
  const std::string head =
      std::string("\x93NUMPY\x01\0", 8) + static_cast<char>(header.size()) + '\0' + header;
  const Bytes content = deflated(head, repeats);
  const std::uint32_t crc = crc_of(head, zeros);
  Bytes bytes, directory;
  for (int i = 0; i < members; ++i) {
    const std::string name = std::to_string(i) + ".npy";
    const std::uint64_t offset = bytes.size();
    const auto sizes = [&](Bytes& to) {
      add(to, crc, 4), add(to, content.size(), 4), add(to, head.size() + zeros, 4);
      add(to, name.size(), 2), add(to, 0, 2);
    };
    add(bytes, "PK\3\4"), add(bytes, 20, 2), add(bytes, 0, 2), add(bytes, 8, 2), add(bytes, 0, 4);
    sizes(bytes);
    add(bytes, name);
    bytes.insert(bytes.end(), content.begin(), content.end());
    add(directory, "PK\1\2"), add(directory, 20, 2), add(directory, 20, 2), add(directory, 0, 2);
    add(directory, 8, 2), add(directory, 0, 4);
    sizes(directory);
    add(directory, 0, 2), add(directory, 0, 2), add(directory, 0, 2), add(directory, 0, 4);
    add(directory, offset, 4);
    add(directory, name);
  }
  const std::uint64_t start = bytes.size();
  bytes.insert(bytes.end(), directory.begin(), directory.end());
  add(bytes, "PK\5\6"), add(bytes, 0, 4);
  add(bytes, static_cast<std::uint64_t>(members), 2), add(bytes, static_cast<std::uint64_t>(members), 2);
  add(bytes, directory.size(), 4), add(bytes, start, 4), add(bytes, 0, 2);
  return bytes;
}

// The most memory that this process has had, in bytes.
std::uint64_t peak() {
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  return static_cast<std::uint64_t>(usage.ru_maxrss) << 10;
}

TEST(Expansion, ArraysOfAnArchiveHaveOneBudgetForAll) {
  const Bytes small = npz_of(3, 1000);
  ASSERT_EQ(parse_npz(small, "x.npz").size(), 3u);
  EXPECT_EQ(parse_npz(small, "x.npz")[2].value.shape(), Shape({258'001}));
  // 16 arrays of 32 MiB from 3.3 MB: each is small, together they are half a gigabyte.
  const Bytes bomb = npz_of(16, 32 * kMiB / 258);
  ASSERT_LT(bomb.size(), 4 * kMiB);
  const std::uint64_t before = peak();
  const std::string message = error_of(ErrorKind::kLimit, [&] { parse_npz(bomb, "x.npz"); });
  EXPECT_NE(message.find("x.npz: array 8.npy would expand the file"), std::string::npos) << message;
  EXPECT_NE(message.find("numpy.savez"), std::string::npos) << message;
  EXPECT_LT(peak() - before, 300 * kMiB);
}

TEST(Expansion, APackedFileStopsAtItsBudget) {
  const Bytes bomb = gzip_of("", 300 * kMiB / 258);  // 300 MiB from 2 MB
  const std::string message = error_of(ErrorKind::kLimit, [&] { unpack(bomb, "x.gz"); });
  EXPECT_NE(message.find("x.gz: the file unpacks to too much; expected at most 268435456 bytes"),
            std::string::npos)
      << message;
  EXPECT_NE(message.find("gunzip"), std::string::npos) << message;
  const Bytes fine = gzip_of("head", 50 * kMiB / 258);
  EXPECT_EQ(unpack(fine, "x.gz").size(), 5 + 50 * kMiB / 258 * 258);
}

class Packed : public ScratchFolder {
 protected:
  fs::path file(const Bytes& bytes) {
    const fs::path path = folder_ / "train-images-idx3-ubyte.gz";
    std::ofstream(path, std::ios::binary)
        .write(reinterpret_cast<const char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
    return path;
  }
  static LengthOf idx() { return data::idx_length; }
};

constexpr std::string_view kFortyPictures("\0\0\x08\x03\0\0\0\x28\0\0\0\x1c\0\0\0\x1c", 16);  // u8[40,28,28]

TEST_F(Packed, AHeaderThatSaysHowMuchFollowsIsTheLimit) {
  // The header wants 31 KB, what follows is 200 MiB.
  const fs::path bomb = file(gzip_of(kFortyPictures, 200 * kMiB / 258));
  const std::uint64_t before = peak();
  const std::string message =
      error_of(ErrorKind::kParse, [&] { read_unpacked(bomb, kLargestUnpacked, idx()); });
  EXPECT_NE(message.find("unpacks to more than its header says; expected 31376 bytes"), std::string::npos)
      << message;
  EXPECT_LT(peak() - before, 40 * kMiB);
  std::ofstream(folder_ / "train-labels-idx1-ubyte") << "";
  error_of(ErrorKind::kParse, [&] { data::mnist(folder_); });
}

TEST_F(Packed, AHeaderThatSaysTooMuchIsRefusedAtOnce) {
  const std::string_view huge("\0\0\x08\x03\x7f\xff\xff\xff\0\0\0\x1c\0\0\0\x1c", 16);
  const std::string message =
      error_of(ErrorKind::kLimit, [&] { unpack(gzip_of(huge, 10), "x.gz", kLargestUnpacked, idx()); });
  EXPECT_NE(message.find("says that it unpacks to too much"), std::string::npos) << message;
  // Too little for what the header says is the parser's to refuse.
  EXPECT_EQ(unpack(gzip_of(kFortyPictures, 10), "x.gz", kLargestUnpacked, idx()).size(), 16u + 1 + 2580);
}

// Text of 32 values takes 128 bytes for each row of 4.
TEST_F(Packed, ATableOfTextHasABudgetForItsNumbers) {
  std::string head = "a,y\n";
  for (char value = 'A'; value < 'A' + 26; ++value) head += std::string(1, value) + ",0\n";
  for (char value = 'a'; value < 'a' + 6; ++value) head += std::string(1, value) + ",1\n";
  const auto refusal = [&](std::uint64_t size) {
    const fs::path path = folder_ / "t.csv.gz";
    const Bytes bytes = gzip_of_rows(head, size);
    EXPECT_LT(bytes.size(), kMiB);
    std::ofstream(path, std::ios::binary)
        .write(reinterpret_cast<const char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
    return error_of(ErrorKind::kLimit, [&] { data::csv(path); });
  };
  {
    const fs::path path = folder_ / "fine.csv.gz";
    const Bytes bytes = gzip_of_rows(head, kMiB);
    std::ofstream(path, std::ios::binary)
        .write(reinterpret_cast<const char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
    EXPECT_EQ(data::csv(path).size(), static_cast<std::int64_t>(32 + kMiB / 516 * 516 / 4));
  }
  const std::uint64_t before = peak();
  const std::string numbers = refusal(9 * kMiB);
  EXPECT_NE(numbers.find("t.csv.gz: a table of "), std::string::npos) << numbers;
  EXPECT_NE(numbers.find("each 32 numbers"), std::string::npos) << numbers;
  EXPECT_NE(numbers.find("drop=NAME"), std::string::npos) << numbers;
  const std::string cells = refusal(60 * kMiB);
  EXPECT_NE(cells.find("t.csv.gz: the table's cells"), std::string::npos) << cells;
  EXPECT_LT(peak() - before, 800 * kMiB);  // the second one took 3 GiB
}

TEST(IdxLength, IsThatOfTheHeaderOnceItIsThere) {
  const auto length = [](std::string_view text) { return data::idx_length(std::as_bytes(std::span(text))); };
  EXPECT_EQ(length(kFortyPictures), 16u + 40 * 28 * 28);
  for (std::size_t size = 0; size < 16; ++size)
    EXPECT_EQ(length(kFortyPictures.substr(0, size)), std::nullopt);
  EXPECT_EQ(length(std::string_view("\0\0\x0e\x01\0\0\0\x05", 8)), 8u + 40);  // f64[5]
  EXPECT_EQ(length(std::string_view("\0\0\x0a\x01\0\0\0\x05", 8)), std::nullopt);
  EXPECT_EQ(length(std::string_view("\0\0\x08\0", 4)), 5u);
}

// One header of 512 bytes; the checksum counts itself as blanks.
std::string tar_header(std::string name, char kind, std::string link, std::size_t size) {
  std::string header(512, '\0');
  name.copy(header.data(), 100);
  const std::string octal = "00000000000";
  std::string digits;
  for (std::size_t rest = size; rest > 0; rest /= 8)
    digits.insert(digits.begin(), static_cast<char>('0' + rest % 8));
  (octal.substr(digits.size()) + digits).copy(header.data() + 124, 11);
  header[156] = kind;
  link.copy(header.data() + 157, 100);
  std::string("        ").copy(header.data() + 148, 8);
  unsigned sum = 0;
  for (const unsigned char c : header) sum += c;
  char text[8];
  std::snprintf(text, sizeof text, "%06o", sum);
  std::memcpy(header.data() + 148, text, 7);
  header[155] = ' ';
  return header;
}

// A member is a copy of a part of the archive.
TEST_F(Packed, AnArchiveAndItsMembersHaveOneBudget) {
  const auto packed = [&](std::uint64_t size) {
    const fs::path path = folder_ / "set.tar.gz";
    const Bytes bytes = gzip_of(tar_header("zeros.bin", '0', "", size), (size + 2048) / 258);
    std::ofstream(path, std::ios::binary)
        .write(reinterpret_cast<const char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
    return path;
  };
  const std::string message = error_of(ErrorKind::kLimit, [&] { read_tar(packed(200 * kMiB)); });
  EXPECT_NE(message.find("set.tar.gz: member zeros.bin would expand the file"), std::string::npos) << message;
  EXPECT_NE(message.find("into a folder"), std::string::npos) << message;
  const std::vector<Member> members = read_tar(packed(64 * kMiB));
  ASSERT_EQ(members.size(), 1u);
  EXPECT_EQ(members[0].bytes.size(), 64 * kMiB);
  // What is not wanted is not copied.
  EXPECT_TRUE(read_tar(packed(200 * kMiB), [](std::string_view) { return false; }).empty());
}

TEST(TarLinks, ArePassedOverAndCountedInOneLine) {
  std::string archive = tar_header("a.bin", '0', "", 3) + "abc" + std::string(509, '\0');
  archive += tar_header("b.bin", '2', "/etc/passwd", 0) + tar_header("c.bin", '1', "../../secret", 0);
  archive +=
      tar_header("d.bin", '2', "a.bin", 0) + tar_header("pipe", '6', "", 0) + tar_header("e/", '5', "", 0);
  archive += std::string(1024, '\0');
  std::vector<std::string> warnings;
  set_log_sink([&](LogLevel, std::string_view line) { warnings.emplace_back(line); }, LogLevel::warn);
  const std::vector<Member> members = parse_tar(std::as_bytes(std::span(archive)), "set.tar");
  parse_tar(std::as_bytes(std::span(archive)).first(1024), "plain.tar");
  set_log_sink({});
  ASSERT_EQ(members.size(), 1u);
  EXPECT_EQ(members[0].name, "a.bin");
  EXPECT_EQ(warnings,
            std::vector<std::string>{"set.tar: 3 links and 1 device or pipe passed over: only files are "
                                     "read from an archive"});
}

// Names in an archive of arrays are keys of what is returned and nothing else: no file is made, opened or
// replaced by them, so a name that leads out of a folder is only a key. Writing one is refused, since other
// programs that unpack the archive would make files of it.
TEST_F(Packed, NamesInAnNpzAreKeysAndNeverFiles) {
  const fs::path place = folder_ / "in" / "here";
  fs::create_directories(place);
  save_npz(place / "good.npz", std::vector<NamedArray>{{"aa/aa/aa/bad", Literal::scalar(7.0f)}});
  std::ifstream in(place / "good.npz", std::ios::binary);
  std::string text(std::istreambuf_iterator<char>(in), {});
  for (const std::string name : {"../../../bad", "/tmp//../bad"}) {
    std::string changed = text;
    for (std::size_t at; (at = changed.find("aa/aa/aa/bad")) != std::string::npos;)
      changed.replace(at, 12, name);
    std::ofstream(place / "bad.npz", std::ios::binary | std::ios::trunc) << changed;
    const std::vector<NamedArray> arrays = load_npz(place / "bad.npz");
    ASSERT_EQ(arrays.size(), 1u);
    EXPECT_EQ(arrays[0].name, name);
    EXPECT_EQ(arrays[0].value.item<float>(), 7.0f);
    std::size_t files = 0;
    for (const auto& entry : fs::recursive_directory_iterator(folder_))
      files += entry.is_regular_file() ? 1 : 0;
    EXPECT_EQ(files, 2u);
    error_of(ErrorKind::kInvalidArgument, [&] { save_npz(place / "again.npz", arrays); });
  }
}

}  // namespace
}  // namespace systole::io
