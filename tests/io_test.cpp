// .npy and .npz files: what numpy wrote is read (tests/data, made by make_npy.py), what we write is numpy's
// own bytes, damage of every kind is a typed error with an offset, and a failed save leaves the old file as
// it was.

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "base/file.h"
#include "io/crc32.h"
#include "sanitized.h"
#include "scratch_folder.h"
#include "systole/base/error.h"
#include "systole/io.h"

namespace systole::io {
namespace {

namespace fs = std::filesystem;
using Bytes = std::vector<std::byte>;

fs::path data(std::string_view name) { return fs::path(SYSTOLE_TEST_DATA) / name; }

Bytes bytes_of(std::string_view text) {
  const auto bytes = std::as_bytes(std::span(text));
  return {bytes.begin(), bytes.end()};
}

Bytes file_bytes(const fs::path& file) { return bytes_of(read_text_file(file)); }

// A folder of its own per test, removed at the end.
class IoTest : public ScratchFolder {
 protected:
  std::size_t files_in_folder() const {
    return static_cast<std::size_t>(std::distance(fs::directory_iterator(folder_), {}));
  }
};

// The error of a call that must fail.
Error error_of(const std::function<void()>& call) {
  try {
    call();
  } catch (const Error& error) {
    return error;
  }
  ADD_FAILURE() << "no error";
  return Error(ErrorKind::kInternal, "", "no error");
}

void expect_error(const std::function<void()>& call, ErrorKind kind, std::string_view part) {
  const Error error = error_of(call);
  EXPECT_EQ(name(error.kind()), name(kind)) << error.what();
  EXPECT_NE(std::string_view(error.what()).find(part), std::string_view::npos)
      << "'" << error.what() << "' does not hold '" << part << "'";
}

// An .npy file of version 1.0 with this header text and data.
Bytes npy_with(std::string_view header, std::size_t data_size) {
  std::string text("\x93NUMPY\x01\x00", 8);
  text += static_cast<char>(header.size() & 0xff);
  text += static_cast<char>(header.size() >> 8);
  return bytes_of(text + std::string(header) + std::string(data_size, '\1'));
}

Bytes npy_with_shape(std::string_view shape, std::size_t data_size) {
  return npy_with("{'descr': '<f4', 'fortran_order': False, 'shape': " + std::string(shape) + ", }",
                  data_size);
}

// While it lives, the process may map only 64 MiB more: an allocation that trusts a lying size fails.
class MemoryLimit {
 public:
  MemoryLimit() {
    if (kSanitized) return;  // shadow memory does not fit
    ::getrlimit(RLIMIT_AS, &old_);
    std::ifstream statm("/proc/self/statm");
    std::size_t pages = 0;
    statm >> pages;
    rlimit limit = old_;
    limit.rlim_cur = pages * static_cast<std::size_t>(::sysconf(_SC_PAGESIZE)) + (64u << 20);
    ::setrlimit(RLIMIT_AS, &limit);
  }
  ~MemoryLimit() {
    if (!kSanitized) ::setrlimit(RLIMIT_AS, &old_);
  }

 private:
  rlimit old_{};
};

// Zero or the value, an Error, never anything else; memory exhaustion counts as a failure.
bool loads(const Bytes& bytes, bool archive) {
  try {
    if (archive)
      parse_npz(bytes, "x.npz");
    else
      parse_npy(bytes, "x.npy");
    return true;
  } catch (const Error& error) {
    EXPECT_TRUE(error.kind() == ErrorKind::kParse || error.kind() == ErrorKind::kUnsupported) << error.what();
    EXPECT_TRUE(std::string_view(error.what()).starts_with(archive ? "x.npz: " : "x.npy: byte "))
        << error.what();
    return false;
  }
}

const std::map<std::string, DType, std::less<>> kStoredAs = {
    {"bf16", DType::u16}, {"f8e4m3fn", DType::u8}, {"bool", DType::boolean}};

void check_all_dtypes(const fs::path& file) {
  const std::vector<NamedArray> arrays = load_npz(file);
  ASSERT_EQ(arrays.size(), static_cast<std::size_t>(kDTypeCount));
  for (const NamedArray& array : arrays) {
    SCOPED_TRACE(array.name);
    const DType dtype = parse_dtype(array.name).value();
    const auto stored = kStoredAs.find(array.name);
    EXPECT_EQ(array.value.dtype(), stored == kStoredAs.end() ? dtype : stored->second);
    EXPECT_EQ(array.value.shape(), (Shape{2, 3}));
    const std::vector<double> values = array.value.reinterpreted(dtype).to_doubles();
    const std::vector<double> wanted = dtype == DType::boolean ? std::vector<double>{0, 1, 0, 1, 0, 1}
                                                               : std::vector<double>{0, 1, 2, 3, 4, 5};
    EXPECT_EQ(values, wanted);
  }
}

TEST_F(IoTest, EveryDtypeOfNumpyAndMlDtypesIsRead) { check_all_dtypes(data("dtypes.npz")); }

TEST_F(IoTest, ShapesOfEveryRankAreRead) {
  EXPECT_EQ(load_npy(data("scalar.npy")).type(), (Type{DType::f64, {}}));
  EXPECT_EQ(load_npy(data("scalar.npy")).item<double>(), 2.5);
  EXPECT_EQ(load_npy(data("empty.npy")).type(), (Type{DType::i32, {0, 3}}));
  EXPECT_EQ(load_npy(data("vector.npy")).type(), (Type{DType::u16, {5}}));
  EXPECT_EQ(load_npy(data("vector.npy")).to_doubles(), (std::vector<double>{0, 1, 2, 3, 4}));
}

TEST_F(IoTest, VersionsTwoAndThreeAreRead) {
  const Literal one = load_npy(data("f32.npy"));
  EXPECT_EQ(one.to_doubles(), (std::vector<double>{0, 1, 2, 3, 4, 5}));
  EXPECT_TRUE(load_npy(data("version2.npy")).same_bits(one));
  EXPECT_TRUE(load_npy(data("version3.npy")).same_bits(one));
}

TEST_F(IoTest, FortranOrderBecomesRowMajor) {
  const Literal value = load_npy(data("fortran.npy"));
  EXPECT_EQ(value.type(), (Type{DType::i32, {2, 3, 4}}));
  for (std::int32_t i = 0; i < 24; ++i)
    EXPECT_EQ(value.values<std::int32_t>()[static_cast<std::size_t>(i)], i);
}

TEST_F(IoTest, BigEndianIsSwapped) {
  EXPECT_EQ(load_npy(data("big_endian.npy")).to_doubles(), (std::vector<double>{1.5, -2, 3e300, 0.1}));
  EXPECT_EQ(load_npy(data("big_endian_fortran.npy")).to_doubles(), (std::vector<double>{0, 1, 2, 3, 4, 5}));
}

TEST_F(IoTest, AnyNonZeroBoolIsTrue) {
  EXPECT_EQ(load_npy(data("odd_bool.npy")).to_doubles(), (std::vector<double>{0, 1, 1, 1}));
}

TEST_F(IoTest, WrittenBytesAreThoseOfNumpy) {
  for (const char* name : {"f32.npy", "scalar.npy", "empty.npy", "vector.npy"}) {
    SCOPED_TRACE(name);
    const Bytes numpy = file_bytes(data(name));
    EXPECT_EQ(npy_bytes(load_npy(data(name))), numpy);
    save_npy(folder_ / name, load_npy(data(name)));
    EXPECT_EQ(file_bytes(folder_ / name), numpy);
  }
  EXPECT_EQ(files_in_folder(), 4u);
}

TEST_F(IoTest, SmallFloatsAreWrittenAsVoidItemsAndComeBackAsTheirBits) {
  for (const DType dtype : {DType::bf16, DType::f8e4m3fn, DType::f8e5m2}) {
    const Literal value = Literal::full({dtype, {3}}, 1.5);
    const Bytes bytes = npy_bytes(value);
    const std::string text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    EXPECT_NE(text.find(size_of(dtype) == 2 ? "'<V2'" : "'|V1'"), std::string::npos);
    const Literal back = parse_npy(bytes, "x.npy");
    EXPECT_EQ(back.dtype(), size_of(dtype) == 2 ? DType::u16 : DType::u8);
    EXPECT_TRUE(back.reinterpreted(dtype).same_bits(value));
  }
}

TEST_F(IoTest, NpzKeepsNamesOrderAndValues) {
  std::vector<NamedArray> arrays = {{"b", Literal::of<float>({2}, {1, 2})},
                                    {"a/weight", Literal::scalar<std::int64_t>(-7)},
                                    {"größe", Literal(Type{DType::u8, {0, 4}})}};
  save_npz(folder_ / "x.npz", arrays);
  const std::vector<NamedArray> back = load_npz(folder_ / "x.npz");
  ASSERT_EQ(back.size(), 3u);
  for (std::size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(back[i].name, arrays[i].name);
    EXPECT_TRUE(back[i].value.same_bits(arrays[i].value));
  }
  const Bytes first = file_bytes(folder_ / "x.npz");
  save_npz(folder_ / "x.npz", arrays);
  EXPECT_EQ(file_bytes(folder_ / "x.npz"), first) << "equal arrays must give equal files";
}

TEST_F(IoTest, EmptyNpzHoldsNothing) {
  save_npz(folder_ / "x.npz", {});
  EXPECT_TRUE(load_npz(folder_ / "x.npz").empty());
}

TEST_F(IoTest, MoreThan65535ArraysUseZip64) {
  std::vector<NamedArray> arrays;
  for (int i = 0; i < 65537; ++i) arrays.push_back({std::to_string(i), Literal(Type{DType::u8, {0}})});
  save_npz(folder_ / "x.npz", arrays);
  EXPECT_EQ(load_npz(folder_ / "x.npz").size(), 65537u);
}

TEST_F(IoTest, Zip64FieldsAreRead) {
  const std::vector<NamedArray> arrays = load_npz(data("zip64.npz"));
  ASSERT_EQ(arrays.size(), 1u);
  EXPECT_TRUE(arrays[0].value.same_bits(load_npy(data("f32.npy"))));
}

TEST_F(IoTest, NamesThatCannotBeMembersAreRefused) {
  const Literal value = Literal::scalar<float>(1);
  const std::vector<NamedArray> twice = {{"a", value}, {"a", value}}, control = {{"a\n", value}};
  const std::vector<NamedArray> large = {{std::string(70000, 'a'), value}};
  expect_error([&] { save_npz(folder_ / "x.npz", twice); }, ErrorKind::kInvalidArgument,
               "two arrays are called a");
  expect_error([&] { save_npz(folder_ / "x.npz", control); }, ErrorKind::kInvalidArgument,
               "control characters");
  expect_error([&] { save_npz(folder_ / "x.npz", large); }, ErrorKind::kInvalidArgument, "too long");
  EXPECT_EQ(files_in_folder(), 0u);
}

TEST_F(IoTest, NamesThatLeadOutOfAFolderAreReadButNotWritten) {
  const Literal value = Literal::scalar<float>(1);
  for (const char* name : {"/a", "/", "..", "../a", "a/../b", "a/..", "..\\a", "a\\b"}) {
    const std::vector<NamedArray> arrays = {{name, value}};
    expect_error([&] { save_npz(folder_ / "x.npz", arrays); }, ErrorKind::kInvalidArgument, name);
  }
  EXPECT_EQ(files_in_folder(), 0u);
  const std::vector<NamedArray> harmless = {
      {"..a", value}, {"a../b", value}, {"a/b", value}, {"a..b", value}};
  save_npz(folder_ / "x.npz", harmless);
  Bytes archive = file_bytes(folder_ / "x.npz");
  const std::string_view from = "a../b.npy", to = "/../b.npy";
  for (std::size_t at = 0; at + from.size() <= archive.size(); ++at)
    if (std::memcmp(archive.data() + at, from.data(), from.size()) == 0)
      std::memcpy(archive.data() + at, to.data(), to.size());
  const std::vector<NamedArray> arrays = parse_npz(archive, "x.npz");
  ASSERT_EQ(arrays.size(), 4u);
  EXPECT_EQ(arrays[1].name, "/../b");
}

TEST_F(IoTest, Crc32HasTheStandardCheckValue) {
  EXPECT_EQ(crc32(0, bytes_of("123456789")), 0xcbf43926u);
  EXPECT_EQ(crc32(crc32(0, bytes_of("1234")), bytes_of("56789")), 0xcbf43926u);
}

#ifdef SYSTOLE_HAVE_ZLIB
TEST_F(IoTest, CompressedArchivesAreRead) {
  check_all_dtypes(data("compressed.npz"));
  const std::vector<NamedArray> arrays = load_npz(data("stream.npz"));
  ASSERT_EQ(arrays.size(), 2u);
  EXPECT_TRUE(arrays[0].value.same_bits(load_npy(data("f32.npy"))));
  EXPECT_EQ(arrays[1].value.item<double>(), 0.5);
}

TEST_F(IoTest, DecompressionBombIsRefusedByTheSizeInItsHeader) {
  expect_error([] { load_npz(data("bomb.npz")); }, ErrorKind::kParse,
               "a.npy: byte 152: bytes after the array");
}
#else
TEST_F(IoTest, CompressedArchivesAreRefusedWithoutZlib) {
  expect_error([] { load_npz(data("compressed.npz")); }, ErrorKind::kUnsupported, "no zlib");
}
#endif

TEST_F(IoTest, PicklesObjectsAndStructuresAreRefusedWithAdvice) {
  const auto refused = [](std::string_view file, std::string_view part) {
    expect_error([&] { load_npy(data(file)); }, ErrorKind::kUnsupported, part);
  };
  refused("pickle.npy", "Python pickle, which is never loaded because it can run code");
  refused("objects.npy", "Python objects");
  refused("structured.npy", "save each field as an array of its own");
  refused("complex.npy", "real and imaginary part");
  refused("text.npy", "text is not an array of numbers");
  expect_error([] { load_npz(data("pickle.npy")); }, ErrorKind::kUnsupported, "numpy.savez");
}

TEST_F(IoTest, ArchiveAndArrayUnderTheOtherNameAreExplained) {
  expect_error([] { load_npy(data("dtypes.npz")); }, ErrorKind::kParse, "name it .npz");
  expect_error([] { load_npz(data("f32.npy")); }, ErrorKind::kParse, "name it .npy");
}

TEST_F(IoTest, LyingShapesAreRefusedBeforeAllocation) {
  const MemoryLimit limit;
  const auto refused = [](std::string_view shape, std::string_view part) {
    expect_error([&] { parse_npy(npy_with_shape(shape, 24), "x.npy"); }, ErrorKind::kParse, part);
  };
  EXPECT_EQ(parse_npy(npy_with_shape("(2, 3)", 24), "x.npy").shape(), (Shape{2, 3}));
  refused("(4611686018427387904,)", "byte 10: the size of the array does not fit 64 bits");
  refused("(4294967296, 4294967296)", "does not fit 64 bits");
  refused("(0, 4294967296, 4294967296)", "does not fit 64 bits");
  refused("(9223372036854775808,)", "a dimension does not fit 64 bits");
  refused("(-1,)", "byte 61: negative dimension");
  refused("(1099511627776,)", "the file ends early; expected 4398046511104 bytes of data");
  refused("(2, 4)", "byte 93: the file ends early; expected 32 bytes of data for f32[2,4] from byte 69 on");
  refused("(2, 2)", "byte 85: bytes after the array; expected the end, got 8 more bytes");
  std::string many = "(";
  for (int i = 0; i < 20000; ++i) many += "1,";
  refused(many + ")", "too many dimensions; expected at most 32");
  refused("(6)", "expected ',' after a single dimension");
  refused("((6,),)", "expected a dimension");
  refused("(6,", "malformed header");
  refused("(6.0,)", "malformed header");
  refused("(6,) * 2", "malformed header");
}

TEST_F(IoTest, MillionDimensionsAndLongHeadersAreRefused) {
  const MemoryLimit limit;
  std::string text("\x93NUMPY\x02\x00", 8);
  const std::uint32_t length = 3'000'000;
  text.append(reinterpret_cast<const char*>(&length), 4);
  text += "{'descr': '<f4', 'fortran_order': False, 'shape': (";
  for (int i = 0; i < 1'000'000; ++i) text += "1,";
  text += ")}";
  text.resize(12 + length, ' ');
  expect_error([&] { parse_npy(bytes_of(text), "x.npy"); }, ErrorKind::kParse,
               "byte 8: the header is too long");
}

TEST_F(IoTest, MalformedHeadersAreRefusedWithTheOffset) {
  const auto refused = [](std::string_view header, std::string_view part,
                          ErrorKind kind = ErrorKind::kParse) {
    expect_error([&] { parse_npy(npy_with(header, 4), "x.npy"); }, kind, part);
  };
  refused("", "byte 10: malformed header; expected '{', got the end of the header");
  refused("{}", "a key is missing in the header; expected 'descr'");
  refused("{'descr': '<f4', 'shape': (1,)}", "expected 'fortran_order'");
  refused("{'descr': '<f4', 'fortran_order': False, 'shape': (1,), 'x': 1}", "unknown key");
  refused("{'descr': '<f4', 'descr': '<f4'}", "byte 27: key 'descr' stands twice");
  refused("{'descr': '<f4', 'fortran_order': 0, 'shape': (1,)}", "expected True or False");
  refused("{'descr': '<f4', 'fortran_order': False, 'shape': (1,)} x", "text after the header");
  refused("{'descr': '<f4}", "byte 20: malformed header; expected a plain string with its closing quote");
  refused("{'descr': '<f4\\x27', 'fortran_order': False, 'shape': (1,)}", "plain string");
  refused("{'descr': '<f3', 'fortran_order': False, 'shape': (1,)}", "'<f3' are not supported",
          ErrorKind::kUnsupported);
  refused("{'descr': '', 'fortran_order': False, 'shape': (1,)}", "not supported", ErrorKind::kUnsupported);
  refused("{'descr': " + std::string(50000, '[') + "}", "named fields", ErrorKind::kUnsupported);
  refused("{'shape': " + std::string(50000, '(') + "}", "expected a dimension");
  EXPECT_EQ(parse_npy(npy_with(R"({"shape":(1L,),"fortran_order":True,"descr":"f4"})", 4), "x.npy").count(),
            1)
      << "any order, either quote and Python 2's long integers are fine";
}

TEST_F(IoTest, UnknownVersionsAndForeignFilesAreRefused) {
  expect_error([] { parse_npy(bytes_of(std::string("\x93NUMPY\x04\x00\x10\x00", 10)), "x.npy"); },
               ErrorKind::kParse,
               "byte 6: unknown version of the .npy format; expected 1.0, 2.0 or 3.0, got 4.0");
  expect_error([] { parse_npy(bytes_of("hello, world"), "x.npy"); }, ErrorKind::kParse,
               "byte 0: not an .npy file");
  expect_error([] { parse_npz(bytes_of("hello, world"), "x.npz"); }, ErrorKind::kParse,
               "end record is missing");
  expect_error([] { parse_npy({}, "x.npy"); }, ErrorKind::kParse, "byte 0: the file ends early");
  expect_error([] { parse_npz({}, "x.npz"); }, ErrorKind::kParse, "end record is missing");
}

TEST_F(IoTest, NpyTruncatedAnywhereIsRefused) {
  const MemoryLimit limit;
  for (const char* name : {"f32.npy", "fortran.npy", "version2.npy"}) {
    Bytes bytes = file_bytes(data(name));
    EXPECT_TRUE(loads(bytes, false));
    while (!bytes.empty()) {
      bytes.pop_back();
      EXPECT_FALSE(loads(bytes, false)) << name << " of " << bytes.size() << " bytes";
    }
  }
}

TEST_F(IoTest, NpzTruncatedAnywhereIsRefused) {
  const MemoryLimit limit;
  for (const char* name : {"dtypes.npz", "compressed.npz", "stream.npz", "zip64.npz"}) {
    Bytes bytes = file_bytes(data(name));
    while (!bytes.empty()) {
      bytes.pop_back();
      EXPECT_FALSE(loads(bytes, true)) << name << " of " << bytes.size() << " bytes";
    }
  }
}

TEST_F(IoTest, EveryFlippedBitGivesAValueOrATypedError) {
  const MemoryLimit limit;
  for (const char* name : {"f32.npy", "fortran.npy", "version3.npy", "dtypes.npz", "compressed.npz",
                           "stream.npz", "zip64.npz"}) {
    SCOPED_TRACE(name);
    Bytes bytes = file_bytes(data(name));
    const bool archive = std::string_view(name).ends_with("npz");
    for (std::size_t i = 0; i < bytes.size(); ++i)
      for (int bit = 0; bit < 8; ++bit) {
        bytes[i] ^= std::byte(1 << bit);
        loads(bytes, archive);
        bytes[i] ^= std::byte(1 << bit);
      }
  }
}

TEST_F(IoTest, EveryFlippedContentBitOfAnArchiveIsDetected) {
  const Bytes good = file_bytes(data("zip64.npz"));
  // The local header takes 30 bytes, the name 5 and its zip64 field 20; the member is the 152 bytes of
  // f32.npy.
  for (std::size_t i = 55; i < 55 + 152; ++i) {
    Bytes bad = good;
    bad[i] ^= std::byte{4};
    EXPECT_FALSE(loads(bad, true)) << "byte " << i;
  }
}

// The archive with `count` bytes at `at` replaced.
Bytes patched(Bytes bytes, std::size_t at, std::string_view with) {
  std::memcpy(bytes.data() + at, with.data(), with.size());
  return bytes;
}

class LyingArchive : public IoTest {
 protected:
  LyingArchive() {
    // Two members: local headers at 0 and 30 + 5 + 132 = 167, central directory at 334 (2 · 51), end record
    // at 436.
    const std::vector<NamedArray> arrays = {{"a", Literal::scalar<float>(1)},
                                            {"b", Literal::scalar<float>(2)}};
    save_npz(folder_ / "x.npz", arrays);
    good_ = file_bytes(folder_ / "x.npz");
    EXPECT_EQ(good_.size(), 458u);
  }

  void refused(std::size_t at, std::string_view with, std::string_view part,
               ErrorKind kind = ErrorKind::kParse) {
    expect_error([&] { parse_npz(patched(good_, at, with), "x.npz"); }, kind, part);
  }

  Bytes good_;
};

TEST_F(LyingArchive, CentralDirectoryLiesAreRefused) {
  using namespace std::literals;
  refused(334 + 51 + 42, "\0\0\0\0"sv, "disagrees with the directory");  // b's header said to be a's
  refused(334 + 51 + 42, "\1\0\0\0"sv, "not where the directory says");
  refused(334 + 51 + 42, "\0\0\0\x7f"sv, "the archive ends early");
  refused(334 + 20, "\xff\xff\xff\xff\xff\xff\xff\xff"sv, "zip64 field that is missing");
  refused(334 + 20, "\0\0\0\x70\0\0\0\x70"sv, "disagrees with the directory");
  refused(334 + 20, "\0\0\0\x70"sv, "has two sizes");
  refused(334 + 10, "\x0c\0"sv, "another compression", ErrorKind::kUnsupported);
  refused(334 + 8, "\1\0"sv, "encrypted", ErrorKind::kUnsupported);
  refused(334 + 28, "\xff\xff"sv, "a record of the archive ends early");
  refused(334, "QK"sv, "byte 334: malformed central directory");
  refused(334 + 46, "b"sv, "disagrees with the directory");
  refused(334 + 46, "\n"sv, "control characters");
}

TEST_F(LyingArchive, EndRecordLiesAreRefused) {
  using namespace std::literals;
  refused(436 + 8, "\3\0\3\0"sv, "more members than the central directory has room for");
  refused(436 + 8, "\1\0\1\0"sv, "longer than its members");
  refused(436 + 8, "\1\0"sv, "several disks", ErrorKind::kUnsupported);
  refused(436 + 12, "\xff\xff\0\0"sv, "not where the end record says");
  refused(436 + 16, "\0\0\0\0"sv, "not where the end record says");
  refused(436 + 20, "\1\0"sv, "end record is missing");
}

TEST_F(LyingArchive, DuplicateAndOverlappingMembersAreRefused) {
  Bytes twice = patched(patched(good_, 334 + 51 + 46, "a"), 167 + 30, "a");
  expect_error([&] { parse_npz(twice, "x.npz"); }, ErrorKind::kParse, "two members are called a.npy");

  // Member a grown by 10 bytes, in both places, reaches into member b.
  const std::string size("\x8e\0\0\0\x8e\0\0\0", 8);
  Bytes overlap = patched(patched(good_, 334 + 20, size), 18, size);
  expect_error([&] { parse_npz(overlap, "x.npz"); }, ErrorKind::kParse,
               "byte 167: members a.npy and b.npy overlap");
}

TEST_F(LyingArchive, MembersThatAreNotArraysAreRefused) {
  Bytes other = patched(patched(good_, 334 + 46, "a.txt"), 30, "a.txt");
  expect_error([&] { parse_npz(other, "x.npz"); }, ErrorKind::kParse, "member a.txt is not an array");
}

TEST_F(LyingArchive, DamagedContentIsDetectedByItsChecksum) {
  refused(30 + 5 + 128, "\7", "the content of member a.npy is damaged; expected checksum");
}

TEST_F(IoTest, MissingFilesAndFoldersAreTypedErrors) {
  expect_error([&] { load_npy(folder_ / "no.npy"); }, ErrorKind::kNotFound,
               "no.npy: cannot open: No such file");
  expect_error([&] { load_npz(folder_); }, ErrorKind::kIo, "Is a directory");
  const Literal value = Literal::scalar<float>(1);
  expect_error([&] { save_npy(folder_ / "no" / "x.npy", value); }, ErrorKind::kNotFound,
               "cannot write in its folder");
  expect_error([&] { save_npy(folder_, value); }, ErrorKind::kIo, "expected a regular file, got a folder");
  expect_error([&] { save_npy("/dev/null", value); }, ErrorKind::kIo, "got a device or pipe");
}

TEST_F(IoTest, SaveOnAFullDiskLeavesTheOldFileIntact) {
  const Literal old_value = Literal::scalar<float>(1), value(Type{DType::u8, {300}});
  const std::vector<NamedArray> arrays = {{"a", value}, {"b", value}};
  save_npy(folder_ / "x.npy", old_value);
  save_npz(folder_ / "x.npz", std::vector<NamedArray>{{"old", old_value}});
  const Bytes npy = file_bytes(folder_ / "x.npy"), npz = file_bytes(folder_ / "x.npz");

  // A write past the limit fails like one on a full disk.
  const auto old_handler = ::signal(SIGXFSZ, SIG_IGN);
  rlimit old_limit;
  ::getrlimit(RLIMIT_FSIZE, &old_limit);
  const auto limit_files_to = [&](rlim_t size) {
    rlimit limit = old_limit;
    limit.rlim_cur = size;
    ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &limit), 0);
  };
  for (rlim_t size = 0; size < 428; size += 7) {
    limit_files_to(size);
    EXPECT_THROW(save_npy(folder_ / "x.npy", value), Error) << size;
    EXPECT_THROW(save_npz(folder_ / "x.npz", arrays), Error) << size;
    limit_files_to(old_limit.rlim_cur);
    EXPECT_EQ(file_bytes(folder_ / "x.npy"), npy) << size;
    EXPECT_EQ(file_bytes(folder_ / "x.npz"), npz) << size;
    EXPECT_EQ(files_in_folder(), 2u) << size;
  }
  ::signal(SIGXFSZ, old_handler);
  save_npy(folder_ / "x.npy", value);
  EXPECT_TRUE(load_npy(folder_ / "x.npy").same_bits(value));
}

TEST_F(IoTest, SaveIntoAReadOnlyFolderLeavesTheOldFileIntact) {
  save_npy(folder_ / "x.npy", Literal::scalar<float>(1));
  const Bytes old_bytes = file_bytes(folder_ / "x.npy");
  ::chmod(folder_.c_str(), 0555);
  const bool root = ::geteuid() == 0;
  if (root && ::seteuid(65534) != 0) GTEST_SKIP() << "root may write everywhere";
  expect_error([&] { save_npy(folder_ / "x.npy", Literal::scalar<float>(2)); }, ErrorKind::kIo,
               "Permission denied");
  ASSERT_TRUE(!root || ::seteuid(0) == 0);
  ::chmod(folder_.c_str(), 0755);
  EXPECT_EQ(file_bytes(folder_ / "x.npy"), old_bytes);
  EXPECT_EQ(files_in_folder(), 1u);
}

TEST_F(IoTest, ReplacingKeepsPermissionsAndLinks) {
  save_npy(folder_ / "x.npy", Literal::scalar<float>(1));
  ::chmod((folder_ / "x.npy").c_str(), 0600);
  fs::create_symlink("x.npy", folder_ / "link.npy");
  save_npy(folder_ / "link.npy", Literal::scalar<float>(2));
  EXPECT_TRUE(fs::is_symlink(folder_ / "link.npy"));
  EXPECT_EQ(load_npy(folder_ / "x.npy").item<float>(), 2);
  EXPECT_EQ(fs::status(folder_ / "x.npy").permissions(), fs::perms::owner_read | fs::perms::owner_write);
}

TEST_F(IoTest, PipesAreReadToTheirEnd) {
  const fs::path pipe = folder_ / "pipe.npy";
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  const pid_t child = ::fork();
  if (child == 0) {
    std::ofstream out(pipe, std::ios::binary);
    const Bytes bytes = file_bytes(data("f32.npy"));
    out.write(reinterpret_cast<const char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
    out.close();
    ::_exit(0);
  }
  EXPECT_TRUE(load_npy(pipe).same_bits(load_npy(data("f32.npy"))));
}

TEST_F(IoTest, DevicesWithoutAnEndAreReadUpToALimit) {
  constexpr std::uint64_t kLargest = 100000;
  expect_error([&] { open_file("/dev/zero", kLargest); }, ErrorKind::kLimit,
               "/dev/zero: a pipe or device without an end in sight; expected at most 100000 bytes");
  const auto read_pipe = [&](std::size_t size) {
    int ends[2];
    EXPECT_EQ(::pipe(ends), 0);
    const pid_t child = ::fork();
    if (child == 0) {
      ::signal(SIGPIPE, SIG_IGN);
      const std::string text(size, 'a');
      for (std::size_t at = 0; at < size;) {
        const ssize_t n = ::write(ends[1], text.data() + at, size - at);
        if (n <= 0) break;
        at += static_cast<std::size_t>(n);
      }
      ::_exit(0);
    }
    ::close(ends[1]);
    std::string text;
    try {
      text = read_text_stream(ends[0], "the pipe", kLargest);
    } catch (...) {
      ::close(ends[0]);
      ::waitpid(child, nullptr, 0);
      throw;
    }
    ::close(ends[0]);
    ::waitpid(child, nullptr, 0);
    return text.size();
  };
  for (const std::size_t size : {std::size_t{0}, std::size_t{65536}, kLargest - 1, kLargest})
    EXPECT_EQ(read_pipe(size), size);
  expect_error([&] { read_pipe(kLargest + 1); }, ErrorKind::kLimit, "the pipe: ");
  EXPECT_EQ(kLargestStream, std::uint64_t{1} << 30);
}

}  // namespace
}  // namespace systole::io
