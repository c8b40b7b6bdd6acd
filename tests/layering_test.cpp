// Folders stand in the order of the data's way and include only from folders before them; vendor headers stay
// inside src/backend, and public headers need nothing but the standard library. docs/architecture.md gives
// the reasons.

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

namespace {

namespace fs = std::filesystem;

constexpr std::string_view kFolders[] = {
    "base", "ir",    "ops", "eval", "autodiff", "compile", "codegen", "runtime", "backend", "tensor",
    "nn",   "optim", "io",  "data", "profile",  "train",   "tune",    "deploy",  "serve",   "cli"};
constexpr std::string_view kVendorPrefixes[] = {"cuda",    "cudnn", "cublas", "cupti", "nvrtc", "dnnl",
                                                "oneapi/", "CL/",   "xla/",   "pjrt",  "llvm/", "clang/"};

struct SourceFile {
  std::string path;  // relative to the tree: "src/ir/graph.cpp", "include/systole/ir.h"
  std::string text;
};

// The position in kFolders; -1 for a folder that is not ours.
int position(std::string_view folder) {
  const auto* found = std::find(std::begin(kFolders), std::end(kFolders), folder);
  return found == std::end(kFolders) ? -1 : static_cast<int>(found - std::begin(kFolders));
}

// "ir/graph.h" and "ir.h" give "ir".
std::string folder_of(std::string_view path) { return std::string(path.substr(0, path.find_first_of("/."))); }

bool starts_with_any(std::string_view text, const auto& prefixes) {
  return std::any_of(std::begin(prefixes), std::end(prefixes),
                     [&](std::string_view p) { return text.starts_with(p); });
}

// The name in `#include "name"` or `#include <name>`; empty for any other line.
std::string included_name(std::string_view line) {
  auto skip_blanks = [&] { line.remove_prefix(std::min(line.find_first_not_of(" \t"), line.size())); };
  skip_blanks();
  if (!line.starts_with("#")) return {};
  line.remove_prefix(1);
  skip_blanks();
  if (!line.starts_with("include")) return {};
  line.remove_prefix(7);
  skip_blanks();
  if (line.empty() || (line[0] != '"' && line[0] != '<')) return {};
  std::size_t end = line.find(line[0] == '"' ? '"' : '>', 1);
  return end == std::string_view::npos ? std::string() : std::string(line.substr(1, end - 1));
}

std::vector<std::string> violations(const SourceFile& file) {
  constexpr std::string_view kPublic = "include/systole/", kPrivate = "src/";
  bool is_public = file.path.starts_with(kPublic);
  std::string folder =
      folder_of(std::string_view(file.path).substr(is_public ? kPublic.size() : kPrivate.size()));
  if (is_public && folder == "systole") return {};  // the umbrella
  std::vector<std::string> found;
  int own = position(folder);
  if (own < 0) return {file.path + ": folder " + folder + " has no place in the order"};

  std::istringstream lines(file.text);
  std::string line;
  for (int number = 1; std::getline(lines, line); ++number) {
    std::string name = included_name(line);
    if (name.empty()) continue;
    auto report = [&](const std::string& why) {
      found.push_back(file.path + ":" + std::to_string(number) + ": includes " + name + ", " + why);
    };
    bool ours = name.starts_with("systole/");
    std::string target = folder_of(ours ? std::string_view(name).substr(8) : std::string_view(name));
    bool in_folder = name.find('/') != std::string::npos;
    if (name.starts_with("..")) {
      report("by a path that leaves its folder");
    } else if (ours && target == "systole") {
      report("the umbrella is for users");
    } else if (ours && position(target) < 0) {
      report("which has no place in the order");
    } else if ((ours || in_folder) && position(target) > own) {
      report("which stands below " + folder);
    } else if (!ours && is_public && (in_folder || name.find(".h") != std::string::npos)) {
      report("but public headers may use only the standard library and systole/");
    } else if (!ours && folder != "backend" && starts_with_any(name, kVendorPrefixes)) {
      report("a vendor header outside src/backend");
    }
  }
  return found;
}

std::vector<SourceFile> tree() {
  std::vector<SourceFile> files;
  fs::path root = SYSTOLE_SOURCE_DIR;
  for (const char* top : {"src", "include/systole"}) {
    for (const fs::directory_entry& entry : fs::recursive_directory_iterator(root / top)) {
      fs::path extension = entry.path().extension();
      if (extension != ".h" && extension != ".cpp" && extension != ".def" && extension != ".inc") continue;
      std::ifstream in(entry.path());
      std::ostringstream text;
      text << in.rdbuf();
      files.push_back({fs::relative(entry.path(), root).generic_string(), text.str()});
    }
  }
  return files;
}

TEST(Layering, NoFileIncludesFromAFolderBelowItsOwn) {
  std::vector<SourceFile> files = tree();
  ASSERT_GT(files.size(), 20u);
  for (const SourceFile& file : files) {
    for (const std::string& violation : violations(file)) ADD_FAILURE() << violation;
  }
}

TEST(Layering, PlantedViolationsAreFound) {
  const SourceFile planted[] = {
      {"src/ir/graph.cpp", "#include \"eval/eval.h\"\n"},
      {"src/ir/graph.cpp", "  #  include <systole/ops.h>\n"},
      {"include/systole/base/dtype.h", "#include \"systole/ir/op.h\"\n"},
      {"include/systole/ir.h", "#include \"systole/runtime.h\"\n"},
      {"include/systole/io.h", "#include <fmt/format.h>\n"},
      {"include/systole/runtime.h", "#include <cuda.h>\n"},
      {"src/runtime/registry.cpp", "#include <CL/cl.h>\n"},
      {"src/compile/pipeline.cpp", "#include \"systole/systole.h\"\n"},
      {"src/base/error.cpp", "#include \"../ir/hash.h\"\n"},
      {"src/misc/helper.cpp", ""},
  };
  for (const SourceFile& file : planted)
    EXPECT_EQ(violations(file).size(), 1u) << file.path << "\n" << file.text;
}

TEST(Layering, AllowedIncludesPass) {
  const SourceFile allowed[] = {
      {"src/ir/graph.cpp",
       "#include \"systole/ir/graph.h\"\n#include \"ir/hash.h\"\n#include <fmt/format.h>\n#include "
       "<vector>\n"},
      {"src/eval/eval.cpp",
       "#include \"eval/eval.h\"\n#include \"systole/ops.h\"\n#include \"systole/base.h\"\n"},
      {"src/backend/cuda/driver.cpp", "#include <cuda.h>\n#include \"runtime/registry.h\"\n"},
      {"src/cli/main.cpp", "#include <CLI/CLI.hpp>\n#include \"systole/io.h\"\n"},
      {"include/systole/systole.h", "#include \"systole/runtime.h\"\n"},
      {"src/io/npy.cpp", "// #include \"serve/server.h\"\n#include <zlib.h>\n"},
  };
  for (const SourceFile& file : allowed) EXPECT_EQ(violations(file), std::vector<std::string>{}) << file.path;
}

}  // namespace
