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
#include <iostream>
#include <random>
#include <sstream>
#include <string>
#include <vector>

#include "options.h"

using namespace systole;

namespace {

constexpr std::int64_t kLength = 16;
constexpr std::int32_t kFill = 0, kUnknown = 1;

struct Text {
  std::string label;
  std::vector<std::string> words;
};

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
    texts.push_back({praise != negated ? "kind" : "unkind", data::words_of(line)});
  }
  return texts;
}

std::vector<Text> read(const std::string& file) {
  std::istringstream in(data::read_text(file));
  std::vector<Text> texts;
  for (std::string line; std::getline(in, line);)
    if (const std::size_t tab = line.find('\t'); tab != std::string::npos)
      texts.push_back({line.substr(0, tab), data::words_of(line.substr(tab + 1))});
  return texts;
}

// The last words by number, filled in front: the LSTM's last output is then that of the last word.
std::vector<std::int32_t> row_of(const std::vector<std::string>& words, const data::Vocabulary& vocabulary) {
  return vocabulary.encode(words,
                           {.unknown = kUnknown, .length = kLength, .fill = kFill, .fill_in_front = true});
}

}  // namespace

int main(int argc, char** argv) try {
  const Options options(argc, argv, {{"data", ""}, {"epochs", "6"}, {"count", "4000"}, {"device", "auto"}});
  const DeviceScope device(options["device"]);
  random::seed(1);

  const std::vector<Text> texts =
      options.has("data") ? read(options["data"]) : made_up(static_cast<int>(options.integer("count")));
  data::Vocabulary vocabulary({"", "?"}), classes;
  std::vector<std::int32_t> rows, labels;
  for (const Text& text : texts) {
    for (const std::string& word : text.words) vocabulary.add(word);
    for (const std::int32_t word : row_of(text.words, vocabulary)) rows.push_back(word);
    labels.push_back(classes.add(text.label));
  }
  auto [train, test] = data::arrays(tensor(rows, {std::ssize(texts), kLength}), tensor(labels)).split(0.8, 1);

  nn::models::LstmClassifier model{
      {.vocabulary = vocabulary.size(), .embedding = 32, .hidden = 64, .classes = classes.size()}};
  training::Trainer trainer(model, optim::Adam(model, {.lr = 5e-3}),
                            {.metrics = {"accuracy"}, .clip_norm = 1});
  trainer.fit(train, {.epochs = options.integer("epochs"), .batch = 64, .validation = test});
  std::printf("test accuracy %.4f\n", trainer.evaluate(test)["accuracy"]);

  for (const char* line :
       {"the film was lovely", "the film was not lovely", "honestly the music was far from dull"}) {
    const Tensor logits = trainer.predict(tensor(row_of(data::words_of(line), vocabulary), {1, kLength}));
    std::printf("%s: %s\n", line, classes[argmax(logits).item<std::int64_t>()].c_str());
  }
} catch (const std::exception& error) {
  std::cerr << "text_lstm: " << error.what() << "\n";
  return 1;
}
