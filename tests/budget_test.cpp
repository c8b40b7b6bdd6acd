#include "base/budget.h"

#include <gtest/gtest.h>

#include <limits>

#include "error_check.h"
#include "systole/base/error.h"

namespace systole {
namespace {

TEST(Budget, LimitIsALeastAmountOrAMultipleOfTheFile) {
  EXPECT_EQ(expansion_limit(0), std::uint64_t{256} << 20);
  EXPECT_EQ(expansion_limit(412'000), std::uint64_t{256} << 20);
  EXPECT_EQ(expansion_limit(std::uint64_t{8} << 20), std::uint64_t{512} << 20);
  EXPECT_EQ(expansion_limit(std::numeric_limits<std::uint64_t>::max()), std::uint64_t{1} << 62);
}

TEST(Budget, AllDemandsShareOneLimit) {
  Budget budget("a.npz", 100, "save the arrays uncompressed");
  budget.take(60, "array x");
  budget.take(40, "array y");
  EXPECT_EQ(budget.left(), 0);
  const std::string message = error_of(ErrorKind::kLimit, [&] { budget.take(1, "array z"); });
  for (const char* part : {"a.npz", "array z", "at most 100 bytes in all; save the arrays uncompressed"})
    EXPECT_NE(message.find(part), std::string::npos) << message;
  budget.give_back(30);
  EXPECT_EQ(budget.left(), 30);
}

TEST(Budget, ADemandThatWouldWrapIsRefusedAndTakesNothing) {
  Budget budget("a.npz", 100);
  budget.take(10, "array x");
  EXPECT_THROW(budget.take(std::numeric_limits<std::uint64_t>::max(), "array y"), Error);
  EXPECT_EQ(budget.left(), 90);
}

}  // namespace
}  // namespace systole
