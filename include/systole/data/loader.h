#pragma once

// Batches of a Source in the order of an epoch, made ahead by worker threads.
//
//   data::Loader loader(train, {.batch = 64, .seed = 1, .map = {data::Normalize{}}});
//   for (int epoch = 0; epoch < 5; ++epoch)
//     for (const data::Batch& b : loader) step(b.x(), b.y());
//
// Which samples a batch holds, and what chance does to them, follows from (seed, epoch, step) alone: any
// number of workers gives the same bits. Each complete pass begins the next epoch. A loader belongs to one
// thread.

#include <cstddef>
#include <cstdint>
#include <iterator>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "systole/base/export.h"
#include "systole/data/source.h"
#include "systole/data/transforms.h"
#include "systole/tensor/tensor.h"

namespace systole::data {

inline constexpr int kAuto = -1;

struct LoaderOptions {
  std::int64_t batch = 32;
  bool shuffle = true;
  std::uint64_t seed = 0;
  bool drop_last = false;  // a last batch that is not full
  Transforms map = {};
  int workers = kAuto;     // threads; 0: the reader's own. Auto: as the work needs and the machine has
  int prefetch = kAuto;    // batches that may wait to be read. Auto: two per worker
  std::int64_t steps = 0;  // batches of an epoch; 0: all there are. An endless Source goes on where it was
};

struct SYSTOLE_API Batch {
  std::vector<Literal> arrays;        // each with a leading axis of size()
  std::vector<std::int64_t> indices;  // of the samples in the Source
  std::int64_t epoch = 0, step = 0;

  std::int64_t size() const { return static_cast<std::int64_t>(indices.size()); }
  Tensor tensor(std::size_t field) const;  // throws kInvalidArgument when samples have no such field
  Tensor x() const { return tensor(0); }
  Tensor y() const { return tensor(arrays.size() > 1 ? arrays.size() - 1 : 1); }  // the last
};

// Where a loader stands: the next batch to read.
struct SYSTOLE_API LoaderState {
  std::int64_t epoch = 0, step = 0;
  std::uint64_t seed = 0;
  std::int64_t batch = 0, size = 0;  // of the loader that said so: restore() checks them

  std::string to_string() const;  // "epoch 3 step 120 seed 1 batch 64 size 60000"
  static LoaderState parse(const std::string& text);
  friend bool operator==(const LoaderState&, const LoaderState&) = default;
};

class SYSTOLE_API Loader {
 public:
  explicit Loader(Source source, LoaderOptions options = {});
  ~Loader();  // stops and joins the workers
  Loader(Loader&&) noexcept;
  Loader& operator=(Loader&&) noexcept;

  const Source& source() const;
  const LoaderOptions& options() const;  // with `workers` and `prefetch` as chosen
  std::int64_t steps() const;            // batches per epoch; kEndless for an endless Source without steps
  std::int64_t epoch() const;
  void set_epoch(std::int64_t epoch);  // the next pass is this epoch, from its start
  // The indices of the current epoch, in order; those of the first period for an endless Source.
  std::vector<std::int64_t> order() const;

  // The next batch, or none at the end of the epoch; then the next epoch begins. An exception of a worker is
  // thrown here, at its batch, naming the sample.
  std::optional<Batch> next();

  LoaderState state() const;
  void restore(const LoaderState& state);  // throws kInvalidArgument for the state of another loader

  // A pass: from the start of the epoch, or from where restore() said. Leaving it early leaves the epoch as
  // it is, so that the next pass begins it again.
  class Iterator {
   public:
    using value_type = Batch;
    using difference_type = std::ptrdiff_t;
    using iterator_category = std::input_iterator_tag;
    Iterator() = default;
    explicit Iterator(Loader* loader) : loader_(loader) { ++*this; }
    const Batch& operator*() const { return *batch_; }
    const Batch* operator->() const { return &*batch_; }
    Iterator& operator++() {
      batch_ = loader_->next();
      return *this;
    }
    void operator++(int) { ++*this; }
    friend bool operator==(const Iterator& i, std::default_sentinel_t) { return !i.batch_; }

   private:
    Loader* loader_ = nullptr;
    std::optional<Batch> batch_;
  };
  Iterator begin();
  std::default_sentinel_t end() const { return {}; }

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace systole::data
