#include "data/gather.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <iterator>
#include <memory>
#include <mutex>

#include "base/parallel.h"
#include "systole/base/error.h"

namespace systole::data {

namespace {

struct Copy {
  const std::byte* from;
  std::byte* to;
  std::size_t row;
  const std::int64_t* indices;
};

void copy_rows(const void* context, std::int64_t begin, std::int64_t end) {
  const Copy& copy = *static_cast<const Copy*>(context);
  for (std::int64_t i = begin; i < end; ++i)
    std::memcpy(copy.to + static_cast<std::size_t>(i) * copy.row,
                copy.from + static_cast<std::size_t>(copy.indices[i]) * copy.row, copy.row);
}

constexpr std::size_t kAlignment = 64;

struct Release {
  void operator()(std::byte* memory) const { std::free(memory); }
};
using Memory = std::unique_ptr<std::byte, Release>;

// Memory that was let go, by size, for the next batch.
class Pool : public std::enable_shared_from_this<Pool> {
 public:
  static const std::shared_ptr<Pool>& shared() {
    static const std::shared_ptr<Pool> pool = std::make_shared<Pool>();
    return pool;
  }

  std::shared_ptr<std::byte> take(std::size_t bytes) {
    Memory memory;
    {
      const std::lock_guard lock(mutex_);
      const auto found =
          std::find_if(free_.rbegin(), free_.rend(), [&](const Free& f) { return f.bytes == bytes; });
      if (found != free_.rend()) {
        memory = std::move(found->memory);
        held_ -= bytes;
        free_.erase(std::next(found).base());
      }
    }
    if (!memory)
      memory.reset(static_cast<std::byte*>(
          std::aligned_alloc(kAlignment, (bytes + kAlignment - 1) / kAlignment * kAlignment)));
    if (!memory)
      throw Error(ErrorKind::kOutOfMemory, "data::Source", "no memory for a batch",
                  fmt::format("{} bytes", bytes));
    return {memory.release(),
            [bytes, pool = shared_from_this()](std::byte* back) { pool->give_back({bytes, Memory(back)}); }};
  }

 private:
  struct Free {
    std::size_t bytes;
    Memory memory;
  };
  static constexpr std::size_t kMostHeld = std::size_t{64} << 20;

  void give_back(Free one) noexcept try {
    const std::lock_guard lock(mutex_);
    if (one.bytes > kMostHeld) return;
    free_.push_back(std::move(one));
    held_ += free_.back().bytes;
    while (held_ > kMostHeld) {  // the oldest goes
      held_ -= free_.front().bytes;
      free_.pop_front();
    }
  } catch (...) {  // no memory for the list: the memory itself is freed
  }

  std::mutex mutex_;
  std::deque<Free> free_;
  std::size_t held_ = 0;
};

constexpr std::size_t kWorthPooling = 1 << 16;  // less is what malloc does well

constexpr std::size_t kWorthSharing = 1 << 20;  // bytes: what one thread copies in about 0.1 ms

}  // namespace

BatchArray::BatchArray(Type type) : data(nullptr) {
  if (const std::size_t bytes = static_cast<std::size_t>(type.bytes()); bytes >= kWorthPooling) {
    const std::shared_ptr<std::byte> memory = Pool::shared()->take(bytes);
    data = memory.get();
    value = Literal::view(std::move(type), data, memory);
  } else {
    value = Literal::uninitialized(std::move(type));
    data = value.mutable_bytes();
  }
}

Shape with_leading(std::int64_t count, const Shape& shape) {
  Shape result{count};
  for (const Dim& dim : shape) result.push_back(dim);
  return result;
}

Shape without_leading(const Shape& shape) {
  return Shape(std::span<const Dim>(shape.begin() + 1, shape.end()));
}

std::vector<Literal> gathered(std::span<const Literal> columns, std::span<const std::int64_t> indices) {
  std::vector<Literal> batch;
  for (const Literal& column : columns) {
    const std::int64_t count = static_cast<std::int64_t>(indices.size());
    const Shape row = without_leading(column.shape());
    BatchArray made({column.dtype(), with_leading(count, row)});
    const Copy copy{column.bytes(), made.data, static_cast<std::size_t>(Type{column.dtype(), row}.bytes()),
                    indices.data()};
    if (copy.row != 0)
      parallel_for(count, !in_worker && made.value.byte_size() >= kWorthSharing ? thread_count() : 1,
                   copy_rows, &copy);
    batch.push_back(std::move(made.value));
  }
  return batch;
}

std::vector<Literal> stacked(std::span<const Sample> samples, std::span<const std::int64_t> indices) {
  if (samples.empty()) return {};
  const Sample& first = samples[0];
  std::vector<Literal> batch;
  for (const Literal& field : first)
    batch.push_back(Literal::uninitialized(
        {field.dtype(), with_leading(static_cast<std::int64_t>(samples.size()), field.shape())}));
  for (std::size_t f = 0; f < first.size(); ++f) {
    std::byte* to = batch[f].mutable_bytes();
    for (std::size_t i = 0; i < samples.size(); ++i) {
      if (samples[i].size() != first.size())
        throw Error(
            ErrorKind::kShape, fmt::format("sample {}", indices[i]), "samples with fewer and more fields",
            fmt::format("{} as sample {}", first.size(), indices[0]), fmt::format("{}", samples[i].size()));
      const Literal& value = samples[i][f];
      if (value.type() != first[f].type())
        throw Error(ErrorKind::kShape, fmt::format("sample {}", indices[i]),
                    "samples of different types make no batch; Resize or Crop them to one size",
                    fmt::format("{} as sample {}", first[f].type().to_string(), indices[0]),
                    value.type().to_string());
      if (value.byte_size() != 0) std::memcpy(to, value.bytes(), value.byte_size());
      to += value.byte_size();
    }
  }
  return batch;
}

Literal rows_of(const Literal& column, std::int64_t first, std::int64_t count) {
  const Shape row = without_leading(column.shape());
  const Type type{column.dtype(), with_leading(count, row)};
  const std::size_t offset = static_cast<std::size_t>(first * Type{column.dtype(), row}.bytes());
  return Literal::view(type, column.bytes() + offset, std::make_shared<const Literal>(column));
}

}  // namespace systole::data
