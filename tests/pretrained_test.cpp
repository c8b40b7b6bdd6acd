// Folders as transformers' save_pretrained leaves them give transformers' numbers: weights by their published
// names, settings by config.json. tests/data/make_pretrained.py wrote the folders.

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "error_check.h"
#include "scratch_folder.h"
#include "systole/io.h"
#include "systole/io/pretrained.h"
#include "systole/nn.h"
#include "systole/tensor.h"

namespace systole {
namespace {

namespace fs = std::filesystem;
namespace models = nn::models;

const fs::path kFolders = fs::path(SYSTOLE_TEST_DATA) / "pretrained";

using State = std::map<std::string, Tensor>;

Tensor expected(const std::string& name, const std::string& array) {
  for (const io::NamedArray& one : io::load_npz(kFolders / name / "expected.npz"))
    if (one.name == array) return Tensor(one.value);
  ADD_FAILURE() << name << " has no array " << array;
  return {};
}

double largest_difference(const Tensor& given, const Tensor& wanted) {
  EXPECT_EQ(given.shape(), wanted.shape());
  return max(abs(given.to(DType::f64) - wanted.to(DType::f64))).item<double>();
}

// In f64, as the expected numbers.
template <class M>
double error_of_model(M model, const std::string& folder, const State& values, bool strict = true) {
  nn::eval(model);
  nn::cast(model, DType::f64);
  load_state_dict(model, values, strict);
  return largest_difference(model(expected(folder, "words")), expected(folder, "output"));
}

State weights(const std::string& folder) { return io::load_safetensors(kFolders / folder); }

TEST(Pretrained, Gpt2WithoutAPrefix) {
  const models::Gpt2Options options = io::gpt2_options(kFolders / "gpt2");
  EXPECT_EQ(options.heads, 4);
  EXPECT_LT(error_of_model(models::Gpt2{options}, "gpt2", models::gpt2_state_dict(weights("gpt2"), options)),
            1e-10);
}

TEST(Pretrained, AnUntiedOutputLayerIsKept) {
  const models::Gpt2Options options = io::gpt2_options(kFolders / "gpt2_untied" / "model.safetensors");
  EXPECT_FALSE(options.tied);
  EXPECT_EQ(options.intermediate, 24);
  EXPECT_EQ(options.activation, models::Activation::relu);
  const State values = models::gpt2_state_dict(weights("gpt2_untied"), options);
  EXPECT_LT(error_of_model(models::Gpt2{options}, "gpt2_untied", values), 1e-10);
  // A tied model does not leave it out without a word.
  models::Gpt2Options tied = options;
  tied.tied = true;
  models::Gpt2 model{tied};
  EXPECT_NE(error_of(ErrorKind::kNotFound,
                     [&] { load_state_dict(model, models::gpt2_state_dict(weights("gpt2_untied"), tied)); })
                .find("unexpected: lm_head.weight"),
            std::string::npos);
}

TEST(Pretrained, AnUntiedModelWritesByItsOwnOutputLayer) {
  const models::Gpt2Options options = io::gpt2_options(kFolders / "gpt2_untied");
  models::Gpt2 model{options};
  load_state_dict(model, models::gpt2_state_dict(weights("gpt2_untied"), options));
  nn::eval(model);
  const std::vector<int> prompt{3, 1, 4};
  const std::vector<int> text = models::generate(model, prompt, 1, {.temperature = 0});
  const Tensor scores = model(tensor(prompt).reshape({1, 3}))[{0, 2}];
  EXPECT_EQ(text.back(), argmax(scores, 0).item<int>());
}

TEST(Pretrained, BertWithTheOldNamesOfTheNorms) {
  const models::BertOptions options = io::bert_options(kFolders / "bert_old_names");
  EXPECT_EQ(options.activation, models::Activation::gelu_tanh);
  const State values = weights("bert_old_names");
  ASSERT_TRUE(values.contains("bert.embeddings.LayerNorm.gamma"));
  const models::BertMaskedLanguageModel model(options);
  EXPECT_LT(error_of_model(model, "bert_old_names", models::bert_state_dict(values, options)), 1e-10);
  // load_state_dict() knows them by itself.
  EXPECT_LT(error_of_model(model, "bert_old_names", values), 1e-10);
}

TEST(Pretrained, RobertasPositionsBeginAfterItsPaddingWord) {
  const models::BertOptions options = io::bert_options(kFolders / "roberta");
  EXPECT_EQ(options.padding, 1);
  EXPECT_EQ(options.segments, 1);
  const State values = models::bert_state_dict(weights("roberta"), options, false);
  EXPECT_LT(error_of_model(models::Bert(options, false), "roberta", values), 1e-10);
  models::BertOptions from_0 = options;
  from_0.padding = -1;
  EXPECT_GT(error_of_model(models::Bert(from_0, false), "roberta", values), 0.1);
  models::Bert model(options, false);
  EXPECT_NE(error_of(ErrorKind::kShape, [&] { model(zeros({1, 13}, DType::i32)); }).find("at most 12"),
            std::string::npos);
}

TEST(Pretrained, RobertasHeadsAreBerts) {
  // With padding words in it: they have a position of their own.
  const models::BertOptions masked = io::bert_options(kFolders / "roberta_mask");
  EXPECT_LT(error_of_model(models::BertMaskedLanguageModel(masked), "roberta_mask",
                           models::bert_state_dict(weights("roberta_mask"), masked)),
            1e-10);
  const models::BertOptions options = io::bert_options(kFolders / "roberta_classify");
  EXPECT_EQ(options.classes, 3);
  EXPECT_LT(error_of_model(models::BertClassifier(options), "roberta_classify",
                           models::bert_state_dict(weights("roberta_classify"), options)),
            1e-10);
}

TEST(Pretrained, RobertasNamesAreRefusedByABertWhosePositionsCountFrom0) {
  for (const char* folder : {"roberta_mask", "roberta_classify"}) {
    models::BertOptions options = io::bert_options(kFolders / folder);
    options.padding = -1;
    const State values = weights(folder);
    EXPECT_NE(error_of(ErrorKind::kUnsupported, [&] { models::bert_state_dict(values, options); })
                  .find("positions begin after its padding word"),
              std::string::npos);
    error_of(ErrorKind::kUnsupported, [&] { models::bert_state_dict(values); });
    // Its heads alone say it too.
    State heads = values;
    std::erase_if(heads, [](const auto& entry) { return entry.first.starts_with("roberta."); });
    error_of(ErrorKind::kUnsupported, [&] { models::bert_state_dict(heads, options); });
  }
}

TEST(LoadStateDict, SaysWhatWasTakenMissingAndLeftOver) {
  const models::BertOptions options = io::bert_options(kFolders / "bert_old_names");
  models::BertClassifier model(options);
  const nn::LoadedState loaded =
      load_state_dict(model, models::bert_state_dict(weights("bert_old_names"), options), false);
  EXPECT_EQ(loaded.taken.size() + loaded.missing.size(), state_dict(model).size());
  EXPECT_EQ(loaded.missing, (std::vector<std::string>{"bert.pooler.dense.weight", "bert.pooler.dense.bias",
                                                      "classifier.weight", "classifier.bias"}));
  EXPECT_EQ(loaded.left_over.front(), "cls.predictions.bias");
  EXPECT_EQ(loaded.left_over.size(), 5u);
}

TEST(LoadStateDict, NoNameThatFitsIsAnErrorWithWhatTheNamesBeginWith) {
  nn::Linear layer(2, 3);
  const State values{{"model.weight", zeros({3, 2})}, {"model.bias", zeros({3})}};
  for (const bool strict : {true, false})
    EXPECT_NE(error_of(ErrorKind::kNotFound, [&] { load_state_dict(layer, values, strict); })
                  .find("the values' names begin with \"model.\""),
              std::string::npos);
  EXPECT_EQ(load_state_dict(layer, {}, false).missing.size(), 2u) << "nothing was asked for";
}

TEST(LoadStateDict, TiedVariablesTakeOneValue) {
  models::BertMaskedLanguageModel model({.layers = 1, .width = 4, .heads = 1, .vocabulary = 5, .length = 3});
  State values = state_dict(model);
  values.emplace("cls.predictions.decoder.weight", values.at("bert.embeddings.word_embeddings.weight"));
  load_state_dict(model, values);
  values["cls.predictions.decoder.weight"] = ones({5, 4});
  EXPECT_NE(
      error_of(ErrorKind::kInvalidArgument, [&] { load_state_dict(model, values); }).find("different values"),
      std::string::npos);
  EXPECT_EQ(load_state_dict(model, values, false).left_over,
            (std::vector<std::string>{"cls.predictions.decoder.weight"}));
}

class PretrainedConfig : public ScratchFolder {
 protected:
  void write(const std::string& text) { std::ofstream(folder_ / "config.json") << text; }
};

TEST_F(PretrainedConfig, FamiliesAndVariantsThatThereAreNotAreRefusedByName) {
  EXPECT_FALSE(io::has_pretrained_config(folder_));
  error_of(ErrorKind::kNotFound, [&] { io::gpt2_options(folder_); });
  const auto refused = [&](const std::string& text, const std::string& part) {
    write(text);
    const std::string message = error_of(ErrorKind::kUnsupported, [&] {
      io::pretrained_family(folder_) == "gpt2" ? (void)io::gpt2_options(folder_)
                                               : (void)io::bert_options(folder_);
    });
    EXPECT_NE(message.find(part), std::string::npos) << message;
  };
  refused(R"({"model_type": "llama", "hidden_size": 8})", "of the family llama");
  refused(R"({"model_type": "distilbert"})", "of the family distilbert");
  refused(R"({"model_type": "gpt2", "activation_function": "quick_gelu"})", "quick_gelu");
  refused(R"({"model_type": "gpt2", "scale_attn_by_inverse_layer_idx": true})",
          "scale_attn_by_inverse_layer_idx");
  refused(R"({"model_type": "bert", "position_embedding_type": "relative_key"})", "position_embedding_type");
  refused(R"({"model_type": "bert", "is_decoder": true})", "is_decoder");
  write(R"({"model_type": "gpt2"})");
  error_of(ErrorKind::kUnsupported, [&] { io::bert_options(folder_); });
  // The first files have no model_type.
  write(R"({"architectures": ["BertForMaskedLM"], "num_attention_heads": 2, "hidden_size": 8})");
  EXPECT_EQ(io::pretrained_family(folder_ / "weights.safetensors"), "bert");
  EXPECT_EQ(io::bert_options(folder_ / "config.json").heads, 2);
}

TEST_F(PretrainedConfig, BrokenOnesAreTypedErrors) {
  for (const char* text :
       {"", "[]", "{}", "{\"model_type\": 3}", R"({"model_type": "gpt2", "n_head": 0})",
        R"({"model_type": "gpt2", "n_head": 5})", R"({"model_type": "gpt2", "n_layer": 2.5})",
        R"({"model_type": "gpt2", "n_layer": "12"})", R"({"model_type": "gpt2", "n_embd": 1e300})",
        R"({"model_type": "gpt2", "tie_word_embeddings": 1})", R"({"model_type": "gpt2"} x)"}) {
    write(text);
    error_of(ErrorKind::kParse, [&] { io::gpt2_options(folder_); });
  }
}

}  // namespace
}  // namespace systole
