// Translation by the transformer of "Attention is all you need", an encoder and a decoder, into a toy
// language with some of what makes real ones hard: the verb goes to the end, the adverb to the front,
// adjectives follow their noun in reverse order and agree with it, and only the indefinite article has a
// word.
//
//   the old small cat sees a red house today   →   hodi felo pika olda un domi rede vidas
//
//   translation [--epochs 6] [--count 6000] [--layers 2] [--device auto]

#include <systole/systole.h>

#include <cstdint>
#include <cstdio>
#include <exception>
#include <iostream>
#include <random>
#include <string>
#include <vector>

#include "options.h"

using namespace systole;

namespace {

constexpr std::int64_t kLength = 13;                      // of the longest sentence, with its marks
constexpr std::int32_t kFill = 0, kStart = 1, kStop = 2;  // what is no word

struct Pair {
  std::vector<std::string> english, toy;
};

// An article, up to two adjectives, a noun.
void add_noun(std::mt19937& chance, Pair& to) {
  static const std::vector<Pair> kNouns = {
      {{"cat", "dog", "child", "king"}, {"felo", "hundo", "infano", "rego"}},
      {{"house", "tree", "ship", "book"}, {"domi", "arbi", "nefi", "libi"}}};
  static const Pair kAdjectives = {{"old", "red", "small", "quiet", "good"},
                                   {"old", "red", "pik", "tas", "bon"}};
  const std::size_t kind = chance() % 2, which = chance() % 4, definite = chance() % 2;
  to.english.push_back(definite != 0 ? "the" : "a");
  if (definite == 0) to.toy.push_back("un");
  to.toy.push_back(kNouns[kind].toy[which]);
  const auto behind_noun = std::ssize(to.toy);
  for (std::size_t i = chance() % 3; i > 0; --i) {
    const std::size_t adjective = chance() % kAdjectives.english.size();
    to.english.push_back(kAdjectives.english[adjective]);
    to.toy.insert(to.toy.begin() + behind_noun, kAdjectives.toy[adjective] + (kind == 0 ? "a" : "e"));
  }
  to.english.push_back(kNouns[kind].english[which]);
}

Pair sentence(std::mt19937& chance) {
  static const Pair kVerbs = {{"sees", "finds", "likes", "leaves"}, {"vidas", "trovas", "amas", "lasas"}};
  Pair pair;
  const bool adverb = chance() % 2 == 0;
  const std::size_t verb = chance() % 4;
  if (adverb) pair.toy.push_back("hodi");
  add_noun(chance, pair);
  pair.english.push_back(kVerbs.english[verb]);
  add_noun(chance, pair);
  if (adverb) pair.english.push_back("today");
  pair.toy.push_back(kVerbs.toy[verb]);
  return pair;
}

// Appends a row of kLength: start, the words, stop, fill.
void add_row(const std::vector<std::string>& words, data::Vocabulary& language,
             std::vector<std::int32_t>& rows) {
  const std::size_t end = rows.size() + kLength;
  rows.push_back(kStart);
  for (const std::string& word : words) rows.push_back(language.add(word));
  rows.push_back(kStop);
  rows.resize(end, kFill);
}

std::string text_of(const Tensor& row, const data::Vocabulary& language) {
  std::string text;
  for (const std::int32_t word : row.to_vector<std::int32_t>()) {
    if (word == kStop) break;
    if (word != kStart) text += language[word] + " ";
  }
  return text;
}

struct Translator {
  std::int64_t english_words, toy_words, layers, width = 64;
  nn::Embedding english{english_words, width}, toy{toy_words, width};
  nn::SinusoidalPositions positions{width};
  nn::Transformer transformer{
      width,
      4,
      {.encoder_layers = layers, .decoder_layers = layers, .layer = {.dim_feedforward = 128, .dropout = 0}}};
  nn::Linear head{width, toy_words};

  // i32[batch,length] and the translation so far, to the logits of each next word.
  Tensor forward(const Tensor& source, const Tensor& target) const {
    const nn::AttentionMasks fill{.key_padding_mask = source == kFill};
    return head(transformer(positions(english(source)), positions(toy(target)),
                            {.src = fill, .tgt = {.is_causal = true}, .memory = fill}));
  }
};

}  // namespace

int main(int argc, char** argv) try {
  const Options options(argc, argv,
                        {{"epochs", "6"}, {"count", "6000"}, {"layers", "2"}, {"device", "auto"}});
  const DeviceScope device(options["device"]);
  random::seed(1);

  std::mt19937 chance(1);
  data::Vocabulary english({"", "", ""}), toy({"", "", ""});
  std::vector<std::int32_t> english_rows, toy_rows;
  const std::int64_t count = options.integer("count");
  for (std::int64_t i = 0; i < count; ++i) {
    const Pair pair = sentence(chance);
    add_row(pair.english, english, english_rows);
    add_row(pair.toy, toy, toy_rows);
  }
  const Tensor source = tensor(english_rows, {count, kLength}), target = tensor(toy_rows, {count, kLength});
  // What is there of the translation, and each of its next words.
  auto [train, test] =
      data::arrays(source, target[{all, slice(0, -1)}], target[{all, slice(1, {})}]).split(0.9);

  Translator model{english.size(), toy.size(), options.integer("layers")};
  const std::int64_t epochs = options.integer("epochs"), steps = (train.size() + 63) / 64;
  training::Trainer trainer(model,
                            optim::Adam(model, {.lr = optim::schedules::one_cycle(3e-3, epochs * steps)}),
                            {.loss = {"cross_entropy", {.ignore_index = kFill}}});
  trainer.fit(train, {.epochs = epochs, .batch = 64, .validation = test});

  // Word by word, each the most probable one, for all test sentences at once.
  const std::vector<Literal> columns = test.columns();
  const Tensor unseen(columns[0]), truth(columns[2]);
  Tensor written = zeros({test.size(), kLength}, DType::i32).at({all, 0}).set(kStart);
  const auto best = compile([&](const Tensor& from, const Tensor& to) {
    return argmax(model.forward(from, to), -1).to(DType::i32);
  });
  for (std::int64_t t = 0; t + 1 < kLength; ++t) {
    const Tensor words = best(unseen, written[{all, slice(0, -1)}]);
    written = written.at({all, t + 1}).set(words[{all, t}]).eval();
  }
  const Tensor guess = written[{all, slice(1, {})}];
  const Tensor exact =
      systole::all(guess == truth || truth == kFill, 1);  // what follows the stop does not count
  std::printf("exact translations of %lld unseen sentences: %.4f\n", static_cast<long long>(test.size()),
              mean(exact.to(DType::f32)).item<double>());
  for (std::int64_t i = 0; i < 3; ++i)
    std::cout << text_of(unseen[i], english) << "→ " << text_of(guess[i], toy) << "\n";
} catch (const std::exception& error) {
  std::cerr << "translation: " << error.what() << "\n";
  return 1;
}
