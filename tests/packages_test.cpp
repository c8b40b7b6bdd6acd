// Where libraries that are loaded at run time are looked for, and that the library knows where it lies.

#include "backend/packages.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <system_error>
#include <vector>

#include "scratch_folder.h"

namespace systole::runtime {
namespace {

namespace fs = std::filesystem;

class Packages : public ScratchFolder {
 protected:
  void SetUp() override { ::unsetenv("SYSTOLE_PLUGIN_PATH"); }
  fs::path made(const std::string& folder) {
    fs::create_directories(folder_ / folder);
    return folder_ / folder;
  }
};

TEST_F(Packages, OfTheVariableThenOfTheLibraryThenOfTheProgram) {
  const fs::path chosen = made("chosen"), installed = made("usr/lib/systole/plugins"),
                 built = made("home/.deps");
  const fs::path library = made("usr/lib") / "libsystole.so.0.2.0",
                 program = made("home/project/build") / "train";
  EXPECT_EQ(package_folders(library, program), (std::vector<fs::path>{installed, built}));
  const fs::path of_program = made("home/project/.deps");
  EXPECT_EQ(package_folders(library, program), (std::vector<fs::path>{installed, of_program, built}));
  ::setenv("SYSTOLE_PLUGIN_PATH", chosen.c_str(), 1);
  EXPECT_EQ(package_folders(library, program), (std::vector<fs::path>{chosen, installed, of_program, built}));
  ::unsetenv("SYSTOLE_PLUGIN_PATH");
}

// A library in lib/MACHINE, the command beside it, a static program, and a place that is not known.
TEST_F(Packages, BesideTheLibraryWhereverItIsInstalled) {
  const fs::path plugins = made("usr/lib/x86_64-linux-gnu/systole/plugins");
  const fs::path library = plugins.parent_path().parent_path() / "libsystole.so.0";
  EXPECT_EQ(package_folders(library, made("usr/bin") / "systole"), (std::vector<fs::path>{plugins}));
  const fs::path beside = made("opt/" SYSTOLE_LIBDIR "/systole/plugins"),
                 program = made("opt/bin") / "systole";
  EXPECT_EQ(package_folders(program, program), (std::vector<fs::path>{beside}));
  EXPECT_EQ(package_folders({}, program), (std::vector<fs::path>{beside}));
  EXPECT_TRUE(package_folders({}, {}).empty());
}

TEST_F(Packages, NotWhereOthersMayWrite) {
  const fs::path plugins = made("usr/lib/systole/plugins"), library = made("usr/lib") / "libsystole.so";
  fs::permissions(plugins, fs::perms::all);
  EXPECT_TRUE(package_folders(library, {}).empty());
  fs::permissions(plugins, fs::perms::owner_all);
  EXPECT_EQ(package_folders(library, {}).size(), 1u);
}

TEST_F(Packages, OwnFileIsThisProgramInWhateverFolderItWorks) {
  const fs::path program = fs::canonical("/proc/self/exe"), before = fs::current_path();
  ASSERT_EQ(::chdir("/"), 0);
  EXPECT_EQ(own_file(), program);
  ASSERT_EQ(::chdir(before.c_str()), 0);
}

// The loader then has a relative name for it.
TEST_F(Packages, OwnFileIsKnownOfAProgramWithARelativeName) {
  const fs::path program = fs::canonical("/proc/self/exe");
  const std::string command = "cd '" + program.parent_path().string() + "' && './" +
                              program.filename().string() +
                              "' --gtest_filter=Packages.OwnFileIsThis* > /dev/null";
  EXPECT_EQ(std::system(command.c_str()), 0);
}

}  // namespace
}  // namespace systole::runtime
