#include "data/gather.h"

#include <fmt/format.h>

#include <cstring>

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

constexpr std::size_t kWorthSharing = 1 << 20;  // bytes: what one thread copies in about 0.1 ms

}  // namespace

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
    Literal made = Literal::uninitialized({column.dtype(), with_leading(count, row)});
    const Copy copy{column.bytes(), made.mutable_bytes(),
                    static_cast<std::size_t>(Type{column.dtype(), row}.bytes()), indices.data()};
    if (copy.row != 0)
      parallel_for(count, !in_worker && made.byte_size() >= kWorthSharing ? thread_count() : 1, copy_rows,
                   &copy);
    batch.push_back(std::move(made));
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
