#pragma once

// A data set for launches: whole on the device when it is small and nothing changes it on the processor,
// else read ahead by a Loader. The order of an epoch is the same either way. On a device that computes in the
// host's memory, "on the device" is where the data lie: nothing is copied.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "systole/data/labels.h"
#include "systole/data/loader.h"
#include "systole/data/source.h"
#include "systole/tensor/compiled.h"
#include "train/steps.h"

namespace systole::training {

struct FeedOptions {
  std::int64_t batch = 1;
  bool shuffle = false, drop_last = false;
  std::uint64_t seed = 0;
  data::Transforms map = {};
  int workers = data::kAuto;
  std::int64_t steps = 0;           // of an epoch, for endless data
  std::int64_t resident_bytes = 0;  // data up to this size is laid on the device
  std::string device = {};
  std::size_t fields = 0;   // the first ones only; 0: all
  bool one_by_one = false;  // launch batches of different types alone; else they are an error
};

class Feed {
 public:
  using Step = Function<Tensor(const std::vector<Tensor>&)>;

  Feed(const data::Source& source, FeedOptions options);

  // Throws when a label is no class; of batches that a Loader reads, when they are read.
  void check_labels(const data::LabelCheck& check, const std::string& what);
  bool resident() const { return !columns_.empty(); }
  const data::Source& source() const { return source_; }
  void begin_epoch(std::int64_t epoch, std::int64_t first_step);
  void prepare_epoch(std::int64_t epoch);  // that is begun next, while a device works, say
  // The results of the launch's steps, stacked.
  Tensor run(const Step& step, const Launch& launch);
  std::vector<Tensor> next_fields(const Launch& one);  // of a launch of one step, on the device
  // The fields of one step of one of the last two launches.
  std::vector<Tensor> fields(const Launch& launch, std::int64_t step) const;
  // The numbers of its samples in the data set, of which the source may be a part.
  std::vector<std::int64_t> samples(const Launch& launch, std::int64_t step) const;
  // Fields of the right types, to trace with.
  std::vector<Tensor> example(std::int64_t batch) const;

 private:
  std::vector<std::int64_t> origins(std::vector<std::int64_t> samples) const;

  data::Source source_;
  FeedOptions options_;
  void lay_down(std::int64_t bytes);

  std::vector<Tensor> columns_;     // on the device
  std::vector<std::int64_t> rows_;  // of them, by sample; empty: sample i is row i
  std::vector<std::int64_t> order_, next_order_;
  std::int64_t next_epoch_ = -1;            // that next_order_ is of
  std::optional<data::Batch> next_batch();  // of the loader, with its labels checked
  std::optional<data::Loader> loader_;
  std::optional<data::LabelCheck> labels_;
  std::string labels_of_;  // which data these are
  struct Given {
    std::int64_t first = -1;
    std::vector<std::vector<Literal>> batches;
    std::vector<std::vector<std::int64_t>> samples;
  };
  Given last_, last_but_one_;  // what a Loader gave for launches
};

}  // namespace systole::training
