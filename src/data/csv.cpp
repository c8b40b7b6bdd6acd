// Tables from text. Cells are views of the text (of a copy where quotes had to be taken out); a column's type
// is found from all its cells, and its numbers are then made in one go.

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstring>
#include <deque>
#include <iterator>
#include <limits>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <system_error>

#include "base/budget.h"
#include "base/naming_file.h"
#include "base/nearest.h"
#include "data/csv_columns.h"
#include "data/set_files.h"
#include "systole/base/error.h"
#include "systole/data/sets.h"
#include "systole/io/archive.h"

namespace systole::data {

bool is_missing(std::string_view cell) {
  constexpr std::string_view kMissing[] = {"",    "NA",  "N/A",  "n/a",  "NaN",
                                           "nan", "NAN", "null", "NULL", "None"};
  return std::find(std::begin(kMissing), std::end(kMissing), cell) != std::end(kMissing);
}

std::string cell_place(std::string_view file, std::int64_t line, std::string_view column) {
  return fmt::format("{}, line {}, column '{}'", file, line, column);
}

std::string cell_text(std::string_view cell) {
  constexpr std::size_t kShown = 100;
  return cell.size() > kShown ? fmt::format("'{}…'", cell.substr(0, kShown)) : fmt::format("'{}'", cell);
}

namespace {

struct Row {
  std::size_t first = 0, count = 0;  // cells
  std::int64_t line = 0;             // from 1
};

struct Cells {
  std::vector<std::string_view> all;
  std::vector<Row> rows;
  std::deque<std::string> unquoted;  // what views of the text cannot show

  std::span<const std::string_view> of(const Row& row) const {
    return std::span(all).subspan(row.first, row.count);
  }
};

[[noreturn]] void fail(std::string_view file, std::int64_t line, std::string message,
                       std::string expected = {}, std::string got = {}) {
  throw Error(ErrorKind::kParse, fmt::format("{}: line {}", file, line), std::move(message),
              std::move(expected), std::move(got));
}

char delimiter_of(std::string_view text) {
  const std::string_view line = text.substr(0, text.find('\n'));
  char best = ',';
  std::ptrdiff_t most = 0;
  for (const char candidate : {',', ';', '\t'})
    if (const std::ptrdiff_t n = std::count(line.begin(), line.end(), candidate); n > most) {
      best = candidate;
      most = n;
    }
  return best;
}

std::string_view trimmed(std::string_view cell) {
  while (!cell.empty() && (cell.front() == ' ' || cell.front() == '\t')) cell.remove_prefix(1);
  while (!cell.empty() && (cell.back() == ' ' || cell.back() == '\t')) cell.remove_suffix(1);
  return cell;
}

// One cell from `at`, which is left at the delimiter, the line's end or the text's.
std::string_view read_cell(std::string_view text, std::size_t& at, char delimiter, std::int64_t& line,
                           Cells& cells, std::string_view file) {
  if (at >= text.size() || text[at] != '"') {
    const std::size_t begin = at;
    while (at < text.size() && text[at] != delimiter && text[at] != '\n') ++at;
    std::string_view cell = text.substr(begin, at - begin);
    if (cell.ends_with('\r')) cell.remove_suffix(1);
    return trimmed(cell);
  }
  const std::int64_t opened = line;
  const std::size_t begin = ++at;
  bool doubled = false;
  for (;; ++at) {
    if (at >= text.size()) fail(file, opened, "a quote that is not closed");
    if (text[at] == '\n') ++line;
    if (text[at] != '"') continue;
    if (at + 1 >= text.size() || text[at + 1] != '"') break;
    doubled = true;
    ++at;
  }
  std::string_view cell = text.substr(begin, at - begin);
  ++at;
  if (at < text.size() && text[at] == '\r') ++at;
  if (at < text.size() && text[at] != delimiter && text[at] != '\n')
    fail(file, line, "text after a closing quote", "a delimiter or the end of the line");
  if (!doubled) return cell;
  std::string& plain = cells.unquoted.emplace_back();
  for (std::size_t i = 0; i < cell.size(); ++i) {
    plain += cell[i];
    if (cell[i] == '"') ++i;
  }
  return plain;
}

Cells read_cells(std::string_view text, char delimiter, std::string_view file, Budget& budget) {
  Cells cells;
  std::int64_t line = 1;
  for (std::size_t at = 0; at < text.size();) {
    Row row{cells.all.size(), 0, line};
    for (;;) {
      cells.all.push_back(read_cell(text, at, delimiter, line, cells, file));
      ++row.count;
      if (at >= text.size() || text[at] == '\n') break;
      ++at;  // the delimiter
    }
    ++at;
    ++line;
    if (row.count == 1 && cells.all.back().empty()) {
      cells.all.pop_back();  // an empty line
    } else {
      // With what a column takes while its cells are looked at.
      constexpr std::uint64_t kRowBytes = sizeof(Row) + sizeof(std::string),
                              kCellBytes = sizeof(std::string_view);
      budget.take(kRowBytes + row.count * kCellBytes, "the table's cells");
      cells.rows.push_back(row);
    }
  }
  return cells;
}

template <class T>
std::optional<T> parsed(std::string_view cell) {
  if (cell.starts_with('+')) cell.remove_prefix(1);
  T value{};
  const auto [end, code] = std::from_chars(cell.data(), cell.data() + cell.size(), value);
  if (code == std::errc::result_out_of_range && std::is_floating_point_v<T>) {
    // Too large or too small for a double: what strtod says.
    value = static_cast<T>(std::strtod(std::string(cell).c_str(), nullptr));
    return value;
  }
  if (code != std::errc() || end != cell.data() + cell.size()) return {};
  return value;
}

}  // namespace

bool is_number(std::string_view cell) { return parsed<double>(cell).has_value(); }

namespace {

// scikit-learn's first line: how many samples and features, and the names of the classes.
bool has_counts(const Cells& cells) {
  if (cells.rows.size() < 2 || cells.rows[0].count < 2) return false;
  const auto first = cells.of(cells.rows[0]);
  return parsed<std::int64_t>(first[0]) == static_cast<std::int64_t>(cells.rows.size()) - 1 &&
         parsed<std::int64_t>(first[1]) == static_cast<std::int64_t>(cells.rows[1].count) - 1;
}

bool has_names(const Cells& cells) {
  if (cells.rows.size() < 2 || cells.rows[0].count != cells.rows[1].count) return false;
  const auto first = cells.of(cells.rows[0]), second = cells.of(cells.rows[1]);
  for (std::size_t i = 0; i < first.size(); ++i)
    if (!is_number(first[i]) && !is_missing(first[i]) && is_number(second[i])) return true;
  return false;
}

// Whether a table of text alone begins with names: a line of different names, none of which is a value below,
// though values occur again.
bool has_names_over_text(const Cells& cells) {
  if (cells.rows.size() < 3) return false;
  const auto first = cells.of(cells.rows[0]);
  const std::set<std::string_view> names(first.begin(), first.end());
  if (names.size() != first.size()) return false;
  bool repeated = false;
  for (std::size_t c = 0; c < first.size(); ++c) {
    if (is_missing(first[c]) || is_number(first[c])) return false;
    std::set<std::string_view> values;
    for (const Row& row : std::span(cells.rows).subspan(1)) {
      if (row.count != first.size()) return false;
      const std::string_view cell = cells.of(row)[c];
      if (cell == first[c] || is_number(cell)) return false;
      repeated |= !values.insert(cell).second;
    }
  }
  return repeated;
}

// Whether the options name a cell of the first line.
bool is_asked_for(const Cells& cells, const CsvOptions& options) {
  const auto first = cells.of(cells.rows[0]);
  const auto names = [&](const std::string& name) {
    return !name.empty() && !is_number(name) && std::find(first.begin(), first.end(), name) != first.end();
  };
  return names(options.label) || std::any_of(options.features.begin(), options.features.end(), names) ||
         std::any_of(options.drop.begin(), options.drop.end(), names) ||
         std::any_of(options.types.begin(), options.types.end(),
                     [&](const CsvTypeOf& type) { return names(type.column); });
}

CsvHeader header_of(const Cells& cells, const CsvOptions& options) {
  if (options.header != CsvHeader::kAuto) return options.header;
  if (has_counts(cells)) return CsvHeader::kCounts;
  if (has_names(cells) || is_asked_for(cells, options) || has_names_over_text(cells))
    return CsvHeader::kNames;
  return CsvHeader::kNone;
}

CsvType type_of(std::span<const std::string_view> column) {
  bool integers = true;
  for (const std::string_view cell : column) {
    if (is_missing(cell)) {
      integers = false;
      continue;
    }
    if (integers && !parsed<std::int64_t>(cell)) integers = false;
    if (!integers && !is_number(cell)) return CsvType::kText;
  }
  return integers ? CsvType::kInteger : CsvType::kNumber;
}

Column column_of(std::string name, std::span<const std::string_view> cells, CsvType type,
                 std::span<const Row> rows, std::string_view file) {
  Column column{.name = std::move(name), .values = {}};
  const std::int64_t count = std::ssize(cells);
  const auto wrong = [&](std::size_t i, const char* expected) {
    throw Error(ErrorKind::kParse, cell_place(file, rows[i].line, column.name), "", expected,
                cell_text(cells[i]));
  };
  if (type == CsvType::kInteger) {
    column.values = Literal::uninitialized({DType::i64, {count}});
    std::int64_t* out = column.values.mutable_values<std::int64_t>().data();
    for (std::size_t i = 0; i < cells.size(); ++i) {
      const std::optional<std::int64_t> value = parsed<std::int64_t>(cells[i]);
      if (!value) wrong(i, "a whole number");
      *out++ = *value;
    }
  } else if (type == CsvType::kNumber) {
    column.values = Literal::uninitialized({DType::f32, {count}});
    float* out = column.values.mutable_values<float>().data();
    for (std::size_t i = 0; i < cells.size(); ++i) {
      const std::optional<double> value =
          is_missing(cells[i]) ? std::numeric_limits<double>::quiet_NaN() : parsed<double>(cells[i]);
      if (!value) wrong(i, "a number");
      *out = static_cast<float>(*value);
      if (std::isinf(*out++) && !column.infinite)
        column.infinite = CsvCell{static_cast<std::int64_t>(i), std::string(cells[i])};
    }
  } else {
    column.categories = in_order(std::vector<std::string>(cells.begin(), cells.end()));
    std::map<std::string_view, std::int32_t> numbers;
    for (const std::string& category : column.categories)
      numbers.emplace(category, static_cast<std::int32_t>(numbers.size()));
    column.values = Literal::uninitialized({DType::i32, {count}});
    std::int32_t* out = column.values.mutable_values<std::int32_t>().data();
    for (const std::string_view cell : cells) *out++ = numbers.find(cell)->second;
  }
  return column;
}

constexpr const char* kAdvice =
    "leave out columns of text (drop=NAME), have fewer values in them, or unpack the file";

}  // namespace

Budget csv_budget(const std::filesystem::path& file) {
  std::error_code code;
  const std::uintmax_t size = std::filesystem::file_size(file, code);
  return {file.string(), expansion_limit(code ? 0 : size), kAdvice};
}

void no_column(std::string_view name, const Table& table, std::string_view where) {
  std::vector<std::string_view> names;
  for (const Column& column : table.columns) names.push_back(column.name);
  throw unknown_name(std::string(where), "column", name, names);
}

const Column& Table::operator[](std::string_view name) const {
  for (const Column& column : columns)
    if (column.name == name) return column;
  no_column(name, *this, "data::Table");
}

namespace {

Table table_of(std::string_view text, std::string_view file, const CsvOptions& options, Budget& budget) {
  require_utf8(text, file, "");
  if (text.starts_with("\xef\xbb\xbf")) text.remove_prefix(3);
  const Cells cells =
      read_cells(text, options.delimiter != 0 ? options.delimiter : delimiter_of(text), file, budget);
  if (cells.rows.empty()) fail(file, 1, "an empty table");
  const CsvHeader header = header_of(cells, options);
  const std::span<const Row> rows = std::span(cells.rows).subspan(header == CsvHeader::kNone ? 0 : 1);
  const std::span<const std::string_view> first = cells.of(cells.rows[0]);
  Table table;
  table.rows = std::ssize(rows);
  for (const Row& row : rows) table.lines.push_back(row.line);
  const std::size_t width = rows.empty() ? first.size() : rows[0].count;
  if (header == CsvHeader::kCounts) {
    if (!has_counts(cells))
      fail(file, 1, "the counts do not agree with the table",
           fmt::format("{} samples of {} features", rows.size(), width - 1),
           fmt::format("{},{}", first[0], first.size() > 1 ? first[1] : ""));
    table.classes.assign(first.begin() + 2, first.end());
  }
  for (std::size_t i = 0; i < rows.size(); ++i)
    if (rows[i].count != width || (header == CsvHeader::kNames && rows[i].count != first.size()))
      fail(file, rows[i].line, fmt::format("sample {} has another number of cells", i),
           fmt::format("{}", header == CsvHeader::kNames ? first.size() : width),
           fmt::format("{}", rows[i].count));
  std::vector<std::string> names;
  for (std::size_t c = 0; c < width; ++c)
    names.push_back(header == CsvHeader::kNames ? std::string(first[c]) : fmt::format("{}", c));
  for (const CsvTypeOf& wanted : options.types)
    if (std::find(names.begin(), names.end(), wanted.column) == names.end())
      throw unknown_name(std::string(file), "column", wanted.column, names);
  std::vector<std::string_view> column(rows.size());
  for (std::size_t c = 0; c < width; ++c) {
    for (std::size_t r = 0; r < rows.size(); ++r) column[r] = cells.all[rows[r].first + c];
    CsvType type = CsvType::kAuto;
    for (const CsvTypeOf& wanted : options.types)
      if (wanted.column == names[c]) type = wanted.type;
    if (type == CsvType::kAuto) type = type_of(column);
    table.columns.push_back(column_of(names[c], column, type, rows, file));
  }
  return table;
}

}  // namespace

Table parse_csv(std::string_view text, std::string_view file, const CsvOptions& options) {
  Budget budget(std::string(file), expansion_limit(text.size()), kAdvice);
  return table_of(text, file, options, budget);
}

Table read_csv(const std::filesystem::path& file, const CsvOptions& options) {
  return naming_file(file, [&] {
    const std::vector<std::byte> bytes = io::read_unpacked(file, options.largest_bytes);
    Budget budget = csv_budget(file);
    return table_of({reinterpret_cast<const char*>(bytes.data()), bytes.size()}, file.string(), options,
                    budget);
  });
}

}  // namespace systole::data
