// One table: each model's name, what it is, its options with their standard values, and the function that
// makes it. Standard values stand there only, as the text a user could have written.

#include "systole/nn/zoo.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <functional>
#include <optional>
#include <utility>

#include <fmt/format.h>

#include "base/nearest.h"
#include "systole/base/error.h"
#include "systole/nn/models.h"

namespace systole::nn::zoo {

Value::Value(const std::vector<std::int64_t>& values) : text_(fmt::format("[{}]", fmt::join(values, ", "))) {}

std::string Value::number_text(double value) { return fmt::format("{}", value); }

namespace {

// What a model is made from: the user's options over the table's.
class Request {
 public:
  Request(const Entry& entry, const Options& given) : entry_(entry), given_(given) {
    std::vector<std::string> known;
    for (const OptionEntry& option : entry.options) known.push_back(option.name);
    for (const auto& [name, value] : given.options)
      if (std::find(known.begin(), known.end(), name) == known.end())
        throw unknown_name("model " + entry.name, "option", name, known);
    if (given.classes < 0) refuse("classes", "0 or more", std::to_string(given.classes));
    for (const Dim& dim : given.input)
      if (!dim.is_static() || dim.value() < 1)
        throw Error(ErrorKind::kShape, "model " + entry.name, "the shape of an example", "sizes of 1 or more",
                    given.input.to_string());
  }

  Shape input() const { return given_.input.empty() ? entry_.input : given_.input; }
  bool has_input() const { return !given_.input.empty(); }
  // Of an image, with its channels.
  Shape image() const {
    Shape shape = input();
    if (shape.rank() == 2) shape.push_back(1);
    if (shape.rank() != 3)
      throw Error(ErrorKind::kShape, "model " + entry_.name, "the shape of an example",
                  "an image [height, width] or [height, width, channels]", shape.to_string());
    return shape;
  }
  bool small_image() const {
    const Shape shape = image();
    return std::min(shape[0].value(), shape[1].value()) <= 64;
  }
  std::int64_t classes(std::int64_t standard) const { return given_.classes > 0 ? given_.classes : standard; }
  bool has(const std::string& name) const { return given_.options.contains(name); }

  std::int64_t integer(const std::string& name) const { return integer(name, 1); }
  std::int64_t integer(const std::string& name, std::int64_t least) const {
    const std::optional<std::int64_t> value = parsed<std::int64_t>(text(name));
    if (!value || *value < least)
      refuse(name, fmt::format("a whole number of at least {}", least), text(name));
    return *value;
  }
  double probability(const std::string& name) const {
    const std::optional<double> value = parsed<double>(text(name));
    if (!value || !(*value >= 0 && *value < 1)) refuse(name, "a number from 0 to less than 1", text(name));
    return *value;
  }
  bool flag(const std::string& name) const { return choice(name, {"true", "false"}) == "true"; }
  // "auto" leaves it to the model.
  bool flag(const std::string& name, bool otherwise) const {
    const std::string value = choice(name, {"auto", "true", "false"});
    return value == "auto" ? otherwise : value == "true";
  }
  std::string choice(const std::string& name, const std::vector<std::string>& known) const {
    const std::string value = text(name);
    if (std::find(known.begin(), known.end(), value) == known.end())
      refuse(name, fmt::format("one of {}", fmt::join(known, ", ")), value);
    return value;
  }
  std::string word(const std::string& name) const { return text(name); }
  std::vector<std::int64_t> integers(const std::string& name) const {
    const std::string all = text(name);
    std::string_view rest = all;
    if (rest.starts_with('[') && rest.ends_with(']')) rest = rest.substr(1, rest.size() - 2);
    std::vector<std::int64_t> values;
    while (!trimmed(rest).empty()) {
      const std::size_t comma = std::min(rest.find(','), rest.size());
      const std::optional<std::int64_t> value = parsed<std::int64_t>(trimmed(rest.substr(0, comma)));
      if (!value || *value < 1) refuse(name, "a list such as [512, 256]", all);
      values.push_back(*value);
      rest.remove_prefix(std::min(comma + 1, rest.size()));
    }
    return values;
  }

  // Of language models, where the classes are the words.
  std::int64_t vocabulary() const {
    return has("vocabulary") ? integer("vocabulary") : classes(integer("vocabulary"));
  }
  // The most words at a time: the option's, else the data's.
  std::int64_t length() const {
    if (has("length") || !has_input()) return integer("length");
    return input()[0].value();
  }
  std::int64_t divided_width() const {
    const std::int64_t width = integer("width"), heads = integer("heads");
    if (width % heads != 0)
      refuse("width", fmt::format("a multiple of the {} heads", heads), std::to_string(width));
    return width;
  }

 private:
  [[noreturn]] void refuse(const std::string& name, const std::string& expected,
                           const std::string& got) const {
    throw Error(ErrorKind::kInvalidArgument, "model " + entry_.name, "the option " + name, expected, got);
  }
  std::string text(const std::string& name) const {
    if (const auto at = given_.options.find(name); at != given_.options.end())
      return std::string(trimmed(at->second.text()));
    for (const OptionEntry& option : entry_.options)
      if (option.name == name) return option.standard;
    throw Error(ErrorKind::kInternal, "model " + entry_.name, "no option " + name);
  }
  static std::string_view trimmed(std::string_view text) {
    const std::size_t begin = text.find_first_not_of(" \t\"");
    if (begin == std::string_view::npos) return {};
    return text.substr(begin, text.find_last_not_of(" \t\"") - begin + 1);
  }
  template <class T>
  static std::optional<T> parsed(std::string_view text) {
    T value{};
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
    return value;
  }

  const Entry& entry_;
  const Options& given_;
};

struct Model {
  Entry entry;
  std::function<AnyModule(const Request&)> make;
};

AnyModule make_resnet(const Request& request, int depth) {
  const Shape image = request.image();
  const std::string version = request.choice("version", {"v1", "v1.5"});
  return models::ResNet::of(
      depth, {.stem = request.integer("width"),
              .classes = request.classes(1000),
              .channels = image[2].value(),
              .version = version == "v1" ? models::ResNetVersion::v1 : models::ResNetVersion::v1_5,
              .small_images = request.flag("small", request.small_image())});
}

Model resnet(int depth) {
  return {{fmt::format("resnet{}", depth),
           fmt::format("ResNet-{} with torchvision's names; batch normalisation, {} blocks", depth,
                       depth < 50 ? "basic" : "bottleneck"),
           {{"version", "v1.5", "v1 or v1.5: the stride in a bottleneck's first or in its 3×3 convolution"},
            {"small", "auto", "a 3×3 stem without pooling; auto: for images up to 64×64"},
            {"width", "64", "channels of the first stage"}},
           {224, 224, 3}},
          [depth](const Request& request) { return make_resnet(request, depth); }};
}

AnyModule make_lstm(const Request& request) {
  if (request.choice("task", {"classify", "next"}) == "next") {
    if (request.flag("bidirectional"))
      throw Error(ErrorKind::kInvalidArgument, "model lstm", "the option bidirectional",
                  "false for the next word, which the other direction would see", "true");
    return models::LstmLanguageModel{{.vocabulary = request.vocabulary(),
                                      .embedding = request.integer("embedding"),
                                      .hidden = request.integer("hidden"),
                                      .layers = request.integer("layers"),
                                      .dropout = request.probability("dropout")}};
  }
  return models::LstmClassifier{{.vocabulary = request.integer("vocabulary"),
                                 .embedding = request.integer("embedding"),
                                 .hidden = request.integer("hidden"),
                                 .classes = request.classes(10),
                                 .layers = request.integer("layers"),
                                 .bidirectional = request.flag("bidirectional"),
                                 .dropout = request.probability("dropout")}};
}

AnyModule make_gpt2(const Request& request) {
  models::Gpt2 model{{.layers = request.integer("layers"),
                      .width = request.divided_width(),
                      .heads = request.integer("heads"),
                      .vocabulary = request.vocabulary(),
                      .length = request.length(),
                      .dropout = request.probability("dropout"),
                      .intermediate = request.integer("intermediate", 0),
                      .epsilon = request.probability("epsilon"),
                      .activation = models::activation_named(request.word("activation")),
                      .tied = request.flag("tied")}};
  models::init_gpt2(model);
  return model;
}

AnyModule make_bert(const Request& request) {
  const std::string task = request.choice("task", {"classify", "mask", "hidden"});
  models::BertOptions options{.layers = request.integer("layers"),
                              .width = request.divided_width(),
                              .heads = request.integer("heads"),
                              .vocabulary = request.integer("vocabulary"),
                              .length = request.length(),
                              .segments = request.integer("segments"),
                              .intermediate = request.integer("intermediate", 0),
                              .dropout = request.probability("dropout"),
                              .classes = request.classes(2),
                              .epsilon = request.probability("epsilon"),
                              .activation = models::activation_named(request.word("activation")),
                              .padding = request.integer("padding", -1)};
  if (task == "classify") return models::BertClassifier(options);
  if (task == "hidden") return models::Bert(options);
  options.vocabulary = request.vocabulary();
  return models::BertMaskedLanguageModel(options);
}

const std::vector<Model>& table() {
  static const std::vector<Model> models = [] {
    using models::ImageOptions;
    const std::string words = "number of different words", length = "the most words at a time",
                      inner = "width of the inner dense layers; 0: four times the width";
    std::vector<Model> all{
        {{"mlp",
          "dense layers on the flattened example",
          {{"hidden", "[128]", "sizes of the hidden layers"},
           {"activation", "relu", "between the layers"},
           {"dropout", "0", "after each hidden layer"}},
          {28, 28}},
         [](const Request& request) {
           return models::Mlp(models::MlpOptions{.in = request.input().count(),
                                                 .hidden = request.integers("hidden"),
                                                 .classes = request.classes(10),
                                                 .activation = request.word("activation"),
                                                 .dropout = request.probability("dropout")});
         }},
        {{"keras-cnn", "the Keras tutorial's net: 3×3 convolutions 32, 64, 64, dense 64", {}, {32, 32, 3}},
         [](const Request& request) { return models::KerasCnn({request.image(), request.classes(10)}); }},
        {{"lenet", "LeNet-5: 5×5 convolutions 6, 16, dense 120, 84", {}, {32, 32, 3}},
         [](const Request& request) { return models::LeNet({request.image(), request.classes(10)}); }},
        {{"convnet", "padded 3×3 convolutions 32, 64, dense 512", {}, {32, 32, 3}},
         [](const Request& request) { return models::Convnet({request.image(), request.classes(10)}); }},
        {{"cnn3",
          "three 3×3 convolutions: 32, 64, 64, dense 64; padded: 32, 64, 128, three poolings, dense 128",
          {{"padding", "valid", "valid, or same: with a border of zeros"}},
          {28, 28, 1}},
         [](const Request& request) -> AnyModule {
           // Without padding a third pooling would leave one pixel of a 28×28 image.
           if (request.choice("padding", {"valid", "same"}) == "valid")
             return models::KerasCnn({request.image(), request.classes(10)});
           return models::Cnn3({.input = request.image(), .classes = request.classes(10)});
         }},
        {{"alexnet",
          "AlexNet with torchvision's names",
          {{"small", "auto", "3×3 windows for small images; auto: up to 64×64"},
           {"dropout", "0.5", "before the dense layers"},
           {"dense", "4096", "width of the hidden dense layers"}},
          {224, 224, 3}},
         [](const Request& request) {
           return models::AlexNet({.input = request.image(),
                                   .classes = request.classes(1000),
                                   .small = request.flag("small", request.small_image()),
                                   .dropout = request.probability("dropout"),
                                   .dense = request.integer("dense")});
         }},
    };
    for (const int depth : {18, 34, 50, 101, 152}) all.push_back(resnet(depth));
    all.push_back({{"lstm",
                    "embedding, LSTM layers and a dense layer, for classes of texts or the next word",
                    {{"task", "classify", "classify: a text; next: the word after each"},
                     {"vocabulary", "10000", words},
                     {"embedding", "64", "size of a word's vector"},
                     {"hidden", "128", "size of the state"},
                     {"layers", "1", "LSTM layers"},
                     {"bidirectional", "false", "whether a second LSTM reads backwards"},
                     {"dropout", "0", "between LSTM layers"}},
                    {128},
                    true},
                   make_lstm});
    all.push_back({{"gpt2",
                    "GPT-2, the next word after each",
                    {{"vocabulary", "50257", words},
                     {"layers", "12", "blocks"},
                     {"width", "768", "size of a word's vector"},
                     {"heads", "12", "of attention"},
                     {"length", "1024", length},
                     {"dropout", "0", "on the embeddings and before each addition"},
                     {"intermediate", "0", inner},
                     {"epsilon", "1e-05", "of the norms"},
                     {"activation", "gelu_tanh", "of the dense layers"},
                     {"tied", "true", "whether the output layer is the word embedding"}},
                    {1024},
                    true},
                   make_gpt2});
    all.push_back({{"bert",
                    "BERT with the published names",
                    {{"task", "classify", "classify: a text; mask: the word at each place; hidden: vectors"},
                     {"vocabulary", "30522", words},
                     {"layers", "12", "blocks"},
                     {"width", "768", "size of a word's vector"},
                     {"heads", "12", "of attention"},
                     {"length", "512", length},
                     {"dropout", "0.1", "after embeddings, attention and dense layers"},
                     {"segments", "2", "kinds of segments"},
                     {"intermediate", "0", inner},
                     {"epsilon", "1e-12", "of the norms"},
                     {"activation", "gelu", "of the dense layers"},
                     {"padding", "-1", "RoBERTa's padding word, 1, after which positions count; -1: from 0"}},
                    {512},
                    true},
                   make_bert});
    return all;
  }();
  return models;
}

// "ResNet-18", "resnet_18" and "resnet18" are one.
std::string squeezed(std::string_view name) {
  std::string letters;
  for (const char c : name)
    if (c != '-' && c != '_' && c != ' ')
      letters += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return letters;
}

const Model& model_named(std::string_view name) {
  for (const Model& model : table())
    if (squeezed(model.entry.name) == squeezed(name)) return model;
  throw unknown_name({}, "model", name, names());
}

}  // namespace

AnyModule make(std::string_view name, const Options& options) {
  const Model& model = model_named(name);
  return model.make(Request(model.entry, options));
}

const std::vector<Entry>& entries() {
  static const std::vector<Entry> all = [] {
    std::vector<Entry> entries;
    for (const Model& model : table()) entries.push_back(model.entry);
    return entries;
  }();
  return all;
}

const Entry& entry(std::string_view name) { return model_named(name).entry; }

std::vector<std::string> names() {
  std::vector<std::string> all;
  for (const Model& model : table()) all.push_back(model.entry.name);
  return all;
}

}  // namespace systole::nn::zoo
