// Compiling for TPUs that are not there, as a program and as a person at the command line meet it. FLOPs,
// bytes and padding are calculated by hand. What needs libtpu is skipped where scripts/setup could not bring
// it.

#include <gtest/gtest.h>
#include <sys/wait.h>

#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "../error_check.h"
#include "../scratch_folder.h"
#include "systole/backend/tpu.h"
#include "systole/ir/text.h"

#ifdef SYSTOLE_COMMAND
#include <nlohmann/json.hpp>
#endif

namespace systole {
namespace {

namespace fs = std::filesystem;

class Variable {  // of the environment, for a scope
 public:
  Variable(const char* name, const std::string& value) : name_(name) {
    if (const char* const old = std::getenv(name)) old_ = old;
    ::setenv(name, value.c_str(), 1);
  }
  ~Variable() { old_.empty() ? ::unsetenv(name_) : ::setenv(name_, old_.c_str(), 1); }

 private:
  const char* name_;
  std::string old_;
};

class TpuCompile : public ScratchFolder {
 protected:
  void SetUp() override {
    if (!fs::exists(fs::path(SYSTOLE_DEPS) / "libtpu" / "libtpu.so"))
      GTEST_SKIP() << "no libtpu in " << SYSTOLE_DEPS;
  }
  Variable plugins_{"SYSTOLE_PLUGIN_PATH", SYSTOLE_DEPS};
};

// 65536 × 65536 f32 numbers are 16 GiB.
constexpr const char* kHuge = R"(systole.ir 1

graph @huge(%a: f32[65536,65536], %b: f32[65536,65536]) {
  %c = add(%a, %b)
  return %c
}
)";

constexpr const char* kProduct = R"(systole.ir 1

graph @product(%a: bf16[1024,512], %b: bf16[512,256]) {
  %c = dot_general(%a, %b) {a_contract=[1], b_contract=[0]}
  return %c
}
)";

constexpr double kGibi = 1 << 30;

TEST_F(TpuCompile, figures_of_a_product_are_those_of_its_sizes) {
  const tpu::Report report = tpu::compile(ir::parse(kProduct), "v5e:2x2");
  EXPECT_EQ(report.topology.chip, "TPU v5 lite");
  EXPECT_EQ(report.topology.devices, 4);
  EXPECT_EQ(report.devices, 1);
  EXPECT_TRUE(report.fits());
  EXPECT_EQ(report.argument_bytes, 2 * (1024 * 512 + 512 * 256));
  EXPECT_GE(report.output_bytes, 2 * 1024 * 256);
  EXPECT_LT(report.output_bytes, 2 * 1024 * 256 + 4096);
  EXPECT_NEAR(report.flops, 2.0 * 1024 * 512 * 256, 0.01 * 2 * 1024 * 512 * 256);
  EXPECT_GE(report.bytes_accessed, 2 * (1024 * 512 + 512 * 256 + 1024 * 256));
  EXPECT_GT(report.seconds, report.flops / 197e12);
  EXPECT_LT(report.seconds, 1e-3);
  EXPECT_TRUE(report.waste.empty());
  EXPECT_TRUE(report.advice.empty());
  EXPECT_GT(report.executable.size(), 1000u);
}

TEST_F(TpuCompile, a_program_that_does_not_fit_says_how_much_it_needs) {
  const tpu::Report report = tpu::compile(ir::parse(kHuge), "v5e:2x2");
  EXPECT_FALSE(report.fits());
  EXPECT_NEAR(static_cast<double>(report.peak_bytes()), 48 * kGibi, 0.01 * kGibi);
  EXPECT_NEAR(static_cast<double>(report.topology.hbm_bytes), 15.75 * kGibi, 0.01 * kGibi);
  EXPECT_TRUE(report.executable.empty());
  EXPECT_TRUE(tpu::compile(ir::parse(kHuge), "v5p:2x2x1").fits());  // which has 95 GiB
}

TEST_F(TpuCompile, what_the_compiler_refuses_is_an_error_in_its_words) {
  EXPECT_NE(error_of(ErrorKind::kInvalidArgument, [] { tpu::compile(ir::parse(kProduct), "v5e:3x3"); })
                .find("not divisible"),
            std::string::npos);
  EXPECT_NE(error_of(ErrorKind::kInvalidArgument, [] { tpu::topology("v5e:3x3"); }).find("not divisible"),
            std::string::npos);
}

TEST_F(TpuCompile, a_mesh_of_another_size_is_refused) {
  ir::Graph graph = ir::parse(kProduct);
  graph.set_mesh({{{"data", 3}}});
  const std::string message = error_of(ErrorKind::kInvalidArgument, [&] { tpu::compile(graph, "v5e:2x2"); });
  EXPECT_NE(message.find("expected 4 devices, got 3"), std::string::npos) << message;
}

TEST_F(TpuCompile, f32_takes_at_least_its_six_passes) {
  std::string text = kProduct;
  for (std::size_t at; (at = text.find("bf16")) != std::string::npos;) text.replace(at, 4, "f32");
  for (std::size_t at; (at = text.find("1024,512")) != std::string::npos;) text.replace(at, 8, "1024,1024");
  for (std::size_t at; (at = text.find("512,256")) != std::string::npos;) text.replace(at, 7, "1024,1024");
  const tpu::Report report = tpu::compile(ir::parse(text), "v5e:2x2");
  EXPECT_GE(report.seconds, 6 * 2 * std::pow(1024.0, 3) / 197e12);
  EXPECT_EQ(report.estimate, tpu::Estimate::roofline);
  ASSERT_EQ(report.advice.size(), 1u);
  EXPECT_NE(report.advice[0].find("100 % of the FLOPs are f32"), std::string::npos) << report.advice[0];
}

TEST_F(TpuCompile, topologies_have_the_memory_that_libtpu_gives_programs) {
  const std::vector<tpu::Topology> all = tpu::topologies();
  ASSERT_EQ(all.size(), 7u);
  for (const tpu::Topology& t : all) {
    EXPECT_EQ(t.devices, t.name == "v5e:4x4" ? 16 : t.name[1] == '3' || t.name[0] == 't' ? 8 : 4) << t.name;
    EXPECT_GT(t.hbm_bytes, 15 * kGibi) << t.name;
    EXPECT_GT(t.ridge(), 100) << t.name;
  }
  EXPECT_EQ(tpu::topology("v5e:4x8").devices, 32);
}

TEST(TpuTopology, a_name_that_is_none_is_an_error_that_lists_them) {
  const std::string message = error_of(ErrorKind::kNotFound, [] { tpu::topology("v9:2x2"); });
  EXPECT_NE(message.find("v5e:2x2"), std::string::npos) << message;
  for (const char* name : {"v5e", "v5e:", "v5e:2x", "v5e:x2", "v5e:0x2", "v5e:2x2y", "v5e:99999x9", "v5e:-1"})
    error_of(ErrorKind::kInvalidArgument, [&] { tpu::topology(name); });
}

// A libtpu that misbehaves: no process but its own suffers.
std::string refusal_by(const std::string& fake) {
  const Variable as_tpu("PJRT_NAMES_AND_LIBRARY_PATHS",
                        "tpu:" + std::string(SYSTOLE_FAKES) + "/fake_" + fake + ".so");
  return error_of(ErrorKind::kUnsupported, [] { tpu::compile(ir::parse(kProduct), "v5e:2x2"); });
}

TEST(TpuProcess, a_crash_a_hang_and_an_exit_of_libtpu_are_errors) {
  EXPECT_NE(refusal_by("init_crash").find("crashed ("), std::string::npos);
  EXPECT_NE(refusal_by("init_exit").find("left without an answer"), std::string::npos);
  const Variable limit("SYSTOLE_TPU_TIMEOUT", "1");
  EXPECT_NE(refusal_by("init_hang").find("took more than 1 s"), std::string::npos);
}

TEST(TpuProcess, a_plugin_that_knows_no_topologies_says_so) {
  EXPECT_NE(refusal_by("none").find("has no PJRT_TopologyDescription_Create"), std::string::npos);
}

#ifdef SYSTOLE_COMMAND

using Json = nlohmann::json;

struct Outcome {
  int code = -1;
  std::string out, err;
};

class TpuCommand : public TpuCompile {
 protected:
  Outcome run(const std::string& arguments, const std::string& program = SYSTOLE_COMMAND,
              const std::string& prefix = {}) {
    const std::string line = "cd '" + folder_.string() + "' && " + prefix + " '" + program + "' tpu " +
                             arguments + " > stdout 2> stderr";
    const int status = std::system(line.c_str());
    return {WIFEXITED(status) ? WEXITSTATUS(status) : -1, read("stdout"), read("stderr")};
  }
  std::vector<Json> lines(const Outcome& outcome) {
    EXPECT_EQ(outcome.code, 0) << outcome.err;
    EXPECT_EQ(outcome.err, "");
    std::vector<Json> found;
    std::istringstream in(outcome.out);
    for (std::string line; std::getline(in, line);) found.push_back(Json::parse(line));
    return found;
  }
  std::string read(const std::string& name) {
    std::ifstream in(folder_ / name, std::ios::binary);
    return {std::istreambuf_iterator<char>(in), {}};
  }
  void write(const std::string& name, const std::string& text) { std::ofstream(folder_ / name) << text; }
};

// Forward, weight gradient and, but for the first layer, input gradient are a product each.
TEST_F(TpuCommand, the_mlp_compiles_for_four_topologies_with_the_flops_of_its_sizes) {
  const std::vector<Json> found =
      lines(run("compile --model mlp --batch 4096 --topology v3:2x2,v4:2x2x1,v5e:2x2,v6e:2x2 --json"));
  ASSERT_EQ(found.size(), 4u);
  for (const Json& line : found) {
    const double devices = line["devices"].get<double>();
    const double flops = 2 * 4096 / devices * (2 * 784 * 128 + 3 * 128 * 10);
    EXPECT_NEAR(line["flops"].get<double>(), flops, 0.03 * flops) << line;
    EXPECT_EQ(line["devices_used"], line["devices"]);
    EXPECT_TRUE(line["fits"].get<bool>());
    const double seconds = line["seconds"].get<double>();
    EXPECT_GE(seconds, flops / line["bf16_flops"].get<double>());
    EXPECT_NEAR(line["samples_per_s"].get<double>(), 4096 / seconds, 1e-6 * 4096 / seconds);
    // Parameters and two moments, written where they were read; images of f32.
    const double state = 3 * 4 * (784 * 128 + 128 + 128 * 10 + 10), images = 4 * 4096 / devices * 784;
    EXPECT_NEAR(line["alias_bytes"].get<double>(), state, 0.2 * state);
    EXPECT_NEAR(line["argument_bytes"].get<double>(), state + images, 0.2 * (state + images));
  }
}

TEST_F(TpuCommand, the_keras_cnn_compiles_with_the_flops_of_its_sizes) {
  const std::vector<Json> found = lines(run("compile --model keras-cnn --topology v5e:2x2 --json"));
  ASSERT_EQ(found.size(), 1u);
  const double first = 30 * 30 * 32 * 27,
               others = 13 * 13 * 64 * 288 + 4 * 4 * 64 * 576 + 1024 * 64 + 64 * 10;
  const double flops = 2 * 512 / 4 * (2 * first + 3 * others);
  EXPECT_NEAR(found[0]["flops"].get<double>(), flops, 0.08 * flops);
  EXPECT_EQ(found[0]["dtype"], "bf16");
  // Three channels under a 3×3 kernel leave most of the matrix unit idle.
  const Json& worst = found[0]["waste"].at(0);
  EXPECT_NEAR(worst["padded_flops"].get<double>() / worst["flops"].get<double>(), 128.0 / 27, 1e-6) << worst;
}

TEST_F(TpuCommand, a_table_of_four_topologies_fits_in_80_columns) {
  const Outcome outcome = run("compile --model mlp --topology v3:2x2,v5e:2x2,v5p:2x2x1,tpu7x:2x2x1",
                              SYSTOLE_COMMAND, "COLUMNS=80");
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  std::istringstream in(outcome.out);
  bool side_by_side = false;
  for (std::string line; std::getline(in, line);) {
    std::size_t columns = 0;
    for (const char c : line) columns += (static_cast<unsigned char>(c) & 0xc0) != 0x80 ? 1 : 0;
    EXPECT_LE(columns, 80u) << line;
    side_by_side |= line.find("v3:2x2") != std::string::npos && line.find("tpu7x:2x2x1") != std::string::npos;
  }
  EXPECT_TRUE(side_by_side) << outcome.out;
  for (const char* row : {"fits in HBM", "samples/s", "FLOPs per byte", "estimated by", "MXU padding"})
    EXPECT_NE(outcome.out.find(row), std::string::npos) << row;
}

TEST_F(TpuCommand, a_file_that_does_not_fit_is_told_by_how_much_and_leaves_no_program) {
  write("huge.sir", kHuge);
  const Outcome told = run("compile --model huge.sir --topology v5e:2x2");
  EXPECT_EQ(told.code, 0) << told.err;
  EXPECT_NE(told.out.find("32.3 GiB short"), std::string::npos) << told.out;
  const Outcome refused = run("compile --model huge.sir --topology v5e:2x2 -o huge.tpu");
  EXPECT_EQ(refused.code, 1);
  EXPECT_NE(refused.err.find("does not fit"), std::string::npos) << refused.err;
  EXPECT_FALSE(fs::exists(folder_ / "huge.tpu"));
}

TEST_F(TpuCommand, the_batch_of_a_file_is_its_symbol_and_the_program_is_written) {
  std::string text = kProduct;
  text.replace(text.find("1024"), 4, "N");
  write("product.sir", text);
  EXPECT_EQ(run("compile --model product.sir --topology v5e:1x1").code, 2);
  const std::vector<Json> found =
      lines(run("compile --model product.sir --batch 256 --topology v5e:1x1 -o out.tpu --json"));
  ASSERT_EQ(found.size(), 1u);
  EXPECT_NEAR(found[0]["flops"].get<double>(), 2.0 * 256 * 512 * 256, 0.01 * 2 * 256 * 512 * 256);
  EXPECT_GT(fs::file_size(folder_ / "out.tpu"), 1000u);
}

TEST_F(TpuCommand, wrong_words_are_named) {
  struct Case {
    const char *arguments, *said;
    int code;
  };
  for (const Case& c : {
           Case{"compile --model mpl --topology v5e:2x2", "they are mlp, keras-cnn", 2},
           Case{"compile --model mlp --topology v9:2x2", "one of v3:2x2, v4:2x2x1", 1},
           Case{"compile --model mlp --topology v5e:3x3", "not divisible", 1},
           Case{"compile --model mlp --batch 510 --topology v5e:2x2", "508 or 512 can be shared", 2},
           Case{"compile --model mlp --batch 2 --topology v5e:2x2", "evenly; 4 can be shared", 2},
           Case{"compile --model mlp --topology v5e:2x2,v4:2x2x1 -o x", "one topology", 2},
           Case{"compile --model mlp --dtype f8 --topology v5e:2x2", "f8", 2},
           Case{"compile --model none.sir --topology v5e:2x2", "none.sir", 1},
           Case{"compile --topology v5e:2x2", "--model", 2},
           Case{"", "subcommand", 2},
       }) {
    const Outcome outcome = run(c.arguments);
    EXPECT_EQ(outcome.code, c.code) << c.arguments << ": " << outcome.err;
    EXPECT_NE(outcome.err.find(c.said), std::string::npos) << c.arguments << ": " << outcome.err;
    EXPECT_EQ(outcome.out, "") << c.arguments;
  }
}

TEST_F(TpuCommand, without_libtpu_topologies_are_listed_and_compiling_says_what_is_missing) {
  fs::copy_file(SYSTOLE_COMMAND, folder_ / "systole");  // nothing lies beside it
  const std::string alone = (folder_ / "systole").string(), bare = "env -i PATH=/nowhere";
  const Outcome listed = run("topologies --json", alone, bare);
  EXPECT_EQ(lines(listed).size(), 7u);
  const Outcome refused = run("compile --model mlp --topology v5e:2x2", alone, bare);
  EXPECT_EQ(refused.code, 1);
  EXPECT_NE(refused.err.find("needs libtpu"), std::string::npos) << refused.err;
}

#endif

}  // namespace
}  // namespace systole
