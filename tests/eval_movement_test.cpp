// Movement ops: hand-made cases for what clamps, skips, overlaps or is empty.

#include <gtest/gtest.h>

#include <cstdint>

#include "eval_check.h"

namespace systole::eval_check {
namespace {

using ir::Combine;
using ir::GatherAttrs;
using ir::Op;
using ir::ScatterAttrs;
using i32 = std::int32_t;
using u64 = std::uint64_t;

TEST(EvalMovement, ReshapeTransposeBroadcastReverse) {
  const Literal x = make<i32>({2, 3}, {1, 2, 3, 4, 5, 6});
  expect_same(run(Op::reshape, {x}, ir::ReshapeAttrs{{3, 2}}), make<i32>({3, 2}, {1, 2, 3, 4, 5, 6}));
  expect_same(run(Op::transpose, {x}, ir::TransposeAttrs{{1, 0}}), make<i32>({3, 2}, {1, 4, 2, 5, 3, 6}));
  expect_same(run(Op::reverse, {x}, ir::AxesAttrs{{1}}), make<i32>({2, 3}, {3, 2, 1, 6, 5, 4}));
  expect_same(run(Op::broadcast, {make<i32>({2, 1}, {7, 8})}, ir::BroadcastAttrs{{2, 2, 3}, {1, 2}}),
              make<i32>({2, 2, 3}, {7, 7, 7, 8, 8, 8, 7, 7, 7, 8, 8, 8}));
  expect_same(run(Op::broadcast, {scalar<bool>(true)}, ir::BroadcastAttrs{{2}, {}}), row<bool>({true, true}));
}

TEST(EvalMovement, SliceStridesPastTheEndOfAnAxis) {
  const Literal x = row<i32>({0, 1, 2, 3, 4, 5, 6});
  expect_row<i32>(run(Op::slice, {x}, ir::SliceAttrs{{1}, {7}, {3}}), {1, 4});
  expect_row<i32>(run(Op::slice, {x}, ir::SliceAttrs{{6}, {7}, {INT64_C(1) << 62}}), {6});
  expect_row<i32>(run(Op::slice, {x}, ir::SliceAttrs{{3}, {3}, {1}}), {});
}

TEST(EvalMovement, PadFillsSpreadsAndRemoves) {
  const Literal x = row<i32>({1, 2, 3}), nine = scalar<i32>(9);
  const auto pad = [&](std::int64_t low, std::int64_t high, std::int64_t interior) {
    return run(Op::pad, {x, nine}, ir::PadAttrs{{low}, {high}, {interior}});
  };
  expect_row<i32>(pad(1, 2, 1), {9, 1, 9, 2, 9, 3, 9, 9});
  expect_row<i32>(pad(-1, 0, 1), {9, 2, 9, 3});  // 1 9 2 9 3 without its first
  expect_row<i32>(pad(-2, -2, 1), {2});
  expect_row<i32>(pad(-3, 2, 0), {9, 9});  // all elements removed
  expect_row<i32>(pad(-5, 4, 0), {9, 9});
  expect_row<i32>(pad(4, -5, 0), {9, 9});
  expect_row<i32>(pad(-1, -2, 0), {});
  expect_row<i32>(run(Op::pad, {Literal(Type{DType::i32, {0}}), nine}, ir::PadAttrs{{1}, {1}, {5}}), {9, 9});
}

TEST(EvalMovement, ConcatTakesEmptyParts) {
  const Literal none(Type{DType::i32, {2, 0}});
  expect_same(run(Op::concat, {none, make<i32>({2, 1}, {1, 2}), none, make<i32>({2, 2}, {3, 4, 5, 6})},
                  ir::AxisAttrs{1}),
              make<i32>({2, 3}, {1, 3, 4, 2, 5, 6}));
}

TEST(EvalMovement, DynamicSlicesClampTheirStarts) {
  const Literal x = make<i32>({2, 3}, {1, 2, 3, 4, 5, 6});
  const auto slice = [&](const Literal& i, const Literal& j) {
    return run(Op::dynamic_slice, {x, i, j}, ir::DynamicSliceAttrs{{1, 2}});
  };
  expect_same(slice(scalar<i32>(-7), scalar<i32>(9)), make<i32>({1, 2}, {2, 3}));
  expect_same(slice(scalar<u64>(~u64{0}), scalar<u64>(0)), make<i32>({1, 2}, {4, 5}));
  expect_same(run(Op::dynamic_update_slice, {x, make<i32>({1, 2}, {8, 9}), scalar<i32>(5), scalar<i32>(-5)}),
              make<i32>({2, 3}, {1, 2, 3, 8, 9, 6}));
  expect_same(
      run(Op::dynamic_update_slice, {x, Literal(Type{DType::i32, {0, 2}}), scalar<i32>(0), scalar<i32>(0)}),
      x);
}

TEST(EvalGather, TakesRowsAndClampsIndices) {
  const Literal x = make<i32>({3, 2}, {1, 2, 3, 4, 5, 6});
  const GatherAttrs rows{.offset_axes = {1},
                         .collapsed_axes = {0},
                         .start_index_map = {0},
                         .index_vector_axis = 1,
                         .slice_sizes = {1, 2}};
  expect_same(run(Op::gather, {x, row<i32>({2, 0, -4, 99})}, rows),
              make<i32>({4, 2}, {5, 6, 1, 2, 1, 2, 5, 6}));
  expect_same(run(Op::gather, {x, row<u64>({~u64{0}})}, rows), make<i32>({1, 2}, {5, 6}));
}

TEST(EvalGather, ClampsSoThatTheWholeSliceLiesInside) {
  const Literal x = row<i32>({0, 1, 2, 3, 4});
  const GatherAttrs windows{
      .offset_axes = {1}, .start_index_map = {0}, .index_vector_axis = 1, .slice_sizes = {3}};
  expect_same(run(Op::gather, {x, row<i32>({1, 4, -1})}, windows),
              make<i32>({3, 3}, {1, 2, 3, 2, 3, 4, 0, 1, 2}));
}

TEST(EvalGather, PairsBatchAxes) {
  // result[b, i] = x[b, indices[b, i]], with the index vectors along axis 0.
  const Literal x = make<i32>({2, 3}, {10, 11, 12, 20, 21, 22}), indices = make<i32>({1, 2, 2}, {2, 0, 1, 1});
  const GatherAttrs along{.collapsed_axes = {1},
                          .operand_batch_axes = {0},
                          .index_batch_axes = {1},
                          .start_index_map = {1},
                          .index_vector_axis = 0,
                          .slice_sizes = {1, 1}};
  expect_same(run(Op::gather, {x, indices}, along), make<i32>({2, 2}, {12, 10, 21, 21}));
}

TEST(EvalGather, FromAnEmptyOperandIsAnError) {
  const GatherAttrs rows{.offset_axes = {1},
                         .collapsed_axes = {0},
                         .start_index_map = {0},
                         .index_vector_axis = 1,
                         .slice_sizes = {0, 2}};
  try {
    run(Op::gather, {Literal(Type{DType::f32, {0, 2}}), row<i32>({0})}, rows);
    FAIL();
  } catch (const Error& e) {
    EXPECT_EQ(e.where(), "gather");
  }
}

const ScatterAttrs kElements{
    .combine = Combine::set, .inserted_axes = {0}, .index_map = {0}, .index_vector_axis = 1};

ScatterAttrs elements(Combine combine) {
  ScatterAttrs a = kElements;
  a.combine = combine;
  return a;
}

TEST(EvalScatter, LastDuplicateWinsAndOutsideIsSkipped) {
  const Literal x = row<i32>({0, 0, 0}), indices = row<i32>({1, 1, -1, 3, 0});
  expect_row<i32>(run(Op::scatter, {x, indices, row<i32>({5, 6, 7, 8, 9})}, kElements), {9, 6, 0});
  expect_row<i32>(run(Op::scatter, {x, row<u64>({~u64{0}, 2}), row<i32>({5, 6})}, kElements), {0, 0, 6});
}

TEST(EvalScatter, CombinesDuplicates) {
  const Literal x = row<i32>({1, 1, 1}), indices = row<i32>({2, 0, 2}), updates = row<i32>({3, -4, 5});
  expect_row<i32>(run(Op::scatter, {x, indices, updates}, elements(Combine::sum)), {-3, 1, 9});
  expect_row<i32>(run(Op::scatter, {x, indices, updates}, elements(Combine::prod)), {-4, 1, 15});
  expect_row<i32>(run(Op::scatter, {x, indices, updates}, elements(Combine::max)), {1, 1, 5});
  expect_row<i32>(run(Op::scatter, {x, indices, updates}, elements(Combine::min)), {-4, 1, 1});
  expect_row<float>(
      run(Op::scatter, {row<float>({1, 1}), row<i32>({0}), row<float>({kNan})}, elements(Combine::max)),
      {kNan, 1});
  expect_row<bool>(run(Op::scatter, {row<bool>({false, true}), row<i32>({0, 1}), row<bool>({true, false})},
                       elements(Combine::bitwise_or)),
                   {true, true});
}

TEST(EvalScatter, SumsOfNarrowFloatsRoundOnceWhetherFewOrManyElementsAreTouched) {
  // In bf16, 256 + 1 rounds back to 256; eight of them are 264 when rounded once.
  const Literal indices = row<i32>({0, 0, 0, 0, 0, 0, 0, 0}), ones = row<bf16>({1, 1, 1, 1, 1, 1, 1, 1});
  for (std::int64_t size : {1, 1000}) {
    const Literal x = Literal::full({DType::bf16, {size}}, 256);
    const Literal y = run(Op::scatter, {x, indices, ones}, elements(Combine::sum));
    EXPECT_EQ(static_cast<double>(y.values<bf16>()[0]), 264) << size;
    if (size > 1) {
      EXPECT_EQ(static_cast<double>(y.values<bf16>()[1]), 256);
    }
  }
}

TEST(EvalScatter, WindowsPartlyOutsideAreSkipped) {
  const Literal x = row<i32>({0, 0, 0, 0});
  const ScatterAttrs windows{
      .combine = Combine::sum, .update_window_axes = {1}, .index_map = {0}, .index_vector_axis = 1};
  expect_row<i32>(
      run(Op::scatter, {x, row<i32>({-1, 3, 9, 1}), make<i32>({4, 2}, {1, 2, 3, 4, 5, 6, 7, 8})}, windows),
      {0, 7, 8, 0});
}

TEST(EvalScatter, DuplicatesApplyInRowMajorOrderOfTheUpdates) {
  // updates[w, i] goes to element indices[i] + w: element 1 gets updates[0, 1] first, then updates[1, 0].
  const ScatterAttrs window_first{.update_window_axes = {0}, .index_map = {0}, .index_vector_axis = 1};
  expect_row<i32>(run(Op::scatter, {row<i32>({0, 0, 0}), row<i32>({0, 1}), make<i32>({2, 2}, {1, 2, 3, 4})},
                      window_first),
                  {1, 3, 4});
}

TEST(EvalScatter, PairsBatchAxes) {
  const Literal x = make<i32>({2, 3}, {0, 0, 0, 0, 0, 0}), indices = make<i32>({2, 1}, {2, 0});
  const ScatterAttrs along{.combine = Combine::set,
                           .inserted_axes = {1},
                           .operand_batch_axes = {0},
                           .index_batch_axes = {0},
                           .index_map = {1},
                           .index_vector_axis = 1};
  expect_same(run(Op::scatter, {x, indices, row<i32>({7, 8})}, along), make<i32>({2, 3}, {0, 0, 7, 8, 0, 0}));
}

TEST(EvalInPlace, UpdatesReuseStorageThatNobodyElseHolds) {
  const std::vector<Literal> update{row<float>({1, 2, 3}), row<float>({9}), scalar<i32>(1)};
  const std::vector<Literal> scatter{row<float>({1, 2, 3}), row<i32>({1}), row<float>({9})};
  const std::pair<ir::Graph, std::vector<Literal>> cases[] = {
      {graph_of(Op::dynamic_update_slice, update), update},
      {graph_of(Op::scatter, scatter, kElements), scatter},
      {graph_of(Op::scatter, scatter, elements(Combine::max)), scatter},
  };
  for (const auto& [graph, operands] : cases) {
    std::vector<Literal> given = operands;
    given[0] = Literal::copy_of(operands[0].type(), operands[0].as_bytes());
    const Literal kept = given[0];
    expect_row<float>(eval::evaluate(graph, std::vector<Literal>(given))[0], {1, 9, 3});
    expect_row<float>(kept, {1, 2, 3});  // held elsewhere, so copied

    given[0] = Literal::copy_of(operands[0].type(), operands[0].as_bytes());
    const std::byte* storage = given[0].bytes();
    const Literal result = eval::evaluate(graph, std::move(given))[0];
    expect_row<float>(result, {1, 9, 3});
    EXPECT_EQ(result.bytes(), storage);
  }
}

}  // namespace
}  // namespace systole::eval_check
