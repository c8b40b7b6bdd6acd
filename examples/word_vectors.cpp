// Words as vectors, by the company they keep: skip-gram with negative sampling (word2vec). A word's vector is
// to fit the context vectors of its neighbours and not those of words drawn at random; then words used alike
// lie close together.
//
//   word_vectors [--data FILE] [--epochs 5] [--near king,queen] [--device auto]
//
// Without --data it reads made-up sentences on animals, fruit and towns.

#include <systole/systole.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <iostream>
#include <map>
#include <random>
#include <span>
#include <sstream>
#include <string>
#include <vector>

#include "options.h"

using namespace systole;

namespace {

constexpr int kWindow = 3, kNegatives = 6;  // neighbours on each side; words drawn for each
constexpr int kRarest = 5;                  // words seen less often are left out

std::string made_up() {
  const std::vector<std::vector<std::string>> words = {{"cat", "dog", "horse", "cow", "rabbit"},
                                                       {"apple", "pear", "plum", "cherry", "peach"},
                                                       {"paris", "london", "rome", "madrid", "vienna"}};
  const std::vector<std::vector<std::string>> sentences = {
      {"the * sleeps near the fire", "a * drinks some water", "feed the old * every morning",
       "that * ran after us"},
      {"she ate a ripe * after lunch", "peel the * with a knife", "a sweet * fell from its tree",
       "cook jam of *"},
      {"they travel to * by train", "the streets of * are crowded", "he lives in * since spring",
       "flights from *"}};
  std::mt19937 chance(1);
  std::string text;
  for (int i = 0; i < 6000; ++i) {
    const std::size_t kind = chance() % 3;
    std::string sentence = sentences[kind][chance() % sentences[kind].size()];
    sentence.replace(sentence.find('*'), 1, words[kind][chance() % words[kind].size()]);
    text += sentence + " ";
  }
  return text;
}

// The text by number, without rare words, and frequent ones thinned out as in word2vec.
std::vector<std::int32_t> numbered(const std::vector<std::string>& words, data::Vocabulary& vocabulary) {
  std::map<std::string, int> counts;
  for (const std::string& word : words) ++counts[word];
  std::mt19937 chance(2);
  std::uniform_real_distribution<double> draw;
  std::vector<std::int32_t> text;
  for (const std::string& word : words) {
    const double share = counts[word] / static_cast<double>(words.size());
    if (counts[word] >= kRarest && draw(chance) < std::sqrt(1e-2 / share))
      text.push_back(vocabulary.add(word));
  }
  return text;
}

// Each word with each of its neighbours.
data::Source pairs(const std::vector<std::int32_t>& text) {
  std::vector<std::int32_t> words, neighbours;
  for (std::size_t i = 0; i < text.size(); ++i)
    for (std::size_t j = i + 1; j < std::min(text.size(), i + 1 + kWindow); ++j) {
      words.insert(words.end(), {text[i], text[j]});
      neighbours.insert(neighbours.end(), {text[j], text[i]});
    }
  return data::arrays(tensor(words), tensor(neighbours));
}

struct SkipGram {
  std::int64_t words, width;
  nn::Embedding word{words, width}, context{words, width};
  Tensor forward(const Tensor& numbers) const { return word(numbers); }
};

}  // namespace

int main(int argc, char** argv) try {
  const Options options(
      argc, argv,
      {{"data", ""}, {"epochs", "5"}, {"width", "32"}, {"device", "auto"}, {"near", "cat,apple,paris"}});
  const DeviceScope device(options["device"]);
  random::seed(1);

  data::Vocabulary vocabulary;
  const std::vector<std::int32_t> text = numbered(
      data::words_of(options.has("data") ? data::read_text(options["data"]) : made_up()), vocabulary);
  const data::Source data = pairs(text);
  std::cout << text.size() << " words, " << vocabulary.size() << " of them different, " << data.size()
            << " pairs\n";

  SkipGram model{vocabulary.size(), options.integer("width")};
  nn::init::uniform(model.word.weight, -0.02, 0.02);
  nn::init::zeros(model.context.weight);
  const Tensor words = tensor(text);
  const auto step = [&](std::span<const Tensor> fields) -> training::Outcome {
    const Tensor word = model.word(fields[0]), neighbour = model.context(fields[1]);  // [batch,width]
    const Tensor places = random::randint(random::next_key(), {word.size(0), kNegatives}, 0, words.size());
    const Tensor others = model.context(take(words, places));  // [batch,negatives,width]
    const Tensor wrong = sum(others * word.unsqueeze(1), -1);
    return {-mean(log_sigmoid(sum(word * neighbour, -1))) - mean(sum(log_sigmoid(-wrong), 1))};
  };
  training::Trainer trainer(model, optim::Adam(model, {.lr = 5e-3}), {.step = step});
  trainer.fit(data, {.epochs = options.integer("epochs"), .batch = 512});

  const Tensor vectors = model.word.weight / norm(model.word.weight, -1, {.keep = true});
  std::istringstream asked(options["near"]);
  for (std::string word; std::getline(asked, word, ',');) {
    const std::int32_t number = vocabulary.number(word, -1);
    if (number < 0) throw Error(ErrorKind::kNotFound, word, "the text has no such word");
    const auto [nearness, places] = top_k(matmul(vectors, vectors[number]), 5);
    std::printf("%s:", word.c_str());
    for (int i = 1; i < 5; ++i)  // the nearest is the word itself
      std::printf(" %s %.2f", vocabulary[places[i].item<std::int64_t>()].c_str(), nearness[i].item<double>());
    std::printf("\n");
  }
} catch (const std::exception& error) {
  std::cerr << "word_vectors: " << error.what() << "\n";
  return 1;
}
