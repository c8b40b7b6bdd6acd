#pragma once

// Data sets in files. Files may be packed: .gz and .xz are unpacked on the way, told by their first bytes.
// Every count in a file is checked against the bytes that are there before anything is allocated; a file that
// lies is kParse with its name and offset, or the index of its sample; one that would take more than its
// limit is kLimit.
//
//   auto [train, test] = data::mnist("data/mnist");
//   auto [train, test] = data::open("cifar10:data/cifar-10");
//   data::Source rows = data::csv("credit.csv", {.label = "Y"});

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "systole/base/export.h"
#include "systole/base/literal.h"
#include "systole/data/source.h"
#include "systole/io/picture.h"

namespace systole::data {

class BadSamples;

struct TrainTest {
  Source train, test;  // test may be empty
};

// Pictures. Labels are i32 with class names.
struct MnistOptions {
  bool channel = false;  // pictures as [28,28,1]
};
// The four files train-images-idx3-ubyte, … with or without .gz; x: u8[28,28].
SYSTOLE_API TrainTest mnist(const std::filesystem::path& folder, const MnistOptions& options = {});
SYSTOLE_API TrainTest fashion_mnist(const std::filesystem::path& folder, const MnistOptions& options = {});
// The binary version: data_batch_1.bin … and test_batch.bin, packed or not, or its cifar-10-binary.tar.gz;
// `place` is that archive, or a folder that holds either. x: u8[32,32,3].
SYSTOLE_API TrainTest cifar10(const std::filesystem::path& place);
// The embedded digits: 20,000 to train and 5,000 to test. x: u8[28,28].
SYSTOLE_API TrainTest embedded_digits(std::int64_t train = 20'000, std::int64_t test = 5'000);

// Folders of pictures, one folder per class in the order of their names: FOLDER/CLASS/*.png, .jpg, .jpeg. A
// folder without folders gives pictures without labels. Files are read when asked for. Pictures of different
// sizes need Resize or Crop before they make a batch. Other files, deeper folders and pictures beside the
// classes are passed over, with one warning that counts them.
struct ImageOptions {
  int channels = 3;                    // 1: grey, [height,width]; 3: [height,width,3]
  std::int64_t height = 0, width = 0;  // resized to this, when not 0; numbers that are kept, to the nearest
  std::int64_t largest_pixels = 1 << 26;            // of one picture; more is kLimit
  io::PictureMode mode = io::PictureMode::colours;  // index and gray16 keep the numbers of a mask
  bool upright = true;                              // turned as EXIF says
};
SYSTOLE_API Source images(const std::filesystem::path& folder, const ImageOptions& options = {});

// Tables. A column is whole numbers (i64), numbers (f32), or text, kept as the i32 number of its category;
// categories are in the order of their names. Quotes, CRLF and a byte order mark are understood; text that is
// not UTF-8 is kParse, with how to convert it. A cell that is empty, NA, N/A, n/a, NaN, nan, NAN, null, NULL
// or None is missing: NaN in a column of numbers and its own category of text.
enum class CsvHeader {
  kAuto,  // names, when a cell of the first line is no number though the cell below is, when `label` or
          // another option names a cell of it, or when all cells are text and none of the line occurs below;
          // or counts
  kNone,
  kNames,
  kCounts,  // scikit-learn's: samples, features, class names
};
enum class CsvType { kAuto, kInteger, kNumber, kText };
struct CsvTypeOf {
  std::string column;
  CsvType type = CsvType::kAuto;
};
struct CsvOptions {
  std::string label = {};                  // name or number of the label's column; empty: the last
  std::vector<std::string> features = {};  // in this order; empty: all but the label
  std::vector<std::string> drop = {};      // left out
  std::vector<CsvTypeOf> types = {};       // else found from the cells
  bool regression = false;                 // the label is a number, f32, and no class
  bool unlabelled = false;                 // no label: x alone
  bool skip_unlabelled = false;            // rows whose label is missing are left out, else kInvalidArgument
  bool allow_infinite = false;             // in a feature or a label of a regression, else kInvalidArgument
  std::int64_t one_hot = 32;  // a feature of text has at most so many values, else kInvalidArgument
  char delimiter = 0;         // 0: the comma, semicolon or tab that the first line has most of
  CsvHeader header = CsvHeader::kAuto;
  std::uint64_t largest_bytes = std::uint64_t{1} << 32;  // of the unpacked text
};
struct CsvCell {
  std::int64_t row = 0;
  std::string text;
};
struct Column {
  std::string name;
  Literal values;                            // i64, f32 or, of a text, i32 [rows]
  std::vector<std::string> categories = {};  // of a text
  std::optional<CsvCell> infinite = {};      // the first cell that f32 holds as an infinity: inf, 1e39
};
struct Table {
  std::vector<Column> columns;
  std::int64_t rows = 0;
  std::vector<std::string> classes;  // named by a header of counts
  std::vector<std::int64_t> lines;   // of the file, from 1, where each row begins

  SYSTOLE_API const Column& operator[](std::string_view name) const;  // kNotFound with the nearest name
};
SYSTOLE_API Table read_csv(const std::filesystem::path& file, const CsvOptions& options = {});
SYSTOLE_API Table parse_csv(std::string_view text, std::string_view file, const CsvOptions& options = {});
// What csv() makes of a column.
enum class ColumnUse {
  kFeature,        // one number of x
  kOneHot,         // text: for each of its values a number of x, 1 in the rows that have it; none where it is
                   // missing
  kTooManyValues,  // text of more values than CsvOptions::one_hot, which csv() refuses
  kLabel,
  kLeftOut,
};
struct CsvColumn {
  std::string name;
  CsvType type = CsvType::kAuto;  // kInteger, kNumber or kText
  ColumnUse use = ColumnUse::kFeature;
  std::int64_t missing = 0;   // cells
  std::int64_t distinct = 0;  // values, without the missing
  std::string infinite = {};  // the first cell that is infinite, "inf in line 25"; else empty
  // Of text that looks like numbers with a mistake in them: "line 25 holds '4O', and 59 of 60 cells are
  // numbers"; else empty.
  std::string nearly_numbers = {};
  std::string identifier;  // why it looks like an identifier, of which nothing is learned; else empty
};
// The columns of the file in their order.
SYSTOLE_API std::vector<CsvColumn> csv_columns(const std::filesystem::path& file,
                                               const CsvOptions& options = {});
// x: f32[features]; y: the class as i32, 0 up in the order of the labels, or f32 for regression. Warns of
// features that look like identifiers.
SYSTOLE_API Source csv(const std::filesystem::path& file, const CsvOptions& options = {});

// Arrays: the x of one .npy file; the arrays of one .npz in file order, or those of these names.
SYSTOLE_API Source npy(const std::filesystem::path& file);
SYSTOLE_API Source npz(const std::filesystem::path& file, const std::vector<std::string>& names = {});

// Text as windows of symbols: x is i32[window], y the same one symbol on. The vocabulary, the classes of
// both, is every character (UTF-8) that occurs, in order; or all 256 bytes.
struct TextOptions {
  std::int64_t window = 128;
  std::int64_t stride = 1;  // from one window to the next
  bool bytes = false;
  std::vector<std::string> vocabulary =
      {};  // of another set, to number symbols alike; else kParse for others
};
SYSTOLE_API Source text(const std::filesystem::path& file, const TextOptions& options = {});
SYSTOLE_API Source text_of(std::string_view text, const TextOptions& options = {},
                           std::string_view name = "text");
// Between symbols and text, by a vocabulary.
SYSTOLE_API Literal encode(std::string_view text, const std::vector<std::string>& vocabulary);  // i32[n]
SYSTOLE_API std::string decode(std::span<const std::int32_t> symbols,
                               const std::vector<std::string>& vocabulary);

// Sound: .wav files in a folder (and those below it) or an archive (.tar, .tar.gz, .tar.xz), in the order of
// their names. x: f32[samples] in [-1, 1], of the first channel's mean with the others; y: the class, i32,
// the file's name up to the first '_' (free-spoken-digit-dataset: 7_jackson_32.wav is a 7), or its folder.
// Other files are passed over, with one warning that counts them.
struct AudioOptions {
  bool class_is_folder = false;
  std::int64_t samples = 0;  // cut or filled with silence to this length, when not 0
  // Recordings that cannot be read are left out and counted here, by their place in the order of names, with
  // a warning for each; without one they are errors.
  std::shared_ptr<BadSamples> skipped = nullptr;
};
struct AudioSet {
  Source source;
  std::vector<std::string> files;  // of each sample, without those that were left out
  std::int32_t rate = 0;           // samples per second; all files have the same, else kInvalidArgument
};
SYSTOLE_API AudioSet audio(const std::filesystem::path& place, const AudioOptions& options = {});

// By a short text, as the command line has it: "mnist:DIR", "fashion:DIR", "cifar10:DIR", "digits",
// "images:DIR" (with DIR/train and DIR/test, if there are such), "csv:FILE?label=Y&regression", "npy:FILE",
// "npz:FILE", "text:FILE?window=64", "audio:PLACE". An unknown kind or option is kNotFound with the nearest.
SYSTOLE_API TrainTest open(std::string_view spec);

// IDX and CIFAR-10 from bytes; `file` is for messages.
SYSTOLE_API Literal parse_idx(std::span<const std::byte> bytes, std::string_view file);
SYSTOLE_API std::vector<Literal> parse_cifar10(std::span<const std::byte> bytes, std::string_view file);

}  // namespace systole::data
