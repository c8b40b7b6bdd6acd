// The emitter's text, op class by op class. What the text computes is checked where a plugin runs it; here
// stands its form, the guards that docs/ir.md asks for, and that every fixture of the conformance suite can
// be said.

#include <gtest/gtest.h>

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "codegen/stablehlo.h"
#include "error_check.h"
#include "systole/ir/text.h"

namespace systole {
namespace {

namespace fs = std::filesystem;

std::string read(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

std::string emitted(const std::string& graphs, const codegen::StableHloOptions& options = {}) {
  return codegen::stablehlo(ir::parse("systole.ir 1\n" + graphs), options);
}

// The statements of one graph, between the signature and the return.
std::string body(const std::string& inputs, const std::string& statements,
                 const codegen::StableHloOptions& options = {}) {
  std::istringstream lines(emitted("graph @main(" + inputs + ") {\n" + statements + "\n}\n", options));
  std::string text, line;
  while (std::getline(lines, line)) {
    if (line.find("func.") != std::string::npos || line.size() <= 3 || line.starts_with("module")) continue;
    text += line.substr(4) + "\n";
  }
  return text;
}

int count(const std::string& text, const std::string& what) {
  int n = 0;
  for (std::size_t at = text.find(what); at != std::string::npos; at = text.find(what, at + 1)) ++n;
  return n;
}

// The names ("%4") in a line, in order.
std::vector<std::string> names_in(const std::string& line) {
  std::vector<std::string> names;
  for (std::size_t at = line.find('%'); at != std::string::npos; at = line.find('%', at + 1)) {
    std::size_t end = at + 1;
    while (end < line.size() && std::isalnum(static_cast<unsigned char>(line[end]))) ++end;
    names.push_back(line.substr(at, end - at));
  }
  return names;
}

// Every name is defined before it is used, in the region of the use or one around it.
void expect_scoped(const std::string& text) {
  std::vector<std::set<std::string>> scopes(1);
  std::istringstream lines(text);
  std::string line;
  while (std::getline(lines, line)) {
    const std::size_t first = line.find_first_not_of(' ');
    if (line[first] == '}') scopes.pop_back();
    ASSERT_FALSE(scopes.empty()) << line;
    const bool is_function = line.find("func.func") != std::string::npos;
    const bool is_block = line[first] == '^';
    if (is_function) scopes.emplace_back();
    std::vector<std::string> used = names_in(line), defined;
    if (is_function || is_block) {
      std::swap(used, defined);
    } else if (line[first] == '%') {
      defined.push_back(used[0]);
      used.erase(used.begin());
    }
    for (const std::string& name : used)
      EXPECT_TRUE(
          std::any_of(scopes.begin(), scopes.end(), [&](const auto& s) { return s.count(name) != 0; }))
          << name << " in " << line;
    scopes.back().insert(defined.begin(), defined.end());
    if (line.back() == '{' && !is_function) scopes.emplace_back();
  }
  EXPECT_EQ(scopes.size(), 1u);
}

// NAME.sir and the NAME.mlir it gives, which XLA has compiled: the whole text, op class by op class.
TEST(StableHlo, TheTextIsThatOfTheGoldenFiles) {
  int files = 0;
  for (const auto& entry : fs::directory_iterator(fs::path(SYSTOLE_TEST_DATA) / "stablehlo")) {
    if (entry.path().extension() != ".sir") continue;
    SCOPED_TRACE(entry.path().filename().string());
    EXPECT_EQ(codegen::stablehlo(ir::parse(read(entry.path()))),
              read(fs::path(entry.path()).replace_extension(".mlir")));
    ++files;
  }
  EXPECT_GE(files, 11);
}

TEST(StableHlo, DonationIsAnOption) {
  const std::string graph = "graph @main(%x: f32[2] {alias=0}) {\n  %y = neg(%x)\n  return %y\n}\n";
  EXPECT_EQ(count(emitted(graph), "%arg0: tensor<2xf32> {tf.aliasing_output = 0 : i32}"), 1);
  EXPECT_EQ(count(emitted(graph, {.donate = false}), "tf.aliasing_output"), 0);
}

TEST(StableHlo, ConstantsKeepEveryBit) {
  const auto constant = [](const std::string& literal) {
    const std::string text = body("", "%c = constant() {value=" + literal + "}\nreturn %c");
    const std::size_t start = text.find("dense<");
    return text.substr(start, text.find("} :") - start);
  };
  EXPECT_EQ(constant("f32[](1.5)"), "dense<1.5> : tensor<f32>");
  EXPECT_EQ(constant("f32[3](0.1, -0.0, 3)"), "dense<[0x3DCCCCCD, -0.0, 3.0]> : tensor<3xf32>");
  EXPECT_EQ(constant("f32[2](inf, nan)"), "dense<[0x7F800000, 0x7FC00000]> : tensor<2xf32>");
  EXPECT_EQ(constant("f64[](0.1)"), "dense<0.1> : tensor<f64>");
  EXPECT_EQ(constant("bf16[2](1, -inf)"), "dense<[1.0, 0xFF80]> : tensor<2xbf16>");
  EXPECT_EQ(constant("f8e4m3fn[2](0.5, nan)"), "dense<[0.5, 0x7F]> : tensor<2xf8E4M3FN>");
  EXPECT_EQ(constant("u64[](18446744073709551615)"), "dense<18446744073709551615> : tensor<ui64>");
  EXPECT_EQ(constant("i8[2,2](1, 2, -3, 4)"), "dense<[[1, 2], [-3, 4]]> : tensor<2x2xi8>");
  EXPECT_EQ(constant("bool[2](true, false)"), "dense<[true, false]> : tensor<2xi1>");
  EXPECT_EQ(constant("i32[0,3]()"), "dense<> : tensor<0x3xi32>");
  EXPECT_EQ(constant("f32[1000](splat 2)"), "dense<2.0> : tensor<1000xf32>");
  EXPECT_EQ(
      constant("u16[17](1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,258)"),
      "dense<\"0x0100020003000400050006000700080009000A000B000C000D000E000F0010000201\"> : tensor<17xui16>");
}

TEST(StableHlo, LongBoolConstantsAreBytes) {
  const std::string text =
      body("", "%c = constant() {value=bool[17](hex \"0100000000000000000000000000000001\")}\nreturn %c");
  EXPECT_NE(text.find("dense<\"0x0100000000000000000000000000000001\"> : tensor<17xui8>"), std::string::npos);
  EXPECT_NE(text.find("comparison_direction NE"), std::string::npos);
}

TEST(StableHlo, IntegerDivisionIsGuardedUnlessTheDivisorIsKnown) {
  const auto by = [](const std::string& op, const std::string& number) {
    return body("%a: i32[4]", "%n = constant() {value=i32[](" + number +
                                  ")}\n%b = broadcast(%n) {shape=[4]}\n%y = " + op + "(%a, %b)\nreturn %y");
  };
  for (const char* op : {"div", "rem"}) {
    EXPECT_EQ(count(by(op, "7"), "select"), 0) << op;
    EXPECT_GT(count(by(op, "0"), "select"), 0) << op;
    EXPECT_GT(count(by(op, "-1"), "select"), 0) << op;
  }
  for (const char* op : {"shift_left", "shift_right", "shift_right_logical"}) {
    EXPECT_EQ(count(by(op, "31"), "select"), 0) << op;
    EXPECT_GT(count(by(op, "32"), "select"), 0) << op;
    EXPECT_GT(count(by(op, "-1"), "select"), 0) << op;
  }
  EXPECT_EQ(count(by("pow", "5"), "multiply"), 4);  // a², a⁴, 1·a, a·a⁴
  EXPECT_EQ(count(by("pow", "-1"), "while"), 1);
}

TEST(StableHlo, FloatsBecomeIntegersBySaturation) {
  const std::string text = body("%a: f32[]", "%y = convert(%a) {dtype=i8}\nreturn %y");
  for (const char* bound : {"dense<128.0>", "dense<-128.0>", "dense<127>", "dense<-128>"})
    EXPECT_EQ(count(text, bound), 1) << bound;
  EXPECT_EQ(count(text, "stablehlo.select"), 3);
  EXPECT_EQ(count(body("%a: f16[]", "%y = convert(%a) {dtype=u32}\nreturn %y"), "dense<0x7C00>"), 1);
}

TEST(StableHlo, EightBitFloatsComputeInF32AndMoveAsBytes) {
  EXPECT_EQ(body("%a: f8e5m2[2]", "%y = exp(%a)\nreturn %y"),
            R"(%0 = "stablehlo.convert"(%arg0) : (tensor<2xf8E5M2>) -> tensor<2xf32>
%1 = "stablehlo.exponential"(%0) : (tensor<2xf32>) -> tensor<2xf32>
%2 = "stablehlo.convert"(%1) : (tensor<2xf32>) -> tensor<2xf8E5M2>
)");
  EXPECT_EQ(body("%a: f8e5m2[2]", "%y = reverse(%a) {axes=[0]}\nreturn %y"),
            R"(%0 = "stablehlo.bitcast_convert"(%arg0) : (tensor<2xf8E5M2>) -> tensor<2xui8>
%1 = "stablehlo.reverse"(%0) {dimensions = array<i64: 0>} : (tensor<2xui8>) -> tensor<2xui8>
%2 = "stablehlo.bitcast_convert"(%1) : (tensor<2xui8>) -> tensor<2xf8E5M2>
)");
}

TEST(StableHlo, IndicesAreSignedAndWideEnough) {
  const auto gather = [](const std::string& dtype) {
    return body("%x: f32[1000,8], %i: " + dtype + "[5,1]",
                "%y = gather(%x, %i) {offset_axes=[1], collapsed_axes=[0], start_index_map=[0], "
                "index_vector_axis=1, slice_sizes=[1,8]}\nreturn %y");
  };
  EXPECT_EQ(
      gather("i32"),
      "%0 = \"stablehlo.gather\"(%arg0, %arg1) {dimension_numbers = #stablehlo.gather<offset_dims = [1], "
      "collapsed_slice_dims = [0], operand_batching_dims = [], start_indices_batching_dims = [], "
      "start_index_map = [0], index_vector_dim = 1>, slice_sizes = array<i64: 1, 8>, indices_are_sorted = "
      "false} : (tensor<1000x8xf32>, tensor<5x1xi32>) -> tensor<5x8xf32>\n");
  EXPECT_NE(gather("u8").find("(tensor<5x1xui8>) -> tensor<5x1xi32>"), std::string::npos);
  EXPECT_NE(gather("u32").find("(tensor<5x1xui32>) -> tensor<5x1xi64>"), std::string::npos);
  EXPECT_NE(gather("u64").find("dense<9223372036854775807> : tensor<5x1xui64>"), std::string::npos);
}

TEST(StableHlo, ReductionsStartFromTheIdentity) {
  EXPECT_EQ(body("%x: f32[2,3]", "%y = reduce(%x) {kind=max, axes=[1]}\nreturn %y"),
            R"(%0 = "stablehlo.constant"() {value = dense<0xFF800000> : tensor<f32>} : () -> tensor<f32>
%1 = "stablehlo.reduce"(%arg0, %0) ({
^bb0(%2: tensor<f32>, %3: tensor<f32>):
  %4 = "stablehlo.maximum"(%2, %3) : (tensor<f32>, tensor<f32>) -> tensor<f32>
  "stablehlo.return"(%4) : (tensor<f32>) -> ()
}) {dimensions = array<i64: 1>} : (tensor<2x3xf32>, tensor<f32>) -> tensor<2xf32>
)");
  const auto start = [](const std::string& dtype, const std::string& kind) {
    const std::string text =
        body("%x: " + dtype + "[3]", "%y = reduce(%x) {kind=" + kind + ", axes=[0]}\nreturn %y");
    const std::size_t at = text.find("dense<") + 6;
    return text.substr(at, text.find('>', at) - at);
  };
  EXPECT_EQ(start("u8", "bitwise_and"), "255");
  EXPECT_EQ(start("i16", "bitwise_and"), "-1");
  EXPECT_EQ(start("bool", "bitwise_and"), "true");
  EXPECT_EQ(start("i64", "max"), "-9223372036854775808");
  EXPECT_EQ(start("u64", "min"), "18446744073709551615");
  EXPECT_EQ(start("f8e4m3fn", "max"), "-448.0");
  EXPECT_EQ(start("f16", "prod"), "1.0");
}

TEST(StableHlo, RunningReductionsTakeLogarithmicallyManySteps) {
  const std::string text =
      body("%x: f32[1000,2]", "%y = cumulative(%x) {kind=sum, axis=0, reverse=true}\nreturn %y");
  EXPECT_EQ(count(text, "stablehlo.pad"), 10);
  EXPECT_EQ(count(text, "edge_padding_low = array<i64: -512, 0>, edge_padding_high = array<i64: 512, 0>"), 1);
}

TEST(StableHlo, ContractionsOfF32AreExactUnlessReducedPrecisionIsAskedFor) {
  const auto dot = [](const std::string& dtype, const codegen::StableHloOptions& options = {}) {
    return body("%a: " + dtype + "[3,4], %b: " + dtype + "[4,5]",
                "%y = dot_general(%a, %b) {a_contract=[1], b_contract=[0]}\nreturn %y", options);
  };
  EXPECT_EQ(count(dot("f32"), "#stablehlo<precision HIGHEST>"), 2);
  EXPECT_EQ(count(dot("f32", {.reduced_precision = true}), "precision"), 0);
  EXPECT_EQ(count(dot("bf16"), "precision"), 0);
  EXPECT_EQ(count(dot("f8e5m2"), "(tensor<3x4xbf16>, tensor<4x5xbf16>) -> tensor<3x5xf32>"), 1);
}

constexpr const char* kSum =
    "graph @sum(%c: f32[], %x: f32[], %k: f32[]) {\n"
    "  %m = mul(%x, %k)\n  %n = add(%c, %m)\n  return %n, %m\n}\n";

std::string scan(const std::string& length, const std::string& attrs = "") {
  return emitted(kSum + ("graph @main(%c: f32[], %x: f32[" + length +
                         "], %k: f32[]) {\n  %t, %p = scan(%c, %x, %k) {length=" + length +
                         ", carries=1, xs=1" + attrs + "} @sum\n  return %t, %p\n}\n"));
}

TEST(StableHlo, AScanIsALoopUnlessItIsEmpty) {
  EXPECT_EQ(count(scan("4"), "stablehlo.while"), 1);
  EXPECT_EQ(count(scan("4", ", reverse=true"), "stablehlo.subtract"), 1);
  EXPECT_EQ(count(scan("0"), "stablehlo.while"), 0);
  EXPECT_EQ(count(scan("3000000000"), "dense<3000000000> : tensor<i64>"), 1);
}

TEST(StableHlo, RandomBitsArePhiloxInIntegers) {
  const std::string text = body("%k: u32[2]", "%y = random_bits(%k) {dtype=u32, shape=[3,3]}\nreturn %y");
  EXPECT_EQ(count(text, "stablehlo.multiply"), 20);  // two a round
  EXPECT_EQ(count(text, "stablehlo.xor"), 40);
  EXPECT_EQ(count(text, "dense<3528531795> : tensor<3xui64>"), 10);
  EXPECT_EQ(count(text, "tensor<3x4xui32>) -> tensor<12xui32>"), 1);
  EXPECT_EQ(count(text, "(tensor<12xui32>) -> tensor<9xui32>"), 1);
  EXPECT_EQ(count(text, "rng"), 0);
}

TEST(StableHlo, CompositesAndKernelsWithABodyAreInlined) {
  EXPECT_EQ(count(body("%x: f32[4]", "%y = composite softmax(%x) {axis=-1}\nreturn %y"), "composite"), 0);
  const std::string body_graph = "graph @b(%x: f32[2]) {\n  %y = neg(%x)\n  return %y\n}\n";
  const auto kernel = [](const std::string& graph) {
    return "graph @main(%x: f32[2]) {\n  %y = kernel_call(%x) {name=\"f\", c=\"void f();\", "
           "results=[f32[2]]}" +
           graph + "\n  return %y\n}\n";
  };
  EXPECT_EQ(count(emitted(body_graph + kernel(" @b")), "negate"), 1);
  const std::string message = error_of(ErrorKind::kUnsupported, [&] { emitted(kernel("")); });
  EXPECT_NE(message.find("kernel_call"), std::string::npos) << message;
}

TEST(StableHlo, SymbolsAreRefused) {
  error_of(ErrorKind::kInvalidArgument,
           [] { emitted("graph @main(%x: f32[N]) {\n  %y = neg(%x)\n  return %y\n}\n"); });
}

constexpr const char* kSharded = R"(graph @main(
    %a: f32[12,6] sharding(["x"], []), %b: f32[12,6] sharding([], ["y"]),
    %c: f32[12,6] sharding(["x"], ["y"]), %d: f32[12,6] sharding(["y", "x"], []),
    %e: f32[12,6] sharding([], [])) mesh(x=2, y=3) {
  %y = neg(%b) : f32[12,6] sharding(["y"], ["x"])
  return %y
}
)";

TEST(StableHlo, ShardingsNameTheTileOfEveryDevice) {
  const std::string text = emitted(kSharded);
  for (const char* sharding :
       {"%arg0: tensor<12x6xf32> {mhlo.sharding = \"{devices=[2,1,3]0,1,2,3,4,5 last_tile_dim_replicate}\"}",
        "%arg1: tensor<12x6xf32> {mhlo.sharding = \"{devices=[1,3,2]0,3,1,4,2,5 last_tile_dim_replicate}\"}",
        "%arg2: tensor<12x6xf32> {mhlo.sharding = \"{devices=[2,3]0,1,2,3,4,5}\"}",
        "%arg3: tensor<12x6xf32> {mhlo.sharding = \"{devices=[6,1]0,3,1,4,2,5}\"}",
        "%arg4: tensor<12x6xf32> {mhlo.sharding = \"{replicated}\"}",
        "-> (tensor<12x6xf32> {mhlo.sharding = \"{devices=[3,2]0,3,1,4,2,5}\"})",
        "\"stablehlo.custom_call\"(%0) {call_target_name = \"Sharding\", mhlo.sharding = "
        "\"{devices=[3,2]0,3,1,4,2,5}\"}",
        "{mhlo.num_partitions = 6 : i32, mhlo.num_replicas = 1 : i32}"})
    EXPECT_NE(text.find(sharding), std::string::npos) << sharding << "\n" << text;
}

TEST(StableHlo, ShardyNamesTheMeshAxes) {
  const std::string text = emitted(kSharded, {.partitioner = codegen::Partitioner::shardy});
  for (const char* part :
       {"\"sdy.mesh\"() {sym_name = \"mesh\", mesh = #sdy.mesh<[\"x\"=2, \"y\"=3]>} : () -> ()",
        "%arg0: tensor<12x6xf32> {sdy.sharding = #sdy.sharding<@mesh, [{\"x\"}, {}]>}",
        "%arg3: tensor<12x6xf32> {sdy.sharding = #sdy.sharding<@mesh, [{\"y\", \"x\"}, {}]>}",
        "-> (tensor<12x6xf32> {sdy.sharding = #sdy.sharding<@mesh, [{\"y\"}, {\"x\"}]>})",
        "\"sdy.sharding_constraint\"(%0) {sharding = #sdy.sharding<@mesh, [{\"y\"}, {\"x\"}]>}"})
    EXPECT_NE(text.find(part), std::string::npos) << part << "\n" << text;
  EXPECT_EQ(count(text, "mhlo.sharding"), 0);
}

TEST(StableHlo, CollectivesListTheirGroupsOfReplicas) {
  const std::string text = emitted(R"(graph @main(%a: f32[6]) mesh(x=2, y=3) {
  %s = all_reduce(%a) {kind=sum, mesh_axes=["y"]}
  %g = all_gather(%a) {axis=0, mesh_axes=["x"]}
  %t = all_to_all(%a) {split_axis=0, concat_axis=0, mesh_axes=["y", "x"]}
  %p = collective_permute(%a) {mesh_axes=["x"], sources=[0], targets=[1]}
  %i = device_index() {mesh_axes=["y"]}
  return %s, %g, %t, %p, %i
}
)");
  for (const char* part :
       {"{mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 6 : i32}",
        "}) {replica_groups = dense<[[0, 1, 2], [3, 4, 5]]> : tensor<2x3xi64>}",
        "{all_gather_dim = 0 : i64, replica_groups = dense<[[0, 3], [1, 4], [2, 5]]> : tensor<3x2xi64>}",
        "split_count = 6 : i64, replica_groups = dense<[[0, 3, 1, 4, 2, 5]]> : tensor<1x6xi64>",
        "{source_target_pairs = dense<[[0, 3], [1, 4], [2, 5]]> : tensor<3x2xi64>}",
        "dense<[0, 1, 2, 0, 1, 2]> : tensor<6xui32>"})
    EXPECT_NE(text.find(part), std::string::npos) << part << "\n" << text;
}

TEST(StableHlo, EveryConformanceGraphCanBeSaid) {
  int graphs = 0;
  for (const auto& entry :
       fs::directory_iterator(fs::path(SYSTOLE_SOURCE_DIR) / "tests/conformance/fixtures")) {
    if (entry.path().extension() != ".sir") continue;
    SCOPED_TRACE(entry.path().filename().string());
    ir::Graph graph = ir::parse(read(entry.path()));
    SymbolValues sizes;
    for (std::size_t i = 0; i < graph.inputs().size(); ++i)
      for (const Dim& d : graph.input_type(i).shape)
        if (!d.is_static()) sizes.set(d.symbol_name(), 3);
    if (!graph.is_static()) graph = ir::bind_symbols(graph, sizes);
    std::string text;
    ASSERT_NO_THROW(text = codegen::stablehlo(graph));
    expect_scoped(text);
    ++graphs;
  }
  EXPECT_GT(graphs, 100);
}

}  // namespace
}  // namespace systole
