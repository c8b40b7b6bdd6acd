#include "systole/train/history.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstddef>
#include <limits>
#include <span>
#include <string>
#include <system_error>
#include <utility>

#include <fmt/format.h>

#include "base/file.h"
#include "base/nearest.h"
#include "systole/base/error.h"

namespace systole::training {

namespace {

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

void check_name(std::string_view name) {
  const bool printable = std::none_of(name.begin(), name.end(), [](char c) {
    return static_cast<unsigned char>(c) < ' ' || c == ',' || c == '"' || c == 0x7f;
  });
  if (name.empty() || name == "epoch" || !printable || name.front() == ' ' || name.back() == ' ')
    throw Error(ErrorKind::kInvalidArgument, "history", "no name for a column",
                "text without commas, quotes and control characters, other than \"epoch\"",
                fmt::format("\"{}\"", name));
}

std::string_view trimmed(std::string_view text) {
  const std::size_t begin = text.find_first_not_of(" \t\r");
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(" \t\r") + 1 - begin);
}

std::vector<std::string_view> fields_of(std::string_view line) {
  std::vector<std::string_view> fields;
  for (std::size_t begin = 0;;) {
    const std::size_t comma = line.find(',', begin);
    std::string_view field = trimmed(line.substr(begin, comma - begin));
    if (field.size() >= 2 && field.front() == '"' && field.back() == '"')
      field = field.substr(1, field.size() - 2);
    fields.push_back(field);
    if (comma == std::string_view::npos) return fields;
    begin = comma + 1;
  }
}

}  // namespace

std::size_t History::column(std::string_view name) const {
  const auto found = std::find(names_.begin(), names_.end(), name);
  if (found != names_.end()) return static_cast<std::size_t>(found - names_.begin());
  throw unknown_name("history", "column", name, names_);
}

std::size_t History::column_or_new(std::string_view name) {
  const auto found = std::find(names_.begin(), names_.end(), name);
  if (found != names_.end()) return static_cast<std::size_t>(found - names_.begin());
  check_name(name);
  names_.emplace_back(name);
  columns_.emplace_back(epochs_);
  return names_.size() - 1;
}

void History::add(const Row& values) {
  for (std::size_t i = 0; i < values.size(); ++i) {
    check_name(values[i].first);
    for (std::size_t j = 0; j < i; ++j)
      if (values[i].first == values[j].first)
        throw Error(ErrorKind::kInvalidArgument, "history",
                    fmt::format("\"{}\" is given twice for one epoch", values[i].first));
  }
  ++epochs_;
  for (auto& column : columns_) column.emplace_back();
  for (const auto& [name, value] : values) columns_[column_or_new(name)].back() = value;
}

void History::set(std::size_t epoch, std::string_view name, double value) {
  if (epoch >= epochs_)
    throw Error(ErrorKind::kInvalidArgument, "history", "no such epoch", fmt::format("below {}", epochs_),
                std::to_string(epoch));
  columns_[column_or_new(name)][epoch] = value;
}

bool History::has(std::string_view name) const {
  return std::find(names_.begin(), names_.end(), name) != names_.end();
}

std::vector<double> History::operator[](std::string_view name) const {
  std::vector<double> values;
  for (const std::optional<double>& value : columns_[column(name)]) values.push_back(value.value_or(kNaN));
  return values;
}

std::optional<double> History::at(std::size_t epoch, std::string_view name) const {
  if (epoch >= epochs_)
    throw Error(ErrorKind::kInvalidArgument, "history", "no such epoch", fmt::format("below {}", epochs_),
                std::to_string(epoch));
  return columns_[column(name)][epoch];
}

std::optional<double> History::last(std::string_view name) const {
  const auto& values = columns_[column(name)];
  const auto found =
      std::find_if(values.rbegin(), values.rend(), [](const auto& v) { return v.has_value(); });
  return found == values.rend() ? std::nullopt : *found;
}

std::optional<std::size_t> History::best(std::string_view name, bool higher_is_better) const {
  const auto& values = columns_[column(name)];
  std::optional<std::size_t> best;
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (!values[i] || std::isnan(*values[i])) continue;
    if (!best || (higher_is_better ? *values[i] > *values[*best] : *values[i] < *values[*best])) best = i;
  }
  return best;
}

std::string History::to_csv() const {
  std::string text = "epoch";
  for (const std::string& name : names_) text += "," + name;
  text += "\n";
  for (std::size_t epoch = 0; epoch < epochs_; ++epoch) {
    text += std::to_string(epoch + 1);
    for (const auto& column : columns_)
      if (const std::optional<double>& value = column[epoch]; !value)
        text += ",";
      else
        text += std::isnan(*value) ? ",nan" : fmt::format(",{}", *value);
    text += "\n";
  }
  return text;
}

void History::write_csv(const std::filesystem::path& file) const {
  const std::string text = to_csv();
  write_file(file, std::as_bytes(std::span(text)));
}

History History::parse_csv(std::string_view text, std::string_view file) {
  if (text.starts_with("\xEF\xBB\xBF")) text.remove_prefix(3);
  History history;
  std::vector<std::string> header;
  for (std::size_t number = 1; !text.empty(); ++number) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    const std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    if (trimmed(line).empty()) continue;
    const auto fail = [&](std::string message, std::string expected = {}, std::string got = {}) {
      throw Error(ErrorKind::kParse, fmt::format("{}: line {}", file, number), std::move(message),
                  std::move(expected), std::move(got));
    };
    const std::vector<std::string_view> fields = fields_of(line);
    if (header.empty()) {
      header.assign(fields.begin(), fields.end());
      for (std::size_t i = 0; i < header.size(); ++i) {
        if (std::find(header.begin(), header.begin() + static_cast<std::ptrdiff_t>(i), header[i]) !=
            header.begin() + static_cast<std::ptrdiff_t>(i))
          fail("a column is there twice", {}, header[i]);
        if (header[i] == "epoch") continue;
        try {
          history.column_or_new(header[i]);
        } catch (const Error& e) {
          fail(e.message(), e.expected(), e.got());
        }
      }
      continue;
    }
    if (fields.size() != header.size())
      fail("a line of another length", fmt::format("{} fields", header.size()),
           std::to_string(fields.size()));
    Row row;
    for (std::size_t i = 0; i < fields.size(); ++i) {
      if (header[i] == "epoch" || fields[i].empty()) continue;
      double value = 0;
      const char* stop = fields[i].data() + fields[i].size();
      const auto [at, error] = std::from_chars(fields[i].data(), stop, value);
      if (error != std::errc() || at != stop)
        fail("no number", fmt::format("a number as {}", header[i]), fmt::format("\"{}\"", fields[i]));
      row.emplace_back(header[i], value);
    }
    history.add(row);
  }
  if (header.empty()) throw Error(ErrorKind::kParse, std::string(file), "no header line");
  return history;
}

History History::read_csv(const std::filesystem::path& file) {
  return parse_csv(read_text_file(file), file.string());
}

bool History::operator==(const History& other) const {
  const auto same = [](const std::optional<double>& a, const std::optional<double>& b) {
    if (!a || !b) return a.has_value() == b.has_value();
    return *a == *b || (std::isnan(*a) && std::isnan(*b));
  };
  if (epochs_ != other.epochs_ || names_ != other.names_) return false;
  for (std::size_t i = 0; i < columns_.size(); ++i)
    if (!std::equal(columns_[i].begin(), columns_[i].end(), other.columns_[i].begin(), same)) return false;
  return true;
}

}  // namespace systole::training
