#pragma once

// What a list of indices means for a Tensor, numpy's rules applied: a basic part (numbers, slices, new axes)
// that gives a view of it, and an advanced part, index Tensors that each stand for one axis of that view.

#include <algorithm>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "systole/base/shape.h"
#include "systole/tensor/shaping.h"
#include "systole/tensor/tensor.h"

namespace systole::recording {

inline constexpr std::string_view kIndexing = "index";  // where, in errors

struct IndexPlan {
  // Basic part, per axis of x: count elements from `start` (the lowest place) every `stride`, backwards where
  // `reversed` says so.
  Ints starts, strides, reversed;
  Shape counts;
  bool whole = true;  // it takes all of x in order
  Shape view;         // counts without the axes of numbers, with new axes
  // Advanced part: an index Tensor for each of these axes of the view; their joint shape stands at `position`
  // of the result.
  Ints axes;
  std::vector<Tensor> indices;
  Shape joint;
  std::int64_t position = 0;

  int result_rank() const { return view.rank() - static_cast<int>(axes.size()) + joint.rank(); }
  bool is_joint(std::int64_t axis) const { return axis >= position && axis < position + joint.rank(); }
  Shape result() const {
    Shape shape;
    std::size_t next = 0;
    for (std::int64_t axis = 0; axis < result_rank(); ++axis) {
      if (is_joint(axis)) {
        shape.push_back(joint[static_cast<std::size_t>(axis - position)]);
        continue;
      }
      while (std::find(axes.begin(), axes.end(), static_cast<std::int64_t>(next)) != axes.end()) ++next;
      shape.push_back(view[next++]);
    }
    return shape;
  }
  Ints other_result_axes() const {
    Ints list;
    for (std::int64_t axis = 0; axis < result_rank(); ++axis)
      if (!is_joint(axis)) list.push_back(axis);
    return list;
  }
};

IndexPlan make_index_plan(const Tensor& x, std::span<const Index> indices);

// An index Tensor for axis `axis` of x, with places before 0 counted from the end, in a dtype that holds
// every place.
Tensor wrapped_index(const Tensor& index, const Tensor& x, std::size_t axis);

}  // namespace systole::recording
