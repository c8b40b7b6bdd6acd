#include "cli/train/pictures.h"

#include <fmt/format.h>

#include <charconv>
#include <span>
#include <string_view>
#include <system_error>
#include <utility>

#include "base/file.h"
#include "systole/base/error.h"

namespace systole::cli {

namespace {

constexpr std::size_t kMostNames = 50;  // of a matrix that can still be read

std::string class_name(const std::vector<std::string>& classes, std::int64_t label) {
  const auto i = static_cast<std::size_t>(label);
  return i < classes.size() ? classes[i] : std::to_string(label);
}

// A cell of a table, quoted where it must be.
std::string cell(const std::string& text) {
  if (text.find_first_of(",\"\n\r") == std::string::npos) return text;
  std::string result = "\"";
  for (const char c : text) result += c == '"' ? "\"\"" : std::string(1, c);
  return result + '"';
}

void save_both(const training::Figure& figure, const std::filesystem::path& folder, const std::string& name,
               std::vector<std::string>& written) {
  figure.save(folder / (name + ".svg"));
  std::string names = name + ".svg";
  try {
    figure.save(folder / (name + ".png"));
    names += "|png";
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::kUnsupported) throw;
  }
  written.push_back(std::move(names));
}

}  // namespace

std::vector<std::string> columns_to_draw(const training::History& history) {
  std::vector<std::string> names;
  for (const std::string& name : history.names())
    if (!name.starts_with("val_") && name != "lr" && name != "seconds") names.push_back(name);
  return names;
}

training::Figure confusion_figure(const metrics::ConfusionMatrix& matrix,
                                  const std::vector<std::string>& classes) {
  std::vector<std::string> names;
  if (matrix.labels.size() <= kMostNames)
    for (const std::int64_t label : matrix.labels) names.push_back(class_name(classes, label));
  return training::confusion_chart(matrix, {.names = std::move(names)});
}

void write_confusion(const std::filesystem::path& file, const metrics::ConfusionMatrix& matrix,
                     const std::vector<std::string>& classes) {
  std::string text = "true";
  const bool undecided = matrix.undecided_samples() > 0;
  for (const std::int64_t label : matrix.labels) text += "," + cell(class_name(classes, label));
  text += undecided ? fmt::format(",{}\n", kUndecidedColumn) : "\n";
  for (std::int64_t row = 0; row < matrix.classes(); ++row) {
    text += cell(class_name(classes, matrix.labels[static_cast<std::size_t>(row)]));
    for (std::int64_t column = 0; column < matrix.classes(); ++column)
      text += fmt::format(",{}", matrix.at(row, column));
    text += undecided ? fmt::format(",{}\n", matrix.undecided[static_cast<std::size_t>(row)]) : "\n";
  }
  write_file(file, std::as_bytes(std::span(text)));
}

training::Figure read_confusion(const std::filesystem::path& file) {
  // data::read_csv would do, but classes that are numbers are a header too.
  const std::string text = read_text_file(file);
  std::vector<std::vector<std::string>> rows(1, std::vector<std::string>(1));
  bool inside = false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (inside) {
      if (c != '"')
        rows.back().back() += c;
      else if (i + 1 < text.size() && text[i + 1] == '"')
        rows.back().back() += text[++i];
      else
        inside = false;
    } else if (c == '"')
      inside = true;
    else if (c == ',')
      rows.back().emplace_back();
    else if (c == '\n')
      rows.emplace_back(1);
    else if (c != '\r')
      rows.back().back() += c;
  }
  if (rows.back().size() == 1 && rows.back()[0].empty()) rows.pop_back();
  const auto broken = [&](std::size_t line) {
    return Error(ErrorKind::kParse, fmt::format("{}:{}", file.string(), line), "no confusion matrix",
                 "a header of class names and as many rows of counts");
  };
  const bool undecided =
      !rows.empty() && rows[0].size() == rows.size() + 1 && rows[0].back() == kUndecidedColumn;
  if (rows.empty() || rows[0].size() != rows.size() + (undecided ? 1 : 0)) throw broken(1);
  metrics::ConfusionMatrix matrix;
  std::vector<std::string> names(rows[0].begin() + 1,
                                 rows[0].begin() + static_cast<std::ptrdiff_t>(rows.size()));
  for (std::size_t i = 1; i < rows.size(); ++i) {
    matrix.labels.push_back(static_cast<std::int64_t>(i) - 1);
    if (rows[i].size() != rows[0].size()) throw broken(i + 1);
    for (std::size_t k = 1; k < rows[i].size(); ++k) {
      std::int64_t count = 0;
      const std::string& digits = rows[i][k];
      const char* end = digits.data() + digits.size();
      if (const auto [at, error] = std::from_chars(digits.data(), end, count);
          error != std::errc() || at != end)
        throw broken(i + 1);
      (k < rows.size() ? matrix.counts : matrix.undecided).push_back(count);
    }
  }
  return confusion_figure(matrix, names);
}

std::vector<std::string> draw_run(const std::filesystem::path& folder, const training::History& history,
                                  const Measures& measures) {
  std::vector<std::string> written;
  if (!history.empty())
    for (const std::string& name : columns_to_draw(history))
      save_both(training::history_chart(history, name), folder, name, written);
  if (!measures.truth.empty()) {
    const metrics::ConfusionMatrix matrix = confusion(measures);
    write_confusion(folder / "confusion.csv", matrix, measures.classes);
    written.push_back("confusion.csv");
    save_both(confusion_figure(matrix, measures.classes), folder, "confusion", written);
  }
  return written;
}

}  // namespace systole::cli
