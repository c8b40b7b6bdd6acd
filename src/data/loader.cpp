// Batches are numbered; workers take the next number, make that batch and put it in its place of a ring, and
// the reader takes them in order. A batch follows from its number alone, so the workers' turns do not show.

#include "systole/data/loader.h"

#include <fmt/format.h>

#include <algorithm>
#include <condition_variable>
#include <cstdio>
#include <exception>
#include <map>
#include <mutex>
#include <system_error>
#include <thread>

#include "base/parallel.h"
#include "data/gather.h"
#include "data/transform_batch.h"
#include "systole/base/error.h"

namespace systole::data {

namespace {

using Indices = std::vector<std::int64_t>;

constexpr int kMostWorkers = 64, kAutoWorkers = 16, kMostPrefetch = 4096;

// Which samples an epoch's batches hold. Immutable once made, but for orders of an endless repetition, which
// are made when first needed.
class Plan {
 public:
  Plan(const Source& source, const LoaderOptions& options, std::int64_t epoch, std::int64_t steps)
      : options_(options), size_(source.size()), period_(source.period()), epoch_(epoch) {
    if (source.endless())
      start_ = steps == kEndless ? 0 : epoch * steps * options.batch;
    else if (options.shuffle)
      order_ = permutation(size_, options.seed, epoch);
  }

  std::int64_t epoch() const { return epoch_; }

  struct Places {
    Indices indices;  // of the samples
    Indices
        chances;  // what chance does to them goes by these: another number on every pass of an endless set
  };
  Places places(std::int64_t step) const {
    const std::int64_t first = start_ + step * options_.batch;
    const std::int64_t count = std::min(options_.batch, size_ - first);
    Places result;
    for (std::int64_t i = 0; i < count; ++i) {
      const std::int64_t index = at(first + i);
      result.indices.push_back(index);
      result.chances.push_back(size_ == kEndless ? (first + i) / period_ * period_ + index : index);
    }
    return result;
  }

 private:
  std::int64_t at(std::int64_t place) const {
    if (!options_.shuffle) return size_ == kEndless ? place % period_ : place;
    if (size_ != kEndless) return order_[static_cast<std::size_t>(place)];
    const std::lock_guard lock(mutex_);
    const std::int64_t pass = place / period_;
    auto found = passes_.find(pass);
    if (found == passes_.end()) {
      if (passes_.size() >= 4) passes_.erase(passes_.begin());  // the oldest; workers are near each other
      found = passes_.emplace(pass, permutation(period_, options_.seed, pass)).first;
    }
    return found->second[static_cast<std::size_t>(place % period_)];
  }

  const LoaderOptions& options_;
  std::int64_t size_, period_, epoch_, start_ = 0;
  Indices order_;
  mutable std::mutex mutex_;
  mutable std::map<std::int64_t, Indices> passes_;
};

void check(bool fine, const char* what, const char* expected, std::int64_t got) {
  if (!fine) throw Error(ErrorKind::kInvalidArgument, "data::Loader", what, expected, fmt::format("{}", got));
}

}  // namespace

Tensor Batch::tensor(std::size_t field) const {
  if (field >= arrays.size())
    throw Error(ErrorKind::kInvalidArgument, "data::Batch", "samples have no such field",
                fmt::format("0 to {}", arrays.size() - 1), fmt::format("{}", field));
  return Tensor(arrays[field]);
}

std::string LoaderState::to_string() const {
  return fmt::format("epoch {} step {} seed {} batch {} size {}", epoch, step, seed, batch, size);
}

LoaderState LoaderState::parse(const std::string& text) {
  LoaderState state;
  long long epoch = 0, step = 0, batch = 0, size = 0;
  unsigned long long seed = 0;
  int used = 0;
  if (std::sscanf(text.c_str(), "epoch %lld step %lld seed %llu batch %lld size %lld%n", &epoch, &step, &seed,
                  &batch, &size, &used) != 5 ||
      static_cast<std::size_t>(used) != text.size())
    throw Error(ErrorKind::kParse, "data::LoaderState", "not the state of a loader",
                "epoch E step S seed N batch B size N", text);
  return {epoch, step, seed, batch, size};
}

struct Loader::State {
  State(Source source, LoaderOptions options) : source(std::move(source)), options(std::move(options)) {}
  ~State() { stop(); }

  Source source;
  LoaderOptions options;
  std::int64_t steps = 0;
  std::int64_t epoch = 0, step = 0;  // of the next batch to hand out
  bool restored = false;             // the next pass begins at `step`
  bool running = false;              // `plan` is that of `epoch`
  std::size_t samplewise = 0;        // transforms that run before samples make a batch
  std::shared_ptr<const Plan> plan;

  struct Slot {
    std::int64_t step = -1;
    Batch batch;
    std::exception_ptr failure;
    bool ready = false;
  };
  std::mutex mutex;
  std::condition_variable work, done;
  std::vector<Slot> ring;
  std::int64_t claimed = 0;     // the next batch a worker takes
  std::int64_t generation = 0;  // of the plan: what was begun under another is thrown away
  bool closing = false;
  std::vector<std::thread> threads;

  Batch make(const Plan& made_by, std::int64_t number) const {
    Batch batch;
    auto [indices, chances] = made_by.places(number);
    batch.indices = std::move(indices);
    batch.epoch = made_by.epoch();
    batch.step = number;
    const std::span<const Transform> list = options.map.list();
    const Occasion occasion{options.seed, batch.epoch, number};
    if (samplewise == 0) {
      batch.arrays = source.rows()->read(batch.indices);
    } else {
      std::vector<Sample> samples;
      for (std::size_t k = 0; k < chances.size(); ++k) {
        const std::int64_t i = batch.indices[k];
        samples.push_back(naming_sample(i, [&] {
          return transform_sample(list, 0, samplewise, source.rows()->get(i), chances[k], occasion);
        }));
      }
      batch.arrays = stacked(samples, batch.indices);
    }
    transform_batch(list, samplewise, list.size(), batch.arrays, chances, occasion);
    return batch;
  }

  void begin() {
    plan = std::make_shared<const Plan>(source, options, epoch, steps);
    const std::lock_guard lock(mutex);
    if (threads.empty()) start_threads();
    running = true;
    if (options.workers == 0) return;
    ++generation;
    claimed = step;
    for (Slot& slot : ring) slot = {};
    work.notify_all();
  }

  // As many as the machine gives; with none, the reader makes its batches itself.
  void start_threads() {
    try {
      for (int i = 0; i < options.workers; ++i) threads.emplace_back([this] { serve(); });
    } catch (const std::system_error&) {
      options.workers = static_cast<int>(threads.size());
    }
  }

  // Ends what is under way; the next batch is this one.
  void go_to(std::int64_t next_epoch, std::int64_t next_step) {
    const std::lock_guard lock(mutex);
    running = false;
    epoch = next_epoch;
    step = next_step;
    ++generation;
    claimed = steps;  // nothing to take
    for (Slot& slot : ring) slot = {};
  }

  void serve() {
    in_worker = true;
    std::unique_lock lock(mutex);
    for (;;) {
      work.wait(lock, [&] { return closing || (claimed < steps && claimed < step + std::ssize(ring)); });
      if (closing) return;
      const std::int64_t number = claimed++, mine = generation;
      const std::shared_ptr<const Plan> by = plan;
      lock.unlock();
      Slot made{number, {}, {}, true};
      try {
        made.batch = make(*by, number);
      } catch (...) {
        made.failure = std::current_exception();
      }
      lock.lock();
      if (mine != generation) continue;
      ring[static_cast<std::size_t>(number % std::ssize(ring))] = std::move(made);
      if (number == step) done.notify_one();
    }
  }

  Batch take() {
    if (options.workers == 0) {
      Batch batch = make(*plan, step);
      ++step;
      return batch;
    }
    std::unique_lock lock(mutex);
    Slot& slot = ring[static_cast<std::size_t>(step % std::ssize(ring))];
    done.wait(lock, [&] { return slot.ready && slot.step == step; });
    Slot taken = std::exchange(slot, {});
    if (taken.failure) {
      lock.unlock();
      go_to(epoch, step);
      std::rethrow_exception(taken.failure);
    }
    ++step;
    work.notify_one();
    return std::move(taken.batch);
  }

  void stop() {
    {
      const std::lock_guard lock(mutex);
      closing = true;
      work.notify_all();
    }
    for (std::thread& thread : threads) thread.join();
    threads.clear();
  }
};

Loader::Loader(Source source, LoaderOptions options)
    : state_(std::make_unique<State>(std::move(source), std::move(options))) {
  State& s = *state_;
  LoaderOptions& o = s.options;
  if (s.source.rows() == nullptr)
    throw Error(ErrorKind::kInvalidArgument, "data::Loader", "there is no data", "a Source", "none");
  check(o.batch > 0, "wrong batch", "1 or more", o.batch);
  check(o.workers >= kAuto && o.workers <= kMostWorkers, "wrong workers", "kAuto, or 0 to 64", o.workers);
  check(o.prefetch >= kAuto && o.prefetch <= kMostPrefetch, "wrong prefetch", "kAuto, or 0 to 4096",
        o.prefetch);
  check(o.steps >= 0, "wrong steps", "0 or more", o.steps);
  if (o.shuffle && s.source.rows()->period() == kEndless)
    throw Error(ErrorKind::kInvalidArgument, "data::Loader",
                "a set without end cannot be shuffled; it gives its samples in its own order",
                "shuffle = false, in FitOptions or LoaderOptions", "shuffle = true, the default");
  for (const Transform& transform : o.map.list()) check_parameters(transform);
  s.samplewise = sample_part(o.map.list());
  if (s.source.endless()) {
    s.steps = o.steps == 0 ? kEndless : o.steps;
  } else {
    const std::int64_t size = s.source.size();
    s.steps = o.drop_last ? size / o.batch : size / o.batch + (size % o.batch != 0 ? 1 : 0);
    if (o.steps != 0) s.steps = std::min(s.steps, o.steps);
  }
  // Copying rows takes less than handing them from thread to thread.
  if (o.workers == kAuto)
    o.workers = s.source.in_memory() && o.map.empty() ? 0 : std::min(thread_count(), kAutoWorkers);
  if (o.prefetch == kAuto) o.prefetch = 2 * o.workers;
  s.ring.resize(static_cast<std::size_t>(std::max(o.prefetch, 1)));
}

Loader::~Loader() = default;
Loader::Loader(Loader&&) noexcept = default;
Loader& Loader::operator=(Loader&&) noexcept = default;

const Source& Loader::source() const { return state_->source; }
const LoaderOptions& Loader::options() const { return state_->options; }
std::int64_t Loader::steps() const { return state_->steps; }
std::int64_t Loader::epoch() const { return state_->epoch; }

void Loader::set_epoch(std::int64_t epoch) {
  check(epoch >= 0, "wrong epoch", "0 or more", epoch);
  state_->go_to(epoch, 0);
  state_->restored = false;
}

std::vector<std::int64_t> Loader::order() const {
  const State& s = *state_;
  if (s.steps == kEndless && s.source.period() == kEndless)
    throw Error(ErrorKind::kInvalidArgument, "data::Loader::order", "the set has no end",
                "LoaderOptions::steps, or a set that ends");
  const Plan plan(s.source, s.options, s.epoch, s.steps);
  const std::int64_t enough = s.steps == kEndless ? s.source.period() / s.options.batch + 1 : s.steps;
  Indices order;
  for (std::int64_t step = 0; step < enough; ++step) {
    const Indices batch = plan.places(step).indices;
    order.insert(order.end(), batch.begin(), batch.end());
  }
  if (s.steps == kEndless) order.resize(static_cast<std::size_t>(s.source.period()));
  return order;
}

std::optional<Batch> Loader::next() {
  State& s = *state_;
  if (s.step >= s.steps) {
    s.go_to(s.epoch + 1, 0);
    return {};
  }
  if (!s.running) s.begin();
  s.restored = false;
  return s.take();
}

Loader::Iterator Loader::begin() {
  State& s = *state_;
  if (!s.restored && s.step != 0) set_epoch(s.epoch);
  return Iterator(this);
}

LoaderState Loader::state() const {
  const State& s = *state_;
  return {s.epoch, s.step, s.options.seed, s.options.batch, s.source.size()};
}

void Loader::restore(const LoaderState& state) {
  const LoaderState own = this->state();
  if (state.seed != own.seed || state.batch != own.batch || state.size != own.size)
    throw Error(ErrorKind::kInvalidArgument, "data::Loader::restore", "the state of another loader",
                own.to_string(), state.to_string());
  if (state.epoch < 0 || state.step < 0 || state.step > state_->steps)
    throw Error(ErrorKind::kInvalidArgument, "data::Loader::restore", "there is no such place",
                fmt::format("step 0 to {}", state_->steps), state.to_string());
  state_->go_to(state.epoch, state.step);
  state_->restored = true;
}

}  // namespace systole::data
