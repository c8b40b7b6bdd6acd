// What contractions cost on a matrix unit, calculated by hand: padding, loops, shardings, dtypes.

#include <gtest/gtest.h>

#include <string>

#include "backend/tpu_work.h"
#include "systole/ir/text.h"

namespace systole::tpu {
namespace {

Work work_of_text(const std::string& body, int matrix_unit = 128) {
  return work_of(ir::parse("systole.ir 1\n\n" + body), matrix_unit);
}

TEST(TpuWork, sizes_that_fill_the_unit_waste_nothing) {
  const Work work = work_of_text(R"(graph @g(%a: bf16[48,256], %b: bf16[256,128]) {
  %c = dot_general(%a, %b) {a_contract=[1], b_contract=[0]}
  return %c
}
)");
  EXPECT_EQ(work.flops(), 2.0 * 48 * 256 * 128);
  EXPECT_EQ(work.flops_of(DType::bf16), work.flops());
  EXPECT_EQ(work.repeated_flops(), 0);
  EXPECT_TRUE(work.waste().empty());
  EXPECT_TRUE(work.advice(runtime::Math::f32).empty());
}

// Of 104·128·128 and, with the sides swapped, 128·16·128, the second is less.
TEST(TpuWork, the_better_way_round_is_padded) {
  const char* const text = R"(graph @g(%a: f32[100,27], %b: f32[27,10]) {
  %c = dot_general(%a, %b) {a_contract=[1], b_contract=[0]}
  return %c
}
)";
  const std::vector<Waste> waste = work_of_text(text).waste();
  ASSERT_EQ(waste.size(), 1u);
  EXPECT_EQ(waste[0].count, 1);
  EXPECT_EQ(waste[0].flops, 2.0 * 100 * 27 * 10);
  EXPECT_NEAR(waste[0].padded_flops, 2.0 * 128 * 128 * 16, 1e-6);
  EXPECT_EQ(waste[0].where, "dot_general f32[100,27] f32[27,10]");
  EXPECT_EQ(waste[0].advice,
            "K 27 is done as 128, N 10 is done as 16, M 100 is done as 128: a multiple of 128 fills it");
  // 104·256·256 against 256·16·256 on a unit of twice the side.
  EXPECT_NEAR(work_of_text(text, 256).waste().at(0).padded_flops, 2.0 * 256 * 256 * 16, 1e-6);
}

TEST(TpuWork, a_device_does_its_share_and_small_shares_are_padded) {
  const Work work =
      work_of_text(R"(graph @g(%x: f32[4,2,64] sharding([data], [], []), %w: f32[128,128]) mesh(data=4) {
  %rows = reshape(%x) {shape=[4,128]}
  %y = dot_general(%rows, %w) {a_contract=[1], b_contract=[0]}
  %g = dot_general(%rows, %y) {a_contract=[0], b_contract=[0]}
  return %y, %g
}
)");
  const std::vector<Waste> waste = work.waste();
  ASSERT_EQ(waste.size(), 2u);
  // One row of eight; then a sum over one row in place of 128.
  EXPECT_EQ(waste[0].flops, 2.0 * 128 * 128);
  EXPECT_NEAR(waste[0].padded_flops, 128 * waste[0].flops, 1e-3);
  EXPECT_EQ(waste[0].advice, "K 1 is done as 128: a larger batch per device fills it");
  EXPECT_EQ(waste[1].flops, 2.0 * 128 * 128);
  EXPECT_NEAR(waste[1].padded_flops, 8 * waste[1].flops, 1e-3);
  EXPECT_EQ(waste[1].advice, "M 1 is done as 8: a larger batch per device fills it");
}

TEST(TpuWork, a_loop_counts_as_often_as_it_runs) {
  const Work work = work_of_text(R"(graph @step(%h: bf16[16,128], %w: bf16[128,96]) {
  %y = dot_general(%h, %w) {a_contract=[1], b_contract=[0]}
  return %h, %y
}

graph @g(%h: bf16[16,128], %w: bf16[128,96]) {
  %last, %all = scan(%h, %w) {length=20, carries=1} @step
  return %last, %all
}
)");
  EXPECT_EQ(work.flops(), 20 * 2.0 * 16 * 128 * 96);
  EXPECT_EQ(work.repeated_flops(), 19 * 2.0 * 16 * 128 * 96);
  ASSERT_EQ(work.waste().size(), 1u);
  EXPECT_EQ(work.waste()[0].count, 20);
  // 16·128·128 against 128·128·96: 16 rows of two bytes are a tile.
  EXPECT_NEAR(work.waste()[0].padded_flops, 20 * 2.0 * 16 * 128 * 128, 1e-3);
}

// The inner product runs 5·4 times of which a compiler that counts bodies once sees one, the outer one 5.
TEST(TpuWork, rounds_of_nested_loops_after_the_first_are_known) {
  const Work work = work_of_text(R"(graph @inner(%h: bf16[16,128], %w: bf16[128,128]) {
  %y = dot_general(%h, %w) {a_contract=[1], b_contract=[0]}
  return %y
}

graph @outer(%h: bf16[16,128], %w: bf16[128,128]) {
  %i = scan(%h, %w) {length=4, carries=1} @inner
  %y = dot_general(%i, %w) {a_contract=[1], b_contract=[0]}
  return %y
}

graph @g(%h: bf16[16,128], %w: bf16[128,128]) {
  %o = scan(%h, %w) {length=5, carries=1} @outer
  %none = scan(%o, %w) {length=0, carries=1} @inner
  %y = dot_general(%none, %w) {a_contract=[1], b_contract=[0]}
  return %y
}
)");
  constexpr double kOne = 2.0 * 16 * 128 * 128;
  EXPECT_EQ(work.flops(), (20 + 5 + 1) * kOne);
  EXPECT_EQ(work.repeated_flops(), (19 + 4) * kOne);
}

// 8 places under 3 taps meet 8·3 - 2 elements along each axis: the rest is padding.
TEST(TpuWork, a_convolution_counts_what_it_multiplies) {
  const Work work = work_of_text(R"(graph @g(%x: f32[2,8,8,3], %w: f32[3,3,3,16]) {
  %y = convolution(%x, %w) {layout="b01f_01io->b01f", pad_low=[1,1], pad_high=[1,1]}
  return %y
}
)");
  const double flops = 2.0 * 2 * 16 * 3 * 22 * 22;
  EXPECT_EQ(work.flops(), flops);
  // M 2·64, N 16, K 27: 128·128·128 against 128·16·128.
  ASSERT_EQ(work.waste().size(), 1u);
  EXPECT_NEAR(work.waste()[0].padded_flops, flops * 128 / 27, 1e-3);
}

// The way back of a stride of 2 puts holes between elements, which are not multiplied: 4 elements meet 3
// taps.
TEST(TpuWork, holes_of_a_dilated_operand_are_not_counted) {
  const Work work = work_of_text(R"(graph @g(%x: f32[1,4,8], %w: f32[3,8,8]) {
  %y = convolution(%x, %w) {layout="b0f_0io->b0f", pad_low=[2], pad_high=[2], operand_dilation=[2]}
  return %y
}
)");
  EXPECT_EQ(work.flops(), 2.0 * 8 * 8 * 4 * 3);
}

TEST(TpuWork, advice_is_given_on_types_the_unit_has_not) {
  const Work work = work_of_text(R"(graph @g(%a: f64[128,128], %b: f32[128,128], %c: f16[128,128]) {
  %x = dot_general(%b, %b) {a_contract=[1], b_contract=[0]}
  %y = dot_general(%c, %c) {a_contract=[1], b_contract=[0]}
  return %a, %x, %y
}
)");
  const std::vector<std::string> advice = work.advice(runtime::Math::f32);
  ASSERT_EQ(advice.size(), 3u);
  EXPECT_NE(advice[0].find("f64 is emulated"), std::string::npos);
  EXPECT_NE(advice[1].find("50 % of the FLOPs are f32"), std::string::npos);
  EXPECT_NE(advice[2].find("50 % of the FLOPs are f16"), std::string::npos);
  EXPECT_EQ(work.advice(runtime::Math::tf32).size(), 2u);  // one pass, as asked
}

}  // namespace
}  // namespace systole::tpu
