#pragma once

// A Trainer's inside: the compiled step, evaluation and prediction, and what they keep between launches.

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "systole/data/labels.h"
#include "systole/nn/summary.h"
#include "systole/optim/ema.h"
#include "systole/tensor/compiled.h"
#include "systole/train/trainer.h"
#include "train/bad_numbers.h"
#include "train/feed.h"
#include "train/finite.h"
#include "train/steps.h"

namespace systole::training {

using Fields = std::vector<Tensor>;

// The mode of a model for a while.
class ModeScope {
 public:
  ModeScope(const nn::Inventory& found, bool training) : modes_(found) {
    nn::detail::set_training(found, training);
  }

 private:
  nn::detail::Modes modes_;
};

// The weights of an average in place of the model's, for a while.
class AverageScope {
 public:
  explicit AverageScope(std::optional<optim::Ema>& average) : average_(average) {
    if (average_) average_->swap();
  }
  ~AverageScope() {
    if (average_) average_->swap();
  }
  AverageScope(const AverageScope&) = delete;
  AverageScope& operator=(const AverageScope&) = delete;

 private:
  std::optional<optim::Ema>& average_;
};

struct Trainer::Impl {
  Impl(ModelView model, std::shared_ptr<optim::Optimizer> optimizer, TrainerOptions options);

  // What a step gives back, a number each: the loss, the streaming metrics, and whether it was refused; of a
  // test, how many samples are bad.
  std::size_t columns() const { return streaming.size() + 2; }

  Parameters state() const;
  Outcome outcome(const Fields& fields) const;
  // The loss, then the streaming metrics, and last, when it is asked for, how many samples have outputs that
  // are not finite.
  std::vector<Tensor> measured(const Fields& fields, bool count_bad = false) const;
  Tensor training_step(const Fields& fields);
  Tensor test_step(const Fields& fields) const;
  Tensor output(const Fields& inputs) const;
  Tensor prepared(const Tensor& x) const;

  // Says why a step on these fields was refused.
  [[noreturn]] void report_bad_numbers(const Fields& fields, const StepData& data, const std::string& where);

  std::string device() const;        // empty: those of the mesh
  std::string first_device() const;  // of the mesh, or the only one
  Logs logs(std::span<const double> sums, double samples) const;
  std::size_t inputs_of(std::size_t fields) const;  // those before the target
  Fields inputs_in(const Fields& fields) const;
  bool is_bad(std::span<const float> numbers) const;

  // Data to evaluate with, and its launches.
  struct Evaluation {
    Feed feed;
    std::vector<Launch> plan;
    bool is_checked = false;  // the labels
  };
  Evaluation evaluation(const data::Source& data, const EvaluateOptions& options) const;
  // Throws when a label is no class. `traced` is the step that shows how many there are, for batches of a
  // size.
  void check_labels(Feed& feed, const Function<Tensor(const Fields&)>& traced, std::int64_t batch,
                    const std::string& what) const;
  void check_labels(const Fields& fields, const std::string& what) const;  // of a batch
  using Stop = std::function<bool()>;
  struct EvaluateHow {
    std::string what;                // is evaluated, for messages
    bool refuse_non_finite = false;  // an error; else a warning
    Stop stop = {};                  // asked between launches whether to end
  };
  std::optional<Logs> evaluate(Evaluation& data, const EvaluateHow& how);  // nothing when `stop` ended it
  BadSamples bad_samples(const data::Source& data) const;                  // none yet
  // Of a batch that a step found to be bad.
  void look_at(BadSamples& bad, const Fields& fields, std::int64_t sample, std::int64_t rows,
               const data::Source& data) const;
  void report(const BadSamples& bad, std::int64_t samples, const std::string& what, bool refuse) const;
  // What a mesh splits must divide evenly. Of a last batch that does not, the rows left over are a batch
  // each, of copies of the row, whose mean is the row's own.
  struct EvenPart {
    Fields fields;
    std::int64_t rows;  // that count
  };
  bool divides(std::int64_t rows) const;
  std::vector<EvenPart> even_parts(const Fields& fields) const;
  // False when `stop` ended it.
  bool each_output(Evaluation& data,
                   const std::function<void(const Tensor& output, const Fields& fields)>& use,
                   const Stop& stop = {});
  bool add_collected(Logs& logs, Evaluation& data, const Stop& stop);
  static Tensor joined_rows(const std::vector<Literal>& parts);

  ModelView model;
  std::shared_ptr<optim::Optimizer> optimizer;
  TrainerOptions options;
  std::vector<metrics::Metric> metrics;
  std::vector<std::size_t> streaming, collecting;  // which of them are means, which need all outputs
  // Of the target, as the last trace of a step found it; none where targets number no classes.
  mutable std::optional<data::LabelCheck> label_check;
  std::optional<optim::LossScale> scale;
  std::optional<optim::Accumulation> accumulation;
  std::optional<optim::Ema> average;
  Variable halted;                   // after a step with bad numbers nothing changes any more
  std::vector<Variable> statistics;  // what a step may assign beside the optimiser: running means, the key
  data::Transforms augment;
  std::vector<Type> inputs;  // of the data last fitted, batches of one
  std::vector<std::string> classes;

  Function<Tensor(const Fields&)> step, test, predict;
};

}  // namespace systole::training
