// Simplification, rule family by rule family: what goes, and what must stay although it looks as if it could
// go.

#include "pass_check.h"

namespace systole {
namespace {

using pass_check::Case;

void expect_simplified(const std::vector<Case>& cases) {
  for (const Case& c : cases) pass_check::expect(c, {{"simplify", passes::simplify}, {"dce", passes::dce}});
}

// One op with a constant on one side: `dtype[12]` filled with `number`.
Case with_constant(const std::string& dtype, const std::string& expression, const std::string& number,
                   const std::string& after = {}) {
  const std::string type = dtype + "[12]";
  return {expression + " with " + dtype + " " + number, "%x: " + type,
          "%s = constant() {value=" + dtype + "[](" + number +
              ")}\n%c = broadcast(%s) {shape=[12]}\n%y = " + expression + "\nreturn %y",
          after};
}

TEST(Simplify, ArithmeticIdentitiesThatKeepEveryBitGo) {
  const std::string x = "return %x";
  for (const std::string dtype : {"f32", "f64", "f16", "bf16", "i32", "i8"})
    expect_simplified({
        with_constant(dtype, "mul(%x, %c)", "1", x),
        with_constant(dtype, "mul(%c, %x)", "1", x),
        with_constant(dtype, "div(%x, %c)", "1", x),
        with_constant(dtype, "sub(%x, %c)", "0", x),
        with_constant(dtype, "pow(%x, %c)", "1", x),
        with_constant(dtype, "mul(%x, %c)", "-1", "%n = neg(%x)\nreturn %n"),
    });
  expect_simplified({
      with_constant("f32", "add(%x, %c)", "-0.0", x),
      with_constant("f32", "add(%c, %x)", "-0.0", x),
      with_constant("i32", "add(%x, %c)", "0", x),
      with_constant("u8", "add(%c, %x)", "0", x),
      with_constant("i32", "mul(%x, %c)", "0",
                    "%z = constant() {value=i32[](0)}\n%b = broadcast(%z) {shape=[12]}\nreturn %b"),
      with_constant("i32", "rem(%x, %c)", "1",
                    "%z = constant() {value=i32[](0)}\n%b = broadcast(%z) {shape=[12]}\nreturn %b"),
      with_constant("f32", "pow(%x, %c)", "0",
                    "%z = constant() {value=f32[](1)}\n%b = broadcast(%z) {shape=[12]}\nreturn %b"),
      with_constant("f32", "max(%x, %c)", "-inf", x),
      with_constant("f32", "min(%c, %x)", "inf", x),
      with_constant("i8", "max(%x, %c)", "-128", x),
      with_constant("u8", "max(%x, %c)", "0", x),
      with_constant("u8", "min(%x, %c)", "255", x),
  });
}

TEST(Simplify, ArithmeticThatIsNoIdentityForSomeInputStays) {
  expect_simplified({
      with_constant("f32", "add(%x, %c)", "0"),     // -0 + 0 is +0
      with_constant("f32", "sub(%x, %c)", "-0.0"),  // -0 - -0 is +0
      with_constant("f32", "mul(%x, %c)", "0"),     // NaN, infinity, -1
      with_constant("f32", "div(%c, %x)", "0"),
      with_constant("f32", "max(%x, %c)", "0"),
      with_constant("f32", "rem(%x, %c)", "1"),
      with_constant("f32", "sub(%c, %x)", "0"),  // 0 - 0 is +0, neg(0) is -0
      with_constant("i32", "div(%c, %x)", "1"),
      with_constant("i32", "shift_left(%c, %x)", "0"),
      with_constant("i8", "max(%x, %c)", "-127"),
      {"x - x", "%x: f32[12]", "%y = sub(%x, %x)\nreturn %y", ""},
      {"x / x", "%x: i32[12]", "%y = div(%x, %x)\nreturn %y", ""},
      {"x == x", "%x: f32[12]", "%y = equal(%x, %x)\nreturn %y", ""},
      {"x != x", "%x: f32[12]", "%y = not_equal(%x, %x)\nreturn %y", ""},
      {"neg(a - b)", "%a: f32[12], %b: f32[12]", "%d = sub(%a, %b)\n%y = neg(%d)\nreturn %y", ""},
  });
}

TEST(Simplify, InversePairsAndIdempotentOpsCollapse) {
  expect_simplified({
      {"neg neg", "%x: f32[12]", "%a = neg(%x)\n%b = neg(%a)\nreturn %b", "return %x"},
      {"not not", "%x: i8[12]", "%a = bitwise_not(%x)\n%b = bitwise_not(%a)\nreturn %b", "return %x"},
      {"abs abs", "%x: i8[12]", "%a = abs(%x)\n%b = abs(%a)\nreturn %b", "%a = abs(%x)\nreturn %a"},
      {"abs neg", "%x: i8[12]", "%a = neg(%x)\n%b = abs(%a)\nreturn %b", "%a = abs(%x)\nreturn %a"},
      {"floor of round", "%x: f32[12]", "%a = round(%x)\n%b = floor(%a)\nreturn %b",
       "%a = round(%x)\nreturn %a"},
      {"a + -b", "%a: f32[12], %b: f32[12]", "%n = neg(%b)\n%y = add(%a, %n)\nreturn %y",
       "%y = sub(%a, %b)\nreturn %y"},
      {"a - -b", "%a: f32[12], %b: f32[12]", "%n = neg(%b)\n%y = sub(%a, %n)\nreturn %y",
       "%y = add(%a, %b)\nreturn %y"},
      {"max(x, x)", "%x: f32[12]", "%y = max(%x, %x)\nreturn %y", "return %x"},
      {"integer x - x", "%x: i8[12]", "%y = sub(%x, %x)\nreturn %y",
       "%z = constant() {value=i8[](0)}\n%b = broadcast(%z) {shape=[12]}\nreturn %b"},
      {"x < x", "%x: f32[12]", "%y = less(%x, %x)\nreturn %y",
       "%z = constant() {value=bool[](false)}\n%b = broadcast(%z) {shape=[12]}\nreturn %b"},
      {"integer x >= x", "%x: i8[12]", "%y = greater_equal(%x, %x)\nreturn %y",
       "%z = constant() {value=bool[](true)}\n%b = broadcast(%z) {shape=[12]}\nreturn %b"},
      {"floor of abs stays", "%x: f32[12]", "%a = abs(%x)\n%b = floor(%a)\nreturn %b", ""},
  });
}

TEST(Simplify, BitsWithNoneOrAllSet) {
  const std::string x = "return %x",
                    none = "%z = constant() {value=i8[](0)}\n%b = broadcast(%z) {shape=[12]}\nreturn %b";
  expect_simplified({
      with_constant("i8", "bitwise_and(%x, %c)", "-1", x),
      with_constant("i8", "bitwise_and(%x, %c)", "0", none),
      with_constant("i8", "bitwise_or(%x, %c)", "0", x),
      with_constant("u8", "bitwise_or(%x, %c)", "255",
                    "%s = constant() {value=u8[](255)}\n%c = broadcast(%s) {shape=[12]}\nreturn %c"),
      with_constant("i8", "bitwise_xor(%x, %c)", "0", x),
      with_constant("i8", "bitwise_xor(%x, %c)", "-1", "%n = bitwise_not(%x)\nreturn %n"),
      with_constant("bool", "bitwise_and(%c, %x)", "true", x),
      with_constant("bool", "bitwise_or(%c, %x)", "false", x),
      with_constant("i8", "shift_left(%x, %c)", "0", x),
      with_constant("i8", "shift_right(%x, %c)", "0", x),
      with_constant("u8", "shift_right_logical(%x, %c)", "0", x),
      with_constant("i8", "bitwise_and(%x, %c)", "1"),
  });
}

TEST(Simplify, SelectClampAndConvert) {
  const std::string two = "%a: f32[12], %b: f32[12], %p: bool[12]";
  expect_simplified({
      {"true", two, "%t = constant() {value=bool[](true)}\n%y = select(%t, %a, %b)\nreturn %y", "return %a"},
      {"false", two,
       "%t = constant() {value=bool[](false)}\n%c = broadcast(%t) {shape=[12]}\n%y = select(%c, %a, "
       "%b)\nreturn %y",
       "return %b"},
      {"equal branches", two, "%y = select(%p, %a, %a)\nreturn %y", "return %a"},
      {"not", two, "%n = bitwise_not(%p)\n%y = select(%n, %a, %b)\nreturn %y",
       "%y = select(%p, %b, %a)\nreturn %y"},
      {"predicate itself", two,
       "%t = constant() {value=bool[12](splat true)}\n%f = constant() {value=bool[12](splat false)}\n%y = "
       "select(%p, %t, %f)\nreturn %y",
       "return %p"},
      {"clamp to everything", two,
       "%l = constant() {value=f32[](-inf)}\n%h = constant() {value=f32[](inf)}\n%y = clamp(%l, %a, "
       "%h)\nreturn %y",
       "return %a"},
      {"convert to itself", two, "%y = convert(%a) {dtype=f32}\nreturn %y", "return %a"},
      {"bitcast back", two, "%i = bitcast(%a) {dtype=i32}\n%y = bitcast(%i) {dtype=f32}\nreturn %y",
       "return %a"},
      {"widen and back", two, "%w = convert(%a) {dtype=f64}\n%y = convert(%w) {dtype=f32}\nreturn %y",
       "return %a"},
      {"widen, narrow further", two, "%w = convert(%a) {dtype=f64}\n%y = convert(%w) {dtype=f16}\nreturn %y",
       "%y = convert(%a) {dtype=f16}\nreturn %y"},
      {"narrow and back stays", two, "%w = convert(%a) {dtype=bf16}\n%y = convert(%w) {dtype=f32}\nreturn %y",
       ""},
      {"f16 through bf16 stays", "%x: f16[12]",
       "%w = convert(%x) {dtype=bf16}\n%y = convert(%w) {dtype=f32}\nreturn %y", ""},
      {"integer through wider", "%x: i8[12]",
       "%w = convert(%x) {dtype=i32}\n%y = convert(%w) {dtype=u8}\nreturn %y",
       "%y = convert(%x) {dtype=u8}\nreturn %y"},
      {"integer through unsigned stays", "%x: i8[12]",
       "%w = convert(%x) {dtype=u16}\n%y = convert(%w) {dtype=f32}\nreturn %y", ""},
      {"integer through float and back", "%x: i16[12]",
       "%w = convert(%x) {dtype=f32}\n%y = convert(%w) {dtype=i16}\nreturn %y", "return %x"},
      {"integer through float saturates", "%x: i16[12]",
       "%w = convert(%x) {dtype=f32}\n%y = convert(%w) {dtype=u8}\nreturn %y", ""},
      {"i32 through f32 stays", "%x: i32[12]",
       "%w = convert(%x) {dtype=f32}\n%y = convert(%w) {dtype=f64}\nreturn %y", ""},
      {"bool through float", "%x: bool[12]",
       "%w = convert(%x) {dtype=f16}\n%y = convert(%w) {dtype=i8}\nreturn %y",
       "%y = convert(%x) {dtype=i8}\nreturn %y"},
  });
}

TEST(Simplify, MovementThatMovesNothingGoes) {
  const std::string x = "%x: f32[3,4], %zero: f32[]";
  expect_simplified({
      {"transpose", x, "%y = transpose(%x) {permutation=[0,1]}\nreturn %y", "return %x"},
      {"reshape", x, "%y = reshape(%x) {shape=[3,4]}\nreturn %y", "return %x"},
      {"broadcast", x, "%y = broadcast(%x) {shape=[3,4], axes=[0,1]}\nreturn %y", "return %x"},
      {"slice", x, "%y = slice(%x) {starts=[0,0], limits=[3,4], strides=[1,1]}\nreturn %y", "return %x"},
      {"pad", x, "%y = pad(%x, %zero) {low=[0,0], high=[0,0], interior=[0,0]}\nreturn %y", "return %x"},
      {"shifting pad stays", x, "%y = pad(%x, %zero) {low=[1,0], high=[-1,0], interior=[0,0]}\nreturn %y",
       ""},
      {"concat", x, "%y = concat(%x) {axis=1}\nreturn %y", "return %x"},
      {"concat with nothing", "%x: f32[3,4], %e: f32[3,0]", "%y = concat(%e, %x, %e) {axis=1}\nreturn %y",
       "return %x"},
      {"concat of concat", x, "%a = concat(%x, %x) {axis=0}\n%y = concat(%x, %a) {axis=0}\nreturn %y",
       "%y = concat(%x, %x, %x) {axis=0}\nreturn %y"},
      {"concat of another axis stays", x,
       "%a = concat(%x, %x) {axis=0}\n%y = concat(%a, %a) {axis=1}\nreturn %y", ""},
      {"reverse", x, "%y = reverse(%x) {axes=[]}\nreturn %y", "return %x"},
      {"reverse of one", "%x: f32[1,4]", "%y = reverse(%x) {axes=[0,1]}\nreturn %y",
       "%y = reverse(%x) {axes=[1]}\nreturn %y"},
      {"max over one", "%x: f32[1,4]", "%y = reduce(%x) {kind=max, axes=[0]}\nreturn %y",
       "%y = reshape(%x) {shape=[4]}\nreturn %y"},
      {"product over no axes", x, "%y = reduce(%x) {kind=prod, axes=[]}\nreturn %y", "return %x"},
      {"float sum over one stays: 0 + -0", "%x: f32[1,4]", "%y = reduce(%x) {kind=sum, axes=[0]}\nreturn %y",
       ""},
      {"sort of one", "%x: f32[4,1]", "%y = sort(%x) {axis=1}\nreturn %y", "return %x"},
  });
}

TEST(Simplify, ChainsOfOneKindMerge) {
  const std::string x = "%x: f32[2,3,4]";
  expect_simplified({
      {"transposes", x,
       "%a = transpose(%x) {permutation=[2,0,1]}\n%y = transpose(%a) {permutation=[2,0,1]}\nreturn %y",
       "%y = transpose(%x) {permutation=[1,2,0]}\nreturn %y"},
      {"inverse transposes", x,
       "%a = transpose(%x) {permutation=[2,0,1]}\n%y = transpose(%a) {permutation=[1,2,0]}\nreturn %y",
       "return %x"},
      {"transpose of a size-1 axis", "%x: f32[2,1,3]", "%y = transpose(%x) {permutation=[0,2,1]}\nreturn %y",
       "%y = reshape(%x) {shape=[2,3,1]}\nreturn %y"},
      {"reshapes", x, "%a = reshape(%x) {shape=[24]}\n%y = reshape(%a) {shape=[6,4]}\nreturn %y",
       "%y = reshape(%x) {shape=[6,4]}\nreturn %y"},
      {"reshape back", x, "%a = reshape(%x) {shape=[24]}\n%y = reshape(%a) {shape=[2,3,4]}\nreturn %y",
       "return %x"},
      {"broadcasts", "%x: f32[3,1]",
       "%a = broadcast(%x) {shape=[3,2,5], axes=[0,2]}\n%y = broadcast(%a) {shape=[7,3,2,5], "
       "axes=[1,2,3]}\nreturn %y",
       "%y = broadcast(%x) {shape=[7,3,2,5], axes=[1,3]}\nreturn %y"},
      {"slices", "%x: f32[20]",
       "%a = slice(%x) {starts=[1], limits=[20], strides=[3]}\n%y = slice(%a) {starts=[1], limits=[6], "
       "strides=[2]}\nreturn %y",
       "%y = slice(%x) {starts=[4], limits=[17], strides=[6]}\nreturn %y"},
      {"slice of reverse", "%x: f32[20]",
       "%r = reverse(%x) {axes=[0]}\n%y = slice(%r) {starts=[3], limits=[17], strides=[4]}\nreturn %y",
       "%s = slice(%x) {starts=[4], limits=[17], strides=[4]}\n%y = reverse(%s) {axes=[0]}\nreturn %y"},
      {"the last two, turned twice", "%x: f32[20]",
       "%r = reverse(%x) {axes=[0]}\n%s = slice(%r) {starts=[0], limits=[2], strides=[1]}\n"
       "%y = reverse(%s) {axes=[0]}\nreturn %y",
       "%y = slice(%x) {starts=[18], limits=[20], strides=[1]}\nreturn %y"},
      {"one place of a turned axis", "%x: f32[20]",
       "%r = reverse(%x) {axes=[0]}\n%y = slice(%r) {starts=[7], limits=[8], strides=[1]}\nreturn %y",
       "%y = slice(%x) {starts=[12], limits=[13], strides=[1]}\nreturn %y"},
      {"slice to nothing", "%x: f32[20]",
       "%a = slice(%x) {starts=[1], limits=[20], strides=[3]}\n%y = slice(%a) {starts=[7], limits=[7], "
       "strides=[1]}\nreturn %y",
       "%y = slice(%x) {starts=[0], limits=[0], strides=[1]}\nreturn %y"},
      {"slice of huge strides", "%x: f32[20]",
       "%a = slice(%x) {starts=[3], limits=[20], strides=[2]}\n%y = slice(%a) {starts=[2], limits=[9], "
       "strides=[4611686018427387904]}\nreturn %y",
       "%y = slice(%x) {starts=[7], limits=[8], strides=[1]}\nreturn %y"},
      {"reverses", x, "%a = reverse(%x) {axes=[0,1]}\n%y = reverse(%a) {axes=[1,2]}\nreturn %y",
       "%y = reverse(%x) {axes=[0,2]}\nreturn %y"},
      {"reverse twice", x, "%a = reverse(%x) {axes=[0,1]}\n%y = reverse(%a) {axes=[0,1]}\nreturn %y",
       "return %x"},
      {"a moved scalar", "%x: f32[]",
       "%a = broadcast(%x) {shape=[2,6]}\n%b = transpose(%a) {permutation=[1,0]}\n%c = reshape(%b) "
       "{shape=[12]}\n%y = slice(%c) {starts=[3], limits=[8], strides=[1]}\nreturn %y",
       "%y = broadcast(%x) {shape=[5]}\nreturn %y"},
      {"a long chain in one walk", x,
       "%a = reverse(%x) {axes=[0]}\n%b = reverse(%a) {axes=[0]}\n%c = transpose(%b) "
       "{permutation=[1,0,2]}\n%d = transpose(%c) {permutation=[1,0,2]}\n"
       "%e = neg(%d)\n%f = neg(%e)\nreturn %f",
       "return %x"},
  });
}

TEST(Simplify, NestedConcatsJoinWithoutCopyingEverLongerLists) {
  // Joined without a limit, the first chain would hold two million operands and the last of the second a
  // million.
  const auto expect_short_lists = [](int links, bool doubling) {
    ir::Graph graph;
    const ir::Value x = graph.input("x", {DType::f32, {1}});
    ir::Value v = x;
    for (int i = 0; i < links; ++i) v = graph.add(ir::Op::concat, {v, doubling ? v : x}, ir::AxisAttrs{0});
    graph.output(v);
    const ir::Graph got = passes::simplify(graph);
    std::size_t operands = 0;
    for (const ir::Node& node : got.nodes()) operands += node.operands.size();
    EXPECT_LE(operands, static_cast<std::size_t>(links) * 128);
    EXPECT_EQ(got.output_type(0), graph.output_type(0));
    // What is left holds every element once more, in lists of up to 64.
    EXPECT_LE(passes::dce(got).size(), links / 32 + 30);
  };
  expect_short_lists(2000, false);
  expect_short_lists(20, true);
}

TEST(Simplify, RowsAreGatheredWhole) {
  const std::string x = "%x: u8[5,2,3], %i: i32[4,1]";
  const auto gather = [](const std::string& attrs) {
    return "%y = gather(%x, %i) {" + attrs + "}\nreturn %y";
  };
  expect_simplified({
      {"pictures by number", x,
       gather("offset_axes=[1,2], collapsed_axes=[0], start_index_map=[0], index_vector_axis=1, "
              "slice_sizes=[1,2,3]"),
       "%r = reshape(%x) {shape=[5,6]}\n%g = gather(%r, %i) {offset_axes=[1], collapsed_axes=[0], "
       "start_index_map=[0], index_vector_axis=1, slice_sizes=[1,6]}\n%y = reshape(%g) {shape=[4,2,3]}\n"
       "return %y"},
      {"windows of rows", x,
       gather("offset_axes=[1,2,3], start_index_map=[0], index_vector_axis=1, slice_sizes=[2,2,3]"),
       "%r = reshape(%x) {shape=[5,6]}\n%g = gather(%r, %i) {offset_axes=[1,2], start_index_map=[0], "
       "index_vector_axis=1, slice_sizes=[2,6]}\n%y = reshape(%g) {shape=[4,2,2,3]}\nreturn %y"},
      {"not a part of an axis", x,
       gather("offset_axes=[1,2], collapsed_axes=[0], start_index_map=[0], index_vector_axis=1, "
              "slice_sizes=[1,1,3]"),
       ""},
      {"not where the slices stand first", x,
       gather("offset_axes=[0,1], collapsed_axes=[0], start_index_map=[0], index_vector_axis=1, "
              "slice_sizes=[1,2,3]"),
       ""},
      {"not along the last axis", x,
       gather("offset_axes=[1,2], collapsed_axes=[2], start_index_map=[2], index_vector_axis=1, "
              "slice_sizes=[5,2,1]"),
       ""},
  });
}

TEST(Simplify, KnownStartsMakeDynamicSlicesStatic) {
  expect_simplified({
      {"start", "%x: f32[5,4], %j: i32[]",
       "%i = constant() {value=i32[](2)}\n%y = dynamic_slice(%x, %i, %i) {sizes=[2,2]}\nreturn %y",
       "%y = slice(%x) {starts=[2,2], limits=[4,4], strides=[1,1]}\nreturn %y"},
      {"clamped starts", "%x: f32[5,4]",
       "%i = constant() {value=i64[](-9)}\n%j = constant() {value=u64[](18446744073709551615)}\n%y = "
       "dynamic_slice(%x, %i, %j) {sizes=[2,3]}\nreturn %y",
       "%y = slice(%x) {starts=[0,1], limits=[2,4], strides=[1,1]}\nreturn %y"},
      {"everything", "%x: f32[5], %i: i32[]", "%y = dynamic_slice(%x, %i) {sizes=[5]}\nreturn %y",
       "return %x"},
      {"unknown start stays", "%x: f32[5], %i: i32[]", "%y = dynamic_slice(%x, %i) {sizes=[3]}\nreturn %y",
       ""},
      {"update of everything", "%x: f32[5], %u: f32[5], %i: i32[]",
       "%y = dynamic_update_slice(%x, %u, %i)\nreturn %y", "return %u"},
  });
}

TEST(Simplify, EqualConstantElementsBecomeOneScalarBroadcast) {
  expect_simplified({
      {"splat", "%x: f32[3]", "%c = constant() {value=f32[3](2, 2, 2)}\n%y = mul(%x, %c)\nreturn %y",
       "%s = constant() {value=f32[](2)}\n%c = broadcast(%s) {shape=[3]}\n%y = mul(%x, %c)\nreturn %y"},
      {"zeros of both signs differ", "%x: f32[2]",
       "%c = constant() {value=f32[2](0, -0.0)}\n%y = mul(%x, %c)\nreturn %y", ""},
      {"iota of one", "%x: i32[1]", "%c = iota() {dtype=i32, shape=[1], axis=0}\n%y = add(%x, %c)\nreturn %y",
       "return %x"},
  });
}

TEST(Simplify, ControlFlowOfKnownCourseIsInlined) {
  const std::string body =
      "graph @body(%sum: f32[], %x: f32[3], %k: f32[]) {\n%r = reduce(%x) {kind=sum, axes=[0]}\n%n = "
      "add(%sum, %r)\n%y = mul(%x, %x)\nreturn %n, %y\n}\n";
  const std::string branches =
      "graph @then(%a: f32[4]) {\n%r = exp(%a)\nreturn %r\n}\ngraph @else(%a: f32[4]) {\n%r = "
      "neg(%a)\nreturn %r\n}\n";
  const std::string loop =
      "graph @go(%a: i32[], %k: i32[]) {\n%r = constant() {value=bool[](false)}\nreturn %r\n}\ngraph "
      "@step(%a: i32[], %k: i32[]) {\n%r = add(%a, %k)\nreturn %r\n}\n";
  expect_simplified({
      {"scan of length 0", "%s: f32[], %xs: f32[0,3], %k: f32[]",
       "%a, %b = scan(%s, %xs, %k) {length=0, carries=1, xs=1} @body\nreturn %a, %b",
       "%b = constant() {value=f32[0,3]()}\nreturn %s, %b", body},
      {"scan of length 1", "%s: f32[], %xs: f32[1,3], %k: f32[]",
       "%a, %b = scan(%s, %xs, %k) {length=1, carries=1, xs=1} @body\nreturn %a, %b",
       "%x = reshape(%xs) {shape=[3]}\n%r = reduce(%x) {kind=sum, axes=[0]}\n%n = add(%s, %r)\n%y = mul(%x, "
       "%x)\n%b = reshape(%y) {shape=[1,3]}\nreturn %n, %b",
       body},
      {"scan of length 2 stays", "%s: f32[], %xs: f32[2,3], %k: f32[]",
       "%a, %b = scan(%s, %xs, %k) {length=2, carries=1, xs=1} @body\nreturn %a, %b", "", body},
      {"cond true", "%x: f32[4]",
       "%p = constant() {value=bool[](true)}\n%y = cond(%p, %x) @then @else\nreturn %y",
       "%y = exp(%x)\nreturn %y", branches},
      {"cond false", "%x: f32[4]",
       "%p = constant() {value=bool[](false)}\n%y = cond(%p, %x) @then @else\nreturn %y",
       "%y = neg(%x)\nreturn %y", branches},
      {"equal branches", "%p: bool[], %x: f32[4]", "%y = cond(%p, %x) @then @then\nreturn %y",
       "%y = exp(%x)\nreturn %y", branches},
      {"unknown predicate stays", "%p: bool[], %x: f32[4]", "%y = cond(%p, %x) @then @else\nreturn %y", "",
       branches},
      {"while never", "%a: i32[], %k: i32[]", "%y = while_loop(%a, %k) {carries=1} @go @step\nreturn %y",
       "return %a", loop},
  });
}

TEST(Simplify, RulesReachSubGraphs) {
  const std::string before =
      "graph @body(%c: f32[], %x: f32[]) {\n%a = neg(%x)\n%b = neg(%a)\n%n = add(%c, %b)\nreturn %n\n}\n";
  const std::string after = "graph @body(%c: f32[], %x: f32[]) {\n%n = add(%c, %x)\nreturn %n\n}\n";
  const std::string main =
      "graph @main(%s: f32[], %xs: f32[3]) {\n%y = scan(%s, %xs) {length=3, carries=1, xs=1} @body\nreturn "
      "%y\n}\n";
  const ir::Graph got = passes::dce(passes::simplify(ir::parse("systole.ir 1\n" + before + main)));
  EXPECT_TRUE(got.same_structure(ir::parse("systole.ir 1\n" + after + main))) << ir::print(got);
}

TEST(Simplify, CollectivesOfOneDeviceGoAndShardedNodesStay) {
  const auto simplified = [](const std::string& text) {
    return passes::dce(passes::simplify(ir::parse("systole.ir 1\n" + text)));
  };
  const ir::Graph alone = simplified(
      "graph @main(%x: f32[4]) mesh(a=1, b=2) {\n%y = all_reduce(%x) {kind=sum, mesh_axes=[a]}\n%z = "
      "all_gather(%y) {axis=0, mesh_axes=[b]}\nreturn %z\n}");
  EXPECT_TRUE(
      alone.same_structure(ir::parse("systole.ir 1\ngraph @main(%x: f32[4]) mesh(a=1, b=2) {\n%z = "
                                     "all_gather(%x) {axis=0, mesh_axes=[b]}\nreturn %z\n}")))
      << ir::print(alone);
  const std::string sharded =
      "graph @main(%x: f32[4]) mesh(a=2) {\n%a = neg(%x) : f32[4] sharding([a])\n%b = neg(%a)\nreturn %b\n}";
  EXPECT_TRUE(simplified(sharded).same_structure(ir::parse("systole.ir 1\n" + sharded)));
}

TEST(Simplify, SymbolicShapesAreLeftOrMergedButNeverFail) {
  const std::string text =
      "systole.ir 1\ngraph @main(%x: f32[N,4]) {\n%a = transpose(%x) {permutation=[1,0]}\n%b = transpose(%a) "
      "{permutation=[1,0]}\n"
      "%c = reshape(%b) {shape=[N,2,2]}\n%d = reshape(%c) {shape=[N,4]}\n%e = slice(%d) {starts=[0,0], "
      "limits=[N,2], strides=[1,1]}\nreturn %e\n}\n";
  const ir::Graph got = passes::dce(passes::simplify(ir::parse(text)));
  EXPECT_TRUE(
      got.same_structure(ir::parse("systole.ir 1\ngraph @main(%x: f32[N,4]) {\n%e = slice(%x) {starts=[0,0], "
                                   "limits=[N,2], strides=[1,1]}\nreturn %e\n}\n")))
      << ir::print(got);
}

}  // namespace
}  // namespace systole
