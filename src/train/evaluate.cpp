// A Trainer's evaluation and prediction. Outputs that are not finite are counted in the compiled step, and
// the first sample that has some is named: without that a model that gives NaN is only found by its loss.

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>
#include <utility>

#include <fmt/format.h>

#include "base/log.h"
#include "systole/base/error.h"
#include "systole/tensor/creation.h"
#include "systole/tensor/shaping.h"
#include "systole/train/trainer.h"
#include "train/feed.h"
#include "train/finite.h"
#include "train/trainer_impl.h"

namespace systole::training {

namespace {

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
                  .device = device(),
                  .one_by_one = true}),
      plan_epoch({.samples = samples, .batch = batch}, loops_slowly(first_device()) ? 1 : kEvaluationSteps)};
}

void Trainer::Impl::check_labels(Feed& feed, const Function<Tensor(const Fields&)>& traced,
                                 std::int64_t batch, const std::string& what) const {
  if (options.step || !options.loss.labels()) return;
  (void)traced.graph(feed.example(batch));  // which the first launch would trace
  if (label_check) feed.check_labels(*label_check, what);
}

void Trainer::Impl::check_labels(const Fields& fields, const std::string& what) const {
  if (options.step || !options.loss.labels() || !is_integer(fields.back().dtype())) return;
  if (!label_check) (void)step.graph(fields);
  if (!label_check || fields.back().rank() == 0) return;
  data::Batch batch{.arrays = {fields.back().literal()}, .indices = {}};
  batch.indices.resize(static_cast<std::size_t>(fields.back().size(0)));
  std::iota(batch.indices.begin(), batch.indices.end(), 0);
  try {
    data::check_labels(batch, *label_check);
  } catch (const Error& error) {
    throw error.within(what);
  }
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

std::optional<Logs> Trainer::Impl::evaluate(Evaluation& data, const EvaluateHow& how) {
  const ModeScope mode(model.inventory, false);
  const AverageScope weights(average);
  if (!data.is_checked && !data.plan.empty() && divides(data.plan[0].batch)) {
    check_labels(data.feed, test, data.plan[0].batch, how.what);
    data.is_checked = true;
  }
  data.feed.begin_epoch(0, 0);
  std::vector<double> sums(streaming.size() + 1);
  std::int64_t samples = 0;
  BadSamples bad = bad_samples(data.feed.source());
  const auto add = [&](std::span<const float> row, std::int64_t batch, const auto& fields) {
    for (std::size_t i = 0; i < sums.size(); ++i)
      sums[i] += static_cast<double>(row[i]) * static_cast<double>(batch);
    if (row.back() > 0 || !std::isfinite(row[0])) {
      if (bad.empty())
        look_at(bad, fields(), samples, batch, data.feed.source());
      else
        bad.add(std::min(static_cast<std::int64_t>(row.back()), batch));
    }
    samples += batch;
  };
  for (const Launch& launch : data.plan) {
    if (how.stop && how.stop()) return std::nullopt;
    if (divides(launch.batch)) {
      const std::vector<float> numbers = data.feed.run(test, launch).to_vector<float>();
      for (std::int64_t s = 0; s < launch.steps; ++s)
        add(std::span(numbers).subspan(static_cast<std::size_t>(s) * columns(), columns()), launch.batch,
            [&] { return data.feed.fields(launch, s); });
    } else {
      for (const EvenPart& part : even_parts(data.feed.next_fields(launch)))
        add(test(part.fields).to_vector<float>(), part.rows, [&] { return part.fields; });
    }
  }
  report(bad, samples, how.what, how.refuse_non_finite);
  Logs result = logs(sums, static_cast<double>(samples));
  if (!collecting.empty() && !add_collected(result, data, how.stop)) return std::nullopt;
  return result;
}

BadSamples Trainer::Impl::bad_samples(const data::Source& data) const {
  return BadSamples(
      [this] {
        std::vector<NamedLiteral> weights;
        for (const auto& [name, variable] : nn::detail::parameters(model.inventory, true))
          weights.push_back({name, variable.literal()});
        return weights;
      },
      data);
}

namespace {

std::vector<NamedLiteral> named(const Fields& fields, const data::Source& data) {
  const data::Info info = data.info();
  std::vector<NamedLiteral> result;
  for (std::size_t i = 0; i < fields.size(); ++i)
    result.push_back(
        {i < info.fields.size() && !info.fields[i].name.empty() ? info.fields[i].name : std::to_string(i),
         fields[i].literal()});
  return result;
}

}  // namespace

void Trainer::Impl::look_at(BadSamples& bad, const Fields& given, std::int64_t sample, std::int64_t rows,
                            const data::Source& data) const {
  Fields fields;
  for (const Tensor& x : given) fields.push_back(device().empty() ? x : x.to(device()));
  const BadSamples::Named names = [&] { return named(fields, data); };
  Outcome result;
  if (options.step) {
    result = options.step(fields);
  } else {
    result.output = predict(inputs_in(fields));
    result.target = fields.size() == 1 ? prepared(fields[0]) : fields.back();
  }
  const Type target = result.target.defined() ? result.target.type() : Type{};
  if (result.output.defined() && result.output.rank() > 0 && result.output.size(0) >= rows)
    bad.look_at(result.output[slice(0, rows)].literal(), &target, names, sample);
  if (bad.empty()) bad.look_at_fields(names(), sample, rows);
}

void Trainer::Impl::report(const BadSamples& bad, std::int64_t samples, const std::string& what,
                           bool refuse) const {
  if (bad.empty()) return;
  if (refuse)
    throw Error(ErrorKind::kInvalidArgument, what, bad.text(samples),
                "finite numbers, or EvaluateOptions::refuse_non_finite = false");
  if (options.bad_numbers != BadNumbers::ignore)
    log(LogLevel::warn, fmt::format("{}: {}", what, bad.text(samples)));
}

Logs Trainer::evaluate(const data::Source& data, const EvaluateOptions& options) {
  Impl::Evaluation evaluation = impl_->evaluation(data, options);
  return *impl_->evaluate(evaluation, {.what = "evaluate", .refuse_non_finite = options.refuse_non_finite});
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
      const auto outputs_of = [&](const Fields& x) { return predict(inputs_in(x)); };
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

Fields Trainer::Impl::inputs_in(const Fields& fields) const {
  return {fields.begin(), fields.begin() + static_cast<std::ptrdiff_t>(inputs_of(fields.size()))};
}

Logs Trainer::evaluate(const Tensor& x, const Tensor& y, const EvaluateOptions& options) {
  return evaluate(data::arrays(x, y), options);
}

Tensor Trainer::predict(const data::Source& data, const EvaluateOptions& options) {
  Impl& impl = *impl_;
  const ModeScope mode(impl.model.inventory, false);
  const AverageScope weights(impl.average);
  std::vector<Literal> outputs;
  Impl::Evaluation evaluation = impl.evaluation(data, options);
  BadSamples bad = impl.bad_samples(data);
  std::int64_t samples = 0;
  impl.each_output(evaluation, [&](const Tensor& out, const Fields& fields) {
    outputs.push_back(out.literal());
    bad.look_at(outputs.back(), nullptr, [&] { return named(impl.inputs_in(fields), data); }, samples);
    samples += out.size(0);
  });
  impl.report(bad, samples, "predict", options.refuse_non_finite);
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
  Tensor out = impl_->predict(given);
  BadSamples bad = impl_->bad_samples({});
  bad.look_at(out.literal(), nullptr, [&] { return named(given, {}); }, 0);
  impl_->report(bad, out.rank() == 0 ? 1 : out.size(0), "predict", false);
  return out;
}

}  // namespace systole::training
