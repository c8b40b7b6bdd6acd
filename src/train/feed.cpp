#include "train/feed.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <new>
#include <numeric>
#include <utility>

#include "data/gather.h"
#include "systole/base/error.h"
#include "systole/tensor/shaping.h"
#include "tensor/borrowed.h"

namespace systole::training {

namespace {

std::int64_t bytes_of(const data::Info& info) {
  double bytes = 0;
  for (const data::Field& field : info.fields) {
    if (!field.type.shape.is_static()) return -1;
    bytes += static_cast<double>(field.type.shape.count()) * static_cast<double>(size_of(field.type.dtype)) *
             static_cast<double>(info.size);
  }
  return bytes < 4e18 ? static_cast<std::int64_t>(bytes) : -1;
}

bool are_of_one_type(const std::vector<std::vector<Literal>>& batches) {
  return std::all_of(batches.begin(), batches.end(), [&](const std::vector<Literal>& batch) {
    return std::equal(batch.begin(), batch.end(), batches[0].begin(), batches[0].end(),
                      [](const Literal& a, const Literal& b) { return a.type() == b.type(); });
  });
}

// Batches as one array with a leading axis of steps.
Literal stacked(const std::vector<std::vector<Literal>>& batches, std::size_t field) {
  const Literal& first = batches[0][field];
  Shape shape{static_cast<std::int64_t>(batches.size())};
  for (const Dim& d : first.shape()) shape.push_back(d);
  Literal all = Literal::uninitialized({first.dtype(), shape});
  std::byte* to = all.mutable_bytes();
  for (const std::vector<Literal>& batch : batches) {
    if (!(batch[field].type() == first.type()))
      throw Error(
          ErrorKind::kShape, "fit",
          fmt::format("field {}: batches of different types cannot be steps of one launch", field),
          first.type().to_string() + ", or FitOptions::steps_per_call = 1, which launches each batch alone",
          batch[field].type().to_string());
    std::memcpy(to, batch[field].bytes(), batch[field].byte_size());
    to += batch[field].byte_size();
  }
  return all;
}

}  // namespace

Feed::Feed(const data::Source& source, FeedOptions options) : source_(source), options_(std::move(options)) {
  const data::Info info = source_.info();
  const std::int64_t bytes = source_.endless() ? -1 : bytes_of(info);
  if (options_.map.empty() && source_.in_memory() && bytes >= 0 && bytes <= options_.resident_bytes) {
    lay_down(bytes);
    return;
  }
  loader_.emplace(source_, data::LoaderOptions{.batch = options_.batch,
                                               .shuffle = options_.shuffle,
                                               .seed = options_.seed,
                                               .drop_last = options_.drop_last,
                                               .map = options_.map,
                                               .workers = options_.workers,
                                               .steps = options_.steps});
}

// A device that computes in the host's memory reads the data where they lie, also a selection of them.
void Feed::lay_down(std::int64_t bytes) {
  const auto no_room = [&](std::string why) {
    return Error(
        ErrorKind::kOutOfMemory, "the data",
        fmt::format("no memory to lay {} bytes on {}", bytes,
                    options_.device.empty() ? "the devices" : options_.device),
        "a smaller device_bytes (train.device_gigabytes of systole train), with which they are read batch "
        "by batch",
        std::move(why));
  };
  try {
    std::vector<Literal> columns;
    if (!options_.device.empty() && recording::computes_in_host_memory(options_.device))
      if (std::optional<data::InPlace> place = data::in_place(*source_.rows())) {
        columns = std::move(place->columns);
        rows_ = std::move(place->rows);
      }
    if (columns.empty()) columns = source_.columns();
    if (options_.fields > 0) columns.resize(std::min(options_.fields, columns.size()));
    for (const Literal& column : columns)
      columns_.push_back(options_.device.empty() ? Tensor(column)
                                                 : recording::borrowed(column, options_.device));
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::kOutOfMemory) throw;
    throw no_room(error.what());
  } catch (const std::bad_alloc&) {
    throw no_room({});
  }
}

void Feed::begin_epoch(std::int64_t epoch, std::int64_t first_step) {
  if (loader_) {
    loader_->set_epoch(epoch);
    if (first_step > 0) {
      data::LoaderState state = loader_->state();
      state.epoch = epoch;
      state.step = first_step;
      loader_->restore(state);
    }
    return;
  }
  if (options_.shuffle) {
    prepare_epoch(epoch);
    order_ = std::move(next_order_);
    next_epoch_ = -1;
  } else if (order_.empty()) {
    order_.resize(static_cast<std::size_t>(source_.size()));
    std::iota(order_.begin(), order_.end(), 0);
  }
}

void Feed::prepare_epoch(std::int64_t epoch) {
  if (loader_ || !options_.shuffle || next_epoch_ == epoch) return;
  next_order_ = data::permutation(source_.size(), options_.seed, epoch);
  next_epoch_ = epoch;
}

void Feed::check_labels(const data::LabelCheck& check, const std::string& what) {
  labels_of_ = what;
  const bool is_cheap = source_.in_memory() || source_.rows()->known_labels(source_.info().fields.size() - 1);
  if (options_.map.empty() && is_cheap) {
    try {
      data::check_labels(source_, check);
    } catch (const Error& error) {
      throw error.within(what);
    }
  } else {
    labels_ = check;
  }
}

std::optional<data::Batch> Feed::next_batch() {
  std::optional<data::Batch> batch = loader_->next();
  // A change of the samples may have made other targets of the labels.
  if (batch && labels_ && !batch->arrays.empty() && is_integer(batch->arrays.back().dtype())) try {
      data::check_labels({.arrays = batch->arrays, .indices = origins(batch->indices)}, *labels_);
    } catch (const Error& error) {
      throw error.within(labels_of_);
    }
  return batch;
}

Tensor Feed::run(const Step& step, const Launch& launch) {
  if (resident()) {
    std::vector<std::int32_t> rows(static_cast<std::size_t>(launch.samples()));
    for (std::size_t i = 0; i < rows.size(); ++i) {
      const std::int64_t sample = order_[static_cast<std::size_t>(launch.first) + i];
      rows[i] = static_cast<std::int32_t>(rows_.empty() ? sample : rows_[static_cast<std::size_t>(sample)]);
    }
    Tensor indices(Literal::of<std::int32_t>({launch.steps, launch.batch}, rows));
    if (!options_.device.empty()) indices = indices.to(options_.device);
    return step.many_at(indices, columns_);
  }
  last_but_one_ = std::exchange(last_, {launch.first, {}, {}});
  std::vector<std::vector<Literal>>& batches = last_.batches;
  for (std::int64_t i = 0; i < launch.steps; ++i) {
    std::optional<data::Batch> batch = next_batch();
    if (!batch) throw Error(ErrorKind::kInternal, "fit", "the data ended before its epoch");
    if (options_.fields > 0) batch->arrays.resize(std::min(options_.fields, batch->arrays.size()));
    batches.push_back(std::move(batch->arrays));
    last_.samples.push_back(std::move(batch->indices));
  }
  if (options_.one_by_one && !are_of_one_type(batches)) {
    std::vector<Tensor> results;
    for (const std::vector<Literal>& batch : batches) {
      std::vector<Tensor> fields;
      for (const Literal& array : batch) {
        const Tensor x(array);
        fields.push_back(options_.device.empty() ? x : x.to(options_.device));
      }
      results.push_back(step(fields));
    }
    return stack(results);
  }
  std::vector<Tensor> fields;
  for (std::size_t f = 0; f < batches[0].size(); ++f) {
    Tensor x(launch.steps == 1 ? batches[0][f].reshaped([&] {
      Shape shape{1};
      for (const Dim& d : batches[0][f].shape()) shape.push_back(d);
      return shape;
    }())
                               : stacked(batches, f));
    fields.push_back(options_.device.empty() ? x : x.to(options_.device));
  }
  return step.many(fields);
}

std::vector<Tensor> Feed::next_fields(const Launch& one) {
  std::vector<Literal> arrays;
  if (resident()) {
    const auto first = order_.begin() + one.first;
    arrays = source_.read(std::vector<std::int64_t>(first, first + one.batch));
  } else {
    std::optional<data::Batch> batch = next_batch();
    if (!batch) throw Error(ErrorKind::kInternal, "evaluate", "the data ended before its epoch");
    arrays = std::move(batch->arrays);
  }
  std::vector<Tensor> fields;
  for (Literal& array : arrays) {
    Tensor x(std::move(array));
    fields.push_back(options_.device.empty() ? x : x.to(options_.device));
  }
  return fields;
}

std::vector<Tensor> Feed::fields(const Launch& launch, std::int64_t step) const {
  std::vector<Tensor> result;
  if (!resident()) {
    const Given& given = last_.first == launch.first ? last_ : last_but_one_;
    for (const Literal& x : given.batches.at(static_cast<std::size_t>(step))) result.emplace_back(x);
    return result;
  }
  const auto first = order_.begin() + launch.first + step * launch.batch;
  for (const Literal& x : source_.read(std::vector<std::int64_t>(first, first + launch.batch)))
    result.emplace_back(x);
  return result;
}

std::vector<std::int64_t> Feed::samples(const Launch& launch, std::int64_t step) const {
  if (!resident()) {
    const Given& given = last_.first == launch.first ? last_ : last_but_one_;
    return origins(given.samples.at(static_cast<std::size_t>(step)));
  }
  const auto first = order_.begin() + launch.first + step * launch.batch;
  return origins({first, first + launch.batch});
}

std::vector<std::int64_t> Feed::origins(std::vector<std::int64_t> samples) const {
  for (std::int64_t& sample : samples) sample = source_.rows()->origin(sample);
  return samples;
}

std::vector<Tensor> Feed::example(std::int64_t batch) const {
  data::Loader one(source_.take(1),
                   {.batch = 1, .shuffle = false, .seed = options_.seed, .map = options_.map, .workers = 0});
  std::vector<Literal> arrays = one.next()->arrays;
  if (options_.fields > 0) arrays.resize(std::min(options_.fields, arrays.size()));
  std::vector<Tensor> result;
  for (const Literal& x : arrays) {
    Shape shape = x.shape();
    shape[0] = batch;
    const Tensor zeros(Literal(Type{x.dtype(), shape}));
    result.push_back(options_.device.empty() ? zeros : zeros.to(options_.device));
  }
  return result;
}

}  // namespace systole::training
