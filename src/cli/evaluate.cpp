// systole evaluate: the loss and the metrics of a saved model on data.

#include <fmt/format.h>
#include <filesystem>
#include <memory>
#include <string>
#include <system_error>
#include <vector>

#include "base/log.h"
#include "base/printable.h"
#include "cli/cli.h"
#include "cli/options.h"
#include "cli/terminal.h"
#include "cli/train/data.h"
#include "cli/train/evaluation.h"
#include "cli/train/pictures.h"
#include "cli/train/value.h"
#include "cli/trust.h"
#include "systole/base/error.h"

namespace systole::cli {

namespace {

struct Options {
  std::string model, data, device = "auto", confusion;
  std::vector<std::string> metrics;
  std::int64_t batch = 0;
  bool report = false, allow_non_finite = false;
  Trust trust;
};

// The matrix as text, for as many classes as a screen has room for.
std::string matrix_text(const metrics::ConfusionMatrix& matrix, const std::vector<std::string>& classes) {
  int wide = 4;
  const bool undecided = matrix.undecided_samples() > 0;
  std::vector<std::string> names;
  for (const std::int64_t label : matrix.labels) {
    const auto i = static_cast<std::size_t>(label);
    names.push_back(i < classes.size() ? printable(classes[i]) : std::to_string(label));
    wide = std::max(wide, columns(names.back()));
  }
  for (const std::int64_t count : matrix.counts) wide = std::max(wide, columns(std::to_string(count)));
  if (undecided) wide = std::max(wide, columns(kUndecidedColumn));
  if ((wide + 2) * (matrix.classes() + (undecided ? 2 : 1)) > terminal_width())
    return fmt::format("a confusion matrix of {} classes is too wide here; --confusion FILE.svg draws it\n",
                       matrix.classes());
  const auto right = [&](const std::string& text) {
    return std::string(static_cast<std::size_t>(wide + 2 - columns(text)), ' ') + text;
  };
  std::string text =
      "confusion matrix: a row for each true class, a column for each predicted one\n" + right("");
  for (const std::string& name : names) text += right(name);
  if (undecided) text += right(kUndecidedColumn);
  text += "\n";
  for (std::int64_t row = 0; row < matrix.classes(); ++row) {
    text += right(names[static_cast<std::size_t>(row)]);
    for (std::int64_t column = 0; column < matrix.classes(); ++column)
      text += right(std::to_string(matrix.at(row, column)));
    if (undecided) text += right(std::to_string(matrix.undecided[static_cast<std::size_t>(row)]));
    text += "\n";
  }
  return text;
}

// The data of the training, whose place may be relative to the folder that `train` ran in.
TrainingData trained_on(const Settings& settings, const SavedModel& model) try {
  return open_data(settings, features_of(model));
} catch (const Error& error) {
  const std::string& source = settings.data.source;
  const std::size_t colon = source.find(':');
  if (error.kind() != ErrorKind::kNotFound || colon == std::string::npos ||
      source.substr(colon + 1).starts_with('/'))
    throw;
  std::error_code ignored;
  throw Error(
      error.kind(), error.where(),
      fmt::format(
          "{}: the model was trained on \"{}\", a place relative to the folder in which train ran, and "
          "this one is {}; evaluate in that folder, or name the place with --data",
          error.message(), source, std::filesystem::current_path(ignored).string()),
      error.expected(), error.got());
}

int run(const Options& options) {
  const DeviceScope device(options.device);
  const SavedModel model = load_model(options.model, options.device, options.trust);
  Settings settings = settings_of(model);
  for (const std::string& metric : options.metrics) settings.train.metrics.push_back(metric);
  if (options.data.empty() && settings.data.source.empty())
    throw UsageError("the model does not say what it was trained on: give --data");
  BadCounts bad;
  data::Source data;
  if (options.data.empty()) {
    const TrainingData trained = trained_on(settings, model);
    data = trained.test;
    bad = trained.bad;
  } else {
    data = open_test_data(options.data, settings, model.classes(), features_of(model), rate_of(model), &bad);
  }
  if (data.empty())
    throw Error(ErrorKind::kInvalidArgument, options.model, "the run had no test data", "--data SOURCE");
  const Measures measures = measure(model, data, settings.train, options.batch);
  if (!measures.non_finite.empty()) {
    if (!options.allow_non_finite)
      throw Error(ErrorKind::kInvalidArgument, options.model, measures.non_finite,
                  "finite numbers; --allow-non-finite counts such samples as wrong");
    log(LogLevel::warn, fmt::format("{}: {}", options.model, measures.non_finite));
  }
  put(fmt::format("{} {}\n", coloured(Colour::bold, padded("data", 7)), data.info().to_string()));
  if (const std::string text = described(bad); !text.empty())
    put(fmt::format("{} {}\n", coloured(Colour::bold, padded("skipped", 7)), text));
  if ((options.report || !options.confusion.empty()) && measures.truth.empty())
    throw UsageError("--report and --confusion are for data with classes");
  if (options.report) {
    std::vector<std::string> names;
    for (const std::string& name : measures.classes) names.push_back(printable(name));
    put(metrics::classification_report(measures.predicted, measures.truth, names));
    put("\n" + matrix_text(confusion(measures), measures.classes) + "\n");
  }
  if (!options.confusion.empty())
    confusion_figure(confusion(measures), measures.classes).save(options.confusion);
  put(result_line(measures));
  return 0;
}

}  // namespace

Action add_evaluate(App& app) {
  auto options = std::make_shared<Options>();
  app.add_option("MODEL", options->model, "a run's folder, or a model.safetensors")
      ->required()
      ->type_name("");
  app.add_option("--data", options->data,
                 "what to measure it on, its test part where it has one; else what it was trained with")
      ->type_name("SOURCE");
  app.add_option("--device", options->device, "where to run, as systole devices lists them")
      ->type_name("NAME");
  app.add_option("--batch", options->batch, "samples at a time; unset: it chooses")
      ->type_name("NUMBER")
      ->positive();
  app.add_option("--metric", options->metrics, "a further one: top5, f1_macro, auc, …; may be given again")
      ->type_name("NAME")
      ->allow_extra_args(false);
  app.add_flag("--report", options->report,
               "precision, recall and F1 of each class, and the confusion matrix");
  app.add_option("--confusion", options->confusion, "draw the confusion matrix")->type_name("FILE.svg|png");
  app.add_flag("--allow-non-finite", options->allow_non_finite,
               "count samples with NaN or infinite outputs as wrong, with a warning; else they are an error");
  add_kernels_option(app, options->trust);
  add_links_option(app, options->trust);
  add_weights_option(app, options->trust);
  app.footer(
      "Examples:\n"
      "  systole evaluate runs/mnist-mlp-1\n"
      "  systole evaluate model.safetensors --data mnist:data/mnist --report\n\n"
      "The last line of the output is the result, test accuracy 0.9781 loss 0.0721, and then the metrics "
      "asked "
      "for");
  return [options] { return run(*options); };
}

}  // namespace systole::cli
