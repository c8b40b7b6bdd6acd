// Is a review kind? Words, an embedding, an LSTM and a dense layer, on sentences such as "the acting was not
// boring at all": a "not" turns the judgement round, so that counting good and bad words is not enough.
//
//   text_lstm [--data FILE] [--epochs 6] [--device auto]
//
// FILE has a line for each text: its class, a tab, its words. Without one, sentences are made up.

#include <systole/systole.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <fstream>
#include <iostream>
#include <map>
#include <random>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "options.h"

using namespace systole;

namespace {

constexpr std::int64_t kLength = 16;

struct Text {
  std::string label;
  std::vector<std::string> words;
};

std::vector<std::string> words_of(const std::string& line) {
  std::istringstream in(line);
  return {std::istream_iterator<std::string>(in), {}};
}

std::vector<Text> made_up(int count) {
  const std::vector<std::string> good = {"good", "moving", "clever", "funny", "brilliant", "lovely"},
                                 bad = {"bad", "boring", "silly", "dull", "awful", "clumsy"},
                                 things = {"film", "story", "acting", "music", "ending", "dialogue"},
                                 openings = {"the", "i thought the", "honestly the", "as for the plot the"},
                                 negations = {"was not", "was never", "was hardly", "was far from"},
                                 statements = {"was", "was really", "was always", "seemed to me"},
                                 ends = {"", "at all", "this time", "to everybody i know"};
  std::mt19937 chance(1);
  const auto any = [&](const std::vector<std::string>& list) { return list[chance() % list.size()] + " "; };
  std::vector<Text> texts;
  for (int i = 0; i < count; ++i) {
    const bool praise = chance() % 2 == 0, negated = chance() % 2 == 0;
    const std::string line = any(openings) + any(things) + any(negated ? negations : statements) +
                             any(praise ? good : bad) + any(ends);
    texts.push_back({praise != negated ? "kind" : "unkind", words_of(line)});
  }
  return texts;
}

std::vector<Text> read(const std::string& file) {
  std::ifstream in(file);
  if (!in) throw Error(ErrorKind::kNotFound, file, "cannot be opened");
  std::vector<Text> texts;
  for (std::string line; std::getline(in, line);)
    if (const std::size_t tab = line.find('\t'); tab != std::string::npos)
      texts.push_back({line.substr(0, tab), words_of(line.substr(tab + 1))});
  return texts;
}

// Words by number, from 2 up; 0 fills and 1 is a word that was not there in training.
struct Numbering {
  std::map<std::string, std::int32_t> words, labels;
  std::vector<std::string> names;

  explicit Numbering(const std::vector<Text>& texts) {
    for (const Text& text : texts) {
      if (labels.try_emplace(text.label, static_cast<std::int32_t>(labels.size())).second)
        names.push_back(text.label);
      for (const std::string& word : text.words)
        words.try_emplace(word, static_cast<std::int32_t>(words.size() + 2));
    }
  }
  // The last words, filled in front: the LSTM's last output is then that of the last word.
  std::vector<std::int32_t> row(const Text& text) const {
    std::vector<std::int32_t> row(kLength, 0);
    const std::size_t count = std::min(text.words.size(), row.size());
    for (std::size_t i = 0; i < count; ++i) {
      const auto found = words.find(text.words[text.words.size() - count + i]);
      row[row.size() - count + i] = found == words.end() ? 1 : found->second;
    }
    return row;
  }
};

}  // namespace

int main(int argc, char** argv) try {
  const Options options(argc, argv, {{"data", ""}, {"epochs", "6"}, {"count", "4000"}, {"device", "auto"}});
  const DeviceScope device(options["device"]);
  random::seed(1);

  const std::vector<Text> texts =
      options.has("data") ? read(options["data"]) : made_up(static_cast<int>(options.integer("count")));
  const Numbering numbers(texts);
  std::vector<std::int32_t> rows, labels;
  for (const Text& text : texts) {
    for (const std::int32_t word : numbers.row(text)) rows.push_back(word);
    labels.push_back(numbers.labels.at(text.label));
  }
  auto [train, test] = data::arrays(tensor(rows, {std::ssize(texts), kLength}), tensor(labels)).split(0.8, 1);

  nn::models::LstmClassifier model{{.vocabulary = std::ssize(numbers.words) + 2,
                                    .embedding = 32,
                                    .hidden = 64,
                                    .classes = std::ssize(numbers.names)}};
  training::Trainer trainer(model, optim::Adam(model, {.lr = 5e-3}),
                            {.metrics = {"accuracy"}, .clip_norm = 1});
  trainer.fit(train, {.epochs = options.integer("epochs"), .batch = 64, .validation = test});
  std::printf("test accuracy %.4f\n", trainer.evaluate(test)["accuracy"]);

  for (const char* line :
       {"the film was lovely", "the film was not lovely", "honestly the music was far from dull"}) {
    const Tensor logits = trainer.predict(tensor(numbers.row({"", words_of(line)}), {1, kLength}));
    std::printf("%s: %s\n", line, numbers.names[argmax(logits).item<std::size_t>()].c_str());
  }
} catch (const std::exception& error) {
  std::cerr << "text_lstm: " << error.what() << "\n";
  return 1;
}
