// Movement without copies, against the elements that the evaluation moves.

#include "compile/strided.h"

#include <gtest/gtest.h>

#include <numeric>

#include "eval/eval.h"
#include "systole/ir/text.h"

namespace systole::lower {
namespace {

// Reads `source` as the view says, in the order of the view's indices.
std::vector<std::int32_t> read(const Strided& view, std::span<const std::int32_t> source) {
  std::vector<std::int64_t> places{view.offset};
  for (const auto& pieces : view.axes)
    for (const auto& [size, stride] : pieces) {
      std::vector<std::int64_t> next;
      for (const std::int64_t place : places)
        for (std::int64_t i = 0; i < size; ++i) next.push_back(place + i * stride);
      places = std::move(next);
    }
  std::vector<std::int32_t> values;
  for (const std::int64_t place : places) values.push_back(source[static_cast<std::size_t>(place)]);
  return values;
}

struct Case {
  const char *input, *statements;
  bool possible = true;
};

TEST(Strided, ReadsWhatMovementWouldCopy) {
  const Case cases[] = {
      {"%x: i32[4,6]", "%y = transpose(%x) {permutation=[1,0]}"},
      {"%x: i32[2,16,8]", "%a = reshape(%x) {shape=[2,16,4,2]} %y = transpose(%a) {permutation=[0,2,1,3]}"},
      {"%x: i32[2,4,3,2]", "%a = transpose(%x) {permutation=[0,2,1,3]} %y = reshape(%a) {shape=[2,3,8]}"},
      {"%x: i32[2,4,3]", "%a = transpose(%x) {permutation=[1,0,2]} %y = reshape(%a) {shape=[8,3]}"},
      {"%x: i32[6]", "%a = reshape(%x) {shape=[6,1]} %y = broadcast(%a) {shape=[2,6,5], axes=[1,2]}"},
      {"%x: i32[7,9]",
       "%a = slice(%x) {starts=[1,2], limits=[6,9], strides=[2,3]} %y = transpose(%a) "
       "{permutation=[1,0]}"},
      {"%x: i32[6,4]", "%a = transpose(%x) {permutation=[1,0]} %y = reshape(%a) {shape=[3,8]}", false},
      {"%x: i32[6,4]", "%y = reverse(%x) {axes=[0]}", false},
      {"%x: i32[6,0]", "%y = transpose(%x) {permutation=[1,0]}", false},
  };
  for (const Case& c : cases) {
    const ir::Graph graph = ir::parse("systole.ir 1\ngraph @main(" + std::string(c.input) + ") { " +
                                      c.statements + " return %y }");
    SCOPED_TRACE(c.statements);
    const auto view = strided(graph, graph.outputs()[0].value,
                              [&](std::int32_t i) { return graph.node(i).op == ir::Op::input; });
    ASSERT_EQ(view.has_value(), c.possible);
    if (!view) continue;
    Literal x = Literal::uninitialized(graph.input_type(0));
    const auto values = x.mutable_values<std::int32_t>();
    std::iota(values.begin(), values.end(), 0);
    const Literal wanted = eval::evaluate(graph, {x})[0];
    const auto expected = wanted.values<std::int32_t>();
    EXPECT_EQ(read(*view, x.values<std::int32_t>()),
              std::vector<std::int32_t>(expected.begin(), expected.end()));
  }
}

}  // namespace
}  // namespace systole::lower
