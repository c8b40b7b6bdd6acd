#pragma once

// The command as a person meets it: run in a folder of the test's own, with what it printed and its exit
// code.

#include <sys/wait.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>

#include "scratch_folder.h"

namespace systole {

struct Outcome {
  int code = -1;
  std::string out, err;

  std::string last_line() const {
    const std::size_t end = out.find_last_not_of('\n');
    if (end == std::string::npos) return {};
    const std::size_t begin = out.find_last_of('\n', end);
    return out.substr(begin + 1, end - begin);
  }
};

inline std::string text_of(const std::filesystem::path& file) {
  std::ifstream in(file, std::ios::binary);
  std::ostringstream text;
  text << in.rdbuf();
  return text.str();
}

class CommandFolder : public ScratchFolder {
 protected:
  Outcome run(const std::string& arguments) {
    const std::string line = "cd '" + folder_.string() + "' && '" + SYSTOLE_COMMAND + "' " + arguments +
                             " < /dev/null > stdout 2> stderr";
    const int status = std::system(line.c_str());
    return {WIFEXITED(status) ? WEXITSTATUS(status) : -1, text_of(folder_ / "stdout"),
            text_of(folder_ / "stderr")};
  }
  void write(const std::string& name, const std::string& text) {
    std::ofstream(folder_ / name, std::ios::binary) << text;
  }
  // Whether this build reads TOML files.
  bool reads_toml() {
    write("empty.toml", "");
    return run("train empty.toml").err.find("toml++ was not there") == std::string::npos;
  }
};

}  // namespace systole
