// Tables with faults as people have them: each is named by file, line and column when the table is read, or
// a warning says what was made of it.

#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "base/log.h"
#include "command_check.h"
#include "data/csv_columns.h"
#include "data/open.h"
#include "error_check.h"
#include "systole/data/sets.h"
#include "warnings_check.h"

namespace systole {
namespace {

class Tables : public CommandFolder {
 protected:
  // A table that can be trained on: age 20 to 39, income, and whether something was bought; row `at` is
  // `instead`. Row 0 is in line 2.
  static std::string people(int at = -1, const std::string& instead = "") {
    std::string table = "age,income,bought\n";
    for (int i = 0; i < 60; ++i) {
      const std::string row = std::to_string(20 + i * 7 % 20) + "," + std::to_string(1000 + i * 37 % 901) +
                              "," + (i % 3 == 0 ? "yes" : "no");
      table += (i == at ? instead : row) + "\n";
    }
    return table;
  }
  void expect_error(const Outcome& outcome, const std::string& part) {
    EXPECT_EQ(outcome.code, 1) << outcome.out << outcome.err;
    EXPECT_NE(outcome.err.find(part), std::string::npos) << outcome.err;
  }
};

constexpr const char* kTrain =
    "train --model mlp --set train.epochs=1 --set train.plots=false --out run --data ";

TEST_F(Tables, TextAmongNumbersIsNamedByLineAndColumn) {
  const data::CsvFeatures numbers{{.name = "age"}, {.name = "income"}};
  write("z.csv", "age,income\n30,1000\n31,abc\n32,\n33,def\n");
  const std::string file = (folder_ / "z.csv").string();
  EXPECT_EQ(error_of(ErrorKind::kDType, [&] { data::read_features(file, numbers); }),
            file + ", line 3, column 'income': expected a number, got 'abc'");
  EXPECT_EQ(
      error_of(ErrorKind::kDType,
               [&] { data::csv(file, {.label = "income", .regression = true, .skip_unlabelled = true}); }),
      file + ", line 3, column 'income': expected a number, got 'abc'");
  EXPECT_EQ(error_of(ErrorKind::kParse,
                     [&] { data::read_csv(file, {.types = {{"income", data::CsvType::kNumber}}}); }),
            file + ", line 3, column 'income': expected a number, got 'abc'");
}

TEST_F(Tables, AnInfiniteCellIsRefusedWhenTheTableIsRead) {
  for (const char* cell : {"inf", "-inf", "1e39", "Infinity"}) {
    write("people.csv", people(23, std::string("30,") + cell + ",no"));
    const std::string file = (folder_ / "people.csv").string();
    const std::string text =
        error_of(ErrorKind::kInvalidArgument, [&] { data::csv(file, {.label = "bought"}); });
    EXPECT_TRUE(text.starts_with(file + ", line 25, column 'income': expected a finite number")) << text;
    EXPECT_TRUE(text.ends_with(std::string("got ") + cell)) << text;
    EXPECT_NE(text.find("drop=income"), std::string::npos) << text;
    const std::string label = error_of(ErrorKind::kInvalidArgument, [&] {
      data::csv(file, {.label = "income", .drop = {"bought"}, .regression = true});
    });
    EXPECT_NE(label.find(", line 25, column 'income'"), std::string::npos) << label;
    EXPECT_EQ(data::csv(file, {.label = "bought", .drop = {"income"}}).size(), 60);
    EXPECT_EQ(data::csv(file, {.label = "bought", .allow_infinite = true}).size(), 60);
    EXPECT_EQ(data::open("csv:" + file + "?label=bought&allow_infinite").train.size(), 60);
  }
}

TEST_F(Tables, NumbersWithOneMistakeAreNamedInAWarning) {
  write("people.csv", people(23, "4O,1000,no"));
  const std::string file = (folder_ / "people.csv").string();
  const std::vector<std::string> lines =
      warnings_of([&] { data::csv(file, {.label = "bought", .drop = {"income"}}); });
  ASSERT_EQ(lines.size(), 1U);
  EXPECT_EQ(lines[0], file +
                          ": column age is text, one-hot of 21 values: line 25 holds '4O', and 59 of 60 "
                          "cells are numbers; correct the cell, or empty it where the number is missing; "
                          "text=age says that the column is text");
  EXPECT_TRUE(warnings_of([&] { data::open("csv:" + file + "?label=bought&text=age"); }).empty());
  EXPECT_EQ(error_of(ErrorKind::kParse, [&] { data::open("csv:" + file + "?label=bought&number=age"); }),
            file + ", line 25, column 'age': expected a number, got '4O'");
  EXPECT_EQ(warnings_of([&] { data::csv(file, {.label = "age"}); }).size(), 1U);
  // The error for too many values of text names the cell, too.
  write("people.csv", people(23, "30,l000,no"));
  EXPECT_EQ(error_of(ErrorKind::kDType, [&] { data::csv(file, {.label = "bought"}); }),
            file + ", line 25, column 'income': expected a number, got 'l000'");
  // A tenth and more of text is text.
  std::string grades = "grade,bought\n";
  for (int i = 0; i < 40; ++i)
    grades += (i % 7 == 0 ? "A" : std::to_string(i % 6)) + "," + (i % 2 == 0 ? "yes\n" : "no\n");
  write("grades.csv", grades);
  EXPECT_TRUE(warnings_of([&] { data::csv(folder_ / "grades.csv"); }).empty());
}

TEST_F(Tables, TwoColumnsOfOneNameAreRefused) {
  write("twice.csv", "age,income,age,bought\n30,1,31,yes\n32,2,33,no\n");
  const std::string file = (folder_ / "twice.csv").string();
  const std::string message = file + ": columns 0, 2 are all named 'age'; expected another name for each";
  const std::string text =
      error_of(ErrorKind::kInvalidArgument, [&] { data::csv(file, {.label = "bought"}); });
  EXPECT_TRUE(text.starts_with(message)) << text;
  EXPECT_NE(text.find("drop=age"), std::string::npos) << text;
  error_of(ErrorKind::kInvalidArgument, [&] { data::csv(file, {.label = "age", .features = {"income"}}); });
  const data::Source rest = data::csv(file, {.label = "bought", .drop = {"age"}});
  EXPECT_EQ(rest.info().fields[0].type.shape, (Shape{1}));
  EXPECT_TRUE(error_of(ErrorKind::kInvalidArgument, [&] {
                data::read_features(file, {{.name = "income"}, {.name = "age"}});
              }).starts_with(message));
  EXPECT_EQ(data::read_features(file, {{.name = "income"}}).shape(), (Shape{2, 1}));
}

TEST_F(Tables, AFileMayHaveAQuestionMarkInItsName) {
  const std::string in = "csv:" + folder_.string() + "/";
  for (const char* name : {"a&b?.csv", "really?.csv", "what?yes", "?"}) write(name, people());
  EXPECT_EQ(data::open(in + "a&b?.csv?label=bought&drop=age").train.info().fields[0].type.shape, (Shape{1}));
  EXPECT_EQ(data::open(in + "really?.csv").train.size(), 60);
  EXPECT_EQ(data::open(in + "what?yes?").train.size(), 60);
  EXPECT_EQ(data::open(in + "what?yes?label=bought").train.size(), 60);
  EXPECT_EQ(data::open(in + "??label=bought").train.size(), 60);
  const std::string text = error_of(ErrorKind::kNotFound, [&] { data::open(in + "what?yes"); });
  EXPECT_NE(text.find("there is no option 'yes'"), std::string::npos) << text;
  EXPECT_NE(text.find("/what?yes?' for the file of that name"), std::string::npos) << text;
  // A question mark in the name of a column.
  write("sold.csv", "age,sold?\n1,yes\n2,no\n");
  EXPECT_EQ(data::open(in + "sold.csv?label=sold?").train.size(), 2);
  EXPECT_EQ(data::parts_of("digits?train=20").options, "train=20");
  EXPECT_EQ(data::parts_of("digits?train=20").place, "");
}

#ifdef SYSTOLE_COMMAND

TEST_F(Tables, TrainingWarnsOfNumbersWithOneMistake) {
  write("people.csv", people(23, "4O,1000,no"));
  const Outcome trained = run(std::string(kTrain) + "'csv:people.csv?label=bought'");
  EXPECT_EQ(trained.code, 0) << trained.err;
  EXPECT_NE(trained.err.find("people.csv: column age is text, one-hot of 21 values: line 25 holds '4O'"),
            std::string::npos)
      << trained.err;
  const Outcome info = run("data info 'csv:people.csv?label=bought'");
  EXPECT_NE(info.out.find("feature, one-hot of 21 values; line 25 holds '4O', and 59 of 60"),
            std::string::npos)
      << info.out;
}

TEST_F(Tables, TrainingAndDataInfoNameAnInfiniteCell) {
  write("people.csv", people(23, "30,inf,no"));
  const char* const place = "people.csv, line 25, column 'income': expected a finite number";
  expect_error(run(std::string(kTrain) + "'csv:people.csv?label=bought'"), place);
  const Outcome info = run("data info 'csv:people.csv?label=bought'");
  expect_error(info, place);
  EXPECT_NE(info.out.find("income  number        0        feature; inf in line 25"), std::string::npos)
      << info.out;
  // A model that is trained may be asked; what it says is looked at.
  write("people.csv", people());
  ASSERT_EQ(run(std::string(kTrain) + "'csv:people.csv?label=bought'").code, 0);
  write("rows.csv", "age,income\n30,1000\n30,inf\n");
  const Outcome predicted = run("predict run rows.csv");
  EXPECT_EQ(predicted.code, 0) << predicted.err;
  EXPECT_NE(predicted.err.find("rows.csv, line 3, column 'income'"), std::string::npos) << predicted.err;
}

TEST_F(Tables, AMissingNumberNeedsNormalisation) {
  write("people.csv", people(4, "30,,no"));
  EXPECT_EQ(run(std::string(kTrain) + "'csv:people.csv?label=bought'").code, 0);
  const Outcome refused =
      run("train --model mlp --out other --set data.normalise=none --data 'csv:people.csv?label=bought'");
  expect_error(refused, "people.csv, line 6, column 'income', which is missing");
  expect_error(refused, "data.normalise");
}

TEST_F(Tables, PredictAndEvaluateNameTextAmongNumbers) {
  write("people.csv", people());
  ASSERT_EQ(run(std::string(kTrain) + "'csv:people.csv?label=bought'").code, 0);
  write("z.csv", "age,income,bought\n30,1000,yes\n31,abc,no\n");
  const char* const message = "z.csv, line 3, column 'income': expected a number, got 'abc'";
  expect_error(run("predict run z.csv"), message);
  expect_error(run("evaluate run --data 'csv:z.csv?label=bought'"), message);
}

#endif

}  // namespace
}  // namespace systole
