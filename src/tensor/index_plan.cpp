#include "tensor/index_plan.h"

#include <fmt/format.h>

#include <limits>
#include <optional>
#include <string>
#include <utility>

#include "systole/base/error.h"
#include "systole/ops.h"
#include "systole/tensor/creation.h"
#include "tensor/frame.h"
#include "tensor/functions.h"
#include "tensor/record.h"

namespace systole::recording {

namespace {

// How many axes of x an index stands for.
int consumed(const Index& index) {
  if (const Tensor* t = std::get_if<Tensor>(&index.part()))
    return checked(*t, kIndexing).type.dtype == DType::boolean ? t->rank() : 1;
  return std::holds_alternative<NewAxis>(index.part()) || std::holds_alternative<Ellipsis>(index.part()) ? 0
                                                                                                         : 1;
}

// The places where a mask is true, one vector per axis of it.
std::vector<Tensor> true_places(const Tensor& mask) {
  if (tracing())
    throw Error(ErrorKind::kInvalidArgument, std::string(kIndexing),
                "a bool Tensor as an index gives a shape that a trace cannot know; use where()", "integers",
                mask.type().to_string());
  const Literal values = mask.literal();
  const Ints dims = values.dims();
  std::vector<std::vector<std::int64_t>> places(dims.size());
  const std::span<const bool> flags = values.values<bool>();
  for (std::size_t i = 0; i < flags.size(); ++i) {
    if (!flags[i]) continue;
    auto rest = static_cast<std::int64_t>(i);
    for (std::size_t axis = dims.size(); axis-- > 0;) {
      places[axis].push_back(rest % dims[axis]);
      rest /= dims[axis];
    }
  }
  std::vector<Tensor> out;
  for (const std::vector<std::int64_t>& p : places) out.push_back(tensor(p));
  return out;
}

// Ellipses written out, masks replaced by the places they name, whole axes added at the end.
std::vector<Index> expanded(const Tensor& x, std::span<const Index> indices) {
  const int rank = checked(x, kIndexing).type.shape.rank();
  int used = 0, ellipses = 0;
  for (const Index& index : indices) {
    used += consumed(index);
    ellipses += std::holds_alternative<Ellipsis>(index.part());
  }
  const auto fail = [&](const char* message, std::string expected, std::string got) {
    throw Error(ErrorKind::kShape, std::string(kIndexing), message, std::move(expected), std::move(got));
  };
  if (ellipses > 1) fail("more than one ellipsis", "at most one", std::to_string(ellipses));
  if (used > rank)
    fail("more indices than axes", fmt::format("at most {} for {}", rank, x.type().to_string()),
         std::to_string(used));
  std::vector<Index> out;
  const auto add_whole = [&] {
    for (; used < rank; ++used) out.push_back(all);
  };
  std::size_t axis = 0;
  for (const Index& index : indices) {
    if (std::holds_alternative<Ellipsis>(index.part())) {
      axis += static_cast<std::size_t>(rank - used);
      add_whole();
      continue;
    }
    const Tensor* t = std::get_if<Tensor>(&index.part());
    if (t == nullptr || t->dtype() != DType::boolean) {
      out.push_back(index);
    } else {
      if (t->rank() == 0) fail("a single bool as an index", "a Tensor of bools", t->type().to_string());
      for (int i = 0; i < t->rank(); ++i)
        if (t->shape()[static_cast<std::size_t>(i)] != x.shape()[axis + static_cast<std::size_t>(i)])
          fail("the mask does not fit",
               fmt::format("the sizes of {} from axis {} on", x.type().to_string(), axis),
               t->type().to_string());
      for (Tensor& places : true_places(*t)) out.push_back(std::move(places));
    }
    axis += static_cast<std::size_t>(consumed(index));
  }
  add_whole();
  return out;
}

// Resolves a slice on an axis of n elements as Python does.
void add_slice(IndexPlan& plan, const Slice& s, const Tensor& x, std::size_t axis) {
  const Dim size = x.shape()[axis];
  const bool all_of_it = !s.start && !s.stop && s.step.value_or(1) == 1;
  if (!size.is_static() && !all_of_it)
    throw Error(ErrorKind::kShape, std::string(kIndexing),
                fmt::format("the size of axis {} is not known yet, so only all of it can be taken", axis),
                "all", x.type().to_string());
  std::int64_t start = 0, stride = 1;
  Dim count = size;
  bool backwards = false;
  if (!all_of_it) {
    const std::int64_t n = size.value();
    const std::int64_t step = std::max(s.step.value_or(1), -std::numeric_limits<std::int64_t>::max());
    if (step == 0)
      throw Error(ErrorKind::kInvalidArgument, std::string(kIndexing),
                  fmt::format("the step of axis {}", axis), "not 0", "0");
    backwards = step < 0;
    const auto bound = [&](std::optional<std::int64_t> b, std::int64_t otherwise) {
      if (!b) return otherwise;
      return std::clamp<std::int64_t>(*b < 0 ? *b + n : *b, backwards ? -1 : 0, backwards ? n - 1 : n);
    };
    const std::int64_t first = bound(s.start, backwards ? n - 1 : 0), end = bound(s.stop, backwards ? -1 : n);
    const std::int64_t span = backwards ? first - end : end - first;
    stride = backwards ? -step : step;
    const std::int64_t taken = span <= 0 ? 0 : (span - 1) / stride + 1;
    if (taken <= 1) {
      stride = 1;
      backwards = false;
    }
    start = taken == 0 ? 0 : backwards ? first - (taken - 1) * stride : first;
    count = taken;
  }
  plan.whole = plan.whole && !backwards && count == size;
  plan.starts.push_back(start);
  plan.strides.push_back(stride);
  plan.reversed.push_back(backwards);
  plan.counts.push_back(count);
  plan.view.push_back(count);
}

}  // namespace

Tensor wrapped_index(const Tensor& index, const Tensor& x, std::size_t axis) {
  const DType dtype = index.dtype();
  if (!is_integer(dtype))
    throw Error(ErrorKind::kDType, std::string(kIndexing), "an index Tensor", "integers or bools",
                index.type().to_string());
  const Dim size = x.shape()[axis];
  const bool wide = dtype == DType::i64 || dtype == DType::u64 || dtype == DType::u32 ||
                    (size.is_static() && size.value() > std::numeric_limits<std::int32_t>::max());
  const Tensor places = as_dtype(index, wide ? DType::i64 : DType::i32);
  if (is_unsigned_integer(dtype)) return places;
  return built({places}, [&](const ir::Values& v) {
    const ir::Value from_end = ops::add(v[0], ops::dimension(v[0].graph(), size, v[0].dtype()));
    return ops::select(ops::less(v[0], ops::scalar_like(v[0], 0)), from_end, v[0]);
  });
}

IndexPlan make_index_plan(const Tensor& x, std::span<const Index> indices) {
  IndexPlan plan;
  std::vector<Tensor> tensors;
  // Numbers count as index Tensors when there are any, which decides where the joint axes stand.
  std::vector<bool> advanced;
  std::int64_t first_view_axis = -1;
  const std::vector<Index> list = expanded(x, indices);
  const bool has_tensors = std::any_of(list.begin(), list.end(), [](const Index& index) {
    return std::holds_alternative<Tensor>(index.part());
  });
  for (const Index& index : list) {
    const std::size_t axis = plan.counts.size();
    const std::int64_t* place = std::get_if<std::int64_t>(&index.part());
    const Tensor* t = std::get_if<Tensor>(&index.part());
    advanced.push_back(place != nullptr || t != nullptr);
    if (advanced.back() && first_view_axis < 0) first_view_axis = plan.view.rank();
    if (place != nullptr) {
      const Dim size = x.shape()[axis];
      const bool inside = !size.is_static() ? *place >= 0 : *place >= -size.value() && *place < size.value();
      if (!inside)
        throw Error(ErrorKind::kInvalidArgument, std::string(kIndexing),
                    fmt::format("index {} is outside axis {} of size {}", *place, axis, size.to_string()),
                    size.is_static() ? fmt::format("{} to {}", -size.value(), size.value() - 1) : "0 or more",
                    std::to_string(*place));
      plan.starts.push_back(*place < 0 ? *place + size.value() : *place);
      plan.strides.push_back(1);
      plan.reversed.push_back(false);
      plan.counts.push_back(1);
      plan.whole = plan.whole && size == Dim(1);
    } else if (const Slice* s = std::get_if<Slice>(&index.part())) {
      add_slice(plan, *s, x, axis);
    } else if (t != nullptr) {
      plan.axes.push_back(plan.view.rank());
      tensors.push_back(wrapped_index(*t, x, axis));
      add_slice(plan, {}, x, axis);
    } else {
      plan.view.push_back(1);
    }
  }
  if (!has_tensors) return plan;
  plan.joint = joint_shape(tensors, kIndexing);
  for (const Tensor& t : promoted(tensors, kIndexing)) plan.indices.push_back(stretched(t, plan.joint));
  const auto begin = std::find(advanced.begin(), advanced.end(), true);
  const auto last = std::find(advanced.rbegin(), advanced.rend(), true).base();
  plan.position = std::find(begin, last, false) == last ? first_view_axis : 0;
  return plan;
}

}  // namespace systole::recording
