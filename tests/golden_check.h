#pragma once

// Text that must not change unnoticed, in tests/golden. SYSTOLE_WRITE_GOLDEN=1 writes what the test has: look
// at the difference before it is committed.

#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <sstream>
#include <string>

namespace systole {

inline void expect_golden(const std::string& name, const std::string& text) {
  const std::string path = std::string(SYSTOLE_SOURCE_DIR "/tests/golden/") + name;
  if (std::getenv("SYSTOLE_WRITE_GOLDEN") != nullptr) std::ofstream(path) << text;
  std::ifstream file(path);
  std::stringstream wanted;
  wanted << file.rdbuf();
  EXPECT_EQ(text, wanted.str()) << path;
}

}  // namespace systole
