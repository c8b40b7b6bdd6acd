// systole predict: what a saved model says of pictures, arrays, tables and sounds, or the text it writes.

#include <fmt/format.h>
#include <algorithm>
#include <cmath>
#include <memory>
#include <numeric>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/log.h"
#include "base/printable.h"
#include "cli/cli.h"
#include "cli/options.h"
#include "cli/terminal.h"
#include "cli/train/evaluation.h"
#include "cli/train/prediction.h"
#include "cli/trust.h"
#include "systole/base/error.h"
#include "systole/io.h"

namespace systole::cli {

namespace {

struct Options {
  std::string model, device = "auto", out;
  std::vector<std::string> inputs;
  std::int64_t top = 3;
  bool invert = false;
  Trust trust;
  WriteOptions text;
  std::vector<std::pair<std::string, const Option*>> of_text;  // the options for models that write text
};

// "cat 0.97  dog 0.02", the most probable first; numbers as they are. NaN has no order.
std::string described(std::span<const float> row, const std::vector<std::string>& classes, std::int64_t top) {
  std::vector<std::string> parts;
  if (classes.empty()) {
    for (const float x : row) parts.push_back(fmt::format("{:.6g}", x));
    return fmt::format("{}", fmt::join(parts, "  "));
  }
  if (std::any_of(row.begin(), row.end(), [](float x) { return std::isnan(x); })) return "no class: nan";
  std::vector<float> chances(row.begin(), row.end());
  if (chances.size() == 1) chances.insert(chances.begin(), 1 - chances[0]);  // of two classes, the second
  std::vector<std::size_t> order(chances.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](auto a, auto b) { return chances[a] > chances[b]; });
  order.resize(std::min(order.size(), static_cast<std::size_t>(top)));
  for (const std::size_t i : order)
    parts.push_back(
        fmt::format("{} {:.4f}", i < classes.size() ? printable(classes[i]) : std::to_string(i), chances[i]));
  return fmt::format("{}", fmt::join(parts, "  "));
}

// The most probable class at each place of one sample, [places,classes]; a line shows the first kShown.
// A place whose scores are not finite holds NaN in all of them.
std::string places_text(std::span<const float> values, std::size_t classes,
                        const std::vector<std::string>& names) {
  constexpr std::size_t kShown = 32;
  std::string text;
  for (std::size_t i = 0; i < values.size() / classes; ++i) {
    if (i == kShown) return text + fmt::format(" … of {}; --out keeps all", values.size() / classes);
    const std::span<const float> row = values.subspan(i * classes, classes);
    const auto best = static_cast<std::size_t>(std::max_element(row.begin(), row.end()) - row.begin());
    text += i == 0 ? "" : " ";
    if (std::isnan(row[0]))
      text += "nan";
    else
      text += best < names.size() ? printable(names[best]) : std::to_string(best);
  }
  return text;
}

int write(const Options& options, const SavedModel& model) {
  if (!options.inputs.empty() || !options.out.empty())
    throw UsageError("a model that writes text takes --prompt, and no files");
  put_data(options.text.prompt);
  write_text(model, options.text, [](std::string_view word) {
    put_data(word);
    flush_output();
  });
  put("\n");
  return 0;
}

int run(const Options& options) {
  const DeviceScope device(options.device);
  const SavedModel model = load_model(options.model, options.device, options.trust);
  if (writes_text(model)) return write(options, model);
  for (const auto& [name, option] : options.of_text)
    if (option->is_given())
      throw UsageError(
          fmt::format("{} is for models that write text, and this one takes {}: give it INPUT files", name,
                      model.inputs().at(0).type.to_string()));
  if (options.inputs.empty()) throw UsageError("INPUT is required: pictures, .npy, .csv or .wav files");
  const Settings settings = settings_of(model);
  std::vector<float> all;
  std::int64_t count = 0;
  Shape shape;
  for (const std::string& file : options.inputs) {
    const InputRows rows = read_rows(file, model, settings, options.invert);
    if (rows.names.empty())
      throw Error(ErrorKind::kShape, file, "there are no samples in it", "one or more",
                  rows.rows.type().to_string());
    const auto [result, non_finite] = predict_rows(model, rows.rows, "");
    if (!non_finite.empty()) log(LogLevel::warn, fmt::format("{}: {}", file, non_finite));
    const std::span<const float> values = result.values<float>();
    shape = result.shape();
    count += result.dims()[0];
    const auto classes = static_cast<std::size_t>(shape[static_cast<std::size_t>(shape.rank()) - 1].value());
    if (values.empty())
      throw Error(ErrorKind::kShape, options.model, "the model gives no numbers",
                  "one or more for each sample", result.type().to_string());
    const std::size_t size = values.size() / rows.names.size();
    all.insert(all.end(), values.begin(), values.end());
    if (!options.out.empty()) continue;
    for (std::size_t i = 0; i < rows.names.size(); ++i)
      put(fmt::format("{}  {}\n", printable(rows.names[i]),
                      has_places(model)
                          ? places_text(values.subspan(i * size, size), classes, model.classes())
                          : described(values.subspan(i * size, size), model.classes(), options.top)));
  }
  if (!options.out.empty()) {
    shape[0] = count;
    const Literal values = Literal::of<float>(shape, all);
    if (options.out.ends_with(".npz"))
      io::save_npz(options.out, std::vector<io::NamedArray>{{model.outputs().at(0).name, values}});
    else
      io::save_npy(options.out, values);
    put(fmt::format("{}: {}\n", options.out, Type{DType::f32, shape}.to_string()));
  }
  return 0;
}

}  // namespace

Action add_predict(App& app) {
  auto options = std::make_shared<Options>();
  app.add_option("MODEL", options->model, "a run's folder, or a model.safetensors")
      ->required()
      ->type_name("");
  app.add_option(
         "INPUT", options->inputs,
         "pictures (.png, .jpg), arrays (.npy), tables (.csv) or sounds (.wav), as the model takes them")
      ->type_name("");
  app.add_option("--device", options->device, "where to run, as systole devices lists them")
      ->type_name("NAME");
  app.add_option("--top", options->top, "so many of the most probable classes")
      ->type_name("NUMBER")
      ->positive();
  app.add_option("-o,--out", options->out, "write all numbers (probabilities of classes) as one array")
      ->type_name("FILE.npy|npz")
      ->array_file();
  app.add_flag(
      "--invert", options->invert,
      "swap light and dark first: for a scan of dark ink on light paper, where the model learned light on "
      "dark, as MNIST's digits are");
  const auto for_text = [&](const char* name, auto& value, const char* help) {
    Option* option = app.add_option(name, value, help);
    options->of_text.emplace_back(name, option);
    return option;
  };
  for_text("--prompt", options->text.prompt, "of a model that writes text: how it begins")->type_name("TEXT");
  for_text("--length", options->text.length, "symbols to write")->type_name("NUMBER")->positive();
  for_text("--temperature", options->text.temperature,
           "below 1: more of what is probable; 0: the most probable always")
      ->type_name("NUMBER")
      ->not_negative();
  for_text("--top-k", options->text.top_k, "choose among the NUMBER likeliest; 0: all")
      ->type_name("NUMBER")
      ->not_negative();
  for_text("--seed", options->text.seed, "another one writes another text")->type_name("NUMBER");
  add_kernels_option(app, options->trust);
  add_links_option(app, options->trust);
  add_weights_option(app, options->trust);
  app.footer(
      "Examples:\n"
      "  systole predict runs/digits-mlp-1 scan.png --invert\n"
      "  systole predict model.safetensors images.npy --out probabilities.npy\n"
      "  systole predict runs/text-gpt2-1 --prompt \"ROMEO:\" --length 300 --temperature 0.8");
  return [options] { return run(*options); };
}

}  // namespace systole::cli
