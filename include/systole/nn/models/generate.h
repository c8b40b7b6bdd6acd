#pragma once

// Text from a GPT-2: one compiled step per word, which keeps keys and values of the words before it on the
// device.
//
//   models::Generator generate(gpt);
//   std::vector<int> words = generate(tokenizer.encode("Once upon a time"), 50, {.temperature = 0.8, .top_k =
//   40});

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "systole/base/export.h"
#include "systole/nn/models/gpt2.h"

namespace systole::nn::models {

struct GenerateOptions {
  double temperature = 1;                   // 0: always the most probable word
  std::int64_t top_k = 0;                   // choose among so many most probable words; 0: all
  std::uint64_t seed = 0;                   // the same seed gives the same words
  std::function<bool(int word)> each = {};  // called with every new word; false ends the text
};

// When the model's length is reached, it goes on with the later half of the words.
class SYSTOLE_API Generator {
 public:
  explicit Generator(const Gpt2& model);  // shares the model's Variables
  ~Generator();
  Generator(Generator&&) noexcept;
  Generator& operator=(Generator&&) noexcept;

  // The prompt with `count` new words after it. An empty prompt is kInvalidArgument.
  std::vector<int> operator()(std::span<const int> prompt, std::int64_t count,
                              const GenerateOptions& options = {}) const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

SYSTOLE_API std::vector<int> generate(const Gpt2& model, std::span<const int> prompt, std::int64_t count,
                                      const GenerateOptions& options = {});

}  // namespace systole::nn::models
