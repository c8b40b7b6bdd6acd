// Type inference and the verifier: what each op class accepts, what it says when it refuses. Shapes by hand.

#include <gtest/gtest.h>

#include "systole/ir/graph.h"
#include "systole/ir/text.h"

namespace systole::ir {
namespace {

std::string type_of(const std::string& inputs, const std::string& statement) {
  const Graph g = parse("systole.ir 1\ngraph @main(" + inputs + ") {\n%r = " + statement + "\nreturn %r }");
  return g.output_type(0).to_string();
}

struct Case {
  const char* inputs;
  const char* statement;
  const char* type;  // or, after '!', a part of the error
};

class Infer : public testing::TestWithParam<Case> {};

TEST_P(Infer, GivesTypeOrReason) {
  const Case& c = GetParam();
  if (c.type[0] != '!') {
    EXPECT_EQ(type_of(c.inputs, c.statement), c.type);
    return;
  }
  try {
    ADD_FAILURE() << "accepted as " << type_of(c.inputs, c.statement);
  } catch (const Error& e) {
    EXPECT_NE(std::string(e.what()).find(c.type + 1), std::string::npos) << e.what();
  }
}

INSTANTIATE_TEST_SUITE_P(
    Movement, Infer,
    testing::Values(
        Case{"%x: f32[2,3,4]", "transpose(%x) {permutation=[2,0,1]}", "f32[4,2,3]"},
        Case{"%x: f32[2,3]", "transpose(%x) {permutation=[0,0]}", "!names an axis twice"},
        Case{"%x: f32[2,3]", "transpose(%x) {permutation=[0]}",
             "!wrong number of entries; expected 2, got 1"},
        Case{"%x: f32[1,3]", "broadcast(%x) {shape=[5,2,3], axes=[1,2]}", "f32[5,2,3]"},
        Case{"%x: f32[2,3]", "broadcast(%x) {shape=[5,3], axes=[0,1]}", "!axis 0 cannot stretch"},
        Case{"%x: f32[3,2]", "broadcast(%x) {shape=[2,3], axes=[1,0]}", "!axes must increase"},
        Case{"%x: f32[10]", "slice(%x) {starts=[1], limits=[10], strides=[4]}", "f32[3]"},
        Case{"%x: f32[10]", "slice(%x) {starts=[4], limits=[3], strides=[1]}", "!outside the operand"},
        Case{"%x: f32[10]", "slice(%x) {starts=[0], limits=[11], strides=[1]}", "!outside the operand"},
        Case{"%x: f32[10]", "slice(%x) {starts=[0], limits=[10], strides=[0]}", "!expected 1 or more, got 0"},
        Case{"%x: f32[3], %v: f32[]", "pad(%x, %v) {low=[1], high=[-2], interior=[2]}", "f32[6]"},
        Case{"%x: f32[3], %v: f32[]", "pad(%x, %v) {low=[-9], high=[0], interior=[0]}", "!negative size"},
        Case{"%x: f32[3], %v: i32[]", "pad(%x, %v) {low=[0], high=[0], interior=[0]}",
             "!operand 1 has a dtype"},
        Case{"%x: f32[2,3], %y: f32[2,5]", "concat(%x, %y) {axis=1}", "f32[2,8]"},
        Case{"%x: f32[2,3], %y: f32[3,5]", "concat(%x, %y) {axis=1}", "!operand 1 does not fit"},
        Case{"%x: f32[N,3], %y: f32[2,3]", "concat(%x, %y) {axis=0}", "f32[N+2,3]"},
        Case{"%x: f32[10,7], %i: i32[5,1]",
             "gather(%x, %i) {offset_axes=[1], collapsed_axes=[0], start_index_map=[0], index_vector_axis=1, "
             "slice_sizes=[1,7]}",
             "f32[5,7]"},
        Case{"%x: f32[10,7], %i: f32[5,1]",
             "gather(%x, %i) {offset_axes=[1], collapsed_axes=[0], start_index_map=[0], index_vector_axis=1, "
             "slice_sizes=[1,7]}",
             "!operand 1 has a dtype"},
        Case{"%x: f32[10,7], %i: i32[5,2]",
             "gather(%x, %i) {offset_axes=[1], collapsed_axes=[0], start_index_map=[0], index_vector_axis=1, "
             "slice_sizes=[1,7]}",
             "!differ in number; expected 1, got 2"},
        Case{"%x: f32[4,4], %i: i32[]", "dynamic_slice(%x, %i, %i) {sizes=[2,5]}",
             "!does not fit the operand"},
        Case{"%x: f32[4,4], %i: i32[]", "dynamic_slice(%x, %i) {sizes=[2,2]}", "!wrong number of entries"}));

INSTANTIATE_TEST_SUITE_P(
    Reduction, Infer,
    testing::Values(Case{"%x: f32[2,3,4]", "reduce(%x) {axes=[0,2]}", "f32[3]"},
                    Case{"%x: bool[2]", "reduce(%x) {kind=bitwise_or, axes=[0]}", "bool[]"},
                    Case{"%x: bool[2]", "reduce(%x) {axes=[0]}", "!operand 0 has a dtype"},
                    Case{"%x: f32[2]", "reduce(%x) {axes=[1]}", "!axes out of range; expected 0 to 0, got 1"},
                    Case{"%x: f32[2,0]", "arg_reduce(%x) {axis=1, dtype=i32}", "!an empty axis"},
                    Case{"%x: f32[2,5]", "arg_reduce(%x) {axis=1, dtype=i64}", "i64[2]"},
                    Case{"%x: f32[9]", "reduce_window(%x) {window=[3], strides=[2], pad_low=[1]}", "f32[4]"},
                    Case{"%x: f32[9]", "reduce_window(%x) {window=[0]}", "!expected 1 or more, got 0"},
                    Case{"%x: f32[9]", "reduce_window(%x) {window=[3], strides=[0]}",
                         "!stride and dilation 1 or more"},
                    Case{"%x: f32[2*N]", "reduce_window(%x) {window=[2], strides=[2]}", "f32[N]"},
                    Case{"%x: f32[N]", "reduce_window(%x) {window=[2], strides=[2]}", "!not divisible"}));

INSTANTIATE_TEST_SUITE_P(
    Contraction, Infer,
    testing::Values(
        Case{"%a: f32[5,2,3], %b: f32[5,3,4]",
             "dot_general(%a, %b) {a_batch=[0], b_batch=[0], a_contract=[2], b_contract=[1]}", "f32[5,2,4]"},
        Case{"%a: bf16[2,3], %b: bf16[3]", "dot_general(%a, %b) {a_contract=[1], b_contract=[0], dtype=f32}",
             "f32[2]"},
        Case{"%a: u8[2,3], %b: i8[3]", "dot_general(%a, %b) {a_contract=[1], b_contract=[0], dtype=i32}",
             "i32[2]"},
        Case{"%a: u8[2,3], %b: i8[3]", "dot_general(%a, %b) {a_contract=[1], b_contract=[0]}",
             "!dtype of the result"},
        Case{"%a: f32[2,3], %b: f32[4]", "dot_general(%a, %b) {a_contract=[1], b_contract=[0]}",
             "!axis 1 of the first operand"},
        Case{"%a: f32[2,3], %b: f64[3]", "dot_general(%a, %b) {a_contract=[1], b_contract=[0]}",
             "!differ in dtype"},
        Case{"%x: f32[N,28,28,1], %k: f32[3,3,1,8]",
             "convolution(%x, %k) {layout=\"b01f_01io->b01f\", strides=[2,2], pad_low=[1,1], pad_high=[0,1]}",
             "f32[N,14,14,8]"},
        Case{"%x: f32[1,8,8,4], %k: f32[3,3,1,4]",
             "convolution(%x, %k) {layout=\"b01f_01io->b01f\", feature_groups=4}", "f32[1,6,6,4]"},
        Case{"%x: f32[1,8,8,4], %k: f32[3,3,2,4]",
             "convolution(%x, %k) {layout=\"b01f_01io->b01f\", feature_groups=3}",
             "!does not split into 3 groups"},
        Case{"%x: f32[1,8,8,4], %k: f32[3,3,4,4]",
             "convolution(%x, %k) {layout=\"b01f_01io->b01f\", feature_groups=0}",
             "!groups; expected 1 or more"},
        Case{"%x: f32[1,8,8,4], %k: f32[3,3,4,4]",
             "convolution(%x, %k) {layout=\"b01f_01io->b01f\", strides=[0,1]}",
             "!stride and dilation 1 or more"},
        Case{"%x: f32[1,8,8,4], %k: f32[3,3,4,4]", "convolution(%x, %k) {layout=\"b01f_01ii->b01f\"}",
             "!malformed layout"},
        Case{"%x: f32[1,8,4], %k: f32[3,3,4,4]", "convolution(%x, %k) {layout=\"b01f_01io->b01f\"}",
             "!wants 4 axes"},
        Case{"%x: f32[1,2,2,4], %k: f32[3,3,4,5]", "convolution(%x, %k) {layout=\"b01f_01io->b01f\"}",
             "f32[1,0,0,5]"},
        Case{"%a: f32[2,3]", "cholesky(%a)", "!must form a square"},
        Case{"%a: f32[3,3], %b: f32[2,3]", "triangular_solve(%a, %b)", "!do not fit"},
        Case{"%a: f32[3,3], %b: f32[2,3]", "triangular_solve(%a, %b) {left_side=false}", "f32[2,3]"}));

TEST(Verify, CollectivesAndShardingsDoNotMix) {
  const Graph g = parse(
      "systole.ir 1\ngraph @main(%x: f32[4] sharding([d])) mesh(d=2) { %y = all_reduce(%x) {mesh_axes=[d]} "
      "return %y }");
  EXPECT_THROW(verify(g), Error);
}

TEST(Verify, EverySymbolStandsInAnInput) {
  EXPECT_THROW(verify(parse("systole.ir 1\ngraph @m() { %n = dimension() {dim=n, dtype=i32} return %n }")),
               Error);
  EXPECT_NO_THROW(verify(
      parse("systole.ir 1\ngraph @m(%x: f32[n]) { %n = dimension() {dim=2*n, dtype=i32} return %n }")));
}

TEST(Graph, ValuesThatAreNotThereAreRefused) {
  Graph a, b;
  a.set_mesh({{{"d", 2}}});
  const Value x = a.input("x", {DType::f32, {2}});
  EXPECT_THROW(a.output(Value(&a, {7, 3})), Error);
  EXPECT_THROW(a.output(Value(&a, {0, 1})), Error);
  EXPECT_THROW(a.add(Op::neg, {Value(&a, {0, 1})}), Error);
  EXPECT_THROW(a.set_sharding(Value(&a, {9, 0}), {{{"d"}}}), Error);
  EXPECT_THROW(b.set_sharding(x, {{{"d"}}}), Error);
  EXPECT_THROW(a.set_debug(5, {}), Error);
  EXPECT_THROW(a.set_debug(-1, {}), Error);
}

TEST(Graph, OperandsOfAnotherGraphAreRefused) {
  Graph a, b;
  const Value x = a.input("x", {DType::f32, {2}});
  EXPECT_THROW(b.add(Op::neg, {x}), Error);
  EXPECT_THROW(a.input("x", {DType::f32, {2}}), Error);
  EXPECT_THROW(a.add(Op::neg, {x}, ReduceAttrs{}), Error);
}

TEST(Graph, HashIgnoresDebugInfoOnly) {
  const auto build = [](std::string scope, double value) {
    Graph g("g");
    const Value x = g.input("x", {DType::f32, {2}});
    const Value c = g.constant(Literal::full({DType::f32, {2}}, value));
    g.output(g.add(Op::add, {x, c}));
    g.set_debug(2, {{}, std::move(scope), "f.cpp", 3, "why"});
    return g;
  };
  EXPECT_EQ(build("a", 1).hash(), build("b", 1).hash());
  EXPECT_TRUE(build("a", 1).same_structure(build("b", 1)));
  EXPECT_NE(build("a", 1).hash(), build("a", 2).hash());
  EXPECT_FALSE(build("a", 1).same_structure(build("a", 2)));
}

TEST(OpsDef, TolerancesAreWithinTheirBounds) {
  for (const OpInfo& op : all_ops()) {
    const bool strict = op.op_class == OpClass::contraction || op.op == Op::add || op.op == Op::sub ||
                        op.op == Op::mul || op.op == Op::div;
    EXPECT_LE(op.tolerance, strict ? 4 : 16) << op.name;
    EXPECT_FALSE(op.semantics.empty()) << op.name;
    EXPECT_EQ(find_op(op.name), op.op);
  }
}

}  // namespace
}  // namespace systole::ir
