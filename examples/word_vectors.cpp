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
#include "words.h"

using namespace systole;

namespace {

constexpr int kWindow = 3, kNegatives = 6;  // neighbours on each side; words drawn for each
constexpr int kRarest = 5;                  // words seen less often are left out
constexpr int kTable = 1 << 16;

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

struct Corpus {
  Vocabulary words;
  std::vector<double> counts;      // by word
  std::vector<std::int32_t> text;  // without the rarest words

  explicit Corpus(const std::vector<std::string>& all_words) {
    std::map<std::string, int> found;
    for (const std::string& word : all_words) ++found[word];
    for (const std::string& word : all_words) {
      if (found[word] < kRarest) continue;
      text.push_back(words.add(word));
      if (words.size() > std::ssize(counts)) counts.push_back(found[word]);
    }
  }
};

// Each word with each of its neighbours; very frequent words are thinned out, as in word2vec.
data::Source pairs(const Corpus& corpus) {
  std::mt19937 chance(2);
  std::uniform_real_distribution<double> draw;
  std::vector<std::int32_t> kept, words, neighbours;
  for (const std::int32_t word : corpus.text) {
    const double share =
        corpus.counts[static_cast<std::size_t>(word)] / static_cast<double>(corpus.text.size());
    if (draw(chance) < std::sqrt(1e-2 / share)) kept.push_back(word);
  }
  for (int i = 0; i < std::ssize(kept); ++i)
    for (int j = std::max(0, i - kWindow); j < std::min<int>(std::ssize(kept), i + kWindow + 1); ++j)
      if (i != j) words.push_back(kept[i]), neighbours.push_back(kept[j]);
  return data::arrays(tensor(words), tensor(neighbours));
}

// Every word as often as its count to the power of ¾ has it: a random place of the table is a random word.
Tensor table_of(const std::vector<double>& counts) {
  double sum = 0, reached = 0;
  for (const double count : counts) sum += std::pow(count, 0.75);
  std::vector<std::int32_t> table;
  for (std::size_t i = 0; i < counts.size(); ++i)
    for (reached += std::pow(counts[i], 0.75); static_cast<double>(table.size()) < kTable * reached / sum;)
      table.push_back(static_cast<std::int32_t>(i));
  return tensor(table);
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

  const Corpus corpus(words_of(options.has("data") ? read_text(options["data"]) : made_up()));
  const data::Source data = pairs(corpus);
  std::cout << corpus.text.size() << " words, " << corpus.words.size() << " of them different, "
            << data.size() << " pairs\n";

  SkipGram model{corpus.words.size(), options.integer("width")};
  nn::init::uniform(model.word.weight, -0.5 / 32, 0.5 / 32);
  nn::init::zeros(model.context.weight);
  const Tensor table = table_of(corpus.counts);
  const auto step = [&](std::span<const Tensor> fields) -> training::Outcome {
    const Tensor word = model.word(fields[0]), neighbour = model.context(fields[1]);  // [batch,width]
    const Tensor drawn =
        random::randint(random::next_key(), {fields[0].size(0), kNegatives}, 0, table.size());
    const Tensor others = model.context(take(table, drawn));  // [batch,negatives,width]
    const Tensor wrong = sum(others * word.unsqueeze(1), -1);
    return {-mean(log_sigmoid(sum(word * neighbour, -1))) - mean(sum(log_sigmoid(-wrong), 1))};
  };
  training::Trainer trainer(model, optim::Adam(model, {.lr = 5e-3}), {.step = step});
  trainer.fit(data, {.epochs = options.integer("epochs"), .batch = 512});

  const Tensor vectors = model.word.weight / norm(model.word.weight, -1, {.keep = true});
  std::istringstream asked(options["near"]);
  for (std::string word; std::getline(asked, word, ',');) {
    const std::int32_t number = corpus.words.number(word, -1);
    if (number < 0) throw Error(ErrorKind::kNotFound, word, "the text has no such word");
    const auto [nearness, places] = top_k(matmul(vectors, vectors[number]), 5);
    std::printf("%s:", word.c_str());
    for (int i = 1; i < 5; ++i)  // the nearest is the word itself
      std::printf(" %s %.2f", corpus.words[places[i].item<std::int64_t>()].c_str(),
                  nearness[i].item<double>());
    std::printf("\n");
  }
} catch (const std::exception& error) {
  std::cerr << "word_vectors: " << error.what() << "\n";
  return 1;
}
