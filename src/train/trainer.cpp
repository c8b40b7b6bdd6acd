// A step is one traced function: forward, loss, metrics, gradients, the optimiser, and a guard that refuses a
// step with bad numbers. It returns its numbers as one small array, so that a launch of many steps costs one
// transfer.

#include "systole/train/trainer.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <utility>

#include "systole/base/error.h"
#include "systole/tensor/creation.h"
#include "systole/tensor/math.h"
#include "systole/tensor/random.h"
#include "systole/tensor/shaping.h"
#include "systole/tensor/transforms.h"
#include "systole/train/saved_model.h"
#include "tensor/frame.h"
#include "tensor/mesh.h"
#include "train/bad_numbers.h"
#include "train/finite.h"
#include "train/trainer_impl.h"

namespace systole::training {

namespace {

Error option_error(const char* option, const char* expected, double got) {
  return Error(ErrorKind::kInvalidArgument, fmt::format("Trainer: {}", option), "out of range", expected,
               fmt::format("{}", got));
}

std::optional<DType> small_float(Precision precision) {
  switch (precision) {
    case Precision::f32: return std::nullopt;
    case Precision::bf16: return DType::bf16;
    case Precision::f16: return DType::f16;
  }
  return std::nullopt;
}

}  // namespace

Loss::Loss()
    : f_([](const Tensor& output, const Tensor& target) {
        if (!is_integer(target.dtype()))
          throw Error(
              ErrorKind::kDType, "Trainer: loss",
              "none was chosen, and these targets are no class numbers; Mixup and OneHot make "
              "probabilities of class numbers",
              "TrainerOptions::loss: \"cross_entropy\" for probabilities, \"mse\" or \"mae\" for other "
              "numbers; without one, integers",
              target.type().to_string());
        return cross_entropy(output, target);
      }),
      labels_(Labels{}),
      targets_(losses::Targets::labels) {}
Loss::Loss(std::string_view name, const losses::Settings& settings)
    : f_(losses::by_name(name, settings)), targets_(losses::targets_of(name)) {
  if (targets_ == losses::Targets::labels) labels_ = Labels{.ignore_index = settings.ignore_index};
  if (targets_ == losses::Targets::binary) labels_ = Labels{.classes = 2};
}

MetricChoice::MetricChoice(const std::string& name) : metric(metrics::by_name(name)) {}

namespace {

// An optimiser of another network, or of a copy, would train nothing, silently. What a step or a loss of the
// user's own trains is only known when it runs.
void check_trains(const optim::Optimizer& optimizer, const nn::Inventory& model) {
  const Parameters own = nn::detail::parameters(model, true);
  const auto is_own = [&](const recording::CellRef& cell) {
    return std::any_of(own.begin(), own.end(), [&](const auto& one) { return one.variable.cell() == cell; });
  };
  const std::span<const Variable> trained = optimizer.parameters();
  if (own.empty() ||
      std::any_of(trained.begin(), trained.end(), [&](const Variable& v) { return is_own(v.cell()); }))
    return;
  const bool is_cast = std::any_of(trained.begin(), trained.end(), [&](const Variable& v) {
    const recording::CellRef replacement = v.cell()->replaced_by.lock();
    return replacement && is_own(replacement);
  });
  throw Error(ErrorKind::kInvalidArgument, "Trainer",
              is_cast
                  ? "nn::cast has replaced the optimiser's parameters in the model by others"
                  : "none of the optimiser's parameters is one of the model's, so nothing would be trained",
              is_cast ? "an optimiser that is made after nn::cast"
                      : "an optimiser of this model: optim::Adam(parameters(model))",
              fmt::format("one of {} other Variables, the first \"{}\"", trained.size(), trained[0].name()));
}

// A mesh of all devices there are, with their number.
TrainerOptions with_counted_mesh(TrainerOptions options) {
  if (options.mesh) options.mesh = recording::checked(*std::move(options.mesh));
  return options;
}

}  // namespace

Trainer::Impl::Impl(ModelView given, std::shared_ptr<optim::Optimizer> chosen, TrainerOptions chosen_options)
    : model(std::move(given)),
      optimizer(std::move(chosen)),
      options(with_counted_mesh(std::move(chosen_options))),
      step([this](const Fields& fields) { return training_step(fields); },
           {.device = options.mesh ? "" : options.device,
            .name = "training_step",
            .mesh = options.mesh,
            .math = options.math,
            .deterministic = options.deterministic}),
      test([this](const Fields& fields) { return test_step(fields); },
           {.device = options.mesh ? "" : options.device,
            .name = "test_step",
            .mesh = options.mesh,
            .math = options.math,
            .deterministic = options.deterministic}),
      predict([this](const Fields& inputs) { return output(inputs); },
              {.device = options.mesh ? "" : options.device,
               .name = "predict",
               .mesh = options.mesh,
               .math = options.math,
               .deterministic = options.deterministic}) {
  if (!optimizer) throw Error(ErrorKind::kInvalidArgument, "Trainer", "no optimiser");
  if (!options.step) check_trains(*optimizer, model.inventory);
  if (options.accumulate < 1) throw option_error("accumulate", "at least 1", options.accumulate);
  if (options.clip_norm < 0) throw option_error("clip_norm", "at least 0", options.clip_norm);
  if (options.clip_value < 0) throw option_error("clip_value", "at least 0", options.clip_value);
  if (options.ema < 0 || options.ema >= 1) throw option_error("ema", "0 or more, below 1", options.ema);
  for (const MetricChoice& choice : options.metrics) {
    (choice.metric.streams() ? streaming : collecting).push_back(metrics.size());
    metrics.push_back(choice.metric);
  }
  if (options.precision == Precision::f16) scale.emplace();
  if (options.accumulate > 1)
    accumulation.emplace(optimizer->parameters(), static_cast<std::int32_t>(options.accumulate));
  if (options.ema > 0) average.emplace(optimizer->parameters(), optim::EmaOptions{.decay = options.ema});
  halted = Variable(Tensor(Literal::scalar<bool>(false)), "trainer.halted", false);
  for (const auto& [name, variable] : nn::detail::parameters(model.inventory, true))
    if (!variable.trainable()) statistics.push_back(variable);
  statistics.push_back(random::default_key());
  if (scale)  // a step that is refused is no overflow
    for (const NamedVariable& v : scale->state()) statistics.push_back(v.variable);
  if (options.mesh) return;
  if (!options.device.empty())
    for (const NamedVariable& v : state()) v.variable.cell() ? Variable(v).move_to(options.device) : void();
}

Parameters Trainer::Impl::state() const {
  Parameters all;
  const auto add = [&](const char* part, const Parameters& list) {
    for (const auto& [name, variable] : list) all.add(fmt::format("{}.{}", part, name), variable);
  };
  const Parameters own = nn::detail::parameters(model.inventory, true);
  add("model", own);
  // What a step of the user's own trains beside the model.
  for (const auto& [name, variable] : optimizer->parameters()) {
    const bool is_own = std::any_of(own.begin(), own.end(),
                                    [&](const auto& one) { return one.variable.cell() == variable.cell(); });
    if (!is_own) all.add("beside." + name, variable);
  }
  add("optimizer", optimizer->state());
  if (scale) add("scale", scale->state());
  if (accumulation) add("accumulation", accumulation->state());
  if (average) add("average", average->state());
  all.add("trainer.halted", halted);
  all.add("random.key", random::default_key());
  return all;
}

Tensor Trainer::Impl::prepared(const Tensor& x) const {
  if (options.prepare) return options.prepare(x);
  return x.dtype() == DType::u8 ? x.to(DType::f32) / 255 : x;
}

Tensor Trainer::Impl::output(const Fields& inputs) const {
  Fields given = inputs;
  given[0] = prepared(given[0]);
  const auto forward = [&](const Fields& x) { return model.forward(x); };
  if (const auto dtype = small_float(options.precision)) return autocast(forward, *dtype)(given);
  return forward(given);
}

Outcome Trainer::Impl::outcome(const Fields& fields) const {
  if (options.step) return options.step(fields);
  Fields inputs(fields.begin(), fields.end() - (fields.size() > 1 ? 1 : 0));
  inputs[0] = prepared(inputs[0]);
  const Tensor target = fields.size() == 1 ? inputs[0] : fields.back();  // one field is its own target
  const Tensor out = model.forward(inputs);
  if (const std::optional<Loss::Labels>& labels = options.loss.labels();
      labels && is_integer(target.dtype()) && out.rank() > 0)
    label_check = data::LabelCheck{.classes = labels->classes > 0 ? labels->classes : out.size(-1),
                                   .ignore_index = labels->ignore_index};
  return {options.loss(out, target), out, target};
}

namespace {

// Accuracy of numbers that are learned would be 0, and an error of scores against class numbers means
// nothing. A loss of the user's own does not tell what its targets are.
void check_fits(const metrics::Metric& metric, const Outcome& result, losses::Targets targets) {
  if (!result.output.defined() || !result.target.defined()) return;
  const Type &output = result.output.type(), &target = result.target.type();
  const int rank = output.shape.rank();
  const bool has_classes = rank > 1 && output.shape[static_cast<std::size_t>(rank) - 1] != Dim(1);
  const bool is_one_hot = has_classes && target.shape == output.shape;
  const bool are_numbers = is_float(target.dtype) && !is_one_hot && targets == losses::Targets::numbers;
  const bool are_labels = is_integer(target.dtype) && has_classes && target.shape.rank() == rank - 1;
  const auto refuse = [&](const char* what, const char* expected) {
    throw Error(ErrorKind::kInvalidArgument, fmt::format("metric {}", metric.name), what, expected,
                fmt::format("targets {} for outputs {}", target.to_string(), output.to_string()));
  };
  if (metric.of == metrics::Measured::classes && are_numbers)
    refuse("it is of classes, and the loss learns numbers",
           "mse, rmse, mae or r2; or a loss of classes, as bce_with_logits");
  if (metric.of == metrics::Measured::numbers && are_labels)
    refuse("it is of numbers, and the targets number classes", "a metric of classes, as accuracy");
}

Tensor row(std::vector<Tensor> numbers) {
  for (Tensor& x : numbers) x = mean(x.to(DType::f32));
  return stack(numbers);
}

Tensor one_number(const Outcome& result) {
  if (!result.loss.defined()) throw Error(ErrorKind::kInvalidArgument, "Trainer: step", "it gave no loss");
  return result.loss.rank() == 0 ? result.loss : mean(result.loss);
}

}  // namespace

std::vector<Tensor> Trainer::Impl::measured(const Fields& fields, bool count_bad) const {
  const auto run = [&](const Fields& x) {
    const Outcome result = outcome(x);
    for (const metrics::Metric& metric : metrics)
      check_fits(metric, result, options.step ? losses::Targets::other : options.loss.targets());
    std::vector<Tensor> numbers{one_number(result)};
    for (const std::size_t i : streaming) {
      if (!result.output.defined() || !result.target.defined())
        throw Error(ErrorKind::kInvalidArgument, "Trainer: step",
                    fmt::format("metric {} needs an output and a target", metrics[i].name));
      numbers.push_back(
          stop_gradient(mean(metrics[i].per_sample(result.output, result.target).to(DType::f32))));
    }
    if (count_bad)
      numbers.push_back(sum(
          1 - (result.output.defined() ? finite_samples(result.output, result.target) : is_finite(numbers[0]))
                  .to(DType::f32)));
    return numbers;
  };
  if (const auto dtype = small_float(options.precision)) return autocast(run, *dtype)(fields);
  return run(fields);
}

Tensor Trainer::Impl::training_step(const Fields& given) {
  const bool guarded = options.bad_numbers == BadNumbers::find;
  std::vector<Tensor> before;
  if (guarded)
    for (const Variable& v : statistics) before.push_back(v.value());
  const Fields fields = augment.empty() ? given : augment(given, random::next_key());
  const std::span<const Variable> wanted = optimizer->parameters();
  std::vector<Tensor> numbers, grads;
  Tensor apply;
  const auto loss = [&] {
    std::vector<Tensor> all = measured(fields);
    Tensor first = all[0];
    return std::pair<Tensor, std::vector<Tensor>>(std::move(first), std::move(all));
  };
  if (scale) {
    auto result = scale->value_and_grad(loss, wanted);
    numbers = std::move(result.value.second);
    grads = std::move(result.grads);
    apply = result.finite;
  } else {
    auto result = value_and_grad(loss, wanted);
    numbers = std::move(result.value.second);
    grads = std::move(result.grads);
  }
  Tensor refused, is_refused;
  if (guarded) {
    // An f16 gradient that overflows is the loss scale's business. Gradients are known last and stand first:
    // the rest of the condition is part of the kernel that looks at them.
    Tensor goes_on = is_finite(numbers[0]) && !Tensor(halted);
    if (!scale) goes_on = optim::LossScale::all_finite(grads) && goes_on;
    apply = apply.defined() ? apply && goes_on : goes_on;
    refused = !goes_on;
    // Of the condition itself: what others read of a Variable's new value waits until that is stored.
    is_refused = 1 - goes_on.to(DType::f32);
  }
  Tensor taken = apply;  // whether the optimiser steps
  if (accumulation) {
    optim::Accumulated sum = apply.defined() ? accumulation->add(grads, apply) : accumulation->add(grads);
    grads = std::move(sum.grads);
    taken = sum.due;
  }
  if (options.clip_value > 0) optim::clip_by_value(grads, options.clip_value);
  if (options.clip_norm > 0) optim::clip_by_norm(grads, options.clip_norm);
  taken.defined() ? optimizer->update(grads, taken) : optimizer->update(grads);
  if (scale) scale->update(apply);
  if (average) taken.defined() ? average->update(taken) : average->update();
  if (guarded) {
    halted.assign(refused);
    for (std::size_t i = 0; i < statistics.size(); ++i)
      statistics[i].assign(where(refused, before[i], statistics[i].value()));
  }
  numbers.push_back(guarded ? is_refused : Tensor(Literal::scalar<float>(0)));
  return row(std::move(numbers));
}

Tensor Trainer::Impl::test_step(const Fields& fields) const { return row(measured(fields, true)); }

void Trainer::Impl::report_bad_numbers(const Fields& fields, const StepData& data, const std::string& where) {
  std::string found;
  if (options.bad_numbers == BadNumbers::find) {
    const ModeScope mode(model.inventory, true);
    Fields moved;
    for (const Tensor& x : fields) moved.push_back(x);
    halted.assign(Tensor(Literal::scalar<bool>(false)).to(halted.value().device().to_string()));
    const auto augmented = [&](const Fields& x) {
      return augment.empty() ? x : augment(x, random::next_key());
    };
    found =
        first_bad_op([&](const Fields& x) { return measured(augmented(x)); }, moved, data, first_device());
    if (found.empty()) {
      found = first_bad_op(
          [&](const Fields& x) {
            const Fields ready = augmented(x);
            return value_and_grad([&] { return measured(ready)[0]; }, optimizer->parameters()).grads;
          },
          moved, data, first_device());
      if (!found.empty()) found = "in the gradient, " + found;
    }
  }
  if (options.bad_numbers == BadNumbers::find && found.empty())
    found = "no op gives such a number on the host, where it is computed in f64";
  throw Error(ErrorKind::kInvalidArgument, where,
              found.empty() ? "the loss is not finite; BadNumbers::find would name the op"
                            : fmt::format("numbers are not finite: {}", found));
}

std::string Trainer::Impl::device() const {
  if (options.mesh) return "";
  if (!options.device.empty()) return options.device;
  const Parameters& list = optimizer->parameters();
  return list.empty() ? current_device().to_string() : list[0].variable.value().device().to_string();
}

std::string Trainer::Impl::first_device() const { return options.mesh ? options.mesh->device : device(); }

Logs Trainer::Impl::logs(std::span<const double> sums, double samples) const {
  Logs result;
  result.set("loss", sums[0] / samples);
  for (std::size_t i = 0; i < streaming.size(); ++i)
    result.set(metrics[streaming[i]].name, sums[i + 1] / samples);
  return result;
}

Trainer::Trainer(ModelView model, std::shared_ptr<optim::Optimizer> optimizer, TrainerOptions options)
    : impl_(std::make_unique<Impl>(std::move(model), std::move(optimizer), std::move(options))) {}
Trainer::~Trainer() = default;
Trainer::Trainer(Trainer&&) noexcept = default;
Trainer& Trainer::operator=(Trainer&&) noexcept = default;

void Trainer::refuse_inputs(std::size_t count) {
  throw Error(ErrorKind::kInvalidArgument, "Trainer",
              fmt::format("the model's forward does not take {} Tensors", count),
              "a sample's fields, but for the target, as arguments; TrainerOptions::step for another use");
}

optim::Optimizer& Trainer::optimizer() { return *impl_->optimizer; }
Parameters Trainer::state() const { return impl_->state(); }
Parameters Trainer::weights() const { return nn::detail::parameters(impl_->model.inventory, true); }

std::optional<bool> Trainer::higher_is_better(std::string_view metric) const {
  for (const metrics::Metric& m : impl_->metrics)
    if (m.name == metric) return m.higher_is_better;
  return std::nullopt;
}

ir::Graph Trainer::forward_graph() {
  if (impl_->inputs.empty())
    throw Error(ErrorKind::kInvalidArgument, "forward_graph", "nothing says what the inputs are like",
                "fit()");
  const ModeScope mode(impl_->model.inventory, false);
  Fields inputs;
  for (const Type& type : impl_->inputs) inputs.emplace_back(Literal(type));
  return impl_->predict.graph(inputs);
}

Logs Trainer::train_on_batch(std::span<const Tensor> fields) {
  Impl& impl = *impl_;
  if (fields.empty()) throw Error(ErrorKind::kInvalidArgument, "train_on_batch", "no fields");
  const ModeScope mode(impl.model.inventory, true);
  const Fields given(fields.begin(), fields.end());
  impl.check_labels(given, "train_on_batch");
  const std::vector<float> numbers = impl.step(given).to_vector<float>();
  if (impl.is_bad(numbers)) impl.report_bad_numbers(given, {}, "train_on_batch");
  const std::vector<double> sums(numbers.begin(), numbers.end() - 1);
  return impl.logs(sums, 1);
}

bool Trainer::Impl::is_bad(std::span<const float> numbers) const {
  if (options.bad_numbers == BadNumbers::ignore) return false;
  return numbers.back() != 0 || !std::isfinite(numbers[0]);
}

void Trainer::save(const std::filesystem::path& file, SaveOptions options, std::vector<InputSpec> inputs) {
  Impl& impl = *impl_;
  if (inputs.empty()) inputs.assign(impl.inputs.begin(), impl.inputs.end());
  if (inputs.empty())
    throw Error(ErrorKind::kInvalidArgument, "Trainer::save", "nothing says what the inputs are like",
                "fit() before it, or the types of a batch as argument");
  if (options.classes.empty()) options.classes = impl.classes;
  const ModeScope mode(impl.model.inventory, false);
  const AverageScope weights(impl.average);
  detail::save_model(
      file, impl.model.inventory, [&](const Flat& flat) { return tree::flat(impl.output(flat.tensors)); },
      std::move(inputs), options);
}

FitResult Trainer::fit(const Tensor& x, const Tensor& y, const FitOptions& options) {
  return fit(data::arrays(x, y), options);
}

}  // namespace systole::training
