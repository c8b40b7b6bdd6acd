#pragma once

// How the columns of a table become numbers. The features of a training are kept with its model: another
// table may have them in another order, and text must become the same numbers as in training.

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/budget.h"
#include "systole/base/error.h"
#include "systole/data/sets.h"

namespace systole::data {

bool is_missing(std::string_view cell);
bool is_number(std::string_view cell);

// "people.csv, line 25, column 'income'"
std::string cell_place(std::string_view file, std::int64_t line, std::string_view column);
std::string cell_text(std::string_view cell);  // "'abc'", of a long one the beginning
// Throws kInvalidArgument where two columns have the name: a model finds its features by their names.
void require_one_column(const Table& table, std::string_view name, const std::string& where);
// The first cell of text that is neither a number nor missing.
std::optional<CsvCell> first_no_number(const Column& column);
// kDType for a column of text where numbers are needed; names its first cell that is none.
Error not_numbers(const Table& table, const Column& column, std::string_view file);

struct CsvFeature {
  std::string name;
  std::vector<std::string> categories = {};  // of text
  bool one_hot = false;  // a number for each category; else one, the category's place (models before 0.2)

  std::size_t width() const { return one_hot ? categories.size() : 1; }
};
using CsvFeatures = std::vector<CsvFeature>;

// What csv() makes of each column; the place of the label is the table's size where there is none.
struct CsvPlan {
  std::vector<CsvColumn> columns;
  std::vector<std::size_t> features;  // in the order of x
  std::size_t label = 0;
};
CsvPlan plan_csv(const Table& table, const CsvOptions& options, std::string_view where);
// Throws kInvalidArgument for text of too many values.
CsvFeatures features_of(const Table& table, const CsvPlan& plan, const CsvOptions& options,
                        const std::string& where);

// What a table of this file may take beside its text: a packed file may unpack to many short cells, and a
// cell of text becomes many numbers.
Budget csv_budget(const std::filesystem::path& file);

// The table, with text where training had text: a column of it may hold nothing but numbers here.
Table read_csv_like(const std::filesystem::path& file, CsvOptions options, const CsvFeatures& features);
// These rows of the features, f32[rows,width], whose memory is taken from the budget. Throws kNotFound for a
// column that is missing, with those there are, and kInvalidArgument for text that training had not.
Literal encode(const Table& table, const CsvFeatures& features, std::span<const std::int64_t> rows,
               const std::string& where, Budget& budget);

struct CsvSet {
  Source source;
  CsvFeatures features;
  std::string missing = {};  // the place of the first number that is missing in x; else empty
};
// csv() with what x is made of. With `like`, the features of a training, x is made of those columns.
CsvSet csv_set(const std::filesystem::path& file, const CsvOptions& options,
               const CsvFeatures* like = nullptr);
// All rows of these features, f32[rows,width].
Literal read_features(const std::filesystem::path& file, const CsvFeatures& features);

}  // namespace systole::data
