// Keys and values of all words so far are Variables of the model's whole length; a step writes its own at one
// position and looks at those up to it. So every step is the same program, whatever the prompt.

#include "systole/nn/models/generate.h"

#include <algorithm>
#include <limits>
#include <string>
#include <utility>

#include "systole/base/error.h"
#include "systole/tensor/compiled.h"
#include "systole/tensor/creation.h"
#include "systole/tensor/math.h"
#include "systole/tensor/neural.h"
#include "systole/tensor/random.h"
#include "systole/tensor/shaping.h"
#include "systole/tensor/variable.h"

namespace systole::nn::models {

namespace {

constexpr int kUndecided = -1;  // the word where the scores are not finite

Gpt2 for_use(const Gpt2& model) {
  Gpt2 copy = model;
  nn::eval(copy);
  return copy;
}

}  // namespace

struct Generator::State {
  explicit State(const Gpt2& given) : model(for_use(given)) {
    const Gpt2Options& options = model.options;
    const Variable& table = model.wte.weight;
    const Type type{table.dtype(), {1, options.heads, options.length, options.width / options.heads}};
    const std::string device = table.value().device().to_string();
    for (std::size_t i = 0; i < 2 * model.h.size(); ++i) {
      seen.emplace_back(Tensor(Literal(type)), "generate.seen." + std::to_string(i), false);
      seen.back().move_to(device);
    }
  }

  // The logits of the word after `word`, which stands at `position`: both i32 scalars.
  Tensor logits(const Tensor& word, const Tensor& position) {
    const std::int64_t length = model.options.length;
    const Tensor places = arange(length);
    const Tensor here = (places == position).reshape({1, 1, length, 1});
    const Tensor mask = (places <= position).reshape({1, 1, 1, length});
    Tensor x = model.wte(word.reshape({1, 1})) + model.wpe(position.reshape({1, 1}));
    for (std::size_t i = 0; i < model.h.size(); ++i) {
      const std::vector<Tensor> parts = model.h[i].heads_of(x);
      const Tensor keys = where(here, parts[1], seen[2 * i]);
      const Tensor values = where(here, parts[2], seen[2 * i + 1]);
      seen[2 * i].assign(keys);
      seen[2 * i + 1].assign(values);
      x = model.h[i].after_attention(x, attention(parts[0], keys, values, {.mask = mask}));
    }
    return model.logits(x).reshape({-1});
  }

  Tensor next(const Tensor& word, const Tensor& position, const Tensor& temperature, const Tensor& key) {
    Tensor scores = logits(word, position);
    const Tensor decides = is_finite(scores.max(-1));  // -inf beside a finite score only rules a word out
    const auto chosen = [&](const Tensor& place) { return where(decides, place.to(DType::i32), kUndecided); };
    if (greedy) return chosen(argmax(scores, 0));
    const std::int64_t most = top_k;
    if (most > 0 && most < scores.size()) {
      const Tensor least = top_k_of(scores, most);
      scores = where(scores < least, Tensor(-std::numeric_limits<double>::infinity()), scores);
    }
    return chosen(random::categorical(key, scores / temperature.to(scores.dtype()), 0));
  }
  static Tensor top_k_of(const Tensor& scores, std::int64_t k) {
    return systole::top_k(scores, k).first[k - 1];
  }

  Gpt2 model;
  std::vector<Variable> seen;  // keys and values of each layer: [1, heads, length, depth]
  Setting<bool> greedy = false;
  Setting<std::int64_t> top_k = 0;
  Function<Tensor(const Tensor&, const Tensor&, const Tensor&, const Tensor&)> step{
      [this](const Tensor& word, const Tensor& position, const Tensor& temperature, const Tensor& key) {
        return next(word, position, temperature, key);
      }};
};

Generator::Generator(const Gpt2& model) : state_(std::make_unique<State>(model)) {}
Generator::~Generator() = default;
Generator::Generator(Generator&&) noexcept = default;
Generator& Generator::operator=(Generator&&) noexcept = default;

std::vector<int> Generator::operator()(std::span<const int> prompt, std::int64_t count,
                                       const GenerateOptions& options) const {
  State& state = *state_;
  const auto refuse = [](const std::string& what, const std::string& expected, const std::string& got) {
    throw Error(ErrorKind::kInvalidArgument, "generate", what, expected, got);
  };
  if (prompt.empty()) refuse("the prompt", "at least one word", "none");
  for (const int word : prompt)
    if (word < 0 || word >= state.model.options.vocabulary)
      refuse("a word of the prompt", "0 to " + std::to_string(state.model.options.vocabulary - 1),
             std::to_string(word));
  if (!(options.temperature >= 0)) refuse("temperature", "0 or more", std::to_string(options.temperature));
  if (options.top_k < 0) refuse("top_k", "0 or more", std::to_string(options.top_k));

  state.greedy = options.temperature == 0 || options.top_k == 1;
  state.top_k = options.top_k;
  const Tensor temperature(Literal::scalar<float>(static_cast<float>(options.temperature)));
  Tensor key = random::key(options.seed);
  std::vector<int> words(prompt.begin(), prompt.end());
  const std::size_t end = words.size() + static_cast<std::size_t>(std::max<std::int64_t>(count, 0));
  const auto length = static_cast<std::size_t>(state.model.options.length);
  std::size_t start = words.size() > length ? words.size() - length : 0;  // of the words that are seen
  std::size_t at = start;                                                 // the next word to look at
  while (words.size() < end) {
    if (at - start == length) at = start = words.size() - std::max<std::size_t>(length / 2, 1);
    std::vector<Tensor> keys = random::split(key);
    const Tensor next = state.step(
        Tensor(Literal::scalar<std::int32_t>(words[at])),
        Tensor(Literal::scalar<std::int32_t>(static_cast<std::int32_t>(at - start))), temperature, keys[0]);
    if (++at < words.size()) continue;  // still in the prompt
    key = keys[1];
    const int chosen = next.item<int>();
    if (chosen == kUndecided)
      throw Error(ErrorKind::kInvalidArgument, "generate", "the scores for the next word are not finite",
                  "finite numbers", "after " + std::to_string(words.size()) + " words");
    words.push_back(chosen);
    if (options.each && !options.each(words.back())) break;
  }
  return words;
}

std::vector<int> generate(const Gpt2& model, std::span<const int> prompt, std::int64_t count,
                          const GenerateOptions& options) {
  return Generator(model)(prompt, count, options);
}

}  // namespace systole::nn::models
