// A oneDNN that the loader finds is used only when it is of the tested version, since others have wrong
// numbers; one that SYSTOLE_ONEDNN names is used whatever its version, and what it cannot do is told or left
// to kernels.

#include <gtest/gtest.h>
#include <sys/wait.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <system_error>

#include "../scratch_folder.h"
#include "systole/io.h"

namespace systole {
namespace {

namespace fs = std::filesystem;

const std::string kFolder = SYSTOLE_FAKE_ONEDNN, kFake = kFolder + "/libdnnl.so.3";

struct Outcome {
  int code = -1;
  std::string out, err;
};

class OneDnnVersion : public ScratchFolder {
 protected:
  // In the test's folder, without what the caller's environment says of oneDNN.
  Outcome run(const std::string& environment, const std::string& command) {
    const std::string line =
        "cd '" + folder_.string() +
        "' && env -u SYSTOLE_ONEDNN -u SYSTOLE_PLUGIN_PATH -u SYSTOLE_LOG COLUMNS=2000 " + environment + " " +
        command + " < /dev/null > stdout 2> stderr";
    const int status = std::system(line.c_str());
    return {WIFEXITED(status) ? WEXITSTATUS(status) : -1, text_of("stdout"), text_of("stderr")};
  }
  std::string text_of(const char* name) const {
    std::ostringstream text;
    text << std::ifstream(folder_ / name, std::ios::binary).rdbuf();
    return text.str();
  }
  void write_product() {
    std::ofstream(folder_ / "product.sir") << "systole.ir 1\n\ngraph @product(%x: f32[256,256]) {\n"
                                              "  %y = dot_general(%x, %x) {a_contract=[1], b_contract=[0]}\n"
                                              "  return y: %y\n}\n";
    io::save_npy(folder_ / "x.npy", Literal::full({DType::f32, {256, 256}}, 0.5));
  }
};

const std::string kCommand = "'" SYSTOLE_COMMAND "'";

TEST_F(OneDnnVersion, OfTheLoadersPlacesIsTheTestedOneOrIsRefused) {
  // A command beside which there are no packages.
  const fs::path program = folder_ / "bin" / "systole";
  fs::create_directories(program.parent_path());
  std::error_code code;
  fs::create_hard_link(SYSTOLE_COMMAND, program, code);
  if (code) fs::copy_file(SYSTOLE_COMMAND, program);
  const Outcome outcome = run("LD_LIBRARY_PATH='" + kFolder + "'", "'" + program.string() + "' doctor");
  if (outcome.out.find("no OpenMP") != std::string::npos) GTEST_SKIP() << "a build without OpenMP";
  EXPECT_NE(
      outcome.out.find("libdnnl.so.3: version 3.6.0 is not the tested 3.2; SYSTOLE_ONEDNN set to its path "
                       "takes it all the same"),
      std::string::npos)
      << outcome.out << outcome.err;
  EXPECT_EQ(outcome.out.find("ok       oneDNN"), std::string::npos) << outcome.out;
  const Outcome named = run("SYSTOLE_ONEDNN='" + kFake + "'", "'" + program.string() + "' doctor");
  EXPECT_NE(named.out.find("ok       oneDNN 3.6.0 (" + kFake + ")"), std::string::npos) << named.out;
}

TEST_F(OneDnnVersion, WhatTheNamedOneCannotDoIsLeftToKernelsOrTold) {
  write_product();
  const std::string command = kCommand + " run product.sir --in x.npy --out y.npy --device cpu";
  const std::string named = "SYSTOLE_ONEDNN='" + kFake + "'";
  if (run(named, kCommand + " doctor").out.find("no OpenMP") != std::string::npos)
    GTEST_SKIP() << "a build without OpenMP";
  const Outcome unable = run(named, command);
  ASSERT_EQ(unable.code, 0) << unable.err;
  EXPECT_EQ(io::load_npy(folder_ / "y.npy").to_doubles()[5], 64);  // 256 · 0.5 · 0.5
  constexpr int kOutOfMemory = 1, kInvalidArguments = 2;
  for (const int status : {kOutOfMemory, kInvalidArguments}) {
    const Outcome fails = run(named + " FAKE_ONEDNN_STATUS=" + std::to_string(status), command);
    EXPECT_EQ(fails.code, 1);
    EXPECT_NE(fails.err.find("oneDNN: dnnl_"), std::string::npos) << fails.err;
    EXPECT_NE(fails.err.find("failed with status " + std::to_string(status)), std::string::npos) << fails.err;
  }
}

}  // namespace
}  // namespace systole
