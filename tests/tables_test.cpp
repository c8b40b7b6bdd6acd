// Tables with faults as people have them: each is named by file, line and column when the table is read, or
// a warning says what was made of it.

#include <gtest/gtest.h>

#include <string>

#include "command_check.h"
#include "data/csv_columns.h"
#include "error_check.h"
#include "systole/data/sets.h"

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

#ifdef SYSTOLE_COMMAND

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
