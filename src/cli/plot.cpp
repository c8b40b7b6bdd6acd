// systole plot: pictures of runs, of one or several beside each other.

#include <fmt/format.h>
#include <algorithm>
#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/file.h"
#include "cli/cli.h"
#include "cli/options.h"
#include "cli/terminal.h"
#include "cli/train/pictures.h"
#include "cli/train/value.h"
#include "systole/base/error.h"
#include "systole/train/history.h"
#include "systole/train/plot.h"
#include "systole/train/tensorboard.h"

namespace systole::cli {

namespace {

namespace fs = std::filesystem;

struct Options {
  std::vector<std::string> runs, what;
  std::string out = "plot.svg", title;
  bool log_y = false;
};

// Curves by name, from whatever a run left.
struct Curves {
  std::string name;
  std::string x;  // "epoch", or "step" of TensorBoard's files
  std::vector<std::pair<std::string, training::Series>> all;
  fs::path confusion;  // empty without one

  const training::Series* find(std::string_view column) const {
    for (const auto& [key, series] : all)
      if (key == column) return &series;
    return nullptr;
  }
};

bool has_events(const fs::path& folder) {
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(folder, error))
    if (entry.path().filename().string().find("tfevents") != std::string::npos) return true;
  return false;
}

Curves of_history(const training::History& history) {
  Curves curves;
  curves.x = "epoch";
  for (const std::string& name : history.names()) curves.all.push_back({name, {name, {}, history[name]}});
  return curves;
}

Curves of_events(const fs::path& place) {
  Curves curves;
  curves.x = "step";
  for (const auto& [tag, points] : training::read_scalars(place)) {
    // The names that a history has: train/loss is loss, validation/loss val_loss.
    std::string name = tag;
    if (tag.starts_with("train/")) name = tag.substr(6);
    if (tag.starts_with("validation/")) name = "val_" + tag.substr(11);
    training::Series series{name};
    for (const training::ScalarPoint& point : points) {
      series.x.push_back(static_cast<double>(point.step));
      series.y.push_back(point.value);
    }
    curves.all.push_back({name, std::move(series)});
  }
  return curves;
}

Curves read(const std::string& place) {
  const fs::path path = place;
  Curves curves;
  if (!fs::exists(path)) throw Error(ErrorKind::kNotFound, place, "there is no such run or file");
  if (!fs::is_directory(path))
    curves = path.filename().string().find("tfevents") != std::string::npos
                 ? of_events(path)
                 : of_history(training::History::read_csv(path));
  else if (fs::exists(path / "history.csv")) {
    open_regular_file(path / "history.csv");
    curves = of_history(training::History::read_csv(path / "history.csv"));
  } else if (has_events(path))
    curves = of_events(path);
  else
    throw Error(ErrorKind::kNotFound, place, "the folder holds no run",
                "history.csv, or events of TensorBoard");
  curves.name = (path.has_filename() ? path : path.parent_path()).filename().string();
  if (curves.name == "history.csv" && path.has_parent_path())
    curves.name = path.parent_path().filename().string();
  if (fs::exists(path / "confusion.csv")) curves.confusion = path / "confusion.csv";
  return curves;
}

// What there is to draw, without the forms of validation.
std::vector<std::string> columns_of(const std::vector<Curves>& runs) {
  std::vector<std::string> names;
  for (const Curves& run : runs)
    for (const auto& [name, series] : run.all)
      if (!name.starts_with("val_") && std::find(names.begin(), names.end(), name) == names.end())
        names.push_back(name);
  return names;
}

training::Figure draw(const std::vector<Curves>& runs, const std::string& column, const Options& options) {
  std::vector<training::Series> series;
  for (const Curves& run : runs)
    for (const std::string prefix : {"", "val_"})
      if (const training::Series* found = run.find(prefix + column)) {
        training::Series copy = *found;
        const std::string part = prefix.empty() ? "training" : "validation";
        copy.name = runs.size() == 1 ? part : fmt::format("{} {}", run.name, part);
        series.push_back(std::move(copy));
      }
  if (series.empty()) {
    std::vector<std::string> names = columns_of(runs);
    names.push_back("confusion");
    const std::vector<std::string_view> known(names.begin(), names.end());
    throw unknown_key("--y " + column, "no run has it", column, known);
  }
  return training::chart(series, {.title = options.title.empty() ? column : options.title,
                                  .x_label = runs[0].x,
                                  .y_label = column,
                                  .log_y = options.log_y});
}

int run(const Options& options) {
  std::vector<Curves> runs;
  for (const std::string& place : options.runs) runs.push_back(read(place));
  std::vector<std::string> what = options.what;
  if (what.empty()) {
    for (const std::string& name : columns_of(runs))
      if (name != "lr" && name != "seconds" && !name.starts_with("steps/")) what.push_back(name);
    if (runs.size() == 1 && !runs[0].confusion.empty()) what.push_back("confusion");
  }
  if (what.empty()) throw Error(ErrorKind::kNotFound, options.runs[0], "it has nothing to draw");
  std::vector<training::Figure> figures;
  for (const std::string& name : what) {
    if (name != "confusion") {
      figures.push_back(draw(runs, name, options));
      continue;
    }
    for (const Curves& one : runs) {
      if (one.confusion.empty())
        throw Error(ErrorKind::kNotFound, one.name, "it has no confusion.csv",
                    "a run of systole train with classes");
      figures.push_back(read_confusion(one.confusion));
    }
  }
  (figures.size() == 1 ? figures[0] : training::grid(figures)).save(options.out);
  put(fmt::format("{}: {}\n", options.out, fmt::join(what, ", ")));
  return 0;
}

}  // namespace

Action add_plot(App& app) {
  auto options = std::make_shared<Options>();
  app.add_option("RUN", options->runs,
                 "folders of runs, history.csv files or TensorBoard's logs; several are compared")
      ->required()
      ->type_name("");
  app.add_option("-o,--out", options->out, "the picture to write, by its ending .svg or .png")
      ->type_name("FILE");
  app.add_option("--y", options->what,
                 "what to draw: loss, accuracy, lr, confusion, …; may be given again; unset: all there is")
      ->type_name("NAME")
      ->allow_extra_args(false);
  app.add_option("--title", options->title, "above the picture; else what it shows")->type_name("TEXT");
  app.add_flag("--log", options->log_y, "a logarithmic axis");
  app.footer(
      "Examples:\n"
      "  systole plot runs/mnist-mlp-1 --out mnist.png\n"
      "  systole plot runs/* --y loss --out compare.svg --log\n"
      "  systole plot runs/mnist-mlp-1 --y confusion -o confusion.png");
  return [options] { return run(*options); };
}

}  // namespace systole::cli
