// Safetensors: what Python wrote, what Python reads, and what must be refused (FAULTS 1, 3, 9, 10, 16).
// tests/data/make_safetensors.py made the files.

#include <gtest/gtest.h>
#include <malloc.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <new>
#include <sstream>

#include "base/sha256.h"
#include "error_check.h"
#include "io/json.h"
#include "sanitized.h"
#include "scratch_folder.h"
#include "systole/io.h"
#include "systole/tensor.h"

namespace systole::io {
namespace {

namespace fs = std::filesystem;
using Bytes = std::vector<std::byte>;

const fs::path kData = fs::path(SYSTOLE_TEST_DATA) / "safetensors";

Bytes file_bytes(const fs::path& file) {
  std::ifstream in(file, std::ios::binary);
  const std::string text(std::istreambuf_iterator<char>(in), {});
  const auto bytes = std::as_bytes(std::span(text));
  return {bytes.begin(), bytes.end()};
}

void write_text(const fs::path& file, std::string_view text) {
  std::ofstream(file, std::ios::binary) << text;
}

// A file with this header and so many bytes of data.
Bytes file_of(std::string_view header, std::size_t data = 0) {
  Bytes bytes(8 + header.size() + data, std::byte{1});
  for (std::size_t i = 0; i < 8; ++i) bytes[i] = static_cast<std::byte>(header.size() >> 8 * i);
  std::memcpy(bytes.data() + 8, header.data(), header.size());
  return bytes;
}

SafetensorsReader opened(const Bytes& bytes) {
  return SafetensorsReader::of_bytes(bytes, "test.safetensors");
}

std::string refusal(std::string_view header, std::size_t data = 0, ErrorKind kind = ErrorKind::kParse) {
  const Bytes bytes = file_of(header, data);
  return error_of(kind, [&] { opened(bytes); });
}

std::vector<NamedArray> six_of_each() {
  std::vector<NamedArray> arrays;
  for (int d = 0; d < kDTypeCount; ++d) {
    const auto dtype = static_cast<DType>(d);
    Literal value = Literal::uninitialized({dtype, {2, 3}});
    visit_dtype(dtype, [&]<class T>() {
      for (int i = 0; i < 6; ++i)
        value.mutable_values<T>()[static_cast<std::size_t>(i)] =
            static_cast<T>(dtype == DType::boolean ? i % 2 : i);
    });
    arrays.push_back({std::string(name(dtype)), value});
  }
  arrays.push_back({"scalar", Literal::scalar(7.5f)});
  arrays.push_back({"empty", Literal({DType::f32, {0, 4}})});
  return arrays;
}

const Metadata kNote{{"note", "grüße, \"quotes\"\n\\"}};

class SafetensorsTest : public ScratchFolder {};

TEST_F(SafetensorsTest, ReadsEveryDTypeThatPythonWrote) {
  const SafetensorsReader file(kData / "dtypes.safetensors");
  EXPECT_EQ(file.metadata(), kNote);
  EXPECT_EQ(file.check_digest(), Digest::none);
  EXPECT_EQ(file.size(), 17u);
  for (const NamedArray& expected : six_of_each()) {
    SCOPED_TRACE(expected.name);
    EXPECT_EQ(file.type(expected.name), expected.value.type());
    EXPECT_TRUE(file.read(expected.name).same_bits(expected.value));
  }
}

TEST_F(SafetensorsTest, WritesTheBytesThatPythonWrites) {
  EXPECT_EQ(safetensors_bytes(six_of_each(), kNote), file_bytes(kData / "dtypes.safetensors"));
  save_safetensors(folder_ / "plain.safetensors",
                   {{"w", Tensor(Literal::of<float>({2, 3}, {0, 1, 2, 3, 4, 5}))}});
  EXPECT_EQ(file_bytes(folder_ / "plain.safetensors"), file_bytes(kData / "plain.safetensors"));
}

// With SYSTOLE_PYTHON, the package itself reads what we wrote.
TEST_F(SafetensorsTest, PythonOpensAFileWithMetadataAndDigest) {
  const char* const python = std::getenv("SYSTOLE_PYTHON");
  if (python == nullptr) GTEST_SKIP() << "SYSTOLE_PYTHON names no Python with safetensors and torch";
  const fs::path file = folder_ / "ours.safetensors";
  save_safetensors(file, six_of_each(), {{"epoch", "3"}}, {.digest = true});
  const std::string command =
      std::string(python) + " " + SYSTOLE_TEST_DATA + "/make_safetensors.py " + file.string();
  FILE* const pipe = ::popen(command.c_str(), "r");
  ASSERT_NE(pipe, nullptr);
  std::string out;
  for (int c; (c = std::fgetc(pipe)) != EOF;) out += static_cast<char>(c);
  ASSERT_EQ(::pclose(pipe), 0) << out;
  EXPECT_NE(out.find("bf16 bfloat16 [2, 3] [0.0, 1.0, 2.0, 3.0, 4.0, 5.0]\n"), out.npos) << out;
  EXPECT_NE(out.find("bool bool [2, 3] [0.0, 1.0, 0.0, 1.0, 0.0, 1.0]\n"), out.npos) << out;
  EXPECT_NE(out.find("empty float32 [0, 4] []\n"), out.npos) << out;
  EXPECT_NE(out.find("scalar float32 [] [7.5]\n"), out.npos) << out;
  EXPECT_NE(out.find("['epoch', 'systole.digest']\n"), out.npos) << out;
}

TEST_F(SafetensorsTest, SingleArraysAreReadByNameAndAWrongNameNamesTheNearest) {
  const SafetensorsReader file(kData / "sharded");
  EXPECT_EQ(file.names(), (std::vector<std::string>{"a.bias", "a.weight", "b.weight"}));
  EXPECT_EQ(file.tensor("a.bias").to_vector<float>(), (std::vector<float>{0, 1, 2}));
  EXPECT_EQ(file.type("b.weight"), (Type{DType::f64, {2, 3}}));
  EXPECT_EQ(file.metadata("total_size"), "84");
  EXPECT_FALSE(file.contains("c"));
  const std::string message = error_of(ErrorKind::kNotFound, [&] { file.read("a.wieght"); });
  EXPECT_NE(message.find("a.weight"), message.npos) << message;
  EXPECT_EQ(load_safetensors(kData / "sharded" / "model.safetensors.index.json").size(), 3u);
}

TEST_F(SafetensorsTest, EveryTruncationIsATypedError) {
  const Bytes whole = file_bytes(kData / "dtypes.safetensors");
  for (std::size_t size = 0; size < whole.size(); ++size) {
    const Bytes part(whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(size));
    try {
      opened(part);
      ADD_FAILURE() << "opened " << size << " bytes";
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::kParse) << error.what();
      EXPECT_NE(error.where().find("test.safetensors: byte "), std::string::npos) << error.what();
    }
  }
}

TEST_F(SafetensorsTest, EveryFlippedHeaderByteIsATypedErrorOrAFile) {
  const Bytes whole = file_bytes(kData / "dtypes.safetensors");
  for (std::size_t at = 0; at < whole.size() - 300; ++at)
    for (const int flip : {1, 2, 0x10, 0x80, 0xff}) {
      Bytes bytes = whole;
      bytes[at] ^= static_cast<std::byte>(flip);
      try {
        const SafetensorsReader file = opened(bytes);
        for (const std::string& name : file.names()) file.read(name);
        file.metadata();
      } catch (const Error&) {
      }
    }
}

// FAULTS 9.
TEST_F(SafetensorsTest, OverlapsGapsDuplicatesAndTrailingDataAreRefused) {
  const auto array = [](std::string_view name, int begin, int end, std::string_view shape = "[1]") {
    return "\"" + std::string(name) + "\":{\"dtype\":\"F32\",\"shape\":" + std::string(shape) +
           ",\"data_offsets\":[" + std::to_string(begin) + "," + std::to_string(end) + "]}";
  };
  const auto object = [](const std::string& a, const std::string& b) { return "{" + a + "," + b + "}"; };
  EXPECT_EQ(opened(file_of(object(array("a", 0, 4), array("b", 4, 8)), 8)).size(), 2u);
  EXPECT_NE(refusal(object(array("a", 0, 4), array("b", 2, 6)), 6).find("overlaps"), std::string::npos);
  EXPECT_NE(refusal(object(array("a", 0, 4), array("b", 0, 4)), 4).find("overlaps"), std::string::npos);
  EXPECT_NE(refusal(object(array("a", 0, 4), array("b", 6, 10)), 10).find("gap"), std::string::npos);
  EXPECT_NE(refusal("{" + array("a", 4, 8) + "}", 8).find("gap"), std::string::npos);
  EXPECT_NE(refusal(object(array("a", 0, 4), array("a", 4, 8)), 8).find("twice"), std::string::npos);
  EXPECT_NE(refusal(object(array("a", 0, 4), array("\\u0061", 4, 8)), 8).find("twice"), std::string::npos);
  EXPECT_NE(refusal("{" + array("a", 0, 4) + "}", 5).find("after the last"), std::string::npos);
  EXPECT_NE(refusal("{}", 1).find("after the last"), std::string::npos);
  EXPECT_NE(refusal("{" + array("a", 0, 4) + "}", 3).find("ends inside"), std::string::npos);
  EXPECT_NE(refusal("{" + array("a", 4, 0) + "}", 4).find("ends before it begins"), std::string::npos);
  EXPECT_NE(refusal("{" + array("a", 0, 4, "[2]") + "}", 4).find("size of its type"), std::string::npos);
  EXPECT_NE(
      refusal(R"({"a":{"dtype":"F32","dtype":"F32","shape":[1],"data_offsets":[0,4]}})", 4).find("twice"),
      std::string::npos);
  EXPECT_NE(refusal(R"({"__metadata__":{"k":"v","k":"w"}})").find("twice"), std::string::npos);
  EXPECT_NE(refusal(R"({"__metadata__":{},"__metadata__":{}})").find("twice"), std::string::npos);
  EXPECT_NE(refusal(R"({"__metadata__":{"k":1}})").find("a string"), std::string::npos);
  EXPECT_NE(refusal(R"({"a":{"dtype":"F32","shape":[1]}})").find("data_offsets"), std::string::npos);
  EXPECT_NE(refusal(R"({"a":{"dtype":"F33","shape":[1],"data_offsets":[0,4]}})", 4).find("F33"),
            std::string::npos);
  EXPECT_NE(refusal(R"({"a":{"dtype":"F4","shape":[1],"data_offsets":[0,1]}})", 1).find("whole byte"),
            std::string::npos);
  EXPECT_NE(refusal(R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4,8]}})", 4).find("two numbers"),
            std::string::npos);
  refusal(R"([1])");
  refusal(R"({"a":1})");
  refusal("{\"a\xff\":{}}");
  refusal(R"({} {})");
}

TEST_F(SafetensorsTest, DimensionsThatOverflowAreRefusedBeforeAnythingIsAllocated) {
  const auto shaped = [](std::string_view shape) {
    return "{\"a\":{\"dtype\":\"F32\",\"shape\":" + std::string(shape) + ",\"data_offsets\":[0,4]}}";
  };
  EXPECT_NE(refusal(shaped("[4294967296,4294967296]"), 4).find("64 bits"), std::string::npos);
  EXPECT_NE(refusal(shaped("[1152921504606846977]"), 4).find("64 bits"), std::string::npos);
  refusal(shaped("[18446744073709551615]"), 4);
  refusal(shaped("[18446744073709551616]"), 4);
  refusal(shaped("[-1]"), 4);
  refusal(shaped("[1.0]"), 4);
  refusal(shaped("[1e0]"), 4);
  refusal(shaped("[01]"), 4);
  std::string axes = "[1";
  for (int i = 0; i < 1'000'000; ++i) axes += ",1";
  refusal(shaped(axes + "]"), 4, ErrorKind::kLimit);
}

TEST_F(SafetensorsTest, NestingIsLimited) {
  const std::string deep(100'000, '[');
  refusal("{\"a\":{\"x\":" + deep + "}}", 0, ErrorKind::kLimit);
  std::string objects;
  for (int i = 0; i < 100'000; ++i) objects += "{\"a\":";
  refusal(objects, 0, ErrorKind::kLimit);
}

// A sparse file: no byte of the header is there.
TEST_F(SafetensorsTest, AHeaderOfMoreThan100MegabytesIsRefused) {
  const fs::path file = folder_ / "large.safetensors";
  Bytes bytes = file_of("{", 0);
  const std::uint64_t length = 100'000'001;
  for (std::size_t i = 0; i < 8; ++i) bytes[i] = static_cast<std::byte>(length >> 8 * i);
  write_text(file, {reinterpret_cast<const char*>(bytes.data()), bytes.size()});
  EXPECT_NE(error_of(ErrorKind::kParse, [&] { SafetensorsReader{file}; }).find("longer than the file"),
            std::string::npos);
  fs::resize_file(file, length + 8);
  EXPECT_NE(error_of(ErrorKind::kLimit, [&] { SafetensorsReader{file}; }).find("too long"),
            std::string::npos);
  EXPECT_THROW(save_safetensors(file, std::vector<NamedArray>{}, {{"k", std::string(100'000'000, 'x')}}),
               Error);
}

// The most that the process had in use, in bytes.
std::uint64_t peak_memory() {
  std::ifstream status("/proc/self/status");
  for (std::string word; status >> word;)
    if (word == "VmHWM:") {
      std::uint64_t kilobytes = 0;
      status >> kilobytes;
      return kilobytes * 1024;
    }
  return 0;
}
void reset_peak_memory() { std::ofstream("/proc/self/clear_refs") << "5"; }

TEST_F(SafetensorsTest, AHostileHeaderCostsTheFileAnd64MegabytesAtMost) {
  if (kSanitized) GTEST_SKIP() << "the sanitizer's memory counts too";
  struct Case {
    const char* what;
    std::string unit;  // with # for a number
    std::size_t bytes;
    bool is_good;
  };
  const Case cases[] = {
      {"arrays", R"("#":{"dtype":"F32","shape":[0],"data_offsets":[0,0]})", 20'000'000, false},
      {"as many arrays as may be", R"("#":{"dtype":"F32","shape":[0],"data_offsets":[0,0]})", 2'600'000,
       true},
      {"axes", R"("#":{"dtype":"F32","shape":[0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0],"data_offsets":[0,0]})",
       5'000'000, false},
      {"as many axes as may be", R"("#":{"dtype":"F32","shape":[0,0,0,0],"data_offsets":[0,0]})", 2'900'000,
       true},
      {"unknown fields", R"("#":{"dtype":"F32","shape":[0],"data_offsets":[0,0],"x":[@]})", 20'000'000, true},
      {"metadata", R"("__metadata__":{"#":@)", 20'000'000, false},
  };
  std::string filler = "[]";
  for (int i = 0; i < 2000; ++i) filler += ",[]";
  std::string texts = "\"\"";
  for (int i = 0; i < 1'000'000; ++i) texts += ",\"" + std::to_string(i) + "\":\"\"";
  for (const Case& each : cases) {
    SCOPED_TRACE(each.what);
    std::string header = "{";
    for (int i = 0; header.size() < each.bytes; ++i) {
      std::string unit = each.unit;
      unit.replace(unit.find('#'), 1, std::to_string(i));
      const bool is_text = unit.starts_with("\"__");
      if (const std::size_t at = unit.find('@'); at != unit.npos)
        unit.replace(at, 1, is_text ? texts : filler);
      header += (i > 0 ? "," : "") + unit;
      if (is_text) break;
    }
    header += "}";
    const fs::path file = folder_ / "hostile.safetensors";
    const std::uint64_t size = header.size() + 8;
    {
      const Bytes bytes = file_of(header);
      write_text(file, {reinterpret_cast<const char*>(bytes.data()), bytes.size()});
      std::string().swap(header);
    }
    ::malloc_trim(0);
    reset_peak_memory();
    const std::uint64_t before = peak_memory();
    if (each.is_good)
      EXPECT_NO_THROW(load_safetensors(file));
    else
      EXPECT_NE(error_of(ErrorKind::kLimit, [&] { load_safetensors(file); }).find("too many"),
                std::string::npos);
    EXPECT_LE(peak_memory() - before, size + (64u << 20));
  }
}

// FAULTS 1: what is read is the file, and little else.
TEST_F(SafetensorsTest, LoadingCostsTheFileAnd64MegabytesAtMost) {
  if (kSanitized) GTEST_SKIP() << "the sanitizer's memory counts too";
  const fs::path file = folder_ / "large.safetensors";
  {
    std::vector<NamedArray> arrays{{"a", Literal({DType::f32, {20'000'000}})},
                                   {"b", Literal({DType::f32, {10'000'000}})}};
    save_safetensors(file, arrays, {}, {.digest = true});
  }
  ::malloc_trim(0);
  reset_peak_memory();
  const std::uint64_t before = peak_memory();
  {
    const auto all = load_safetensors(file);
    EXPECT_EQ(all.size(), 2u);
    EXPECT_EQ(SafetensorsReader(file).check_digest(), Digest::right);
  }
  EXPECT_LE(peak_memory() - before, fs::file_size(file) + (64u << 20));
}

// FAULTS 10.
TEST_F(SafetensorsTest, APickleIsRefusedWithAdvice) {
  for (const char* name : {"pickle.pt", "zip.pt"}) {
    const std::string message = error_of(ErrorKind::kUnsupported, [&] { load_safetensors(kData / name); });
    EXPECT_NE(message.find("can run any program"), message.npos) << message;
    EXPECT_NE(message.find("safetensors.torch.save_file"), message.npos) << message;
  }
  error_of(ErrorKind::kUnsupported, [&] { load_safetensors(fs::path(SYSTOLE_TEST_DATA) / "f32.npy"); });
}

TEST_F(SafetensorsTest, ADTypeThatWeHaveNotIsListedAndRefusedWhenRead) {
  const Bytes bytes = file_of(R"({"a":{"dtype":"C64","shape":[1],"data_offsets":[0,8]}})", 8);
  const SafetensorsReader file = opened(bytes);
  EXPECT_TRUE(file.contains("a"));
  EXPECT_NE(error_of(ErrorKind::kUnsupported, [&] { file.read("a"); }).find("C64"), std::string::npos);
}

TEST_F(SafetensorsTest, TheDigestTellsMetadataFromArrays) {
  const std::vector<NamedArray> arrays{{"w", Literal::of<float>({2}, {1, 2})},
                                       {"large", Literal({DType::u8, {3'000'001}})}};
  const Bytes whole = safetensors_bytes(arrays, {{"a", "1"}}, {.digest = true});
  EXPECT_EQ(opened(whole).check_digest(), Digest::right);
  EXPECT_EQ(opened(whole).metadata(), (Metadata{{"a", "1"}}));
  for (const std::size_t back : {std::size_t{1}, std::size_t{1'500'000}, std::size_t{3'000'005}}) {
    Bytes changed = whole;
    changed[changed.size() - back] ^= std::byte{4};
    EXPECT_EQ(opened(changed).check_digest(), Digest::arrays) << back;
  }
  std::string text(reinterpret_cast<const char*>(whole.data()), whole.size());
  text.replace(text.find(R"("a":"1")"), 7, R"("a":"2")");
  const auto changed = std::as_bytes(std::span(text));
  EXPECT_EQ(SafetensorsReader::of_bytes(changed, "x").check_digest(), Digest::metadata);
  // Two arrays of one type under each other's names.
  const Literal one = Literal::scalar(1.0f), two = Literal::scalar(2.0f);
  const Bytes pair = safetensors_bytes(std::vector<NamedArray>{{"a", one}, {"b", two}}, {}, {.digest = true});
  Bytes swapped = pair;
  std::swap_ranges(swapped.end() - 8, swapped.end() - 4, swapped.end() - 4);
  EXPECT_EQ(opened(swapped).check_digest(), Digest::arrays);
}

TEST_F(SafetensorsTest, NamesThatNoFileCanHaveAreRefused) {
  const Literal x = Literal::scalar(1.0f);
  const auto refused = [&](std::vector<NamedArray> arrays, const Metadata& metadata = {}) {
    error_of(ErrorKind::kInvalidArgument, [&] { safetensors_bytes(arrays, metadata); });
  };
  refused({{"a", x}, {"a", x}});
  refused({{"__metadata__", x}});
  refused({{"\xff", x}});
  refused({{"a", x}}, {{"systole.digest", "1"}});
}

// FAULTS 16.
TEST_F(SafetensorsTest, MalformedShardsAreTypedErrors) {
  const auto with_index = [&](std::string_view map) {
    write_text(folder_ / "model.safetensors.index.json", "{\"weight_map\":" + std::string(map) + "}");
    return folder_;
  };
  const auto refused = [&](std::string_view map, ErrorKind kind, std::string_view word) {
    const std::string message = error_of(kind, [&] { SafetensorsReader{with_index(map)}; });
    EXPECT_NE(message.find(word), message.npos) << message;
    EXPECT_NE(message.find("index.json"), message.npos) << message;
  };
  const Literal x = Literal::scalar(1.0f);
  save_safetensors(folder_ / "1.safetensors", std::vector<NamedArray>{{"a", x}, {"b", x}});
  save_safetensors(folder_ / "2.safetensors", std::vector<NamedArray>{{"c", x}});
  save_safetensors(folder_ / "3.safetensors", std::vector<NamedArray>{{"c", x}});
  EXPECT_EQ(SafetensorsReader(with_index(R"({"a":"1.safetensors","b":"1.safetensors","c":"2.safetensors"})"))
                .size(),
            3u);
  refused(R"({"a":"1.safetensors"})", ErrorKind::kParse, "\"b\"");
  refused(R"({"a":"1.safetensors","b":"2.safetensors","c":"2.safetensors"})", ErrorKind::kParse, "\"b\"");
  refused(R"({"a":"1.safetensors","b":"1.safetensors","d":"1.safetensors"})", ErrorKind::kParse, "\"d\"");
  refused(R"({"a":"1.safetensors","b":"1.safetensors","c":"2.safetensors","e":"3.safetensors"})",
          ErrorKind::kParse, "two shards");
  refused(R"({"a":"1.safetensors","a":"2.safetensors"})", ErrorKind::kParse, "twice");
  refused(R"({"a":"4.safetensors"})", ErrorKind::kNotFound, "4.safetensors");
  for (const char* outside :
       {"../1.safetensors", "/etc/passwd", "sub/1.safetensors", "..", "", "a\\\\b", "a\\u0000"})
    refused("{\"a\":\"" + std::string(outside) + "\"}", ErrorKind::kParse, "beside the index");
  refused(R"({"a":1})", ErrorKind::kParse, "string");
  refused(R"(["a"])", ErrorKind::kParse, "object");
  ASSERT_EQ(::mkfifo((folder_ / "pipe.safetensors").c_str(), 0600), 0);
  refused(R"({"a":"pipe.safetensors"})", ErrorKind::kParse, "regular file");
  write_text(folder_ / "2.safetensors", "torn");
  refused(R"({"a":"1.safetensors","b":"1.safetensors","c":"2.safetensors"})", ErrorKind::kParse,
          "2.safetensors");
  write_text(folder_ / "model.safetensors.index.json", "{}");
  EXPECT_NE(error_of(ErrorKind::kParse, [&] { SafetensorsReader{folder_}; }).find("weight_map"),
            std::string::npos);
}

TEST(Json, ReadsWhatTheStandardAllowsAndNothingElse) {
  const auto read = [](std::string text) {
    JsonReader in(text, "test.json");
    in.skip();
    in.end();
  };
  for (const char* good : {"null", " [ ] ", "{}", "[1,-0.5e+3,0]", R"({"a":[true,false,null]})",
                           "\"\\ud83d\\ude00\"", "1e400", "[[[[]]]]"})
    EXPECT_NO_THROW(read(good)) << good;
  for (const char* bad : {"",
                          "nul",
                          "[1,]",
                          "{\"a\"}",
                          "{\"a\":1,}",
                          "{a:1}",
                          "01",
                          "1.",
                          ".5",
                          "+1",
                          "1e",
                          "-",
                          "\"a",
                          "\"\\x\"",
                          "\"\\ud800\"",
                          "\"\\udc00\\ud800\"",
                          "\"\x01\"",
                          "[1 2]",
                          "1 2",
                          "'a'",
                          "NaN",
                          "\xef\xbb\xbf{}",
                          "[\"\xc0\xaf\"]",
                          "[\"\xed\xa0\x80\"]",
                          "\"\\u12g4\"",
                          "]",
                          "{\"a\":}"})
    EXPECT_THROW(read(bad), Error) << bad;
  std::string text = R"("a\u00e9\u20ac\ud83d\ude00\n\/\"")";
  JsonReader in(text, "test.json");
  EXPECT_EQ(in.string(), "aé€😀\n/\"");
  EXPECT_EQ(json_quoted("a\"\\\n\x01é", "x"), "\"a\\\"\\\\\\n\\u0001é\"");
}

// The examples of FIPS 180-2 and one million times "a".
TEST(Sha256, GivesTheStandardsDigests) {
  const auto of = [](std::string_view text) { return hex(Sha256().add(text).finish()); };
  for (const bool portable : {false, true}) {
    Sha256::use_portable(portable);
    EXPECT_EQ(of(""), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
    EXPECT_EQ(of("abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    EXPECT_EQ(of("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq"),
              "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
    EXPECT_EQ(of(std::string(1'000'000, 'a')),
              "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
    Sha256 parts;
    for (int i = 0; i < 1000; ++i) parts.add(std::string(1000, 'a'));
    EXPECT_EQ(hex(parts.finish()), "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
  }
  Sha256::use_portable(false);
}

}  // namespace
}  // namespace systole::io
