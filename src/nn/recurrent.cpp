#include "systole/nn/recurrent.h"

#include <string>
#include <vector>

#include "nn/parameter.h"
#include "systole/base/error.h"
#include "systole/ops.h"
#include "systole/tensor/neural.h"
#include "systole/tensor/random.h"
#include "tensor/record.h"

namespace systole::nn {

namespace {

using recording::built;

Tensor swapped(const Tensor& x) {
  return built({x}, [](const ir::Values& v) { return ops::transpose(v[0], {1, 0, 2}); });
}
Tensor reversed(const Tensor& x) {
  return built({x}, [](const ir::Values& v) { return ops::reverse(v[0], {0}); });
}
// Slice i of axis 0.
Tensor part(const Tensor& x, std::int64_t i) {
  return built({x}, [&](const ir::Values& v) {
    const ir::Value slice = ops::slice_axis(v[0], 0, i, i + 1);
    return ops::reshape(slice, {slice.shape()[1], slice.shape()[2]});
  });
}
Tensor joined(const std::vector<Tensor>& parts, std::int64_t axis) {
  if (parts.size() == 1) return parts[0];
  return recording::record_built(
      parts, [&](ir::Graph&, const ir::Values& v) { return ir::Values{ops::concat(v, axis)}; })[0];
}
Tensor stacked(const std::vector<Tensor>& parts) {
  return recording::record_built(parts, [](ir::Graph&, const ir::Values& v) {
    ir::Values rows;
    for (const ir::Value& row : v) rows.push_back(ops::reshape(row, {1, row.shape()[0], row.shape()[1]}));
    return ir::Values{ops::concat(rows, 0)};
  })[0];
}

}  // namespace

LSTM::LSTM(std::int64_t in, std::int64_t hidden, LSTMOptions options) : hidden_(hidden), options_(options) {
  if (options.layers < 1)
    throw Error(ErrorKind::kInvalidArgument, "LSTM", "layers", "1 or more", std::to_string(options.layers));
  const std::int64_t directions = options.bidirectional ? 2 : 1;
  for (std::int64_t i = 0; i < options.layers * directions; ++i) {
    const std::int64_t inputs = i < directions ? in : directions * hidden;
    Cell cell{new_parameter({4 * hidden, inputs}), new_parameter({4 * hidden, hidden}),
              new_parameter({4 * hidden}), new_parameter({4 * hidden})};
    for (const Variable& variable : {cell.weight_ih, cell.weight_hh, cell.bias_ih, cell.bias_hh})
      init_uniform_by_fan(variable, hidden);
    cells_.push_back(std::move(cell));
  }
}

std::string LSTM::suffix(std::size_t cell) const {
  const std::size_t directions = options_.bidirectional ? 2 : 1;
  return "_l" + std::to_string(cell / directions) + (cell % directions == 1 ? "_reverse" : "");
}

LSTMOutput LSTM::forward(const Tensor& x) const {
  if (recording::checked(x, "LSTM").type.shape.rank() != 3)
    throw Error(ErrorKind::kShape, "LSTM", "the rank of x",
                options_.batch_first ? "[batch, length, in]" : "[length, batch, in]", x.type().to_string());
  const Shape shape{static_cast<std::int64_t>(cells_.size()), x.shape()[options_.batch_first ? 0 : 1],
                    hidden_};
  const Tensor zeros = recording::record_built({}, [&](ir::Graph& graph, const ir::Values&) {
    return ir::Values{ops::full(graph, {cells_[0].weight_ih.dtype(), shape}, 0)};
  })[0];
  return forward(x, {zeros, zeros});
}

LSTMOutput LSTM::forward(const Tensor& x, const LSTMState& state) const {
  Tensor y = options_.batch_first ? swapped(x) : x;  // [length, batch, …]
  const std::size_t directions = options_.bidirectional ? 2 : 1;
  std::vector<Tensor> h, c;
  for (std::size_t i = 0; i < cells_.size(); i += directions) {
    if (i > 0 && training && options_.dropout > 0) y = dropout(y, options_.dropout, random::next_key());
    std::vector<Tensor> both;
    for (std::size_t d = 0; d < directions; ++d) {
      const Cell& cell = cells_[i + d];
      const auto row = static_cast<std::int64_t>(i + d);
      const LstmOutput out = lstm(d == 0 ? y : reversed(y), part(state.h, row), part(state.c, row),
                                  cell.weight_ih, cell.weight_hh, cell.bias_ih, cell.bias_hh);
      both.push_back(d == 0 ? out.y : reversed(out.y));
      h.push_back(out.h);
      c.push_back(out.c);
    }
    y = joined(both, -1);
  }
  if (options_.batch_first) y = swapped(y);
  return {observed(*this, y), {stacked(h), stacked(c)}};
}

}  // namespace systole::nn
