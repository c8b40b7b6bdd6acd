// The command `systole export`: what it writes is what the emitter gives, and wrong sizes are named.

#include <gtest/gtest.h>

#ifdef SYSTOLE_COMMAND

#include <stdlib.h>
#include <sys/wait.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

#include "codegen/stablehlo.h"
#include "scratch_folder.h"
#include "systole/ir/text.h"

namespace systole {
namespace {

namespace fs = std::filesystem;

constexpr const char* kGraph =
    "systole.ir 1\n\ngraph @main(%x: f32[N,2]) {\n  %y = neg(%x)\n  return y: %y\n}\n";

class ExportTest : public ScratchFolder {
 protected:
  ExportTest() { std::ofstream(folder_ / "g.sir") << kGraph; }

  int run(const std::string& arguments) {
    const std::string line = "cd '" + folder_.string() + "' && '" + SYSTOLE_COMMAND + "' export " +
                             arguments + " > stdout 2> stderr";
    const int status = std::system(line.c_str());
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  }
  std::string read(const std::string& name) {
    std::ifstream file(folder_ / name, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
  }
};

TEST_F(ExportTest, StableHloGoesToTheOutputOrToAFile) {
  SymbolValues sizes;
  sizes.set("N", 3);
  const std::string text = codegen::stablehlo(ir::bind_symbols(ir::parse(kGraph), sizes));
  ASSERT_EQ(run("--format stablehlo --size N=3 g.sir"), 0) << read("stderr");
  EXPECT_EQ(read("stdout"), text);
  ASSERT_EQ(run("g.sir --size N=3 -o g.mlir"), 0) << read("stderr");
  EXPECT_EQ(read("g.mlir"), text);
  EXPECT_EQ(read("stdout"), "");
}

TEST_F(ExportTest, WrongSizesAreWrongUsage) {
  const auto refused = [&](const std::string& arguments, const std::string& part) {
    EXPECT_EQ(run(arguments), 2) << arguments;
    EXPECT_NE(read("stderr").find(part), std::string::npos) << read("stderr");
    EXPECT_EQ(read("stdout"), "");
  };
  refused("g.sir", "symbolic sizes without a value: N");
  refused("g.sir --size N=3 --size M=2", "no symbolic size M");
  refused("g.sir --size N=3 --size N=4", "--size N=4");
  for (const char* size : {"N", "N=", "N=x", "N=-1", "=3", "N=3x"})
    refused(std::string("g.sir --size ") + size, std::string("--size ") + size);
  refused("g.sir --size N=3 --format tea", "tea");
}

}  // namespace
}  // namespace systole

#endif
