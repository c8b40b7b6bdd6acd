// examples/char_gpt.cpp against PyTorch: the same weights at first (from the counter hash), the same batches,
// the same number of AdamW steps. tests/parity/char_gpt.py made the fixture.

#include <gtest/gtest.h>
#if __has_include(<nlohmann/json.hpp>)
#include <nlohmann/json.hpp>

#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>
#include <string>
#include <vector>

#include "data/counter_hash.h"
#include "scratch_folder.h"
#include "systole/systole.h"

namespace systole {
namespace {

namespace fs = std::filesystem;

class CharGptTest : public ScratchFolder {};

fs::path shared() {
  const char* folder = std::getenv("SYSTOLE_SHARED");
  return folder != nullptr ? fs::path(folder) : fs::path(SYSTOLE_SOURCE_DIR) / "../shared";
}

TEST_F(CharGptTest, the_validation_loss_is_pytorchs_within_three_percent) {
  const fs::path text = shared() / "data/text/tinyshakespeare.txt";
  if (!fs::exists(text)) GTEST_SKIP() << "no shared/data/text/tinyshakespeare.txt";
  std::ifstream in(SYSTOLE_SOURCE_DIR "/tests/parity/char_gpt.json");
  const nlohmann::json wanted = nlohmann::json::parse(in, nullptr, false);
  ASSERT_TRUE(wanted.is_object()) << "tests/parity/char_gpt.json is missing: run char_gpt.py";
  const nlohmann::json& setting = wanted["setting"];

  // The windows and their order are those of the fixture.
  const std::int64_t length = setting["length"];
  const data::Source windows = data::text(text, {.window = length, .stride = length});
  ASSERT_EQ(windows.size(), wanted["windows"].get<std::int64_t>());
  const std::int64_t train = windows.split(0.9).first.size();
  ASSERT_EQ(train, wanted["trained_on"].get<std::int64_t>());
  std::vector<std::int64_t> first = data::permutation(train, setting["seed"].get<std::uint64_t>());
  first.resize(setting["batch"].get<std::size_t>());
  ASSERT_EQ(first, wanted["first_rows"].get<std::vector<std::int64_t>>());

  nn::models::Gpt2 gpt{{.layers = setting["layers"],
                        .width = setting["width"],
                        .heads = setting["heads"],
                        .vocabulary = wanted["vocabulary"],
                        .length = length}};
  std::map<std::string, Tensor> weights;
  for (const auto& [name, variable] : parameters(gpt))
    weights.emplace(name, Tensor(data::hashed_parameter(name, variable.type(), 0.02)));
  io::save_safetensors(folder_ / "initial.safetensors", weights);

  std::ostringstream line;
  line << "'" << EXAMPLE_CHAR_GPT << "' --device cpu --data '" << text.string() << "' --weights '"
       << (folder_ / "initial.safetensors").string() << "' --write 1";
  for (const char* name : {"layers", "width", "heads", "length", "batch", "steps", "seed"})
    line << " --" << name << " " << setting[name];
  line << " > '" << (folder_ / "out").string() << "'";
  ASSERT_EQ(std::system(line.str().c_str()), 0) << line.str();

  std::ifstream out(folder_ / "out");
  const std::string printed{std::istreambuf_iterator<char>(out), {}};
  const std::string mark = "\nvalidation loss ";
  const std::size_t at = printed.find(mark);
  ASSERT_NE(at, std::string::npos) << printed;
  const double ours = std::stod(printed.substr(at + mark.size())), theirs = wanted["validation_loss"];
  RecordProperty("ours", std::to_string(ours));
  EXPECT_NEAR(ours, theirs, 0.03 * theirs) << printed;
}

}  // namespace
}  // namespace systole
#endif
