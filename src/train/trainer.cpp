// A step is one traced function: forward, loss, metrics, gradients, the optimiser, and a guard that refuses a
// step with bad numbers. It returns its numbers as one small array, so that a launch of many steps costs one
// transfer.

#include "systole/train/trainer.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>
#include <utility>

#include "systole/base/error.h"
#include "systole/tensor/creation.h"
#include "systole/tensor/math.h"
#include "systole/tensor/random.h"
#include "systole/tensor/shaping.h"
#include "systole/tensor/transforms.h"
#include "systole/train/saved_model.h"
#include "tensor/mesh.h"
#include "train/bad_numbers.h"
#include "train/feed.h"
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
          throw Error(ErrorKind::kDType, "Trainer: loss",
                      "none was chosen for targets that are no class numbers",
                      "integers, or a loss: \"mse\", \"mae\", \"cross_entropy\" for probabilities",
                      target.type().to_string());
        return cross_entropy(output, target);
      }) {}
Loss::Loss(std::string_view name, const losses::Settings& settings) : f_(losses::by_name(name, settings)) {}

MetricChoice::MetricChoice(const std::string& name) : metric(metrics::by_name(name)) {}

namespace {

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
  return {options.loss(out, target), out, target};
}

namespace {

Tensor row(std::vector<Tensor> numbers) {
  for (Tensor& x : numbers) x = mean(x.to(DType::f32));
  return stack(numbers);
}

Tensor one_number(const Outcome& result) {
  if (!result.loss.defined()) throw Error(ErrorKind::kInvalidArgument, "Trainer: step", "it gave no loss");
  return result.loss.rank() == 0 ? result.loss : mean(result.loss);
}

}  // namespace

// The loss, then the metrics.
std::vector<Tensor> Trainer::Impl::measured(const Fields& fields) const {
  const auto run = [&](const Fields& x) {
    const Outcome result = outcome(x);
    std::vector<Tensor> numbers{one_number(result)};
    for (const std::size_t i : streaming) {
      if (!result.output.defined() || !result.target.defined())
        throw Error(ErrorKind::kInvalidArgument, "Trainer: step",
                    fmt::format("metric {} needs an output and a target", metrics[i].name));
      numbers.push_back(
          stop_gradient(mean(metrics[i].per_sample(result.output, result.target).to(DType::f32))));
    }
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

Tensor Trainer::Impl::test_step(const Fields& fields) const { return row(measured(fields)); }

void Trainer::Impl::report_bad_numbers(const Fields& fields, const std::string& where) {
  std::string found;
  if (options.bad_numbers == BadNumbers::find) {
    const ModeScope mode(model.inventory, true);
    Fields moved;
    for (const Tensor& x : fields) moved.push_back(x);
    halted.assign(Tensor(Literal::scalar<bool>(false)).to(halted.value().device().to_string()));
    const auto augmented = [&](const Fields& x) {
      return augment.empty() ? x : augment(x, random::next_key());
    };
    found = first_bad_op([&](const Fields& x) { return measured(augmented(x)); }, moved, first_device());
    if (found.empty()) {
      found = first_bad_op(
          [&](const Fields& x) {
            const Fields ready = augmented(x);
            return value_and_grad([&] { return measured(ready)[0]; }, optimizer->parameters()).grads;
          },
          moved, first_device());
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

namespace {

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

std::int64_t samples_for(const data::Source& data, const EvaluateOptions& options, std::int64_t batch) {
  if (data.empty()) throw Error(ErrorKind::kInvalidArgument, "evaluate", "there is no data");
  if (options.steps > 0) return data.size() / batch >= options.steps ? options.steps * batch : data.size();
  if (data.endless())
    throw Error(ErrorKind::kInvalidArgument, "evaluate", "the data has no end", "EvaluateOptions::steps");
  return data.size();
}

constexpr std::int64_t kEvaluationSteps = 16;  // of one launch

}  // namespace

Trainer::Impl::Evaluation Trainer::Impl::evaluation(const data::Source& data,
                                                    const EvaluateOptions& chosen) const {
  std::int64_t batch = chosen.batch;
  if (batch == 0) batch = data.endless() ? 256 : evaluation_batch(data.size());
  if (options.mesh) {  // what is split must divide evenly
    const std::int64_t devices = options.mesh->size();
    batch = std::max(batch / devices, std::int64_t{1}) * devices;
  }
  const std::int64_t samples = samples_for(data, chosen, batch);
  return {
      Feed(data, {.batch = batch,
                  .map = chosen.map,
                  .steps = data.endless() ? chosen.steps : 0,
                  .resident_bytes = chosen.device_bytes,
                  .device = device()}),
      plan_epoch({.samples = samples, .batch = batch}, loops_slowly(first_device()) ? 1 : kEvaluationSteps)};
}

bool Trainer::Impl::divides(std::int64_t rows) const {
  return !options.mesh || rows % options.mesh->size() == 0;
}

std::vector<Trainer::Impl::EvenPart> Trainer::Impl::even_parts(const Fields& fields) const {
  const std::int64_t devices = options.mesh->size(), rows = fields[0].size(0), even = rows - rows % devices;
  std::vector<EvenPart> parts;
  const auto add = [&](const Tensor& indices, std::int64_t count) {
    EvenPart part{{}, count};
    for (const Tensor& x : fields) part.fields.push_back(take(x, indices, 0).eval());
    parts.push_back(std::move(part));
  };
  if (even > 0) add(arange(even), even);
  for (std::int64_t i = even; i < rows; ++i) add(full({devices}, i, DType::i32), 1);
  return parts;
}

std::optional<Logs> Trainer::Impl::evaluate(Evaluation& data, const Stop& stop) {
  const ModeScope mode(model.inventory, false);
  const AverageScope weights(average);
  data.feed.begin_epoch(0, 0);
  std::vector<double> sums(streaming.size() + 1);
  double samples = 0;
  const auto add = [&](const std::vector<float>& rows, std::int64_t batch) {
    for (std::size_t i = 0; i < rows.size(); ++i)
      sums[i % sums.size()] += static_cast<double>(rows[i]) * static_cast<double>(batch);
  };
  for (const Launch& launch : data.plan) {
    if (stop && stop()) return std::nullopt;
    if (divides(launch.batch))
      add(data.feed.run(test, launch).to_vector<float>(), launch.batch);
    else
      for (const EvenPart& part : even_parts(data.feed.next_fields(launch)))
        add(test(part.fields).to_vector<float>(), part.rows);
    samples += static_cast<double>(launch.samples());
  }
  Logs result = logs(sums, samples);
  if (!collecting.empty() && !add_collected(result, data, stop)) return std::nullopt;
  return result;
}

Logs Trainer::evaluate(const data::Source& data, const EvaluateOptions& options) {
  Impl::Evaluation evaluation = impl_->evaluation(data, options);
  return *impl_->evaluate(evaluation);
}

bool Trainer::Impl::add_collected(Logs& logs, Evaluation& data, const Stop& stop) {
  if (options.step)
    throw Error(ErrorKind::kUnsupported, "evaluate",
                fmt::format("{} needs the outputs of all samples, which a step of your own does not give",
                            metrics[collecting[0]].name));
  std::vector<Literal> outputs, targets;
  const auto keep = [&](const Tensor& out, const Fields& fields) {
    outputs.push_back(out.literal());
    targets.push_back((fields.size() == 1 ? prepared(fields[0]) : fields.back()).literal());
  };
  if (!each_output(data, keep, stop)) return false;
  const Tensor all = joined_rows(outputs), truth = joined_rows(targets);
  for (const std::size_t i : collecting) logs.set(metrics[i].name, metrics[i].of_all(all, truth));
  return true;
}

Tensor Trainer::Impl::joined_rows(const std::vector<Literal>& parts) {
  if (parts.size() == 1) return Tensor(parts[0]);
  Shape shape = parts[0].shape();
  std::int64_t rows = 0;
  for (const Literal& part : parts) {
    rows += part.shape()[0].value();
    Shape wanted = part.shape();
    wanted[0] = shape[0];
    if (wanted != shape || part.dtype() != parts[0].dtype())
      throw Error(ErrorKind::kShape, "predict", "outputs of different shapes make no array",
                  parts[0].type().to_string() + " but for the first axis", part.type().to_string());
  }
  shape[0] = rows;
  Literal all = Literal::uninitialized({parts[0].dtype(), shape});
  std::byte* to = all.mutable_bytes();
  for (const Literal& part : parts) {
    std::memcpy(to, part.bytes(), part.byte_size());
    to += part.byte_size();
  }
  return Tensor(std::move(all));
}

bool Trainer::Impl::each_output(Evaluation& data,
                                const std::function<void(const Tensor&, const Fields&)>& use,
                                const Stop& stop) {
  data.feed.begin_epoch(0, 0);
  for (const Launch& launch : data.plan)
    for (std::int64_t s = 0; s < launch.steps; ++s) {
      if (stop && stop()) return false;
      const Launch one{launch.first + s * launch.batch, 1, launch.batch};
      const Fields fields = data.feed.next_fields(one);
      const auto outputs_of = [&](const Fields& x) {
        return predict(Fields(x.begin(), x.begin() + static_cast<std::ptrdiff_t>(inputs_of(x.size()))));
      };
      if (divides(launch.batch)) {
        use(outputs_of(fields), fields);
        continue;
      }
      for (const EvenPart& part : even_parts(fields)) {
        Fields counted;
        for (const Tensor& x : part.fields) counted.push_back(x[slice(0, part.rows)]);
        use(outputs_of(part.fields)[slice(0, part.rows)], counted);
      }
    }
  return true;
}

std::size_t Trainer::Impl::inputs_of(std::size_t fields) const { return fields > 1 ? fields - 1 : 1; }

Logs Trainer::evaluate(const Tensor& x, const Tensor& y, const EvaluateOptions& options) {
  return evaluate(data::arrays(x, y), options);
}

Tensor Trainer::predict(const data::Source& data, const EvaluateOptions& options) {
  Impl& impl = *impl_;
  const ModeScope mode(impl.model.inventory, false);
  const AverageScope weights(impl.average);
  std::vector<Literal> outputs;
  Impl::Evaluation evaluation = impl.evaluation(data, options);
  impl.each_output(evaluation, [&](const Tensor& out, const Fields&) { outputs.push_back(out.literal()); });
  return Impl::joined_rows(outputs);
}

Tensor Trainer::predict(const Tensor& x, const EvaluateOptions& options) {
  return predict(data::arrays(x), options);
}

Tensor Trainer::predict(std::initializer_list<Tensor> inputs) {
  const ModeScope mode(impl_->model.inventory, false);
  const AverageScope weights(impl_->average);
  Fields given;
  const std::string device = impl_->device();
  for (const Tensor& x : inputs) given.push_back(device.empty() ? x : x.to(device));
  if (given.empty()) throw Error(ErrorKind::kInvalidArgument, "predict", "no inputs");
  return impl_->predict(given);
}

Logs Trainer::train_on_batch(std::span<const Tensor> fields) {
  Impl& impl = *impl_;
  if (fields.empty()) throw Error(ErrorKind::kInvalidArgument, "train_on_batch", "no fields");
  const ModeScope mode(impl.model.inventory, true);
  const Fields given(fields.begin(), fields.end());
  const std::vector<float> numbers = impl.step(given).to_vector<float>();
  if (impl.is_bad(numbers)) impl.report_bad_numbers(given, "train_on_batch");
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
