// Environment variables: what each takes is in one table, and a value that does not fit is a typed error that
// names the variable, never the end of the process.

#include "base/env.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <set>
#include <string>

#include "error_check.h"
#include "systole/tensor.h"

namespace systole {
namespace {

class Variables : public testing::Test {
 protected:
  static void set(const char* name, const std::string& value) { ::setenv(name, value.c_str(), 1); }
  ~Variables() override {
    for (const env::Variable& variable : env::variables()) ::unsetenv(variable.name);
  }
};

const env::Variable& entry(const std::string& name) {
  for (const env::Variable& variable : env::variables())
    if (variable.name == name) return variable;
  throw Error(ErrorKind::kNotFound, name, "not in the table");
}

TEST_F(Variables, AWrongValueOfEachKindIsATypedErrorThatNamesIt) {
  const std::pair<const char*, std::set<std::string>> wrong[] = {
      {"SYSTOLE_THREADS", {"abc", "-1", "4G", "1025", "1.5", " 4", "4 ", "0x4", "99999999999999999999"}},
      {"SYSTOLE_CACHE", {"maybe", "2", "/dir", " 1"}},
      {"SYSTOLE_CACHE_LIMIT", {"G", "4 G", "4GB", "-1", "1.5G", "17179869184G"}},
      {"SYSTOLE_CACHE_MIN_MS", {"-1", "fast", "86400001"}},
      {"SYSTOLE_PJRT_TIMEOUT", {"0", "-1", "soon", "nan", "inf", "1e7"}},
      {"SYSTOLE_TPU_TIMEOUT", {"0", "a day"}},
      {"SYSTOLE_MATH", {"f16", "TF32", "f32 "}},
      {"SYSTOLE_JIT", {"gcc", "1"}},
      {"SYSTOLE_ISA", {"avx9"}},
      {"SYSTOLE_LOG", {"loud", "3"}}};
  for (const auto& [name, values] : wrong)
    for (const std::string& value : values) {
      set(name, value);
      const std::string message = error_of(ErrorKind::kInvalidArgument, [] { env::check(); });
      EXPECT_NE(message.find(std::string(name) + ": the environment variable has a wrong value; expected " +
                             env::kind_in_words(entry(name)) + ", got '" + value + "'"),
                std::string::npos)
          << message;
      ::unsetenv(name);
    }
}

TEST_F(Variables, EveryKindTakesWhatItSays) {
  const std::pair<const char*, std::set<std::string>> right[] = {
      {"SYSTOLE_THREADS", {"", "0", "1", "1024"}},
      {"SYSTOLE_CACHE", {"", "1", "0", "on", "OFF", "Yes"}},
      {"SYSTOLE_CACHE_LIMIT", {"0", "5", "500M", "4G"}},
      {"SYSTOLE_CACHE_MIN_MS", {"0", "86400000"}},
      {"SYSTOLE_PJRT_TIMEOUT", {"0.5", "60", "1e3"}},
      {"SYSTOLE_MATH", {"f32", "tf32"}},
      {"SYSTOLE_LOG", {"debug", "info", "warn", "off"}},
      {"SYSTOLE_ONEDNN", {"0", "/x/libdnnl.so"}}};
  for (const auto& [name, values] : right)
    for (const std::string& value : values) {
      set(name, value);
      EXPECT_NO_THROW(env::check()) << name << "=" << value;
      ::unsetenv(name);
    }
  set("SYSTOLE_CACHE_LIMIT", "3K");
  EXPECT_EQ(env::size("SYSTOLE_CACHE_LIMIT"), 3072u);
  set("SYSTOLE_PJRT_TIMEOUT", "0.25");
  EXPECT_EQ(env::seconds("SYSTOLE_PJRT_TIMEOUT"), 0.25);
  EXPECT_EQ(env::word("SYSTOLE_MATH"), std::nullopt);
  EXPECT_TRUE(env::flag("SYSTOLE_TUNE", true));
}

TEST_F(Variables, OneThatTheTableLacksIsABug) {
  error_of(ErrorKind::kInternal, [] { env::text("SYSTOLE_NO_SUCH"); });
  error_of(ErrorKind::kInternal, [] { env::flag("SYSTOLE_THREADS"); });
  EXPECT_EQ(env::text("A_VARIABLE_OF_ANOTHER_PROGRAM"), std::nullopt);
}

// A program that catches errors goes on after one, whichever it met.
TEST_F(Variables, AProgramMeetsTheErrorWhereItFirstComputes) {
  set("SYSTOLE_THREADS", "4G");
  const auto compute = [] { (Tensor(Literal::of<float>({2}, {1, 2})) + 1.0f).to_vector<float>(); };
  error_of(ErrorKind::kInvalidArgument, compute);
  error_of(ErrorKind::kInvalidArgument, compute);
  ::unsetenv("SYSTOLE_THREADS");
  EXPECT_NO_THROW(compute());
}

}  // namespace
}  // namespace systole
