// Sets made of other sets. Arrays in memory stay arrays: a part of them is the same memory, and a selection
// is copied together at most once, when somebody wants it whole.

#include <fmt/format.h>

#include <algorithm>
#include <mutex>
#include <numeric>
#include <variant>

#include "data/gather.h"
#include "systole/base/error.h"
#include "systole/data/source.h"
#include "systole/data/transforms.h"

namespace systole::data {

namespace {

using Handle = std::shared_ptr<const Rows>;
using Indices = std::vector<std::int64_t>;

Source source_of(std::shared_ptr<const Rows> rows) { return Source(std::move(rows)); }

class ArrayRows final : public Rows {
 public:
  ArrayRows(std::vector<Literal> columns, Info info, std::int64_t first = 0)
      : columns_(std::move(columns)), info_(std::move(info)), first_(first) {}

  std::int64_t size() const override { return info_.size; }
  std::int64_t origin(std::int64_t i) const override { return first_ + i; }
  Sample get(std::int64_t i) const override {
    Sample sample;
    for (const Literal& column : columns_) {
      const Literal row = rows_of(column, i, 1);
      sample.push_back(row.reshaped(without_leading(column.shape())));
    }
    return sample;
  }
  Info info() const override { return info_; }
  std::vector<Literal> read(std::span<const std::int64_t> indices) const override {
    return gathered(columns_, indices);
  }
  bool in_memory() const override { return true; }
  std::vector<Literal> columns() const override { return columns_; }
  std::optional<Indices> known_labels(std::size_t field) const override {
    if (field >= columns_.size() || !is_integer(columns_[field].dtype()) || columns_[field].rank() != 1)
      return {};
    return visit_dtype(columns_[field].dtype(), [&]<class T>() {
      Indices labels;
      if constexpr (std::is_integral_v<T>)
        for (const T label : columns_[field].values<T>()) labels.push_back(static_cast<std::int64_t>(label));
      return labels;
    });
  }

  Source part(std::int64_t first, std::int64_t count) const {
    std::vector<Literal> parts;
    for (const Literal& column : columns_) parts.push_back(rows_of(column, first, count));
    Info info = info_;
    info.size = count;
    return source_of(std::make_shared<ArrayRows>(std::move(parts), std::move(info), first_ + first));
  }
  Source renamed(Info info) const {
    return source_of(std::make_shared<ArrayRows>(columns_, std::move(info), first_));
  }

 private:
  std::vector<Literal> columns_;
  Info info_;
  std::int64_t first_;  // of these in the arrays that they are a part of
};

// A set whose samples are those of others. Where these lie in memory, so does it, once copied together.
class View : public Rows {
 public:
  // Where they lie without a copy, of a set that has one base.
  virtual std::optional<InPlace> in_place() const { return {}; }
  std::vector<Literal> columns() const override {
    if (!in_memory()) return Rows::columns();
    std::call_once(once_, [&] { columns_ = Rows::columns(); });
    return columns_;
  }

 private:
  mutable std::once_flag once_;
  mutable std::vector<Literal> columns_;
};

class Selection final : public View {
 public:
  Selection(Handle base, Indices indices) : base_(std::move(base)), indices_(std::move(indices)) {}

  std::int64_t size() const override { return static_cast<std::int64_t>(indices_.size()); }
  std::int64_t origin(std::int64_t i) const override { return base_->origin(at(i)); }
  Sample get(std::int64_t i) const override { return base_->get(at(i)); }
  Info info() const override {
    Info info = base_->info();
    info.size = size();
    return info;
  }
  std::vector<Literal> read(std::span<const std::int64_t> indices) const override {
    Indices mapped;
    mapped.reserve(indices.size());
    for (const std::int64_t i : indices) mapped.push_back(at(i));
    return base_->read(mapped);
  }
  bool in_memory() const override { return base_->in_memory(); }
  std::optional<InPlace> in_place() const override {
    std::optional<InPlace> place = data::in_place(*base_);
    if (!place) return {};
    Indices rows = indices_;
    if (rows.empty()) return {};
    if (!place->rows.empty())
      for (std::int64_t& row : rows) row = place->rows[static_cast<std::size_t>(row)];
    place->rows = std::move(rows);
    return place;
  }
  std::optional<Indices> known_labels(std::size_t field) const override {
    const std::optional<Indices> all = base_->known_labels(field);
    if (!all) return {};
    Indices labels;
    for (const std::int64_t i : indices_) labels.push_back((*all)[static_cast<std::size_t>(i)]);
    return labels;
  }

 private:
  std::int64_t at(std::int64_t i) const { return indices_[static_cast<std::size_t>(i)]; }
  Handle base_;
  Indices indices_;
};

// Samples first … first+count-1 of a set, again and again.
class Repetition final : public Rows {
 public:
  Repetition(Handle base, std::int64_t size) : base_(std::move(base)), size_(size) {}

  std::int64_t size() const override { return size_; }
  std::int64_t period() const override { return size_ == kEndless ? base_->period() : size_; }
  std::int64_t origin(std::int64_t i) const override { return base_->origin(i % base_->size()); }
  Sample get(std::int64_t i) const override { return base_->get(i % base_->size()); }
  Info info() const override {
    Info info = base_->info();
    info.size = size_;
    return info;
  }
  std::vector<Literal> read(std::span<const std::int64_t> indices) const override {
    Indices mapped;
    mapped.reserve(indices.size());
    for (const std::int64_t i : indices) mapped.push_back(i % base_->size());
    return base_->read(mapped);
  }

 private:
  Handle base_;
  std::int64_t size_;
};

class Part final : public View {
 public:
  Part(Handle base, std::int64_t first, std::int64_t count)
      : base_(std::move(base)), first_(first), count_(count) {}

  std::int64_t size() const override { return count_; }
  std::int64_t origin(std::int64_t i) const override { return base_->origin(first_ + i); }
  Sample get(std::int64_t i) const override { return base_->get(first_ + i); }
  Info info() const override {
    Info info = base_->info();
    info.size = count_;
    return info;
  }
  std::vector<Literal> read(std::span<const std::int64_t> indices) const override {
    Indices mapped;
    mapped.reserve(indices.size());
    for (const std::int64_t i : indices) mapped.push_back(first_ + i);
    return base_->read(mapped);
  }
  bool in_memory() const override { return base_->in_memory(); }
  std::optional<InPlace> in_place() const override {
    std::optional<InPlace> place = data::in_place(*base_);
    if (!place) return {};
    Indices rows(static_cast<std::size_t>(count_));
    for (std::int64_t i = 0; i < count_; ++i)
      rows[static_cast<std::size_t>(i)] =
          place->rows.empty() ? first_ + i : place->rows[static_cast<std::size_t>(first_ + i)];
    place->rows = std::move(rows);
    return place;
  }
  std::optional<Indices> known_labels(std::size_t field) const override {
    std::optional<Indices> all = base_->known_labels(field);
    if (all) *all = Indices(all->begin() + first_, all->begin() + first_ + count_);
    return all;
  }

 private:
  Handle base_;
  std::int64_t first_, count_;
};

class Joined final : public View {
 public:
  Joined(Handle a, Handle b) : a_(std::move(a)), b_(std::move(b)) {}

  std::int64_t size() const override { return a_->size() + b_->size(); }
  Sample get(std::int64_t i) const override { return i < a_->size() ? a_->get(i) : b_->get(i - a_->size()); }
  Info info() const override {
    Info info = a_->info();
    info.size = size();
    const Info other = b_->info();
    if (other.name != info.name) info.name += " + " + other.name;
    return info;
  }
  bool in_memory() const override { return a_->in_memory() && b_->in_memory(); }
  std::optional<Indices> known_labels(std::size_t field) const override {
    std::optional<Indices> labels = a_->known_labels(field);
    const std::optional<Indices> others = b_->known_labels(field);
    if (!labels || !others) return {};
    labels->insert(labels->end(), others->begin(), others->end());
    return labels;
  }

 private:
  Handle a_, b_;
};

class Cache final : public Rows {
 public:
  explicit Cache(Handle base) : base_(std::move(base)), kept_(static_cast<std::size_t>(base_->size())) {}

  std::int64_t size() const override { return base_->size(); }
  std::int64_t origin(std::int64_t i) const override { return base_->origin(i); }
  Info info() const override { return base_->info(); }
  std::optional<Indices> known_labels(std::size_t field) const override { return base_->known_labels(field); }
  Sample get(std::int64_t i) const override {
    const std::size_t at = static_cast<std::size_t>(i);
    {
      const std::lock_guard lock(mutexes_[at % kMutexes]);
      if (kept_[at]) return *kept_[at];
    }
    Sample sample = base_->get(i);  // two threads may both read it; they get the same
    const std::lock_guard lock(mutexes_[at % kMutexes]);
    if (!kept_[at]) kept_[at] = std::make_unique<Sample>(std::move(sample));
    return *kept_[at];
  }

 private:
  static constexpr std::size_t kMutexes = 64;
  Handle base_;
  mutable std::mutex mutexes_[kMutexes];
  mutable std::vector<std::unique_ptr<Sample>> kept_;
};

// What a change makes of the first sample, with the names and classes of what it was made of.
Info info_after(const Rows& changed, const Rows& base) {
  Info info = changed.Rows::info();
  const Info before = base.info();
  info.name = before.name;
  for (std::size_t i = 0; i < info.fields.size() && i < before.fields.size(); ++i) {
    info.fields[i].name = before.fields[i].name;
    info.fields[i].classes = before.fields[i].classes;
  }
  return info;
}

class Mapped final : public Rows {
 public:
  Mapped(Handle base, std::function<Sample(Sample)> change)
      : base_(std::move(base)), change_(std::move(change)) {}
  std::int64_t size() const override { return base_->size(); }
  std::int64_t origin(std::int64_t i) const override { return base_->origin(i); }
  std::int64_t period() const override { return base_->period(); }
  Sample get(std::int64_t i) const override { return change_(base_->get(i)); }
  Info info() const override { return info_after(*this, *base_); }

 private:
  Handle base_;
  std::function<Sample(Sample)> change_;
};

class Transformed final : public Rows {
 public:
  Transformed(Handle base, Transforms transforms, std::uint64_t seed)
      : base_(std::move(base)), transforms_(std::move(transforms)), seed_(seed) {}
  std::int64_t size() const override { return base_->size(); }
  std::int64_t origin(std::int64_t i) const override { return base_->origin(i); }
  std::int64_t period() const override { return base_->period(); }
  Sample get(std::int64_t i) const override { return transforms_(base_->get(i), seed_, 0, i); }
  Info info() const override { return info_after(*this, *base_); }
  std::vector<Literal> read(std::span<const std::int64_t> indices) const override {
    if (transforms_.resizes()) return Rows::read(indices);
    std::vector<Literal> batch = base_->read(indices);
    transforms_.apply(batch, indices, seed_, 0);
    return batch;
  }

 private:
  Handle base_;
  Transforms transforms_;
  std::uint64_t seed_;
};

class Named final : public Rows {
 public:
  Named(Handle base, Info info) : base_(std::move(base)), info_(std::move(info)) {}
  std::int64_t size() const override { return base_->size(); }
  std::int64_t origin(std::int64_t i) const override { return base_->origin(i); }
  std::int64_t period() const override { return base_->period(); }
  Sample get(std::int64_t i) const override { return base_->get(i); }
  Info info() const override { return info_; }
  std::vector<Literal> read(std::span<const std::int64_t> indices) const override {
    return base_->read(indices);
  }
  bool in_memory() const override { return base_->in_memory(); }
  std::vector<Literal> columns() const override { return base_->columns(); }
  std::optional<Indices> known_labels(std::size_t field) const override { return base_->known_labels(field); }
  const Rows& base() const { return *base_; }

 private:
  Handle base_;
  Info info_;
};

Source part(const Source& source, std::int64_t first, std::int64_t count) {
  if (const auto* arrays = dynamic_cast<const ArrayRows*>(source.rows().get()))
    return arrays->part(first, count);
  return source_of(std::make_shared<Part>(source.rows(), first, count));
}

void check_count(std::int64_t count, const char* where) {
  if (count < 0)
    throw Error(ErrorKind::kInvalidArgument, where, "wrong count", "0 or more", fmt::format("{}", count));
}

}  // namespace

std::optional<InPlace> in_place(const Rows& rows) {
  if (const auto* named = dynamic_cast<const Named*>(&rows)) return in_place(named->base());
  if (const auto* view = dynamic_cast<const View*>(&rows)) return view->in_place();
  if (dynamic_cast<const ArrayRows*>(&rows) == nullptr) return {};
  return InPlace{rows.columns(), {}};
}

Source arrays(std::vector<Literal> columns) {
  if (columns.empty()) throw Error(ErrorKind::kInvalidArgument, "data::arrays", "no arrays", "at least one");
  Info info{"arrays", {}, 0};
  for (std::size_t i = 0; i < columns.size(); ++i) {
    const Literal& column = columns[i];
    if (column.rank() == 0)
      throw Error(ErrorKind::kShape, "data::arrays", "a number has no samples",
                  "arrays with the samples along their first axis", column.type().to_string());
    if (column.shape()[0] != columns[0].shape()[0])
      throw Error(ErrorKind::kShape, "data::arrays", "arrays of different numbers of samples",
                  columns[0].type().to_string(), column.type().to_string());
    info.fields.push_back({i == 0   ? "x"
                           : i == 1 ? "y"
                                    : fmt::format("field{}", i),
                           {column.dtype(), without_leading(column.shape())},
                           {}});
  }
  info.size = columns[0].shape()[0].value();
  return source_of(std::make_shared<ArrayRows>(std::move(columns), std::move(info)));
}

Source Source::take(std::int64_t count) const {
  check_count(count, "data::Source::take");
  if (!rows_ || (count >= size() && !endless())) return *this;
  return part(*this, 0, std::min(count, size()));
}

Source Source::skip(std::int64_t count) const {
  check_count(count, "data::Source::skip");
  if (!rows_ || count == 0) return *this;
  if (endless())
    throw Error(ErrorKind::kInvalidArgument, "data::Source::skip", "an endless repetition has no rest",
                "skip(count).repeat()");
  const std::int64_t skipped = std::min(count, size());
  return part(*this, skipped, size() - skipped);
}

Source Source::select(std::vector<std::int64_t> indices) const {
  for (const std::int64_t i : indices)
    if (i < 0 || i >= size())
      throw Error(ErrorKind::kInvalidArgument, "data::Source::select", "there is no such sample",
                  fmt::format("0 to {}", size() - 1), fmt::format("{}", i));
  if (!rows_) return *this;
  return source_of(std::make_shared<Selection>(rows_, std::move(indices)));
}

Source Source::repeat(std::int64_t times) const {
  check_count(times, "data::Source::repeat");
  if (empty() || endless()) return times == 0 ? take(0) : *this;
  if (times == kEndless) return source_of(std::make_shared<Repetition>(rows_, kEndless));
  if (times > (kEndless - 1) / size())
    throw Error(ErrorKind::kLimit, "data::Source::repeat", "more samples than can be counted",
                "repeat() without a number for an endless set", fmt::format("{} times {}", size(), times));
  return source_of(std::make_shared<Repetition>(rows_, size() * times));
}

Source Source::concat(const Source& other) const {
  if (!rows_) return other;
  if (!other.rows_) return *this;
  if (endless() || other.size() > kEndless - 1 - size())
    throw Error(ErrorKind::kInvalidArgument, "data::Source::concat",
                "an endless set has no end to go on from", "take(count) of it");
  if (!empty() && !other.empty()) {
    const Info a = info(), b = other.info();
    bool alike = a.fields.size() == b.fields.size();
    for (std::size_t i = 0; alike && i < a.fields.size(); ++i) {
      const std::vector<std::string>&first = a.fields[i].classes, &second = b.fields[i].classes;
      if (!first.empty() && !second.empty() && first != second)
        throw Error(ErrorKind::kInvalidArgument, "data::Source::concat",
                    fmt::format("{} means other classes in each set", a.fields[i].name),
                    fmt::format("{}", fmt::join(first, ", ")), fmt::format("{}", fmt::join(second, ", ")));
      alike = a.fields[i].type.dtype == b.fields[i].type.dtype &&
              a.fields[i].type.shape.rank() == b.fields[i].type.shape.rank();
    }
    if (!alike)
      throw Error(ErrorKind::kShape, "data::Source::concat", "samples of two kinds", a.to_string(),
                  b.to_string());
  }
  return source_of(std::make_shared<Joined>(rows_, other.rows_));
}

Source Source::cache() const {
  if (!rows_ || in_memory()) return *this;
  if (endless())
    throw Error(ErrorKind::kInvalidArgument, "data::Source::cache", "an endless repetition cannot be kept",
                "cache().repeat()");
  return source_of(std::make_shared<Cache>(rows_));
}

Source Source::map(std::function<Sample(Sample)> change) const {
  if (!rows_) return *this;
  if (!change)
    throw Error(ErrorKind::kInvalidArgument, "data::Source::map", "no function", "one from Sample to Sample");
  return source_of(std::make_shared<Mapped>(rows_, std::move(change)));
}

Source Source::map(const Transforms& transforms, std::uint64_t seed) const {
  if (!rows_ || transforms.empty()) return *this;
  for (const Transform& transform : transforms.list())
    if (std::holds_alternative<Mixup>(transform))
      throw Error(ErrorKind::kInvalidArgument, "data::Source::map", "Mixup needs the batches of a training",
                  "Mixup in LoaderOptions::map or FitOptions::augment");
  return source_of(std::make_shared<Transformed>(rows_, transforms, seed));
}

Source Source::named(std::string name, std::vector<std::string> fields,
                     std::vector<std::string> classes) const {
  if (!rows_) return *this;
  Info info = this->info();
  info.name = std::move(name);
  for (std::size_t i = 0; i < fields.size() && i < info.fields.size(); ++i)
    info.fields[i].name = std::move(fields[i]);
  if (!classes.empty() && !info.fields.empty()) info.fields.back().classes = std::move(classes);
  if (const auto* arrays = dynamic_cast<const ArrayRows*>(rows_.get()))
    return arrays->renamed(std::move(info));
  return source_of(std::make_shared<Named>(rows_, std::move(info)));
}

}  // namespace systole::data
