// Files that were changed in every way a seeded generator thinks of: each reader gives a typed error or a
// result. Longer runs: SYSTOLE_ROUNDS=1000000 SYSTOLE_SEED=7.

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <random>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "error_check.h"
#include "fuzz/readers.h"
#include "scratch_folder.h"
#include "systole/io.h"
#include "systole/train/checkpoint.h"
#include "systole/train/history.h"
#include "systole/train/saved_model.h"
#ifdef SYSTOLE_COMMAND
#include "cli/train/settings.h"
#include "cli/train/value.h"
#endif

namespace systole {
namespace {

namespace fs = std::filesystem;

std::int64_t number_of(const char* variable, std::int64_t standard) {
  const char* const text = std::getenv(variable);
  return text == nullptr ? standard : std::atoll(text);
}

// Changes a text: bytes, ranges, numbers, and words of its own form.
class Mutations {
 public:
  explicit Mutations(std::uint64_t seed) : random_(seed) {}

  std::string operator()(std::string text, std::span<const std::string_view> words) {
    for (std::size_t changes = 1 + below(4); changes > 0; --changes) change(text, words);
    return text;
  }

 private:
  std::size_t below(std::size_t limit) { return limit == 0 ? 0 : random_() % limit; }

  void change(std::string& text, std::span<const std::string_view> words) {
    constexpr std::string_view kNumbers[] = {"0",
                                             "-1",
                                             "1",
                                             "2147483648",
                                             "9223372036854775807",
                                             "-9223372036854775808",
                                             "18446744073709551615",
                                             "18446744073709551616",
                                             "1e400",
                                             "nan",
                                             "0.5",
                                             "-0"};
    const std::size_t at = below(text.size() + 1),
                      length = below(std::min<std::size_t>(text.size() - at, 40) + 1);
    switch (below(8)) {
      case 0:
        if (at < text.size()) text[at] = static_cast<char>(text[at] ^ (1 << below(8)));
        break;
      case 1:
        if (at < text.size()) text[at] = static_cast<char>(random_());
        break;
      case 2: text.erase(at, length); break;
      case 3: text.insert(at, text.substr(below(text.size() + 1), length)); break;
      case 4: text.resize(at); break;
      case 5: text.insert(at, words[below(words.size())]); break;
      case 6: {  // a number where one stands
        const std::size_t digit = text.find_first_of("0123456789", at);
        if (digit == std::string::npos) break;
        const std::size_t end = std::min(text.find_first_not_of("0123456789", digit), text.size());
        text.replace(digit, end - digit, kNumbers[below(std::size(kNumbers))]);
        break;
      }
      default: {  // one range in another's place
        const std::string part = text.substr(at, length);
        const std::size_t to = below(text.size() + 1);
        text.replace(to, std::min(length, text.size() - to), part);
      }
    }
  }

  std::mt19937_64 random_;
};

class HostileFiles : public ScratchFolder {
 protected:
  // Every change of every seed is an Error of the caller's or accepted.
  static void expect_typed(const std::vector<std::string>& seeds, std::span<const std::string_view> words,
                           const std::function<void(const std::string&)>& read, std::int64_t rounds = 3000) {
    rounds = number_of("SYSTOLE_ROUNDS", rounds);
    Mutations mutate(static_cast<std::uint64_t>(number_of("SYSTOLE_SEED", 1)));
    std::int64_t accepted = 0, refused = 0;
    for (const std::string& seed : seeds) ASSERT_NO_THROW(read(seed)) << seed;
    for (std::int64_t i = 0; i < rounds; ++i) {
      const std::string text = mutate(seeds[static_cast<std::size_t>(i) % seeds.size()], words);
      try {
        read(text);
        ++accepted;
      } catch (const Error& error) {
        ++refused;
        ASSERT_NE(error.kind(), ErrorKind::kInternal) << error.what() << "\n" << text;
        ASSERT_NE(error.kind(), ErrorKind::kOutOfMemory) << error.what() << "\n" << text;
      } catch (const std::exception& error) {
        FAIL() << "no Error: " << error.what() << "\n" << text;
      }
    }
    EXPECT_GT(refused, 0);
    EXPECT_GT(accepted, 0);
  }
  static std::string content(const fs::path& file) {
    std::ifstream in(file, std::ios::binary);
    return {std::istreambuf_iterator<char>(in), {}};
  }
  void write(const std::string& name, std::string_view text) {
    std::ofstream(folder_ / name, std::ios::binary | std::ios::trunc) << text;
  }
};

constexpr std::string_view kJsonWords[] = {"{",
                                           "}",
                                           "[",
                                           "]",
                                           ",",
                                           ":",
                                           "\"",
                                           "\\u0000",
                                           "\\ud800",
                                           "null",
                                           "true",
                                           "\"inputs\":18446744073709551615",
                                           "\"reads\":[\"w\",\"w\"]",
                                           "\"aliases\":{\"w\":\"w\"}",
                                           "\"version\":2",
                                           "[[[[[[[[[[[["};

TEST_F(HostileFiles, DescriptionsOfModels) {
  expect_typed({std::string(hostile::kSeedModel)}, kJsonWords,
               [](const std::string& text) { hostile::read_model(text); });
}

TEST_F(HostileFiles, TextsOfGraphs) {
  constexpr std::string_view kWords[] = {"%x",
                                         "@main",
                                         "f32[N,2]",
                                         "bool[]",
                                         "composite softmax(%x)",
                                         "{axis=-1}",
                                         "cond(%p, %x) @a @b",
                                         "shape=[0]",
                                         "splat 1",
                                         "sharding([x])",
                                         "mesh x=2",
                                         "{",
                                         "}",
                                         "[",
                                         "]",
                                         "return",
                                         "%y = add(%x, %x)",
                                         "i64[1152921504606846975]"};
  std::vector<std::string> seeds{ir::print(hostile::seed_graph())};
  for (const auto& file : fs::directory_iterator(fs::path(SYSTOLE_SOURCE_DIR) / "tests/fuzz/corpus/parser"))
    seeds.push_back(content(file.path()));
  std::sort(seeds.begin(), seeds.end());
  expect_typed(seeds, kWords, [](const std::string& text) { hostile::read_graph(text); });
}

TEST_F(HostileFiles, Safetensors) {
  constexpr std::string_view kWords[] = {"\"F32\"",
                                         "\"BOOL\"",
                                         "\"F4\"",
                                         "\"shape\":[0]",
                                         "\"data_offsets\":[0,0]",
                                         "\"__metadata__\":{}",
                                         "{",
                                         "}",
                                         "[",
                                         "]",
                                         ",",
                                         "\"a\":"};
  const std::vector<io::NamedArray> arrays{{"a", Literal::of<float>({2, 3}, {1, 2, 3, 4, 5, 6})},
                                           {"b", Literal::scalar(true)}};
  std::vector<std::string> seeds;
  for (const bool digest : {false, true}) {
    const std::vector<std::byte> bytes =
        io::safetensors_bytes(arrays, {{"format", "pt"}}, {.digest = digest});
    seeds.emplace_back(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  }
  expect_typed(seeds, kWords, [](const std::string& text) { hostile::read_safetensors(text); });
}

TEST_F(HostileFiles, CheckpointsAndTheirMetadata) {
  constexpr std::string_view kWords[] = {"\"systole.step\":\"x\"", "-", "e9", " ", ",", "\n", "loss"};
  const fs::path file = folder_ / "c.safetensors";
  training::Checkpoint seed{.step = 12,
                            .values = {{"w", Literal::of<float>({2}, {1, 2})}},
                            .metadata = {{"epoch", "3"}, {"history", "epoch,loss\n1,0.5\n"}}};
  training::save_checkpoint(file, seed);
  expect_typed(
      {content(file)}, kWords,
      [&](const std::string& text) {
        write("c.safetensors", text);
        (void)training::load_checkpoint(file);
      },
      300);
  // Under a digest that is right: the metadata themselves lie.
  expect_typed(
      {"12", "0"}, kWords,
      [&](const std::string& text) {
        io::save_safetensors(file, std::vector<io::NamedArray>{{"w", Literal::scalar(1.0f)}},
                             {{"systole.step", text}}, {.digest = true});
        (void)training::load_checkpoint(file);
      },
      300);
  expect_typed({"epoch,loss,val_loss\n1,0.5,0.25\n2,0.25,\n"}, kWords,
               [](const std::string& text) { (void)training::History::parse_csv(text, "history.csv"); });
}

TEST_F(HostileFiles, StatesOfATrainingInACheckpoint) {
  constexpr std::string_view kWords[] = {
      "epoch ", "done 0", "sums ", "0x", "0x1p", "-",    "p+1024", "nan",      "inf", "history ",
      "\n",     "\1",     ",",     " ",  "--",   "0x-1", "loss",   "val_loss", "e",   "0x1p9999"};
  expect_typed({std::string(hostile::kSeedCheckpoint)}, kWords,
               [](const std::string& text) { hostile::read_checkpoint(text); });
  expect_typed({std::begin(hostile::kSeedStates), std::end(hostile::kSeedStates)}, kWords,
               [](const std::string& text) { hostile::read_callback_states(text); });
}

TEST_F(HostileFiles, DescriptionsBesideWeights) {
  constexpr std::string_view kWords[] = {
      "{",          "}",     "[",      "]",   ",",   ":",       "\"",
      "null",       "false", "-1e400", "1e9", "0.5", "\\u0000", "\"model_type\":\"bert\",",
      "[[[[[[[[[[["};
  expect_typed(
      {std::begin(hostile::kSeedConfigs), std::end(hostile::kSeedConfigs)}, kWords,
      [&](const std::string& text) { hostile::read_config(text, folder_); }, 600);
}

TEST_F(HostileFiles, DescriptionsOfTokenizers) {
  constexpr std::string_view kWords[] = {"{",
                                         "}",
                                         "[",
                                         "]",
                                         ",",
                                         ":",
                                         "\"",
                                         "null",
                                         "true",
                                         "\1",
                                         "\"pretokenizers\":[",
                                         "\"type\":\"Split\"",
                                         "\\ud800",
                                         "[[[[[[[[[[["};
  expect_typed(
      {std::begin(hostile::kSeedTokenizerConfigs), std::end(hostile::kSeedTokenizerConfigs)}, kWords,
      [&](const std::string& text) { hostile::read_tokenizer_config(text, folder_); }, 300);
}

TEST_F(HostileFiles, Tokenizers) {
  io::Tokenizer::train("hello hello world, the world of words 12 12", 270).save(folder_);
  const std::string seed = content(folder_ / "encoder.json") + "\1" + content(folder_ / "vocab.bpe");
  fs::remove(folder_ / "encoder.json");
  fs::remove(folder_ / "vocab.bpe");
  constexpr std::string_view kWords[] = {"\"Ġ\":", "Ġ h", "\n",      "{",       "}",
                                         ":",      ",",   "\"a\":0", "\\u0100", "#version"};
  expect_typed({seed}, kWords, [&](const std::string& text) { hostile::read_tokenizer(text, folder_); }, 300);
}

#ifdef SYSTOLE_COMMAND
TEST_F(HostileFiles, Toml) {
  if (!cli::reads_toml()) GTEST_SKIP() << "this build reads no TOML files";
  constexpr std::string_view kWords[] = {
      "[",       "]",        "{",       "}",          "=",   ".",  "\"", "'''", "\"\"\"",
      "[train]", "[[data]]", "a.b.c=1", "1979-05-27", "inf", "0x", "\\", "#",   "[a.a.a.a.a.a.a.a.a.a]"};
  expect_typed(
      {"[data]\nsource = \"digits\"\naugment = [\"flip\", \"crop 4\"]\n\n[model]\nlayers = [\"flatten\", "
       "\"dense 10\"]\n\n[train]\nepochs = 20\noptimizer_options = {weight_decay = 0.05, betas = [0.9, "
       "0.99]}\nlr = 0.002 # a comment\nschedule = 'cosine'\n"},
      kWords, [](const std::string& text) {
        const cli::Table table = cli::parse_toml(text, "fuzz.toml");
        (void)cli::settings_of(table);
      });
}
#endif

// FAULTS 33: whatever is made of a file that is shorter than it says has no other bytes in it.
TEST(Conversions, OfAFileWithMissingBytesWriteNothing) {
  std::string name = (fs::temp_directory_path() / "systole-test-XXXXXX").string();
  const fs::path folder = ::mkdtemp(name.data());
  const fs::path file = folder / "m.safetensors", target = folder / "out.safetensors";
  const std::vector<float> values(100'000, 1.0f);
  const std::vector<io::NamedArray> arrays{{"w", Literal::of<float>({100'000}, values)}};
  io::save_safetensors(file, arrays);
  const auto convert = [&] { io::save_safetensors(target, io::load_safetensors(file)); };
  convert();
  ASSERT_TRUE(fs::exists(target));
  fs::remove(target);
  fs::resize_file(file, fs::file_size(file) - 1);
  error_of(ErrorKind::kParse, convert);
  EXPECT_FALSE(fs::exists(target));
  // The file shrinks after its header was checked.
  io::save_safetensors(file, arrays);
  const io::SafetensorsReader reader(file);
  fs::resize_file(file, 4096);
  error_of(ErrorKind::kIo, [&] { reader.read("w"); });
  EXPECT_EQ(std::distance(fs::directory_iterator(folder), fs::directory_iterator()), 1);
  fs::remove_all(folder);
}

}  // namespace
}  // namespace systole
