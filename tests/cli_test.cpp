// The command as a person or a script meets it: the real program is run and its output, messages and exit
// codes are checked. Expected numbers are computed by hand.

#include <gtest/gtest.h>

#ifdef SYSTOLE_COMMAND

#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "base/nearest.h"
#include "scratch_folder.h"
#include "systole/io.h"
#include "systole/ir.h"
#include "systole/runtime.h"

namespace systole {
namespace {

namespace fs = std::filesystem;

struct Outcome {
  int code = -1;
  std::string out, err;
};

// y = x·w + b, rows of x being the symbol N; z counts the elements of x that are above 0.
constexpr const char* kAffine = R"(systole.ir 1

graph @affine(%x: f32[N,2], %w: f32[2,2], %b: f32[2]) {
  %xw = dot_general(%x, %w) {a_contract=[1], b_contract=[0]}
  %rows = broadcast(%b) {shape=[N,2], axes=[1]}
  %y = add(%xw, %rows)
  %zero = constant() {value=f32[](0)}
  %zeros = broadcast(%zero) {shape=[N,2]}
  %above = greater(%x, %zeros)
  %ones = convert(%above) {dtype=i32}
  %z = reduce(%ones) {kind=sum, axes=[0,1]}
  return y: %y, %z
}
)";

class CliTest : public ScratchFolder {
 protected:
  // `arguments` is shell text; it runs in the test's folder.
  Outcome run(const std::string& arguments, const std::string& input = "", const std::string& prefix = "") {
    write("stdin", input);
    const std::string line = "cd '" + folder_.string() + "' && " + prefix + " '" + SYSTOLE_COMMAND + "' " +
                             arguments + " < stdin > stdout 2> stderr";
    const int status = std::system(line.c_str());
    return {WIFEXITED(status) ? WEXITSTATUS(status) : -1, read("stdout"), read("stderr")};
  }

  void write(const std::string& name, const std::string& text) {
    std::ofstream(folder_ / name, std::ios::binary) << text;
  }

  std::string read(const std::string& name) {
    std::ifstream in(folder_ / name, std::ios::binary);
    std::ostringstream text;
    text << in.rdbuf();
    return text.str();
  }

  // A plugin that misbehaves, in builds that take plugins.
  static fs::path fake(const std::string& variant) {
    return fs::path(SYSTOLE_COMMAND).parent_path() / "tests/pjrt" / ("fake_" + variant + ".so");
  }

  void write_affine() {
    write("affine.sir", kAffine);
    io::save_npy(folder_ / "x.npy", Literal::of<float>({3, 2}, {1, 2, 3, -4, 0, 6}));
    io::save_npy(folder_ / "w.npy", Literal::of<float>({2, 2}, {1, 10, 100, 1000}));
    io::save_npy(folder_ / "b.npy", Literal::of<float>({2}, {0.5f, -1}));
  }
  // x·w + b: rows (1 + 200, 10 + 2000), (3 - 400, 30 - 4000), (600, 6000), plus (0.5, -1).
  const std::vector<double> affine_y_ = {201.5, 2009, -396.5, -3971, 600.5, 5999};
};

void expect_usage_error(const Outcome& outcome, std::string_view part) {
  EXPECT_EQ(outcome.code, 2) << outcome.err;
  EXPECT_TRUE(outcome.out.empty()) << outcome.out;
  EXPECT_TRUE(outcome.err.starts_with("systole: error: ")) << outcome.err;
  EXPECT_NE(outcome.err.find(part), std::string::npos) << outcome.err;
  EXPECT_EQ(std::count(outcome.err.begin(), outcome.err.end(), '\n'), 1) << outcome.err;
}

void expect_failure(const Outcome& outcome, std::string_view part) {
  EXPECT_EQ(outcome.code, 1) << outcome.err;
  EXPECT_TRUE(outcome.err.starts_with("systole: error: ")) << outcome.err;
  EXPECT_NE(outcome.err.find(part), std::string::npos) << outcome.err;
}

TEST(Nearest, TheFewestEditsWinAndFarNamesDoNot) {
  const std::string_view names[] = {"reduce_window", "reduce", "exp", "neg", "or"};
  const std::pair<std::string_view, std::string_view> table[] = {
      {"reduec", "reduce"},    {"reduc", "reduce"}, {"reduce_win", "reduce_window"},
      {"expm", "exp"},         {"nge", "neg"},      {"orchestrate", ""},
      {"convolution", ""},     {"q", ""},           {"", ""},
      {std::string_view(), ""}};
  for (const auto& [wrong, wanted] : table) EXPECT_EQ(nearest(wrong, names), wanted) << wrong;
  EXPECT_EQ(nearest(std::string(100000, 'a'), names), "");
  EXPECT_EQ(nearest("exp", {}), "");
}

TEST_F(CliTest, HelpExplainsEveryCommandWithExamples) {
  const Outcome help = run("--help");
  EXPECT_EQ(help.code, 0);
  EXPECT_TRUE(help.err.empty()) << help.err;
  for (const char* word :
       {"run", "fmt", "ops", "devices", "doctor", "Examples", "systole run model.sir --in"})
    EXPECT_NE(help.out.find(word), std::string::npos) << word;
  for (const char* command : {"run", "fmt", "ops", "devices", "doctor"}) {
    const Outcome own = run(std::string(command) + " --help");
    EXPECT_EQ(own.code, 0) << command;
    EXPECT_NE(own.out.find(std::string("systole ") + command), std::string::npos) << own.out;
  }
}

TEST_F(CliTest, VersionIsOneLine) { EXPECT_EQ(run("--version").out, "systole " SYSTOLE_VERSION "\n"); }

TEST_F(CliTest, WrongUsageExitsWithTwo) {
  EXPECT_EQ(run("").code, 2);
  expect_usage_error(run("exprot model.sir"), "there is no command 'exprot'; did you mean 'export'?");
  expect_usage_error(run("dev"), "did you mean 'devices'?");
  expect_usage_error(run("xyzzy"), "there is no command 'xyzzy'; see systole --help");
  expect_usage_error(run("ops --yaml"), "--yaml");
  expect_usage_error(run("run"), "FILE is required");
  expect_usage_error(run("ops --json --markdown"), "exclude each other; see systole ops --help");
  expect_usage_error(run("fmt - --write"), "--write needs a file");
}

TEST_F(CliTest, EvalSavesResultsByName) {
  write_affine();
  const Outcome outcome = run("run affine.sir --in x.npy w.npy b.npy --out out.npz --device reference");
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_TRUE(outcome.out.empty());
  const std::vector<io::NamedArray> results = io::load_npz(folder_ / "out.npz");
  ASSERT_EQ(results.size(), 2u);
  EXPECT_EQ(results[0].name, "y");
  EXPECT_EQ(results[0].value.type(), (Type{DType::f32, {3, 2}}));
  EXPECT_EQ(results[0].value.to_doubles(), affine_y_);
  EXPECT_EQ(results[1].name, "1");
  EXPECT_EQ(results[1].value.item<std::int32_t>(), 4);
}

TEST_F(CliTest, EvalTakesArraysInOrderByNameAndFromArchivesMixed) {
  write_affine();
  io::save_npz(folder_ / "weights.npz", std::vector<io::NamedArray>{{"w", io::load_npy(folder_ / "w.npy")},
                                                                    {"unused", Literal::scalar(1.0f)}});
  for (const char* in :
       {"b=b.npy weights.npz x.npy", "x.npy weights.npz b.npy", "weights.npz x=x.npy b=b.npy"}) {
    const Outcome outcome = run(std::string("run affine.sir --out out.npz --no-optimize --in ") + in);
    ASSERT_EQ(outcome.code, 0) << outcome.err;
    EXPECT_EQ(io::load_npz(folder_ / "out.npz")[0].value.to_doubles(), affine_y_) << in;
  }
}

TEST_F(CliTest, EvalPrintsNameTypeAndValuesWithoutOut) {
  write_affine();
  const Outcome outcome = run("run - --in x.npy w.npy b.npy", kAffine);
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_TRUE(outcome.out.starts_with("y: f32[3,2]\n")) << outcome.out;
  EXPECT_NE(outcome.out.find("-396.5"), std::string::npos) << outcome.out;
  EXPECT_TRUE(outcome.out.ends_with("1: i32[]\n4\n")) << outcome.out;
}

TEST_F(CliTest, EvalWritesOneResultAsNpyAndReadsSmallFloatsAsBits) {
  for (const auto& [name, dtype] : {std::pair{"bf16", DType::bf16}, {"f8e4m3fn", DType::f8e4m3fn}}) {
    write("neg.sir",
          std::string("systole.ir 1\ngraph @main(%x: ") + name + "[3]) {\n  %y = neg(%x)\n  return %y\n}\n");
    Literal x(Type{dtype, {3}});
    visit_dtype(dtype, [&]<class T>() {
      for (int i = 0; i < 3; ++i)
        x.mutable_values<T>()[static_cast<std::size_t>(i)] = static_cast<T>(i + 0.5);
    });
    io::save_npy(folder_ / "x.npy", x);
    const Outcome outcome = run("run neg.sir --in x.npy --out y.npy");
    ASSERT_EQ(outcome.code, 0) << outcome.err;
    EXPECT_EQ(io::load_npy(folder_ / "y.npy").reinterpreted(dtype).to_doubles(),
              (std::vector<double>{-0.5, -1.5, -2.5}));
  }
}

TEST_F(CliTest, EvalRunsAMeshWithALeadingDeviceAxis) {
  write("mesh.sir", R"(systole.ir 1
graph @main(%x: f32[2]) mesh(d=3) {
  %y = all_reduce(%x) {kind=sum, mesh_axes=[d]}
  return y: %y
}
)");
  io::save_npy(folder_ / "x.npy", Literal::of<float>({3, 2}, {1, 2, 10, 20, 100, 200}));
  const Outcome outcome = run("run mesh.sir --in x.npy --out y.npy --device reference");
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_EQ(io::load_npy(folder_ / "y.npy").type(), (Type{DType::f32, {3, 2}}));
  EXPECT_EQ(io::load_npy(folder_ / "y.npy").to_doubles(),
            (std::vector<double>{111, 222, 111, 222, 111, 222}));

  io::save_npy(folder_ / "x.npy", Literal::of<float>({2}, {1, 2}));
  expect_failure(run("run mesh.sir --in x.npy"), "x.npy: the graph runs on 3 devices");
}

TEST_F(CliTest, EvalRunsAShardedGraphOnOrdinaryArraysAsCompileDoes) {
  constexpr const char* kSharded = R"(systole.ir 1
graph @main(%x: f32[4,2] sharding([d], [])) mesh(d=2) {
  %y = add(%x, %x) sharding([d], [])
  return y: %y
}
)";
  const Literal x = Literal::of<float>({4, 2}, {1, 2, 3, 4, 5, 6, 7, 8});
  const std::vector<double> doubled = {2, 4, 6, 8, 10, 12, 14, 16};
  const CompiledGraph compiled = compile(ir::parse(kSharded), "reference");
  EXPECT_EQ(compiled.device_count(), 1);
  EXPECT_EQ(compiled.run({x})[0].to_doubles(), doubled);

  write("sharded.sir", kSharded);
  io::save_npy(folder_ / "x.npy", x);
  const Outcome outcome = run("run sharded.sir --in x.npy --out y.npy --device reference");
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_EQ(io::load_npy(folder_ / "y.npy").type(), x.type());
  EXPECT_EQ(io::load_npy(folder_ / "y.npy").to_doubles(), doubled);
}

TEST_F(CliTest, RunNamesIndicesOutsideWhenItIsAskedTo) {
  write("rows.sir", R"(systole.ir 1
graph @main(%x: f32[N,2], %i: i64[]) {
  %zero = constant() {value=i64[](0)}
  %y = dynamic_slice(%x, %i, %zero) {sizes=[1,2]}
  return y: %y
}
)");
  io::save_npy(folder_ / "x.npy", Literal::of<float>({3, 2}, {1, 2, 3, 4, 5, 6}));
  io::save_npy(folder_ / "i.npy", Literal::scalar<std::int64_t>(std::int64_t{1} << 40));
  const std::string line = "run rows.sir --in x.npy i.npy --out y.npy --device reference";
  const Outcome clamped = run(line);
  ASSERT_EQ(clamped.code, 0) << clamped.err;
  EXPECT_EQ(io::load_npy(folder_ / "y.npy").to_doubles(), (std::vector<double>{5, 6}));
  const Outcome named = run(line, "", "SYSTOLE_CHECK=1");
  EXPECT_EQ(named.code, 1) << named.out;
  for (const char* part : {"dynamic_slice of f32[3,2] (x)", "i64[] (i)", "0 to 2", "1099511627776 at []"})
    EXPECT_NE(named.err.find(part), std::string::npos) << part << "\n" << named.err;
  io::save_npy(folder_ / "i.npy", Literal::scalar<std::int64_t>(1));
  const Outcome inside = run(line, "", "SYSTOLE_CHECK=1");
  ASSERT_EQ(inside.code, 0) << inside.err;
  EXPECT_EQ(io::load_npy(folder_ / "y.npy").to_doubles(), (std::vector<double>{3, 4}));
}

TEST_F(CliTest, TextThatIsNotUtf8SaysHowToConvertIt) {
  write("gbk.sir", "systole.ir 1\n// \xb3\xc7\xca\xd0\ngraph @main(%x: f32[2]) {\n  return %x\n}\n");
  const std::string expected = "line 2: byte 16: the text is not UTF-8";
  for (const char* command : {"run gbk.sir --in x.npy", "fmt gbk.sir"}) {
    const Outcome outcome = run(command);
    EXPECT_EQ(outcome.code, 1) << command;
    EXPECT_NE(outcome.err.find("gbk.sir: " + expected), std::string::npos) << outcome.err;
    EXPECT_NE(outcome.err.find("iconv -f GB18030 -t UTF-8"), std::string::npos) << outcome.err;
  }
  if (run("train /dev/null").err.find("toml++ was not there") != std::string::npos) return;
  write("gbk.toml", "[data]\nsource = \"csv:\xb3\xc7\xca\xd0.csv\"\n");
  const Outcome outcome = run("train gbk.toml");
  EXPECT_NE(outcome.code, 0);
  EXPECT_NE(outcome.err.find("gbk.toml: line 2: byte 21: the text is not UTF-8"), std::string::npos)
      << outcome.err;
}

TEST_F(CliTest, EvalNamesTheFileWhoseShapeIsWrong) {
  write_affine();
  io::save_npy(folder_ / "b.npy", Literal::of<float>({3}, {0, 0, 0}));
  expect_failure(run("run affine.sir --in x.npy w.npy b.npy"), "error: b.npy: input 2 \"b\"");
  io::save_npz(folder_ / "all.npz", std::vector<io::NamedArray>{{"x", Literal::of<float>({2}, {1, 2})},
                                                                {"w", io::load_npy(folder_ / "w.npy")},
                                                                {"b", Literal::of<float>({2}, {1, 2})}});
  expect_failure(run("run affine.sir --in all.npz"), "error: all.npz: x: input 0 \"x\"");

  write("two.sir",
        "systole.ir 1\ngraph @main(%x: f32[N], %y: f32[N]) {\n  %z = add(%x, %y)\n  return %z\n}\n");
  io::save_npy(folder_ / "three.npy", Literal::of<float>({3}, {1, 2, 3}));
  io::save_npy(folder_ / "four.npy", Literal::of<float>({4}, {1, 2, 3, 4}));
  const Outcome contradiction = run("run two.sir --in three.npy four.npy");
  expect_failure(contradiction, "error: four.npy: ");
  expect_failure(contradiction, "N = 4, an earlier one 3");
}

TEST_F(CliTest, UnnamedInputsAreListedByNumber) {
  write("add.sir",
        "systole.ir 1\ngraph @main(%0: f32[2], %1: f32[2]) {\n  %2 = add(%0, %1)\n"
        "  return %2\n}\n");
  io::save_npy(folder_ / "x.npy", Literal::of<float>({2}, {1, 2}));
  io::save_npy(folder_ / "i.npy", Literal::of<std::int32_t>({2}, {1, 2}));
  expect_usage_error(run("run add.sir"), "inputs without an array: input 0: f32[2], input 1: f32[2];");
  expect_usage_error(run("run add.sir --in a=x.npy"), "its inputs are input 0: f32[2], input 1: f32[2]");
  expect_usage_error(run("run add.sir --in =x.npy"), "the graph has no input");
  expect_failure(run("run add.sir --in x.npy i.npy"), "i.npy: wrong dtype for input 1;");
  io::save_npz(folder_ / "x.npz", std::vector<io::NamedArray>{{"", Literal::of<float>({2}, {1, 2})}});
  expect_usage_error(run("run add.sir --in x.npz"), "inputs without an array: input 0");
}

TEST_F(CliTest, ResultsWithoutANameNeverTakeTheNameOfAnother) {
  ir::Graph graph;
  const ir::Value x = graph.input("x", {DType::f32, {}});
  graph.output(x, "1");
  graph.output(graph.add(ir::Op::neg, {x}));
  graph.output(graph.add(ir::Op::add, {x, x}));
  graph.output(x, "2_");
  graph.output(x, "2");
  write("g.sir", ir::print(graph));
  io::save_npy(folder_ / "x.npy", Literal::scalar(3.0f));
  const Outcome outcome = run("run g.sir --in x.npy --out y.npz");
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  const std::vector<io::NamedArray> results = io::load_npz(folder_ / "y.npz");
  const std::pair<const char*, float> wanted[] = {{"1", 3}, {"1_", -3}, {"2__", 6}, {"2_", 3}, {"2", 3}};
  ASSERT_EQ(results.size(), std::size(wanted));
  for (std::size_t i = 0; i < results.size(); ++i) {
    EXPECT_EQ(results[i].name, wanted[i].first);
    EXPECT_EQ(results[i].value.item<float>(), wanted[i].second);
  }
}

TEST_F(CliTest, EvalNamesTheArgumentThatIsWrong) {
  write_affine();
  expect_usage_error(run("run affine.sir --in x.npy"), "inputs without an array: w: f32[2,2], b: f32[2]");
  expect_usage_error(run("run affine.sir --in x.npy w.npy b.npy b.npy"), "more arrays than inputs");
  expect_usage_error(run("run affine.sir --in q=x.npy"),
                     "the graph has no input q; its inputs are x: f32[N,2]");
  expect_usage_error(run("run affine.sir --in x=x.npy x=x.npy"), "input x is given twice");
  expect_usage_error(run("run affine.sir --in x.txt"), "expected FILE.npy");
  expect_usage_error(run("run affine.sir --in x.npy w.npy b.npy --out y.txt"),
                     "expected FILE.npz or FILE.npy");
  expect_usage_error(run("run affine.sir --in x.npy w.npy b.npy --out y.npy"),
                     "the graph has 2 results; use .npz");
  expect_failure(run("run affine.sir --in x.npy w.npy no.npy"), "no.npy: cannot open");
  expect_failure(run("run no.sir"), "no.sir: cannot open");
  expect_failure(run("run affine.sir --in x.npy w.npy b.npy --device warp:0"), "warp");

  io::save_npy(folder_ / "b.npy", Literal::of<double>({2}, {0, 0}));
  expect_failure(run("run affine.sir --in x.npy w.npy b.npy"),
                 "b.npy: wrong dtype for input b; in Python: array.astype('float32'); expected f32, got f64");
  io::save_npy(folder_ / "b.npy", Literal::of<float>({3}, {0, 0, 0}));
  const Outcome shape = run("run affine.sir --in x.npy w.npy b.npy --out out.npz");
  expect_failure(shape, "b.npy");
  EXPECT_FALSE(fs::exists(folder_ / "out.npz"));
}

TEST_F(CliTest, ACommandsOldNameWorksAndSaysThePresentOne) {
  write_affine();
  const Outcome old = run("eval affine.sir --in x.npy w.npy b.npy");
  EXPECT_EQ(old.code, 0) << old.err;
  EXPECT_EQ(old.out, run("run affine.sir --in x.npy w.npy b.npy").out);
  EXPECT_NE(old.err.find("`systole eval` is now `systole run`"), std::string::npos) << old.err;
  EXPECT_EQ(run("--help").out.find("  eval "), std::string::npos);
}

TEST_F(CliTest, MalformedTextIsLocated) {
  const Outcome outcome =
      run("run -", "systole.ir 1\ngraph @main(%x: f32[2]) {\n  %y = nag(%x)\n  return %y\n}\n");
  expect_failure(outcome, "<stdin>:3:8");
  expect_failure(run("fmt -", "systole.ir 999"), "<stdin>:1:12");
  expect_failure(run("fmt -", "\x1b[31m"), "got '\\x1b'");  // nothing that drives the terminal
  expect_failure(run("fmt -"), "<stdin>:1:1");
}

TEST_F(CliTest, FmtPrintsChecksAndWrites) {
  const std::string messy = "systole.ir 1\n// doubles x\ngraph @g( %x:f32[ 2 ] ){ %y=add(%x,%x)\nreturn %y }";
  write("g.sir", messy);
  const Outcome printed = run("fmt g.sir");
  ASSERT_EQ(printed.code, 0) << printed.err;
  EXPECT_NE(printed.out.find("// doubles x\n"), std::string::npos) << "comments are kept:\n" << printed.out;
  EXPECT_NE(printed.out.find("  %y = add(%x, %x) : f32[2]\n"), std::string::npos) << printed.out;
  EXPECT_EQ(run("fmt -", messy).out, printed.out);

  EXPECT_EQ(run("fmt --check g.sir").code, 1);
  EXPECT_EQ(read("g.sir"), messy) << "--check changes nothing";
  EXPECT_EQ(run("fmt --write g.sir").code, 0);
  EXPECT_EQ(read("g.sir"), printed.out);
  EXPECT_EQ(run("fmt --check g.sir").code, 0);

  write("bad.sir", "systole.ir 1\ngraph @g(");
  EXPECT_EQ(run("fmt --write bad.sir").code, 1);
  EXPECT_EQ(read("bad.sir"), "systole.ir 1\ngraph @g(") << "what does not parse is left alone";
}

TEST_F(CliTest, OpsJsonHoldsEveryOpAndTheReferenceBackendSupportsAll) {
  const Outcome outcome = run("ops --json");
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  const nlohmann::json list = nlohmann::json::parse(outcome.out);
  std::set<std::string> names;
  for (const nlohmann::json& op : list) {
    SCOPED_TRACE(op.dump());
    names.insert(op.at("kind").get<std::string>() + " " + op.at("name").get<std::string>());
    for (const char* field :
         {"class", "operands", "dtypes", "tolerance", "semantics", "attributes", "backends"})
      EXPECT_TRUE(op.contains(field)) << field;
    EXPECT_FALSE(op.at("dtypes").empty());
    const nlohmann::json& reference = op.at("backends").at("reference");
    if (op.at("name") == "kernel_call") {
      EXPECT_TRUE(reference.at("supported") || !reference.at("reason").get<std::string>().empty());
    } else {
      EXPECT_TRUE(reference.at("supported").get<bool>());
    }
  }
  for (const ir::OpInfo& op : ir::all_ops())
    EXPECT_TRUE(names.contains("primitive " + std::string(op.name))) << op.name;
  for (const ir::CompositeDef* def : ir::all_composites())
    EXPECT_TRUE(names.contains("composite " + def->name));
  EXPECT_EQ(names.size(), list.size());
}

TEST_F(CliTest, OpsTableFitsTheTerminal) {
  for (const int width : {60, 80, 120}) {
    const Outcome outcome = run("ops", "", "COLUMNS=" + std::to_string(width));
    ASSERT_EQ(outcome.code, 0) << outcome.err;
    EXPECT_NE(outcome.out.find("dot_general"), std::string::npos);
    EXPECT_EQ(outcome.out.find('\x1b'), std::string::npos) << "no colour outside a terminal";
    std::istringstream lines(outcome.out);
    for (std::string line; std::getline(lines, line);)
      EXPECT_LE(std::count_if(line.begin(), line.end(), [](unsigned char c) { return (c & 0xc0) != 0x80; }),
                width)
          << line;
  }
}

TEST_F(CliTest, DevicesListsTheReference) {
  const Outcome outcome = run("devices");
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_NE(outcome.out.find("\nreference"), std::string::npos) << outcome.out;
}

TEST_F(CliTest, DevicesAndDoctorSayWhyThereIsNoGpu) {
  const std::string hidden = "env CUDA_VISIBLE_DEVICES=";  // of a machine that has one
  const Outcome devices = run("devices", "", hidden), doctor = run("doctor", "", hidden);
  const std::size_t row = devices.out.find("\ncuda ");
  ASSERT_NE(row, std::string::npos) << devices.out;
  EXPECT_NE(devices.out.find("not available: no NVIDIA", row), std::string::npos) << devices.out;
  EXPECT_NE(doctor.out.find("cuda: no device: no NVIDIA"), std::string::npos) << doctor.out;
}

TEST_F(CliTest, DoctorNamesWhatIsBrokenWithItsRepair) {
  const std::string clean =
      "env -u CC -u SYSTOLE_PJRT_PLUGIN -u PJRT_NAMES_AND_LIBRARY_PATHS SYSTOLE_CACHE_DIR=cache";
  const Outcome healthy = run("doctor", "", clean);
  EXPECT_EQ(healthy.code, 0) << healthy.out << healthy.err;
  EXPECT_NE(healthy.out.find("ok       reference"), std::string::npos) << healthy.out;
  EXPECT_NE(healthy.out.find("SYSTOLE_CACHE_DIR=cache"), std::string::npos) << healthy.out;
  for (const char* part : {"compiler for kernels made at run time\n  ok       cpu: ",
                           "ok       cache: "})  // there already when a plugin was tried
    EXPECT_NE(healthy.out.find(part), std::string::npos) << healthy.out;

  write("plugin.so", "not a library");
  const Outcome broken = run("doctor", "", clean + " SYSTOLE_PJRT_PLUGIN=./plugin.so CC=/no/such/compiler");
  EXPECT_EQ(broken.code, 1);
  if (fs::exists(fake("none"))) {
    EXPECT_NE(broken.out.find("FAIL     pjrt:plugin: ./plugin.so (SYSTOLE_PJRT_PLUGIN)"), std::string::npos)
        << broken.out;
  }
  EXPECT_NE(broken.out.find("FAIL     CC=/no/such/compiler: there is no such program"), std::string::npos)
      << broken.out;
  EXPECT_NE(broken.out.find("repair: set CC, SYSTOLE_CLANG_PATH and TMPDIR to what works, or unset them"),
            std::string::npos)
      << broken.out;

  write("blocked", "");
  EXPECT_NE(
      run("doctor", "", clean + " SYSTOLE_CACHE_DIR=blocked").out.find("FAIL     blocked is not a folder"),
      std::string::npos);
}

// What doctor says of compilers is what a run does with them.
TEST_F(CliTest, DoctorAndRunsAgreeOnTheCompiler) {
  write_affine();
  const std::string nothing = "env SYSTOLE_CACHE=0 COLUMNS=2000 SYSTOLE_CLANG_PATH=none PATH=none CC=";
  const Outcome doctor = run("doctor", "", nothing + "/bin/false");
  EXPECT_NE(doctor.out.find("\n  missing  cpu: evaluated without kernels"), std::string::npos) << doctor.out;
  EXPECT_NE(doctor.out.find("repair: much slower than kernels: apt install"), std::string::npos)
      << doctor.out;
  EXPECT_NE(doctor.out.find("FAIL     /bin/false: does not compile"), std::string::npos) << doctor.out;
  const Outcome eval = run("run affine.sir --in x.npy w.npy b.npy --device cpu", "", nothing + "/bin/false");
  EXPECT_EQ(eval.code, 0) << eval.err;
  EXPECT_NE(eval.err.find("systole: warning: steps are evaluated without kernels: /bin/false"),
            std::string::npos)
      << eval.err;
  const Outcome portable = run("doctor", "", "env SYSTOLE_JIT=portable");
  EXPECT_NE(portable.out.find("\n  missing  cpu: evaluated without kernels"), std::string::npos)
      << portable.out;
}

// It was a line in a log that nobody reads, and slow kernels.
TEST_F(CliTest, AVariableThatNamesNoOneDnnIsAnError) {
  write_affine();
  const std::string eval = "run affine.sir --in x.npy w.npy b.npy";
  const Outcome healthy = run("doctor", "", "env -u SYSTOLE_ONEDNN COLUMNS=2000");
  if (healthy.out.find("no OpenMP") != std::string::npos) GTEST_SKIP() << "a build without OpenMP";
  const bool is_there = healthy.out.find("\n  ok       oneDNN 3.") != std::string::npos;
  EXPECT_TRUE(is_there || healthy.out.find("\n  missing  oneDNN, without it") != std::string::npos)
      << healthy.out;
  if (is_there) {
    EXPECT_NE(healthy.out.find("libdnnl.so.3)\n"), std::string::npos) << healthy.out;
  }
  write("text.so", "no library");
  for (const char* const file : {"/no/such/libdnnl.so.3", "./text.so", "libm.so.6"}) {
    const std::string set = std::string("env COLUMNS=2000 SYSTOLE_ONEDNN=") + file;
    const std::string wanted =
        std::string("SYSTOLE_ONEDNN: names no oneDNN that can be used: ") + file + ": ";
    const Outcome doctor = run("doctor", "", set);
    EXPECT_EQ(doctor.code, 1);
    EXPECT_NE(doctor.out.find("FAIL     " + wanted), std::string::npos) << doctor.out;
    for (const char* const device : {"", " --device cpu"}) {  // no other device takes its place
      const Outcome outcome = run(eval + device, "", set);
      EXPECT_EQ(outcome.code, 1);
      EXPECT_NE(outcome.err.find(wanted), std::string::npos) << outcome.err;
    }
  }
  EXPECT_EQ(run(eval + " --device cpu", "", "env SYSTOLE_ONEDNN=0").code, 0);
}

TEST_F(CliTest, ATraceThatCannotBeWrittenIsTold) {
  write_affine();
  const std::string eval = "run affine.sir --in x.npy w.npy b.npy --device reference";
  const std::string clean = "env -u SYSTOLE_LOG SYSTOLE_TRACE=";
  for (const auto& [file, reason] :
       {std::pair{"no/trace.json", "No such file or directory"}, {"/dev/full", "it is not a regular file"}}) {
    const Outcome outcome = run(eval, "", clean + file);
    EXPECT_EQ(outcome.code, 0);
    EXPECT_EQ(outcome.err, std::string("systole: warning: ") + file +
                               ": the timeline cannot be written: " + reason + "\n");
  }
  // Files of 512 bytes at most: the end of the timeline does not fit.
  const Outcome full = run(eval, "", "trap '' XFSZ; ulimit -f 1; " + clean + "trace.json");
  EXPECT_EQ(full.code, 0);
  EXPECT_EQ(full.err, "systole: warning: trace.json: the timeline ends here: File too large\n");
  EXPECT_EQ(run(eval, "", clean + "trace.json").err, "");
  EXPECT_NE(read("trace.json").find("run affine"), std::string::npos);
}

TEST_F(CliTest, DoctorStartsEveryPluginThatIsFound) {
  if (!fs::exists(fake("none"))) GTEST_SKIP() << "a build without PJRT plugins";
  const std::string clean =
      "env -u SYSTOLE_PJRT_PLUGIN -u PYTHONPATH -u VIRTUAL_ENV -u SYSTOLE_PLUGIN_PATH SYSTOLE_CACHE=0 "
      "SYSTOLE_PJRT_TIMEOUT=3 COLUMNS=2000 PJRT_NAMES_AND_LIBRARY_PATHS=";
  const std::pair<const char*, const char*> broken[] = {{"no_symbol", "has no GetPjrtApi"},
                                                        {"init_hang", "took more than 3 s"},
                                                        {"client_abort", "crash"},
                                                        {"client_error", "no such accelerator"}};
  std::string list;
  for (const auto& [variant, reason] : broken)
    list += std::string(variant) + ":" + fake(variant).string() + ",";
  fs::create_directories(folder_ / "conf/systole");
  write("conf/systole/plugins", "# of mine\n7:/opt/number.so\n");
  const Outcome outcome =
      run("doctor", "", "XDG_CONFIG_HOME=$PWD/conf " + clean + "'" + list + "absent:no.so,nonsense'");
  EXPECT_EQ(outcome.code, 1);
  for (const auto& [variant, reason] : broken) {
    const std::string line = "FAIL     pjrt:" + std::string(variant) + ": " + fake(variant).string();
    const std::size_t at = outcome.out.find(line);
    ASSERT_NE(at, std::string::npos) << outcome.out;
    const std::string rest = outcome.out.substr(at, outcome.out.find('\n', at) - at);
    EXPECT_NE(rest.find(reason), std::string::npos) << rest;
  }
  for (const char* part :
       {"FAIL     pjrt:absent: no.so", "FAIL     PJRT_NAMES_AND_LIBRARY_PATHS: \"nonsense\" is not NAME:PATH",
        "conf/systole/plugins:2: \"7:/opt/number.so\" is not NAME:PATH"})
    EXPECT_NE(outcome.out.find(part), std::string::npos) << outcome.out;
  EXPECT_EQ(outcome.out.find("no plugin is"), std::string::npos) << outcome.out;
}

TEST_F(CliTest, DoctorAndCacheSayWhyAFolderIsNotUsed) {
  fs::create_directories(folder_ / "open/compiled");
  fs::permissions(folder_ / "open/compiled", fs::perms::all);
  const std::string there = "env -u SYSTOLE_CACHE -u SYSTOLE_CACHE_LIMIT SYSTOLE_CACHE_DIR=open";
  const Outcome doctor = run("doctor", "", there), cache = run("cache", "", there);
  EXPECT_EQ(doctor.code, 1);
  EXPECT_NE(doctor.out.find("FAIL     others may write to open/compiled"), std::string::npos) << doctor.out;
  EXPECT_NE(cache.out.find("\nnot used: others may write to open/compiled\n"), std::string::npos)
      << cache.out;
}

TEST_F(CliTest, CacheIsShownAndCleared) {
  // What doctor tries out is not kept, however long it took to compile.
  const std::string there =
      "env -u SYSTOLE_CACHE -u SYSTOLE_CACHE_LIMIT SYSTOLE_CACHE_MIN_MS=3600000 SYSTOLE_CACHE_DIR=kept";
  EXPECT_EQ(run("cache", "", there).out, "kept/compiled: 0 compiled programs, 0 bytes of 4.0 GiB\n");
  std::filesystem::create_directories(folder_ / "kept/compiled");
  write("kept/compiled/pjrt-1.systole", std::string(2048, 'x'));
  write("kept/compiled/mine.txt", "not ours to remove");
  EXPECT_EQ(run("cache", "", there).out, "kept/compiled: 1 compiled program, 2.0 KiB of 4.0 GiB\n");
  EXPECT_NE(run("doctor", "", there).out.find("kept: 1 compiled program, 2.0 KiB of 4.0 GiB"),
            std::string::npos);
  EXPECT_EQ(run("cache --clear", "", there).out, "kept/compiled: removed 1 compiled program, 2.0 KiB\n");
  EXPECT_TRUE(std::filesystem::exists(folder_ / "kept/compiled/mine.txt"));
  const Outcome off = run("cache", "", there + " SYSTOLE_CACHE=0");
  EXPECT_EQ(off.code, 1);
  EXPECT_NE(off.err.find("cache: there is none"), std::string::npos) << off.err;
  const Outcome wrong = run("doctor", "", there + " SYSTOLE_CACHE=maybe");
  EXPECT_NE(wrong.out.find("FAIL     SYSTOLE_CACHE: the environment variable has a wrong value"),
            std::string::npos)
      << wrong.out;
}

TEST_F(CliTest, CompilePrintsStepsKernelsOrBoth) {
  write_affine();
  const std::string steps = run("compile affine.sir --size N=3").out,
                    kernels = run("compile affine.sir --size N=3 --source").out,
                    both = run("compile affine.sir --size N=3 --source --explain").out;
  EXPECT_EQ(run("compile affine.sir --size N=3 --explain").out, steps);
  ASSERT_FALSE(steps.empty());
  std::string comments;
  std::istringstream lines(steps);
  for (std::string line; std::getline(lines, line);) comments += "// " + line + "\n";
  EXPECT_EQ(both, comments + "\n" + kernels);
}

TEST_F(CliTest, CompileTakesEveryWorkloadAndSaysWhichThereAre) {
  expect_usage_error(run("compile T1@63"), "there is no T1@63; the batches of T1 are 64, 512");
  expect_usage_error(run("compile T7"), "did you mean T1? The workloads are T1@64, ");
  EXPECT_TRUE(run("compile K1 --target opencl").out.starts_with("1 kernels"));
  // A network of two layers, 784-128-10.
  const Outcome mlp = run("compile I1@64 --target cuda --regions");
  EXPECT_EQ(mlp.code, 0) << mlp.err;
  const auto count = [&](const std::string& what) {
    std::size_t found = 0;
    for (std::size_t at = mlp.out.find(what); at != std::string::npos; at = mlp.out.find(what, at + 1))
      ++found;
    return found;
  };
  EXPECT_EQ(count("= dot_general("), 2u) << mlp.out;
  expect_failure(run("compile no.sir"), "no.sir: cannot open");
}

// CUDA takes 4096 bytes of arguments, OpenCL's least is 1024 with twice as many for a buffer.
TEST_F(CliTest, KernelsAreSplitByWhatATargetTakes) {
  std::string inputs, sum, last = "%x0";
  for (int i = 0; i < 120; ++i) {
    const std::string n = std::to_string(i);
    inputs += (i > 0 ? ", %x" : "%x") + n + ": f32[4]";
    if (i > 0) sum += "  %s" + n + " = add(" + last + ", %x" + n + ")\n";
    if (i > 0) last = "%s" + n;
  }
  write("many.sir", "systole.ir 1\ngraph @many(" + inputs + ") {\n" + sum + "  return " + last + "\n}\n");
  EXPECT_TRUE(run("compile many.sir --target cuda").out.starts_with("1 kernels"));
  EXPECT_FALSE(run("compile many.sir --target opencl").out.starts_with("1 kernels"));
}

TEST_F(CliTest, ClosedPipeIsQuietAndFullDiskIsNot) {
  const std::string command = std::string("'") + SYSTOLE_COMMAND + "' ops ";
  const std::string cut =
      "cd '" + folder_.string() + "' && { " + command + "--json 2> stderr; } | head -c 1 > stdout";
  ASSERT_NE(std::system(cut.c_str()), -1);
  EXPECT_EQ(read("stderr"), "");
  const int status =
      std::system(("cd '" + folder_.string() + "' && " + command + " > /dev/full 2> stderr").c_str());
  EXPECT_EQ(WEXITSTATUS(status), 1);
  EXPECT_NE(read("stderr").find("No space left on device"), std::string::npos) << read("stderr");
}

}  // namespace
}  // namespace systole

#endif
