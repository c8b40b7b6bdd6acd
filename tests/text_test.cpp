// The text form: print and parse are inverse, and malformed text is refused with its position.

#include "systole/ir/text.h"

#include <gtest/gtest.h>

#include <fstream>
#include <random>
#include <sstream>

#include "error_check.h"
#include "systole/ir/composite.h"

namespace systole::ir {
namespace {

constexpr const char* kEverything = R"(systole.ir 1

// Adds one.
graph @body(%0: f32[], %1: f32[3]) {
  %2 = reduce(%1) {axes=[0]} : f32[]
  %3 = add(%0, %2) : f32[]
  return %3, %3
}

graph @yes(%0: f32[]) {
  return %0
}

graph @no(%0: f32[]) {
  %1 = neg(%0) : f32[]
  return %1
}

// Two lines
// of comment.
graph @main(
    %start: f32[],
    %xs: f32[4,3],
    %"0": bool[],
    %w: f32[8,4] {alias=3} sharding([x, y], []) loc(scope="w")) mesh(x=2, y=4) {
  // The loop.
  %total, %partial = scan(%start, %xs) {length=4, carries=1, xs=1, reverse=true} @body : f32[], f32[4]
  %0 = cond(%"0", %total) @yes @no : f32[] loc(scope="a/b", file="m.cpp", line=7)
  %1 = constant() {value=bf16[3](1, -0, nan)} : bf16[3]
  %2 = constant() {value=i8[2,2](splat -128)} : i8[2,2]
  %3 = constant() {value=f32[1](hex "0100c07f")} : f32[1]
  %4 = neg(%w) : f32[8,4] sharding([x], [y])
  %5 = convert(%1) {dtype=f16} : f16[3]
  // Done.
  return total: %0, %partial, "odd name": %5, %4
}
)";

TEST(Text, PrintOfParseIsTheSameText) { EXPECT_EQ(print(parse(kEverything)), kEverything); }

TEST(Text, CommentsStayWithWhatTheySpeakOf) {
  const char* text = R"(systole.ir 1
graph @main(%x: f32[2], // the data
            %z: f32[2]) { // about main
  %y = add(%x, %z) // about y
  // before z
  %w = neg(%y)
  return %w // the result
} // end
// trailer
)";
  const char* wanted = R"(systole.ir 1

// about main
graph @main(
    // the data
    %x: f32[2],
    %z: f32[2]) {
  // about y
  %y = add(%x, %z) : f32[2]
  // before z
  %w = neg(%y) : f32[2]
  // the result
  return %w
}
// end
// trailer
)";
  EXPECT_EQ(print(parse(text)), wanted);
  EXPECT_EQ(print(parse(wanted)), wanted);
}

TEST(Text, LiteralsOverflowIsRefusedAndUnderflowRounds) {
  const auto value = [](const std::string& literal) {
    return parse("systole.ir 1\ngraph @main() { %c = constant() {value=" + literal + "} return %c }")
        .node(0)
        .as<ConstantAttrs>()
        .value;
  };
  EXPECT_EQ(value("f32[](1e-60)").item<float>(), 0);
  EXPECT_EQ(value("f64[](1e-400)").item<double>(), 0);
  EXPECT_EQ(value("f16[](1e-30)").item<f16>().bits(), 0);
  EXPECT_EQ(value("f32[](-inf)").item<float>(), -std::numeric_limits<float>::infinity());
  for (const char* bad : {"f16[](70000)", "f8e4m3fn[](1000)", "f32[](1e39)", "f64[](1e400)",
                          "f32[](infinity)", "f32[](0x1p3)", "f32[2](1,2,)"})
    EXPECT_THROW(value(bad), Error) << bad;
}

TEST(Text, SymbolNamesAreThoseTheTextCanHold) {
  EXPECT_THROW(Dim::symbol("n-1"), Error);
  EXPECT_THROW(Dim::symbol(""), Error);
  EXPECT_EQ(parse_type("f32[n - 1]"), parse_type("f32[n-1]"));
  EXPECT_THROW(parse_type("f32[n+-1]"), Error);
}

TEST(Text, ShapesOfNumbersAreListsInCompositeAttributes) {
  Graph g;
  const Value x = g.input("x", {DType::f32, {2}});
  const std::vector<Type> types = {x.type()};
  const GraphRef body = make_graph("own", types, [](const Values& v) { return v; });
  const Values y = g.add_multi(Op::composite, x, CompositeAttrs{"own", {{"shape", Shape{2, 3}}}}, {body});
  g.output(y[0]);
  EXPECT_TRUE(parse(print(g)).same_structure(g));
}

TEST(Text, ParseOfPrintIsTheSameGraph) {
  const Graph g = parse(kEverything);
  const Graph again = parse(print(g));
  EXPECT_TRUE(g.same_structure(again));
  EXPECT_EQ(g.hash(), again.hash());
  EXPECT_NO_THROW(verify(g));
}

TEST(Text, SymbolsSurvive) {
  const char* text = R"(systole.ir 1

graph @main(%x: f32[N,784], %y: f32[2*N+1]) {
  %0 = slice(%x) {starts=[0,0], limits=[N,10], strides=[1,1]} : f32[N,10]
  %1 = reshape(%0) {shape=[10*N]} : f32[10*N]
  %2 = dimension() {dim=N, dtype=f32} : f32[]
  return %1, %y, %2
}
)";
  EXPECT_EQ(print(parse(text)), text);
  const Graph g = parse(text);
  const std::vector<Type> args = {{DType::f32, {5, 784}}, {DType::f32, {11}}};
  const Graph bound = bind_symbols(g, match_symbols(g, args));
  EXPECT_EQ(bound.output_type(0).to_string(), "f32[50]");
  EXPECT_TRUE(bound.is_static());
  const std::vector<Type> wrong = {{DType::f32, {5, 784}}, {DType::f32, {12}}};
  EXPECT_THROW(match_symbols(g, wrong), Error);
}

// What a reader of version 1 does not know says so in the first line.
TEST(Text, ProductsOfSymbolsSurvive) {
  const char* text = R"(systole.ir 2

graph @main(%x: f32[B,T,8], %m: f32[2*B*T+1]) {
  %0 = reshape(%x) {shape=[B*T,8]} : f32[B*T,8]
  %1 = reshape(%0) {shape=[8*B*T]} : f32[8*B*T]
  return %1, %m
}
)";
  const Graph g = parse(text);
  EXPECT_EQ(print(g), text);
  EXPECT_EQ(parse(print(g)).hash(), g.hash());
  EXPECT_EQ(parse_type("f32[T*B]"), parse_type("f32[B*T]"));
  verify(g);
  const std::vector<Type> args = {{DType::f32, {3, 5, 8}}, {DType::f32, {31}}};
  EXPECT_EQ(bind_symbols(g, match_symbols(g, args)).output_type(0).to_string(), "f32[120]");
  const std::vector<Type> wrong = {{DType::f32, {3, 5, 8}}, {DType::f32, {30}}};
  EXPECT_THROW(match_symbols(g, wrong), Error);
  EXPECT_THROW(parse_type("f32[B*]"), Error);
  EXPECT_THROW(parse_type("f32[B*2]"), Error);
  // A product gives its factors no numbers.
  EXPECT_THROW(verify(parse("systole.ir 2\ngraph @main(%x: f32[B*T]) { return %x }")), Error);
}

// As many rows of a table as another axis has: whether it has them is known with the numbers.
TEST(Text, ASliceUpToAnotherAxisSurvives) {
  const char* text = R"(systole.ir 2

graph @main(%x: i32[B,T], %table: f32[16,4]) {
  %0 = slice(%table) {starts=[0,0], limits=[T,4], strides=[1,1]} : f32[T,4]
  return %0, %x
}
)";
  const Graph g = parse(text);
  EXPECT_EQ(print(g), text);
  const auto bound = [&](std::int64_t length) {
    const std::vector<Type> args = {{DType::i32, {2, length}}, {DType::f32, {16, 4}}};
    return bind_symbols(g, match_symbols(g, args)).output_type(0).to_string();
  };
  EXPECT_EQ(bound(16), "f32[16,4]");
  EXPECT_THROW(bound(17), Error);
}

TEST(Graph, ASymbolInAnAttributeAloneIsSymbolic) {
  const Graph g = parse("systole.ir 1\ngraph @main() { %n = dimension() {dim=N, dtype=i32} return %n }");
  EXPECT_FALSE(g.is_static());
}

TEST(Text, CompositesWithoutBodyGetTheRegisteredOne) {
  const Graph g = parse("systole.ir 1\ngraph @main(%x: f32[2,3]) { %y = composite softmax(%x) return %y }");
  EXPECT_EQ(g.node(1).graphs.size(), 1u);
  const std::string text = print(g);
  EXPECT_NE(text.find("graph @softmax("), std::string::npos);
  EXPECT_NE(text.find("composite softmax(%x) {axis="), std::string::npos);
  EXPECT_TRUE(parse(text).same_structure(g));
}

// A composite may bring its gradient; its name need not be registered.
TEST(Text, TheBackwardOfACompositeStandsBehindItsBody) {
  const std::string text = R"(systole.ir 1

graph @own(%x: f32[2]) {
  %y = sin(%x) : f32[2]
  return %y
}

graph @own_back(%x: f32[2], %y: f32[2], %dy: f32[2]) {
  %0 = mul(%dy, %x) : f32[2]
  return %0
}

graph @main(%x: f32[2]) {
  %y = composite user.own(%x) {level=3} @own @own_back : f32[2]
  return %y
}
)";
  const Graph g = parse(text);
  EXPECT_EQ(print(g), text);
  verify(g);
  std::string other = text;
  other.replace(other.find("mul(%dy, %x)"), 3, "add");
  EXPECT_FALSE(parse(other).same_structure(g));
  EXPECT_NE(parse(other).hash(), g.hash());
}

TEST(Text, EqualBodiesArePrintedOnce) {
  const std::string text =
      print(parse("systole.ir 1\ngraph @main(%x: f32[2,3]) { %y = composite softmax(%x) %z = composite "
                  "softmax(%y) return %z }"));
  EXPECT_EQ(text.find("graph @softmax_2"), std::string::npos);
  EXPECT_EQ(text.find("graph @softmax("), text.rfind("graph @softmax("));
}

TEST(Text, InputsAddedLateMakeTheSameGraph) {
  Graph g;
  const Value x = g.input("x", {DType::f32, {2}});
  const Value y = g.add(Op::neg, {x});
  const Value z = g.input("z", {DType::f32, {2}});
  g.output(g.add(Op::add, {y, z}));
  const Graph again = parse(print(g));
  EXPECT_TRUE(again.same_structure(g));
  EXPECT_EQ(again.hash(), g.hash());
}

TEST(Text, EveryFloatBitPatternSurvives) {
  std::mt19937 random(7);
  std::vector<float> values;
  for (int i = 0; i < 1000; ++i) values.push_back(std::bit_cast<float>(static_cast<std::uint32_t>(random())));
  for (const bool with_nan : {true, false}) {
    if (!with_nan) std::erase_if(values, [](float v) { return std::isnan(v); });
    Graph g;
    g.output(g.constant(
        Literal::of<float>({static_cast<std::int64_t>(values.size())}, std::span<const float>(values))));
    EXPECT_TRUE(parse(print(g)).same_structure(g));
  }
}

struct Bad {
  const char* text;
  ErrorKind kind;
  const char* message;  // a part of what()
};

class Malformed : public testing::TestWithParam<Bad> {};

TEST_P(Malformed, IsRefusedWithItsPosition) {
  const std::string text =
      std::string("systole.ir 1\ngraph @main(%x: f32[2,3], %p: bool[]) {\n  ") + GetParam().text;
  try {
    parse(text, "f.sir");
    FAIL() << "accepted: " << GetParam().text;
  } catch (const Error& e) {
    EXPECT_EQ(e.kind(), GetParam().kind) << e.what();
    EXPECT_NE(std::string(e.what()).find(GetParam().message), std::string::npos) << e.what();
    EXPECT_EQ(e.where().find("f.sir:"), 0u) << e.what();
  }
}

INSTANTIATE_TEST_SUITE_P(
    Text, Malformed,
    testing::Values(
        Bad{"%y = ad(%x, %x) return %y }", ErrorKind::kNotFound,
            "f.sir:3:8: no op is named 'ad'; expected add"},
        Bad{"%y = softmax(%x) return %y }", ErrorKind::kNotFound, "expected composite softmax"},
        Bad{"%y = composite nothing(%x) return %y }", ErrorKind::kNotFound,
            "no composite is named 'nothing'"},
        Bad{"%y = add(%x, %p) return %y }", ErrorKind::kDType, "f.sir:3:8: add: operand 1 has a dtype"},
        Bad{"%y = add(%x) return %y }", ErrorKind::kInvalidArgument,
            "wrong number of operands; expected 2, got 1"},
        Bad{"%y = add(%x, %z) return %y }", ErrorKind::kParse, "3:16: a value that is not defined"},
        Bad{"%x = neg(%x) return %x }", ErrorKind::kParse, "a value of this name exists"},
        Bad{"%y = neg(%x) : f32[3,2] return %y }", ErrorKind::kShape, "expected f32[2,3], got f32[3,2]"},
        Bad{"%y = reshape(%x) {shape=[7]} return %y }", ErrorKind::kShape, "the number of elements changes"},
        Bad{"%y = reshape(%x) return %y }", ErrorKind::kParse, "reshape needs the attribute shape"},
        Bad{"%y = reshape(%x) {shap=[6]} return %y }", ErrorKind::kParse,
            "no such attribute; expected shape"},
        Bad{"%y = reshape(%x) {shape=[6], shape=[6]} return %y }", ErrorKind::kParse,
            "attribute given twice"},
        Bad{"%y = reshape(%x) {shape=[9223372036854775808]} return %y }", ErrorKind::kParse,
            "not a 64-bit integer"},
        Bad{"%y = broadcast(%p) {shape=[9223372036854775807,2]} return %y }", ErrorKind::kLimit,
            "does not fit 64 bits"},
        Bad{"%y = iota() {dtype=f32, shape=[-1]} return %y }", ErrorKind::kShape, "negative dimension"},
        Bad{"%y, %z = neg(%x) return %y }", ErrorKind::kParse, "neg has 1 results, 2 are named"},
        Bad{"%y = constant() {value=f32[2](1)} return %y }", ErrorKind::kParse,
            "f32[2] has 2 elements, 1 are given"},
        Bad{"%y = constant() {value=i8[1](200)} return %y }", ErrorKind::kParse, "a number that fits i8"},
        Bad{"%y = constant() {value=f32[1](hex \"00\")} return %y }", ErrorKind::kParse,
            "has 1 elements, 0 are given"},
        Bad{"%y = constant() {value=f32[1000000000](splat 0)} return %y }", ErrorKind::kParse,
            "broadcast a scalar instead"},
        Bad{"%y = cond(%p, %x) @f @f return %y }", ErrorKind::kParse, "a graph that is not defined before"},
        Bad{"%y = scan(%x) {length=2, carries=1} return %y }", ErrorKind::kInvalidArgument,
            "wrong number of sub-graphs"},
        Bad{"%y = all_reduce(%x) {mesh_axes=[x]} return %y }", ErrorKind::kInvalidArgument,
            "needs a graph with a mesh"},
        Bad{"%y = neg(%x) sharding([x],[]) return %y }", ErrorKind::kInvalidArgument,
            "the graph has no mesh"},
        Bad{"%y = input() return %y }", ErrorKind::kParse, "inputs stand in the graph's signature"},
        Bad{"%y = dimension() {dtype=i32} return %y }", ErrorKind::kParse, "needs the attribute dim"},
        Bad{"%y = composite softmax(%x) {axsi=1} return %y }", ErrorKind::kInvalidArgument,
            "expected one of axis, got 'axsi'"},
        Bad{"return \"a", ErrorKind::kParse, "a string without an end"},
        Bad{"return %x", ErrorKind::kParse, "expected '}', got the end of the file"},
        Bad{"", ErrorKind::kParse, "got the end of the file"}));

TEST(Text, UnusedGraphsAndWrongAliasesAreRefused) {
  const auto message = [](const char* text) -> std::string {
    try {
      parse(text, "f.sir");
      return "accepted";
    } catch (const Error& e) {
      return e.what();
    }
  };
  EXPECT_EQ(message("systole.ir 1\ngraph @helper() { return }\ngraph @m() { return }"),
            "f.sir:2:7: a graph that no later one uses; got '@helper'");
  EXPECT_EQ(message("systole.ir 1\ngraph @z() { return }\ngraph @a() { return }"),
            "f.sir:2:7: a graph that no later one uses; got '@z'");
  // Also when the unused graph is larger than the last one.
  EXPECT_EQ(
      message("systole.ir 1\ngraph @helper(%x: f32[2]) { %y = neg(%x) return %y }\ngraph @m() { return }"),
      "f.sir:2:7: a graph that no later one uses; got '@helper'");
  EXPECT_EQ(message("systole.ir 1\ngraph @m(%x: f32[2] {alias=1}) { return %x }"),
            "f.sir:2:10: alias=1 names no output of this type; expected 0 to 0, an output of type f32[2], "
            "got '%x'");
}

TEST(Text, OtherVersionsAreRefused) {
  EXPECT_THROW(parse("systole.ir 3\ngraph @main() { return }"), Error);
  EXPECT_THROW(parse("systole.ir 0\ngraph @main() { return }"), Error);
  EXPECT_THROW(parse(""), Error);
  EXPECT_THROW(parse("systole.ir 1"), Error);
}

TEST(Text, DeepNestingIsRefused) {
  // 10^5 graphs, each the body of the next.
  std::string text = "systole.ir 1\ngraph @g0(%x: f32[]) { return %x }\n";
  for (int i = 1; i < 100000; ++i)
    text += "graph @g" + std::to_string(i) + "(%x: f32[]) { %y = composite c(%x) @g" + std::to_string(i - 1) +
            " return %y }\n";
  try {
    parse(text);
    FAIL();
  } catch (const Error& e) {
    EXPECT_EQ(e.kind(), ErrorKind::kLimit) << e.what();
  }
  EXPECT_THROW(parse("systole.ir 1\ngraph @main() { %x = reshape(%x) {shape=" + std::string(100000, '[')),
               Error);
  EXPECT_THROW(parse("systole.ir 1\ngraph @main(%x: f32[" +
                     [] {
                       std::string dims = "1";
                       for (int i = 0; i < 1000000; ++i) dims += ",1";
                       return dims;
                     }() +
                     "]) { return }"),
               Error);
}

// Sub-graphs used twice at every level: 2^40 nodes when expanded.
TEST(Text, ExponentialExpansionIsRefused) {
  std::string text = "systole.ir 1\ngraph @g0(%x: f32[]) { %y = neg(%x) return %y }\n";
  for (int i = 1; i < 40; ++i)
    text += "graph @g" + std::to_string(i) + "(%x: f32[]) { %y = composite c(%x) @g" + std::to_string(i - 1) +
            " %z = composite c(%y) @g" + std::to_string(i - 1) + " return %z }\n";
  try {
    parse(text);
    FAIL();
  } catch (const Error& e) {
    EXPECT_EQ(e.kind(), ErrorKind::kLimit) << e.what();
  }
}

// Each sub-graph is used 600 times by the next: 360,000 nodes of a text of 40 KB.
TEST(Text, SubgraphsInManyPlacesShareOneBudget) {
  std::string text = "systole.ir 1\ngraph @g0(%x: f32[]) { %y = neg(%x) return %y }\n";
  for (int i = 1; i <= 2; ++i) {
    text += "graph @g" + std::to_string(i) + "(%x: f32[]) {\n";
    for (int k = 0; k < 600; ++k)
      text += "%y" + std::to_string(k) + " = composite c(%x) @g" + std::to_string(i - 1) + "\n";
    text += "return %y0 }\n";
  }
  const std::string message = error_of(ErrorKind::kLimit, [&] { parse(text, "small.sir"); });
  EXPECT_NE(message.find("small.sir"), std::string::npos) << message;
  EXPECT_NE(message.find("sub-graphs"), std::string::npos) << message;
}

// Several hundred thousand nodes when they are expanded, of a text of 3 MB, with bodies from the registry or,
// as printing writes them, with a body that all share.
TEST(Text, AGraphOfManyCompositesIsAccepted) {
  constexpr int kCount = 100'000;
  std::string text = "systole.ir 1\ngraph @main(%y0: f32[8,16]) {\n";
  for (int i = 0; i < kCount; ++i)
    text += "%y" + std::to_string(i + 1) + " = composite " + (i % 2 == 0 ? "gelu" : "softmax") + "(%y" +
            std::to_string(i) + ")\n";
  text += "return %y" + std::to_string(kCount) + " }\n";
  const Graph graph = parse(text);
  EXPECT_EQ(graph.size(), kCount + 1);
  EXPECT_GT(graph.expanded_size(), 6 * kCount);
  EXPECT_EQ(graph.node(1).graphs[0], graph.node(3).graphs[0]);  // equal ones are one
  EXPECT_EQ(graph.node(1).as<CompositeAttrs>().attrs, graph.node(3).as<CompositeAttrs>().attrs);
  EXPECT_EQ(parse(print(graph)).expanded_size(), graph.expanded_size());
}

// Each is below the limit of one literal; together they ask for 2.7 GB of a text of 3 KB.
TEST(Text, SplatsShareOneBudget) {
  const auto splats = [&](int count) {
    std::string made = "systole.ir 1\ngraph @main() {\n";
    for (int i = 0; i < count; ++i)
      made +=
          "%v" + std::to_string(i) + " = constant() {value=f32[16777216](splat " + std::to_string(i) + ")}\n";
    return made + "return %v0 }\n";
  };
  EXPECT_NO_THROW(parse(splats(4)));
  const std::string message = error_of(ErrorKind::kLimit, [&] { parse(splats(40), "small.sir"); });
  EXPECT_EQ(message.substr(0, 14), "small.sir:7:25") << message;
  EXPECT_NE(message.find("268435456 bytes in all"), std::string::npos) << message;
}

TEST(Text, TruncationAtEveryByteIsRefusedOrWhole) {
  const std::string text = kEverything;
  const std::size_t whole = text.rfind('}') + 1;
  // A prefix may end after an earlier graph; everything else must be an Error.
  for (std::size_t n = 0; n < whole; ++n) {
    try {
      parse(text.substr(0, n));
    } catch (const Error&) {
    }
  }
}

TEST(Text, FlippedBytesNeverCrash) {
  const std::string text = kEverything;
  std::mt19937 random(11);
  for (int i = 0; i < 20000; ++i) {
    std::string bad = text;
    for (int k = 0; k < 1 + i % 3; ++k) bad[random() % bad.size()] = static_cast<char>(random());
    try {
      print(parse(bad));
    } catch (const Error&) {
    }
  }
}

// A file written by version 1 must read the same forever.
TEST(Text, GoldenFileOfVersion1) {
  std::ifstream file(std::string(SYSTOLE_TEST_DATA) + "/golden_v1.sir");
  std::stringstream text;
  text << file.rdbuf();
  ASSERT_FALSE(text.str().empty());
  EXPECT_EQ(print(parse(text.str())), text.str());
}

}  // namespace
}  // namespace systole::ir
