#include "systole/data/bad_samples.h"

#include <fmt/format.h>

#include <algorithm>
#include <exception>
#include <mutex>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "base/log.h"
#include "data/set_files.h"
#include "systole/base/error.h"

namespace systole::data {

namespace {

constexpr std::int64_t kMostInARow = 100;  // a disk that is gone should not look like a long epoch

class WithoutBad final : public Rows {
 public:
  WithoutBad(std::shared_ptr<const Rows> base, std::shared_ptr<BadSamples> found)
      : base_(std::move(base)), found_(std::move(found)) {}

  std::int64_t size() const override { return base_->size(); }
  std::int64_t period() const override { return base_->period(); }
  std::int64_t origin(std::int64_t i) const override { return base_->origin(i); }
  Info info() const override { return base_->info(); }
  std::optional<std::vector<std::int64_t>> known_labels(std::size_t field) const override {
    return base_->known_labels(field);
  }
  Sample get(std::int64_t i) const override {
    std::exception_ptr first;
    const std::int64_t period = base_->period(), tries = std::min(period, kMostInARow);
    for (std::int64_t k = 0; k < tries; ++k) {
      const std::int64_t at = (i % period + k) % period;
      try {
        return base_->get(at);
      } catch (const Error& error) {
        if (!is_the_samples(error.kind())) throw;
        if (!first) first = std::current_exception();
        {
          const std::lock_guard lock(mutex_);
          bad_.insert(at);
        }
        if (found_->add(at))
          log(LogLevel::warn, fmt::format("sample {} of the data cannot be read, and the next is taken: {}",
                                          base_->origin(at), error.what()));
      }
    }
    std::rethrow_exception(first);
  }

  // Those that no read has found bad; nothing when it found none.
  std::optional<std::vector<std::int64_t>> good() const {
    const std::lock_guard lock(mutex_);
    if (bad_.empty() || size() == kEndless) return {};
    std::vector<std::int64_t> rows;
    for (std::int64_t i = 0; i < size(); ++i)
      if (!bad_.contains(i)) rows.push_back(i);
    return rows;
  }

 private:
  std::shared_ptr<const Rows> base_;
  std::shared_ptr<BadSamples> found_;  // of others too, where it is shared
  mutable std::mutex mutex_;
  mutable std::set<std::int64_t> bad_;
};

}  // namespace

bool is_the_samples(ErrorKind kind) {
  return kind == ErrorKind::kParse || kind == ErrorKind::kLimit || kind == ErrorKind::kUnsupported ||
         kind == ErrorKind::kIo || kind == ErrorKind::kNotFound;
}

struct BadSamples::State {
  std::mutex mutex;
  std::set<std::int64_t> samples;
};

BadSamples::BadSamples() : state_(std::make_unique<State>()) {}
BadSamples::~BadSamples() = default;

std::int64_t BadSamples::count() const {
  const std::lock_guard lock(state_->mutex);
  return std::ssize(state_->samples);
}

bool BadSamples::add(std::int64_t sample) {
  const std::lock_guard lock(state_->mutex);
  return state_->samples.insert(sample).second;
}

Source without_bad(const Source& source, std::shared_ptr<BadSamples> found) {
  if (source.empty() || source.in_memory()) return source;
  if (!found) found = std::make_shared<BadSamples>();
  return Source(std::make_shared<const WithoutBad>(source.rows(), std::move(found)));
}

Source good_samples(const Source& source) {
  const auto* skipping = dynamic_cast<const WithoutBad*>(source.rows().get());
  if (skipping == nullptr) return source;
  std::optional<std::vector<std::int64_t>> rows = skipping->good();
  return rows ? source.select(*std::move(rows)) : source;
}

}  // namespace systole::data
