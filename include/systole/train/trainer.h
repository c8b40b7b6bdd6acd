#pragma once

// A model, an optimiser and a loss, trained on data: Keras's fit, evaluate and predict.
//
//   nn::Sequential model{nn::Flatten(), nn::Linear(784, 128), nn::ReLU(), nn::Linear(128, 10)};
//   auto [train, test] = data::mnist("data");
//   training::Trainer trainer(model, optim::Adam(parameters(model)), {.metrics = {"accuracy"}});
//   trainer.fit(train, {.epochs = 5, .batch = 64, .validation = test});
//   double accuracy = trainer.evaluate(test)["accuracy"];
//   trainer.save("mnist.safetensors");
//
// A sample's last field is its target, the others are the arguments of forward(). A step is one compiled
// program; data that fits on the device is laid there, and many steps are one launch. The numbers do not
// depend on how many: a run that was killed and resumed ends with the same weights as one that was not.

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <initializer_list>
#include <iosfwd>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "systole/base/export.h"
#include "systole/data/source.h"
#include "systole/data/transforms.h"
#include "systole/nn/losses.h"
#include "systole/nn/module.h"
#include "systole/optim.h"
#include "systole/tensor/mesh.h"
#include "systole/train/callback.h"
#include "systole/train/history.h"
#include "systole/train/metrics.h"
#include "systole/train/saved_model.h"

namespace systole::training {

// A loss by name ("cross_entropy", "mse", … as losses::by_name knows them, with its settings) or as a
// function of the model's output and the target.
class SYSTOLE_API Loss {
 public:
  Loss();  // cross_entropy of logits for classes given by number; other targets are refused
  Loss(const char* name) : Loss(std::string_view(name)) {}
  Loss(std::string_view name, const losses::Settings& settings = {});
  Loss(const std::string& name) : Loss(std::string_view(name)) {}
  Loss(std::nullptr_t) = delete;
  template <class F>
    requires std::same_as<std::invoke_result_t<F&, const Tensor&, const Tensor&>, Tensor>
  Loss(F f) : f_(std::move(f)) {}
  Tensor operator()(const Tensor& output, const Tensor& target) const { return f_(output, target); }

  // Integer targets of this loss number classes: the Trainer checks them before the first step (data that is
  // read in batches batch by batch, before the batch's step), and its error names the sample. Losses by name
  // that take labels have this set, those of 0 and 1 with two classes; a function of your own may.
  struct Labels {
    std::int64_t classes = 0;  // 0: as many as the output's last axis has
    std::optional<std::int64_t> ignore_index = {};
  };
  Loss& set_labels(Labels labels) {
    labels_ = labels;
    return *this;
  }
  const std::optional<Labels>& labels() const { return labels_; }
  losses::Targets targets() const { return targets_; }  // other, of a function of your own

 private:
  std::function<Tensor(const Tensor&, const Tensor&)> f_;
  std::optional<Labels> labels_;
  losses::Targets targets_ = losses::Targets::other;
};

// A metric by name, as metrics::by_name knows them, or one of your own.
struct SYSTOLE_API MetricChoice {
  MetricChoice(const char* name) : MetricChoice(std::string(name)) {}
  MetricChoice(const std::string& name);
  MetricChoice(std::nullptr_t) = delete;
  MetricChoice(metrics::Metric metric) : metric(std::move(metric)) {}
  metrics::Metric metric;
};

enum class Precision {
  f32,
  bf16,  // products in bf16, parameters and sums in f32
  f16,   // the same in f16, with dynamic loss scaling
};

// What to do when the loss or a gradient is not finite.
enum class BadNumbers {
  find,    // an Error that names the first op with a bad result; the weights stay those before the step
  stop,    // an Error with the step; the weights are lost
  ignore,  // nothing
};

// What one step of a training computes, where loss(forward(inputs), target) does not say it.
struct Outcome {
  Tensor loss;
  Tensor output = {}, target = {};  // for the metrics
};

struct TrainerOptions {
  Loss loss = {};
  std::vector<MetricChoice> metrics = {};
  // Applied to the first field before the model, in training and after it, and part of a saved model. Unset:
  // u8, as pictures are, becomes f32 from 0 to 1; everything else stays as it is.
  std::function<Tensor(const Tensor&)> prepare = nullptr;
  // Instead of the model's forward and the loss: all fields of a batch to an Outcome.
  std::function<Outcome(std::span<const Tensor> fields)> step = nullptr;
  std::string device = {};                        // empty: where the model is
  std::optional<DeviceMesh> mesh = std::nullopt;  // trains on all its devices
  Precision precision = Precision::f32;
  double clip_norm = 0;         // of all gradients together; 0: not
  double clip_value = 0;        // of each element; 0: not
  std::int64_t accumulate = 1;  // gradients of so many batches make a step of the optimiser
  double ema = 0;               // decay of an average of the weights, with which evaluate and predict work
  BadNumbers bad_numbers = BadNumbers::find;
  std::optional<runtime::Math> math = std::nullopt;  // of f32 products; unset: as SYSTOLE_MATH says
  std::optional<bool> deterministic = std::nullopt;  // as FunctionOptions::deterministic
};

// What a training does with the checkpoints in its folder.
enum class Resume {
  if_there,  // goes on from the newest, or begins
  must,      // goes on; throws kNotFound when there is none
  fresh,     // removes them and begins
};

// Files to resume from. Those of a training of other data, another model or other settings are refused. The
// folder is locked while fit runs: a second training in it, of this process or another, gets kIo, which names
// the first.
struct FitCheckpoints {
  std::filesystem::path folder = {};  // empty: none are kept
  std::int64_t every_epochs = 1;      // 0: not at ends of epochs
  std::int64_t every_steps = 0;       // 0: not within epochs
  double every_seconds = 0;
  std::int64_t keep = 2;
  Resume resume = Resume::if_there;
};

struct FitOptions {
  std::int64_t epochs = 1;
  std::int64_t batch = 32;
  std::int64_t steps_per_epoch = 0;  // 0: as many as the data has
  data::Source validation = {};
  double validation_split = 0;  // without validation data: this part of the data, its end, is kept for it
  std::int64_t validation_steps = 0;  // 0: all of it
  std::int64_t validation_every = 1;  // epochs
  bool shuffle = true;
  std::uint64_t seed = 1;  // of the order
  bool drop_last = false;  // whether the samples that do not fill a batch are left out
  // On the processor, by workers, sample for sample. What of it leaves nothing to chance serves in validation
  // too; what every input needs before the model is better TrainerOptions::prepare, which is saved with it.
  data::Transforms map = {};
  data::Transforms augment = {};  // on the device, batch for batch, in training only
  int workers = -1;               // of the loader, for data that does not lie on the device; -1: it chooses
  int verbose = 1;                // 0: silent, 1: a bar on a terminal, 2: a line per epoch
  std::ostream* out = nullptr;    // unset: standard output
  std::vector<CallbackRef> callbacks = {};
  FitCheckpoints checkpoints = {};
  // Ctrl-C (SIGINT) and SIGTERM end the training after the launch, with a checkpoint; a second one the
  // process.
  bool stop_on_interrupt = true;
  std::int64_t steps_per_call = 0;  // steps of one launch; 0: by the work of a step
  // Data up to this size is laid on the device, validation data too; on one that computes in the host's
  // memory it is read where it lies. Nobody may write to it while fit runs.
  std::int64_t device_bytes = std::int64_t{2} << 30;
};

struct FitResult : History {
  bool interrupted = false;  // by a signal
  int signal = 0;            // SIGINT or SIGTERM; the caller decides whether the program ends, too
  bool ran_out = false;      // the data had fewer steps than steps_per_epoch
  bool resumed = false;      // from a checkpoint
  std::string stopped;       // by a callback: its reason
  Logs logs;                 // of the last epoch
};

struct EvaluateOptions {
  std::int64_t batch = 0;  // 0: it chooses
  std::int64_t steps = 0;  // 0: all of the data
  data::Transforms map = {};
  // Outputs that are not finite: an Error that names the first sample, in place of a warning that does.
  bool refuse_non_finite = false;
  std::int64_t device_bytes = std::int64_t{2} << 30;  // as FitOptions::device_bytes
};

class SYSTOLE_API Trainer {
 public:
  // The model is borrowed: it must outlive the Trainer and stay where it is. The optimiser has its
  // parameters.
  template <nn::Module M, std::derived_from<optim::Optimizer> O>
  Trainer(M& model, O optimizer, TrainerOptions options = {})
      : Trainer(view(model), std::make_shared<O>(std::move(optimizer)), std::move(options)) {}
  // The optimiser by name with its defaults: "adam", "sgd", … as optim::make knows them.
  template <nn::Module M>
  Trainer(M& model, std::string_view optimizer, TrainerOptions options = {})
      : Trainer(view(model), optim::make(optimizer, nn::parameters(model)), std::move(options)) {}
  template <nn::Module M>
  Trainer(M& model, std::shared_ptr<optim::Optimizer> optimizer, TrainerOptions options = {})
      : Trainer(view(model), std::move(optimizer), std::move(options)) {}
  ~Trainer();
  Trainer(Trainer&&) noexcept;
  Trainer& operator=(Trainer&&) noexcept;

  FitResult fit(const data::Source& data, const FitOptions& options = {});
  FitResult fit(const Tensor& x, const Tensor& y, const FitOptions& options = {});

  // The loss and the metrics. Samples whose outputs are not finite are never right, and a warning names the
  // first of them; see metrics.h.
  Logs evaluate(const data::Source& data, const EvaluateOptions& options = {});
  Logs evaluate(const Tensor& x, const Tensor& y, const EvaluateOptions& options = {});

  // The model's outputs for all samples; the targets of a Source are not looked at, and a sample of one field
  // is an input. Tensors are whole batches, one for each argument of forward.
  Tensor predict(const data::Source& data, const EvaluateOptions& options = {});
  Tensor predict(const Tensor& x, const EvaluateOptions& options = {});
  Tensor predict(std::initializer_list<Tensor> inputs);

  // One step by hand, for loops of your own: the loss and the metrics of the batch.
  Logs train_on_batch(std::span<const Tensor> fields);
  Logs train_on_batch(std::initializer_list<Tensor> fields) {
    return train_on_batch(std::span<const Tensor>(fields.begin(), fields.size()));
  }

  // As file that systole::load runs, `prepare` included. Inputs are like those of the data last fitted,
  // unless they are given, and class names the data's, unless the options have some.
  void save(const std::filesystem::path& file, SaveOptions options = {}, std::vector<InputSpec> inputs = {});

  optim::Optimizer& optimizer();
  Parameters weights() const;                                           // all Variables of the model
  std::optional<bool> higher_is_better(std::string_view metric) const;  // none for what is no metric
  // What the model computes after training for data like that last fitted.
  ir::Graph forward_graph();
  // Everything that changes in training: the model's Variables, the optimiser's, scale, average, random key.
  Parameters state() const;

 private:
  struct ModelView {
    std::function<Tensor(std::span<const Tensor>)> forward;
    nn::Inventory inventory;
  };
  template <class M, class... A>
  static constexpr bool kTakes = requires(const M& model, const A&... x) {
    { nn::apply(model, x...) } -> std::convertible_to<Tensor>;
  };
  template <nn::Module M>
  static ModelView view(M& model) {
    using T = Tensor;
    static_assert(
        kTakes<M, T> || kTakes<M, T, T> || kTakes<M, T, T, T> || kTakes<M, T, T, T, T>,
        "forward must be const, take one to four Tensors and return a Tensor; for another model write "
        "nn::AnyModule or a struct around it, or a step of your own (TrainerOptions::step)");
    return {[&model](std::span<const Tensor> x) -> Tensor {
              if constexpr (kTakes<M, T, T, T, T>)
                if (x.size() == 4) return nn::apply(model, x[0], x[1], x[2], x[3]);
              if constexpr (kTakes<M, T, T, T>)
                if (x.size() == 3) return nn::apply(model, x[0], x[1], x[2]);
              if constexpr (kTakes<M, T, T>)
                if (x.size() == 2) return nn::apply(model, x[0], x[1]);
              if constexpr (kTakes<M, T>)
                if (x.size() == 1) return nn::apply(model, x[0]);
              refuse_inputs(x.size());
            },
            nn::inventory(model)};
  }
  [[noreturn]] static void refuse_inputs(std::size_t count);
  Trainer(ModelView model, std::shared_ptr<optim::Optimizer> optimizer, TrainerOptions options);

  struct Impl;
  std::unique_ptr<Impl> impl_;
  friend struct Fit;
};

}  // namespace systole::training
