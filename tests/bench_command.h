#pragma once

// The command systole bench, run in a folder of the test's own.

#include <gtest/gtest.h>
#include <sys/wait.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include "scratch_folder.h"

namespace systole::cli::bench {

using Json = nlohmann::json;

struct Outcome {
  int code = -1;
  std::string out, err;
  double seconds = 0;
};

class BenchTest : public ScratchFolder {
 protected:
  // `arguments` is shell text; it runs in the test's folder.
  Outcome run(const std::string& arguments, const std::string& input = "") {
    std::ofstream(folder_ / "stdin") << input;
    const std::string line = "cd '" + folder_.string() + "' && '" + SYSTOLE_COMMAND +
                             "' bench --device reference " + arguments + " < stdin > stdout 2> stderr";
    const auto start = std::chrono::steady_clock::now();
    const int status = std::system(line.c_str());
    return {WIFEXITED(status) ? WEXITSTATUS(status) : -1, read("stdout"), read("stderr"),
            std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count()};
  }

  // One pair run of T1 with short windows against a shell script.
  Outcome pairs(const std::string& script, const std::string& more = "") {
    std::ofstream(folder_ / "peer.sh") << script;
    return run("T1 --batch 2 --mode compile --quick --seconds 0.002 --pairs 'sh peer.sh' " + more);
  }

  std::string read(const std::string& name) {
    std::ifstream in(folder_ / name, std::ios::binary);
    std::ostringstream text;
    text << in.rdbuf();
    return text.str();
  }
};

inline std::vector<Json> json_lines(const std::string& text) {
  std::vector<Json> lines;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);)
    if (line.starts_with('{')) lines.push_back(Json::parse(line));
  return lines;
}

inline void expect_one_error(const Outcome& outcome, int code, std::string_view part) {
  EXPECT_EQ(outcome.code, code) << outcome.out << outcome.err;
  EXPECT_TRUE(outcome.err.starts_with("systole: error: ")) << outcome.err;
  EXPECT_NE(outcome.err.find(part), std::string::npos) << outcome.err;
  EXPECT_EQ(std::count(outcome.err.begin(), outcome.err.end(), '\n'), 1) << outcome.err;
}

}  // namespace systole::cli::bench
