// Whether something holds of all elements of a product is said by the kernel that makes it: where it stands
// in a Program, and that it is right on every device, run after run.

#include <gtest/gtest.h>

#include <array>
#include <limits>
#include <vector>

#include "compile/program.h"
#include "model_devices.h"
#include "systole/ir/text.h"
#include "systole/systole.h"

namespace systole {
namespace {

class Judging final : public lower::Target {
 public:
  explicit Judging(bool judges) : judges_(judges) {}
  std::string_view name() const override { return "judging"; }
  lower::KernelLimits limits() const override { return {.judges = judges_}; }

 private:
  const bool judges_;
};

std::vector<std::string> kinds(const ir::Graph& graph, bool judges = true) {
  std::vector<std::string> found;
  const lower::Program program = lower::make_program(graph, Judging(judges));
  lower::verify(program);
  for (const lower::Step& step : program.steps) found.emplace_back(name(step.group));
  return found;
}

using Kinds = std::vector<std::string>;

// A weight's step, if its gradient is finite and nobody said no; and whether it was made.
const char* const kStep = R"(systole.ir 1
graph @main(%a: f32[64,30], %b: f32[64,20], %w: f32[30,20], %no: bool[]) {
  %0 = dot_general(%a, %b) {a_contract=[0], b_contract=[0]} : f32[30,20]
  %1 = is_finite(%0) : bool[30,20]
  %2 = reduce(%1) {kind=bitwise_and, axes=[0,1]} : bool[]
  %3 = bitwise_not(%no) : bool[]
  %4 = bitwise_and(%2, %3) : bool[]
  %5 = broadcast(%4) {shape=[30,20], axes=[]} : bool[30,20]
  %6 = sub(%w, %0) : f32[30,20]
  %7 = select(%5, %6, %w) : f32[30,20]
  %8 = bitwise_not(%4) : bool[]
  return %7, %8
})";

TEST(Judgement, IsTheProductsAndWhatFollowsFromItIsPartOfTheStepThatReadsIt) {
  const ir::Graph graph = ir::parse(kStep);
  // What is presumed, the product, and one kernel for the rest; else the product is read for it once more.
  EXPECT_EQ(kinds(graph), (Kinds{"map", "contraction", "map"}));
  EXPECT_EQ(kinds(graph, false), (Kinds{"contraction", "rows"}));
}

TEST(Judgement, OfSomeElementsOrByOtherMeansIsLeftToRows) {
  const auto with = [](const std::string& reduction) {
    return ir::parse(
        "systole.ir 1\ngraph @main(%a: f32[64,30], %b: f32[64,20]) {\n"
        "  %0 = dot_general(%a, %b) {a_contract=[0], b_contract=[0]} : f32[30,20]\n"
        "  %1 = is_finite(%0) : bool[30,20]\n  " +
        reduction + "\n  return %0, %2\n}");
  };
  const Kinds judged{"map", "contraction"}, left{"contraction", "rows"};
  EXPECT_EQ(kinds(with("%2 = reduce(%1) {kind=bitwise_and, axes=[0,1]} : bool[]")), judged);
  EXPECT_EQ(kinds(with("%2 = reduce(%1) {kind=bitwise_and, axes=[0]} : bool[20]")), left);
  EXPECT_EQ(kinds(with("%2 = reduce(%1) {kind=bitwise_or, axes=[0,1]} : bool[]")), left);
}

class JudgementOn : public ModelDevice {};

TEST_P(JudgementOn, IsRightRunAfterRun) {
  constexpr float kInf = std::numeric_limits<float>::infinity(),
                  kNan = std::numeric_limits<float>::quiet_NaN();
  for (const auto& [rows, columns, depth] : std::vector<std::array<std::int64_t, 3>>{
           {1, 1, 1}, {30, 20, 64}, {128, 784, 64}, {33, 70, 512}, {5, 3, 0}}) {
    const auto step = compile([](const Tensor& a, const Tensor& b, const Tensor& w, const Tensor& no) {
      const Tensor product = matmul(transpose(a, {1, 0}), b);
      const Tensor goes_on = all(is_finite(product)) && !no;
      return std::vector<Tensor>{where(goes_on, w - product, w), goes_on};
    });
    const Tensor b(Literal::full({DType::f32, {depth, columns}}, 1)),
        w(Literal::full({DType::f32, {rows, columns}}, 5));
    const auto expect = [&](float first, bool refuses, bool goes_on) {
      std::vector<float> numbers_a(static_cast<std::size_t>(depth * rows), 0.0f);
      if (!numbers_a.empty()) numbers_a.back() = first;
      const std::vector<Tensor> result =
          step(Tensor(Literal::of<float>({depth, rows}, numbers_a)), b, w, Tensor(Literal::scalar(refuses)));
      EXPECT_EQ(result[1].item<bool>(), goes_on) << rows << " by " << columns << ", " << first;
      // Only the last row of the product is not 0.
      const std::vector<float> numbers = result[0].to_vector<float>();
      EXPECT_EQ(numbers.back(), goes_on && depth > 0 ? 5 - first : 5);
      EXPECT_EQ(numbers.front(), goes_on && depth > 0 && rows == 1 ? 5 - first : 5);
    };
    for (int round = 0; round < 3; ++round) {  // by steps, captured, launched
      expect(2, false, true);
      expect(depth > 0 ? kNan : 2, false, depth == 0);
      expect(3, true, false);
      expect(depth > 0 ? kInf : 2, false, depth == 0);
      expect(4, false, true);
    }
  }
}

// Every turn presumes anew while the turn before may still read what was judged there.
TEST_P(JudgementOn, IsThatOfItsTurn) {
  constexpr std::int64_t kTurns = 7, kDepth = 64, kRows = 40, kColumns = 130;
  Variable w(Tensor(Literal::full({DType::f32, {kRows, kColumns}}, 0)), "w");
  const auto step = compile([&](const Tensor& a, const Tensor& b) {
    const Tensor product = matmul(transpose(a, {1, 0}), b);
    const Tensor goes_on = all(is_finite(product));
    w.assign(where(goes_on, w + product, w.value()));
    return 1 - goes_on.to(DType::f32);
  });
  const Tensor b(Literal::full({DType::f32, {kTurns, kDepth, kColumns}}, 1));
  for (int round = 0; round < 4; ++round) {  // by steps, captured, launched
    for (const std::vector<std::int64_t>& bad :
         std::vector<std::vector<std::int64_t>>{{}, {0}, {3, 4}, {kTurns - 1}}) {
      std::vector<float> a(kTurns * kDepth * kRows, 1.0f), expected(kTurns, 0.0f);
      for (const std::int64_t turn : bad) {
        a[static_cast<std::size_t>((turn * kDepth + 5) * kRows + 7)] = std::numeric_limits<float>::infinity();
        expected[static_cast<std::size_t>(turn)] = 1;
      }
      w.assign(Tensor(Literal::full({DType::f32, {kRows, kColumns}}, 0)));
      const Tensor refused = step.many(Tensor(Literal::of<float>({kTurns, kDepth, kRows}, a)), b);
      EXPECT_EQ(refused.to_vector<float>(), expected);
      const auto turns = static_cast<float>(kTurns - std::ssize(bad));
      EXPECT_EQ(w.value().to_vector<float>(),
                std::vector<float>(kRows * kColumns, turns * static_cast<float>(kDepth)));
    }
  }
}

INSTANTIATE_TEST_SUITE_P(On, JudgementOn, model_devices(), device_suffix);

}  // namespace
}  // namespace systole
