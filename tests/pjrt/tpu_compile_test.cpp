// Compiling for TPUs that are not there, as a program and as a person at the command line meet it. FLOPs,
// bytes and padding are calculated by hand. What needs libtpu is skipped where scripts/setup could not bring
// it.

#include <gtest/gtest.h>
#include <sys/wait.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "../error_check.h"
#include "../sanitized.h"
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

// Of 65536 × 65536 results 8 × 128 are wanted, and the compiler calculates no others.
TEST_F(TpuCompile, work_that_the_compiler_leaves_out_is_no_loop_and_costs_nothing) {
  const tpu::Report report = tpu::compile(ir::parse(R"(systole.ir 1

graph @corner(%a: f32[65536,8192], %b: f32[8192,65536]) {
  %c = dot_general(%a, %b) {a_contract=[1], b_contract=[0]}
  %d = slice(%c) {starts=[0,0], limits=[8,128], strides=[1,1]}
  return %d
}
)"),
                                          "v5e:2x2");
  const double all = 2.0 * 65536 * 8192 * 65536;
  EXPECT_FALSE(report.loops_once);
  EXPECT_LE(report.flops, 0.01 * all);
  EXPECT_LE(report.seconds, 0.01 * 6 * all / 197e12);
}

TEST_F(TpuCompile, a_loop_costs_the_flops_of_all_its_rounds) {
  const tpu::Report report = tpu::compile(ir::parse(R"(systole.ir 1

graph @round(%h: f32[256,256], %w: f32[256,256]) {
  %y = dot_general(%h, %w) {a_contract=[1], b_contract=[0]}
  return %y
}

graph @rounds(%h: f32[256,256], %w: f32[256,256]) {
  %last = scan(%h, %w) {length=50, carries=1} @round
  %once = dot_general(%last, %w) {a_contract=[1], b_contract=[0]}
  return %once
}
)"),
                                          "v5e:2x2");
  const double flops = 51 * 2 * std::pow(256.0, 3);
  EXPECT_TRUE(report.loops_once);
  EXPECT_NEAR(report.flops, flops, 0.01 * flops);
  EXPECT_GE(report.seconds, 6 * flops / 197e12);
}

TEST_F(TpuCompile, libtpu_leaves_no_files_behind) {
  const Variable temporary("TMPDIR", folder_.string());
  EXPECT_TRUE(tpu::compile(ir::parse(kProduct), "v5e:2x2").fits());
  error_of(ErrorKind::kInvalidArgument, [] { tpu::topology("v5e:3x3"); });
  EXPECT_TRUE(fs::is_empty(folder_)) << fs::directory_iterator(folder_)->path();
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
  for (const char* name : {"v5e", "v5e:", "v5e:2x", "v5e:x2", "v5e:0x2", "v5e:2x2y", "v5e:99999x9", "v5e:-1",
                           "v5e:16384x9223372036854775807"})
    error_of(ErrorKind::kInvalidArgument, [&] { tpu::topology(name); });
}

// A libtpu that misbehaves: no process but its own suffers.
std::string refusal_by(const std::string& fake) {
  const Variable as_tpu("PJRT_NAMES_AND_LIBRARY_PATHS",
                        "tpu:" + std::string(SYSTOLE_FAKES) + "/fake_" + fake + ".so");
  return error_of(ErrorKind::kUnsupported, [] { tpu::compile(ir::parse(kProduct), "v5e:2x2"); });
}

TEST(TpuProcess, a_crash_a_hang_and_an_exit_of_libtpu_are_errors) {
  const std::string crash = refusal_by("init_crash");  // a sanitizer ends the process in its own way
  EXPECT_TRUE(crash.find("crashed (") != crash.npos ||
              (kSanitized && crash.find("ended the process") != crash.npos))
      << crash;
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
// Small graphs take the same way in TpuCompile.
constexpr const char* kTooSlow =
    "libtpu takes many minutes for a model under the thread sanitizer, which does not see its locks";

TEST_F(TpuCommand, the_mlp_compiles_for_four_topologies_with_the_flops_of_its_sizes) {
  if (kThreadSanitized) GTEST_SKIP() << kTooSlow;
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
  if (kThreadSanitized) GTEST_SKIP() << kTooSlow;
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
  if (kThreadSanitized) GTEST_SKIP() << kTooSlow;
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

// A file that would compile for the first topology: nothing is printed of it.
TEST_F(TpuCommand, names_and_the_file_to_write_are_checked_before_anything_is_compiled) {
  write("product.sir", kProduct);
  for (const char* name : {"v9:2x2", "v5e:3x3"}) {
    const Outcome outcome = run("compile --model product.sir --json --topology v5e:1x1," + std::string(name));
    EXPECT_EQ(outcome.code, 1);
    EXPECT_EQ(outcome.out, "") << name;
    EXPECT_NE(outcome.err.find(name), std::string::npos) << outcome.err;
  }
  for (const char* model : {"product.sir", "mlp"}) {
    const Outcome outcome =
        run("compile --json --topology v5e:2x2 -o no/such/folder/out.tpu --model " + std::string(model));
    EXPECT_EQ(outcome.code, 1);
    EXPECT_EQ(outcome.out, "") << model;
    EXPECT_NE(outcome.err.find("no/such/folder/out.tpu"), std::string::npos) << outcome.err;
  }
}

// The mesh suits two of the three.
TEST_F(TpuCommand, what_one_topology_refuses_is_told_after_the_table_of_the_others) {
  std::string text = kProduct;
  text.insert(text.find(" {\n"), " mesh(data=4)");
  write("meshed.sir", text);
  const Outcome outcome = run("compile --model - --topology v5e:2x2,v5e:1x1,v4:2x2x1 < meshed.sir");
  EXPECT_EQ(outcome.code, 1);
  EXPECT_NE(outcome.out.find("v5e:2x2"), std::string::npos) << outcome.out;
  EXPECT_NE(outcome.out.find("v4:2x2x1"), std::string::npos) << outcome.out;
  EXPECT_EQ(outcome.out.find("v5e:1x1"), std::string::npos) << outcome.out;
  EXPECT_NE(outcome.err.find("v5e:1x1"), std::string::npos) << outcome.err;
  EXPECT_NE(outcome.err.find("expected 1 devices, got 4"), std::string::npos) << outcome.err;
  EXPECT_EQ(std::count(outcome.err.begin(), outcome.err.end(), '\n'), 1) << outcome.err;
}

TEST_F(TpuCommand, models_are_listed_with_their_batches) {
  const std::vector<Json> found = lines(run("models --json"));
  ASSERT_EQ(found.size(), 5u);
  EXPECT_EQ(found[0]["model"], "mlp");
  for (const Json& line : found) EXPECT_EQ(line["batch"].get<int>() % 16, 0) << line;
  EXPECT_NE(run("models").out.find("resnet50"), std::string::npos);
}

// The script asks a command that says what it must and compiles nothing.
class TpuCheck : public TpuCommand {
 protected:
  void SetUp() override {
    write("systole", R"(#!/bin/sh
case "$2" in
  topologies) echo '{"topology":"a:1"}'; echo '{"topology":"b:1"}' ;;
  models) echo '{"model":"small","batch":8}'; echo '{"model":"large","batch":4}' ;;
  *) exit 1 ;;
esac
)");
    fs::permissions(folder_ / "systole", fs::perms::owner_all);
  }
  static std::string figures(const std::string& model, const std::string& topology, bool fits = true) {
    return R"({"model":")" + model + R"(","topology":")" + topology +
           R"(","batch":8,"peak_bytes":1,"hbm_bytes":2,"fits":)" +
           (fits
                ? R"(true,"seconds":1,"estimate":"compiler","samples_per_s":8,"bound":"memory","intensity":1)"
                : "false") +
           "}\n";
  }
  Outcome check(const std::string& arguments) {
    const std::string line = "cd '" + folder_.string() + "' && SYSTOLE='" + folder_.string() +
                             "/systole' '" SYSTOLE_SOURCE_DIR "/scripts/tpu-check' " + arguments +
                             " > stdout 2> stderr";
    const int status = std::system(line.c_str());
    return {WIFEXITED(status) ? WEXITSTATUS(status) : -1, read("stdout"), read("stderr")};
  }
  std::string kept() { return "--from '" + (folder_ / "kept").string() + "' "; }
};

TEST_F(TpuCheck, programs_that_do_not_fit_are_counted_apart) {
  write("kept", figures("small", "a:1") + figures("small", "b:1") + figures("large", "a:1") +
                    figures("large", "b:1", false));
  const Outcome outcome = check(kept());
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_NE(outcome.out.find("3 programs compiled with libtpu, none run; 1 more does not fit."),
            std::string::npos)
      << outcome.out;
}

TEST_F(TpuCheck, figures_that_are_missing_are_named) {
  write("kept", figures("small", "a:1") + figures("small", "b:1") + figures("small", "b:1"));
  const Outcome part = check(kept());
  EXPECT_EQ(part.code, 1);
  EXPECT_EQ(part.err,
            "tpu-check: no figures of large on a:1\n"
            "tpu-check: no figures of large on b:1\n");
  EXPECT_NE(part.out.find("2 programs compiled"), std::string::npos) << part.out;
  EXPECT_EQ(check(kept() + "small").code, 0);
  write("kept", figures("small", "a:1"));
  EXPECT_EQ(check(kept() + "small").err, "tpu-check: no figures of small on b:1\n");
}

TEST_F(TpuCheck, it_compiles_what_the_command_lists) {
  const Outcome outcome = check("");
  EXPECT_EQ(outcome.code, 1);  // nothing compiles here
  for (const char* cell : {"small on a:1", "small on b:1", "large on a:1", "large on b:1"})
    EXPECT_NE(outcome.out.find(std::string(cell) + " fails: `"), std::string::npos) << outcome.out;
}

TEST_F(TpuCheck, what_libtpu_fails_at_is_told_with_its_words) {
  write("kept", figures("small", "a:1") +
                    R"({"model": "small", "topology": "b:1", "error": "libtpu crashed"})" + "\n");
  const Outcome outcome = check(kept() + "small");
  EXPECT_EQ(outcome.code, 0);
  EXPECT_NE(outcome.out.find("| fails |"), std::string::npos) << outcome.out;
  EXPECT_NE(outcome.out.find("small on b:1 fails: `libtpu crashed`"), std::string::npos) << outcome.out;
  EXPECT_NE(outcome.out.find("1 programs compiled"), std::string::npos) << outcome.out;
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
