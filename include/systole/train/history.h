#pragma once

// What a run gave, epoch by epoch: columns by name, in the order in which they first came.
//
//   training::History history;
//   history.add({{"loss", 0.31}, {"accuracy", 0.91}});
//   history.add({{"loss", 0.14}, {"accuracy", 0.96}, {"val_accuracy", 0.97}});
//   history["accuracy"].back();              // 0.96
//   history.write_csv("run/history.csv");    // epoch,loss,accuracy,val_accuracy …
//
// A value that was not measured in an epoch is missing: no number, NaN in a column and nothing between two
// commas. A loss that became NaN is a number, written "nan".

#include <cstddef>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "systole/base/export.h"

namespace systole::training {

class SYSTOLE_API History {
 public:
  using Row = std::vector<std::pair<std::string, double>>;

  // One more epoch; a new name is a new column. Throws kInvalidArgument when a name is empty, "epoch", given
  // twice or not printable.
  void add(const Row& values);
  // A value of an epoch that is there already, counted from 0; a new name is a new column.
  void set(std::size_t epoch, std::string_view name, double value);

  std::size_t epochs() const { return epochs_; }
  bool empty() const { return epochs_ == 0; }
  const std::vector<std::string>& names() const& { return names_; }
  std::vector<std::string> names() && { return std::move(names_); }
  bool has(std::string_view name) const;

  // A column, a value per epoch; NaN where it is missing. Throws kNotFound with the nearest name.
  std::vector<double> operator[](std::string_view name) const;
  std::optional<double> at(std::size_t epoch, std::string_view name) const;
  std::optional<double> last(std::string_view name) const;  // the latest one that is not missing
  // The epoch with the best value of a column, missing and NaN left out.
  std::optional<std::size_t> best(std::string_view name, bool higher_is_better) const;

  // A header line, then a line per epoch with its number from 1; as many digits as a double needs. The file
  // is replaced as a whole. Reading leaves a column "epoch" out and throws kParse with file and line.
  std::string to_csv() const;
  void write_csv(const std::filesystem::path& file) const;
  static History parse_csv(std::string_view text, std::string_view file = "csv");
  static History read_csv(const std::filesystem::path& file);

  bool operator==(const History& other) const;  // NaN equals NaN

 private:
  std::size_t column(std::string_view name) const;
  std::size_t column_or_new(std::string_view name);

  std::vector<std::string> names_;
  std::vector<std::vector<std::optional<double>>> columns_;  // [name][epoch]
  std::size_t epochs_ = 0;
};

}  // namespace systole::training
