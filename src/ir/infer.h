#pragma once

// What the inference functions of the ops share: the call under inspection and its ways to refuse.

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "systole/ir/graph.h"

namespace systole::ir {

struct Call {
  Op op;
  std::span<const Type> in;
  const Attrs& attrs;
  std::span<const GraphRef> graphs;
  const std::optional<Mesh>& mesh;

  template <class A>
  const A& as() const {
    return attrs.get<A>();
  }

  [[noreturn]] void fail(ErrorKind kind, std::string message, std::string expected = {},
                         std::string got = {}) const;
  [[noreturn]] void fail_shape(std::string message, std::string expected = {}, std::string got = {}) const {
    fail(ErrorKind::kShape, std::move(message), std::move(expected), std::move(got));
  }
  [[noreturn]] void fail_attr(std::string message, std::string expected = {}, std::string got = {}) const {
    fail(ErrorKind::kInvalidArgument, std::move(message), std::move(expected), std::move(got));
  }
  void check_dtype(std::size_t operand, DTypeSet allowed) const;
  void check_same_type(std::size_t a, std::size_t b) const;
  void check_scalar(std::size_t operand, DTypeSet allowed) const;
  // Each in [0, rank), none twice.
  void check_axes(const Ints& axes, int rank, const char* what) const;
  void check_axis(std::int64_t axis, int rank, const char* what) const;
  void check_length(std::size_t length, std::size_t wanted, const char* what) const;
  void check_graphs(std::size_t wanted) const;
  // A distance that passes and kernels add to others: within ±2^60, so that sums of a few fit 64 bits.
  void check_distance(std::int64_t distance, const char* what) const;
  void check_kind(Combine kind) const;  // fits operand 0, and is no `set`
  // Number of devices in a group over these mesh axes.
  std::int64_t group_size(const MeshAxisNames& axes) const;
};

// The length of an axis after windows of `window` elements, `dilation` apart, slide by `stride` over it.
Dim window_positions(const Call& call, Dim size, std::int64_t window, std::int64_t stride, std::int64_t low,
                     std::int64_t high, std::int64_t base_dilation, std::int64_t window_dilation);

// Spread of n elements `dilation` apart.
Dim dilated(Dim n, std::int64_t dilation);

using Types = std::vector<Type>;

// One function per op, and one for all elementwise ops without attributes. An op without its function does
// not link.
Types infer_elementwise(const Call& call);
#define SYSTOLE_UNARY(...)
#define SYSTOLE_BINARY(...)
#define SYSTOLE_OP(name, ...) Types infer_##name(const Call& call);
#include "systole/ir/ops.def"

}  // namespace systole::ir
