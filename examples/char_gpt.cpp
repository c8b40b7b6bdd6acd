// A GPT of characters: learns to write on from the text it reads, and writes some at the end. With Tiny
// Shakespeare,
//
//   char_gpt --data tinyshakespeare.txt [--steps 900] [--out gpt.safetensors]
//
// trains 4 layers of width 128 for 900 batches of 16 · 64 characters; tests/parity/char_gpt.py is the same in
// PyTorch. Without --data it reads a children's rhyme. --weights FILE starts from weights by name in place of
// GPT-2's initial ones, as --out writes them.

#include <systole/systole.h>

#include <cmath>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <iostream>
#include <string>
#include <vector>

#include "options.h"

using namespace systole;

namespace {

// "This is the house that Jack built", cumulative as it is.
std::string rhyme() {
  const std::vector<std::string> parts = {"the house that Jack built.\n\n",
                                          "the malt\nThat lay in ",
                                          "the rat\nThat ate ",
                                          "the cat\nThat killed ",
                                          "the dog\nThat worried ",
                                          "the cow with the crumpled horn\nThat tossed ",
                                          "the maiden all forlorn\nThat milked ",
                                          "the man all tattered and torn\nThat kissed "};
  std::string text;
  for (int again = 0; again < 8; ++again) {
    std::string line;
    for (const std::string& part : parts) text += "This is " + (line = part + line);
  }
  return text;
}

}  // namespace

int main(int argc, char** argv) try {
  const Options options(argc, argv,
                        {{"data", ""},
                         {"weights", ""},
                         {"out", ""},
                         {"layers", "4"},
                         {"width", "128"},
                         {"heads", "4"},
                         {"length", "64"},
                         {"batch", "16"},
                         {"steps", "900"},
                         {"epochs", "1"},
                         {"seed", "1"},
                         {"write", "300"},
                         {"device", "auto"}});
  const DeviceScope device(options["device"]);
  random::seed(static_cast<std::uint64_t>(options.integer("seed", 0)));

  const data::TextOptions windows{.window = options.integer("length"), .stride = options.integer("length")};
  const data::Source text =
      options.has("data") ? data::text(options["data"], windows) : data::text_of(rhyme(), windows, "rhyme");
  const std::vector<std::string> vocabulary = text.info().fields[0].classes;
  auto [train, validation] = text.split(0.9);  // in order: the end of the text is for validation
  std::cout << text.info().to_string() << "\n";

  nn::models::Gpt2 gpt{{.layers = options.integer("layers"),
                        .width = options.integer("width"),
                        .heads = options.integer("heads"),
                        .vocabulary = std::ssize(vocabulary),
                        .length = options.integer("length")}};
  nn::models::init_gpt2(gpt);
  if (options.has("weights")) load_state_dict(gpt, io::load_safetensors(options["weights"]));
  std::printf("%lld parameters\n", static_cast<long long>(parameters(gpt).count()));

  training::Trainer trainer(gpt, optim::AdamW(gpt, {.lr = 1e-3}));
  trainer.fit(train.repeat(), {.epochs = options.integer("epochs"),
                               .batch = options.integer("batch"),
                               .steps_per_epoch = options.integer("steps"),
                               .validation = validation,
                               .seed = static_cast<std::uint64_t>(options.integer("seed", 0))});
  const double loss = trainer.evaluate(validation)["loss"];
  std::printf("validation loss %.4f, of a guess among %zu characters %.4f\n", loss, vocabulary.size(),
              std::log(static_cast<double>(vocabulary.size())));
  if (options.has("out")) io::save_safetensors(options["out"], state_dict(gpt));

  const Literal prompt = data::encode("Th", vocabulary);
  const std::vector<int> written = nn::models::generate(
      gpt, prompt.values<std::int32_t>(), options.integer("write"), {.temperature = 0.8, .seed = 1});
  std::cout << "---\n" << data::decode(written, vocabulary) << "\n";
} catch (const std::exception& error) {
  std::cerr << "char_gpt: " << error.what() << "\n";
  return 1;
}
