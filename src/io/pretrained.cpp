#include "systole/io/pretrained.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <variant>
#include <vector>

#include "base/beneath.h"
#include "base/file.h"
#include "io/json.h"
#include "systole/base/error.h"

namespace systole::io {

namespace {

namespace fs = std::filesystem;

constexpr std::uint64_t kLargestConfig = 1 << 24;
constexpr std::int64_t kLargestSize = 1 << 30;  // of an axis; what memory lacks is refused by who asks for it

constexpr const char* kConfig = "config.json";

fs::path config_beside(const fs::path& place) {
  std::error_code code;
  if (fs::is_directory(place, code)) return place / kConfig;
  return place.filename() == kConfig ? place : place.parent_path() / kConfig;
}

std::string read_config(const fs::path& place, const ReadOptions& options) {
  std::error_code code;
  const bool is_folder = fs::is_directory(place, code);
  if (is_folder || place.filename() != kConfig)
    return read_text_beneath(is_folder ? place : place.parent_path(), kConfig,
                             options.follow_links ? LinkRule::any : LinkRule::inside, kLargestConfig);
  const std::unique_ptr<ByteSource> source = open_file(place, kLargestConfig);
  if (source->size() > kLargestConfig)
    throw Error(ErrorKind::kLimit, place.string(), "the file is too large for a model's description",
                fmt::format("at most {} bytes", kLargestConfig), fmt::format("{}", source->size()));
  std::string text(static_cast<std::size_t>(source->size()), '\0');
  source->read(0, std::as_writable_bytes(std::span(text)));
  return text;
}

// The plain values of the outermost object, and the first of its "architectures".
class Config {
 public:
  Config(const fs::path& place, const ReadOptions& options) : file_(config_beside(place)) {
    std::string text = read_config(place, options);
    JsonReader in(text, file_.string());
    in.begin_object();
    for (std::string_view key; in.next_key(key);) {
      const std::string name(key);
      switch (in.kind()) {
        case JsonReader::Kind::string: values_[name] = std::string(in.string()); break;
        case JsonReader::Kind::number: values_[name] = in.number(); break;
        case JsonReader::Kind::boolean: values_[name] = in.boolean(); break;
        case JsonReader::Kind::object:
          if (name == "id2label")
            values_["num_labels"] = entries(in);
          else
            in.skip();
          break;
        case JsonReader::Kind::array:
          if (name == "architectures")
            read_architectures(in);
          else
            in.skip();
          break;
        default: in.skip();
      }
    }
    in.end();
  }

  std::string family() const {
    if (const auto* type = find<std::string>("model_type")) return *type;
    for (const auto& [beginning, family] :
         {std::pair{"GPT2", "gpt2"}, std::pair{"Bert", "bert"}, std::pair{"Roberta", "roberta"}})
      if (architecture_.starts_with(beginning)) return family;
    throw Error(ErrorKind::kParse, file_.string(), "no family of models is named", "model_type");
  }
  // Throws kUnsupported for a family that is none of these.
  std::string family_of(std::initializer_list<std::string_view> known) const {
    const std::string family = this->family();
    if (std::find(known.begin(), known.end(), family) != known.end()) return family;
    throw Error(ErrorKind::kUnsupported, file_.string(),
                fmt::format("the weights are of the family {}, which is another model", family),
                fmt::format("{}", fmt::join(known, " or ")), family);
  }

  std::int64_t size(std::string_view name, std::int64_t otherwise, std::int64_t least = 1) const {
    const double* value = find<double>(name);
    if (value == nullptr) {
      require_absent(name, "a whole number");
      return otherwise;
    }
    if (!(*value >= static_cast<double>(least) && *value <= static_cast<double>(kLargestSize)) ||
        *value != std::floor(*value))
      wrong(name, fmt::format("a whole number of at least {}", least), fmt::format("{}", *value));
    return static_cast<std::int64_t>(*value);
  }
  double number(std::string_view name, double otherwise, double least, double most) const {
    const double* value = find<double>(name);
    if (value == nullptr) {
      require_absent(name, "a number");
      return otherwise;
    }
    if (!(*value >= least && *value <= most))
      wrong(name, fmt::format("a number from {} to {}", least, most), fmt::format("{}", *value));
    return *value;
  }
  bool flag(std::string_view name, bool otherwise) const {
    const bool* value = find<bool>(name);
    if (value == nullptr) require_absent(name, "true or false");
    return value == nullptr ? otherwise : *value;
  }
  std::string word(std::string_view name, std::string_view otherwise) const {
    const auto* value = find<std::string>(name);
    if (value == nullptr) require_absent(name, "text");
    return value == nullptr ? std::string(otherwise) : *value;
  }
  // By transformers' name.
  nn::models::Activation activation(std::string_view name, std::string_view otherwise) const {
    using nn::models::Activation;
    constexpr std::pair<std::string_view, Activation> kNames[] = {
        {"gelu", Activation::gelu},           {"gelu_python", Activation::gelu},
        {"gelu_new", Activation::gelu_tanh},  {"gelu_pytorch_tanh", Activation::gelu_tanh},
        {"gelu_fast", Activation::gelu_tanh}, {"relu", Activation::relu},
        {"silu", Activation::silu},           {"swish", Activation::silu},
        {"tanh", Activation::tanh},
    };
    const std::string given = word(name, otherwise);
    std::vector<std::string_view> known;
    for (const auto& [theirs, ours] : kNames) {
      if (theirs == given) return ours;
      known.push_back(theirs);
    }
    throw Error(ErrorKind::kUnsupported, file_.string(), fmt::format("the activation of {}", name),
                fmt::format("one of {}", fmt::join(known, ", ")), given);
  }
  // A setting that changes the model in a way that ours has not.
  void refuse_unless(bool holds, std::string_view name, std::string_view expected) const {
    if (holds) return;
    throw Error(ErrorKind::kUnsupported, file_.string(), fmt::format("a variant of the model, by {}", name),
                std::string(expected));
  }
  void check_heads(std::int64_t width, std::int64_t heads, std::string_view name) const {
    if (width % heads != 0)
      wrong(name, fmt::format("a divisor of the width {}", width), std::to_string(heads));
  }

 private:
  template <class T>
  const T* find(std::string_view name) const {
    const auto at = values_.find(name);
    return at == values_.end() ? nullptr : std::get_if<T>(&at->second);
  }
  void require_absent(std::string_view name, std::string_view expected) const {
    if (values_.contains(name)) wrong(name, std::string(expected), "a value of another kind");
  }
  [[noreturn]] void wrong(std::string_view name, std::string expected, std::string got) const {
    throw Error(ErrorKind::kParse, file_.string(), fmt::format("the value of {}", name), std::move(expected),
                std::move(got));
  }
  static double entries(JsonReader& in) {
    double count = 0;
    in.begin_object();
    for (std::string_view key; in.next_key(key); ++count) in.skip();
    return count;
  }
  void read_architectures(JsonReader& in) {
    in.begin_array();
    while (in.next_item()) {
      if (in.kind() != JsonReader::Kind::string)
        in.skip();
      else if (const std::string_view name = in.string(); architecture_.empty())
        architecture_ = name;
    }
  }

  fs::path file_;
  std::map<std::string, std::variant<std::string, double, bool>, std::less<>> values_;
  std::string architecture_;
};

}  // namespace

bool has_pretrained_config(const fs::path& place) {
  std::error_code code;
  return fs::exists(config_beside(place), code);
}

std::string pretrained_family(const fs::path& place, const ReadOptions& options) {
  return Config(place, options).family_of({"gpt2", "bert", "roberta"});
}

nn::models::Gpt2Options gpt2_options(const fs::path& place, const ReadOptions& read) {
  const Config config(place, read);
  config.family_of({"gpt2"});
  config.refuse_unless(config.flag("scale_attn_weights", true), "scale_attn_weights", "true");
  config.refuse_unless(!config.flag("scale_attn_by_inverse_layer_idx", false),
                       "scale_attn_by_inverse_layer_idx", "false");
  config.refuse_unless(!config.flag("add_cross_attention", false), "add_cross_attention", "false");
  nn::models::Gpt2Options options{.layers = config.size("n_layer", 12),
                                  .width = config.size("n_embd", 768),
                                  .heads = config.size("n_head", 12),
                                  .vocabulary = config.size("vocab_size", 50257),
                                  .length = config.size("n_positions", config.size("n_ctx", 1024)),
                                  .dropout = config.number("resid_pdrop", 0.1, 0, 0.999)};
  options.intermediate = config.size("n_inner", 4 * options.width);
  options.epsilon = config.number("layer_norm_epsilon", 1e-5, 0, 1);
  options.activation = config.activation("activation_function", "gelu_new");
  options.tied = config.flag("tie_word_embeddings", true);
  config.check_heads(options.width, options.heads, "n_head");
  return options;
}

nn::models::BertOptions bert_options(const fs::path& place, const ReadOptions& read) {
  const Config config(place, read);
  const bool roberta = config.family_of({"bert", "roberta"}) == "roberta";
  config.refuse_unless(config.word("position_embedding_type", "absolute") == "absolute",
                       "position_embedding_type", "absolute");
  config.refuse_unless(!config.flag("is_decoder", false), "is_decoder", "false");
  config.refuse_unless(!config.flag("add_cross_attention", false), "add_cross_attention", "false");
  config.refuse_unless(config.flag("tie_word_embeddings", true), "tie_word_embeddings", "true");
  nn::models::BertOptions options{.layers = config.size("num_hidden_layers", 12),
                                  .width = config.size("hidden_size", 768),
                                  .heads = config.size("num_attention_heads", 12),
                                  .vocabulary = config.size("vocab_size", roberta ? 50265 : 30522),
                                  .length = config.size("max_position_embeddings", 512),
                                  .segments = config.size("type_vocab_size", 2)};
  options.intermediate = config.size("intermediate_size", 3072);
  options.dropout = config.number("hidden_dropout_prob", 0.1, 0, 0.999);
  options.classes = config.size("num_labels", 2);
  options.epsilon = config.number("layer_norm_eps", 1e-12, 0, 1);
  options.activation = config.activation("hidden_act", "gelu");
  if (roberta) options.padding = config.size("pad_token_id", 1, 0);
  config.check_heads(options.width, options.heads, "num_attention_heads");
  if (options.padding >= 0 && options.length <= options.padding + 1)
    throw Error(ErrorKind::kParse, config_beside(place).string(), "no position is left for words",
                fmt::format("max_position_embeddings above {}", options.padding + 1),
                std::to_string(options.length));
  return options;
}

}  // namespace systole::io
