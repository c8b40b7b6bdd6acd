#include "systole/nn/recurrent.h"

#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

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
Tensor side_by_side(const std::vector<Tensor>& parts, std::int64_t axis) {
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
Tensor zeros_of(const Type& type) {
  return recording::record_built(
      {}, [&](ir::Graph& graph, const ir::Values&) { return ir::Values{ops::full(graph, type, 0)}; })[0];
}

}  // namespace

namespace detail {

RecurrentStack::RecurrentStack(std::string_view name, std::int64_t gates, std::int64_t in,
                               std::int64_t hidden, RecurrentOptions options)
    : name_(name), in_(in), hidden_(hidden), options_(options) {
  if (options.layers < 1)
    throw Error(ErrorKind::kInvalidArgument, name_, "layers", "1 or more", std::to_string(options.layers));
  const std::int64_t directions = options.bidirectional ? 2 : 1;
  for (std::int64_t i = 0; i < options.layers * directions; ++i) {
    const std::int64_t inputs = i < directions ? in : directions * hidden;
    Cell cell{new_parameter({gates * hidden, inputs}), new_parameter({gates * hidden, hidden}), {}, {}};
    if (options.bias) {
      cell.bias_ih = new_parameter({gates * hidden});
      cell.bias_hh = new_parameter({gates * hidden});
    }
    for (const Variable& variable : {cell.weight_ih, cell.weight_hh, cell.bias_ih, cell.bias_hh})
      if (variable.defined()) init_uniform_by_fan(variable, hidden);
    cells_.push_back(std::move(cell));
  }
}

std::string RecurrentStack::suffix(std::size_t cell) const {
  const std::size_t directions = options_.bidirectional ? 2 : 1;
  return "_l" + std::to_string(cell / directions) + (cell % directions == 1 ? "_reverse" : "");
}

void RecurrentStack::check(const Tensor& x, const std::vector<Tensor>& states) const {
  const std::string wanted =
      fmt::format("[{}, {}]", options_.batch_first ? "batch, length" : "length, batch", in_);
  if (recording::checked(x, name_).type.shape.rank() != 3 || x.shape()[2] != Dim(in_))
    throw Error(ErrorKind::kShape, name_, "x", wanted, x.type().to_string());
  const Shape state{static_cast<std::int64_t>(cells_.size()), x.shape()[options_.batch_first ? 0 : 1],
                    hidden_};
  for (const Tensor& given : states)
    if (recording::checked(given, name_).type.shape != state)
      throw Error(ErrorKind::kShape, name_, "the state of [layers · directions, batch, hidden]",
                  state.to_string(), given.type().to_string());
}

RecurrentStack::Run RecurrentStack::run(const Tensor& x, std::vector<Tensor> states, std::size_t count,
                                        bool training, const Layer& layer) const {
  check(x, states);
  const DType dtype = cells_[0].weight_ih.dtype();
  if (states.empty()) {
    const Shape shape{static_cast<std::int64_t>(cells_.size()), x.shape()[options_.batch_first ? 0 : 1],
                      hidden_};
    states.assign(count, zeros_of({dtype, shape}));
  }
  const Tensor none = options_.bias ? Tensor() : zeros_of({dtype, {cells_[0].weight_hh.size(0)}});
  Tensor y = options_.batch_first ? swapped(x) : x;  // [length, batch, …]
  const std::size_t directions = options_.bidirectional ? 2 : 1;
  std::vector<std::vector<Tensor>> last(count);  // by state, then by cell
  for (std::size_t i = 0; i < cells_.size(); i += directions) {
    if (i > 0 && training && options_.dropout > 0) y = dropout(y, options_.dropout, random::next_key());
    std::vector<Tensor> both;
    for (std::size_t d = 0; d < directions; ++d) {
      const Cell& cell = cells_[i + d];
      std::vector<Tensor> begin;
      for (const Tensor& state : states) begin.push_back(part(state, static_cast<std::int64_t>(i + d)));
      const Run out = options_.bias ? layer(d == 0 ? y : reversed(y), begin, cell, cell.bias_ih, cell.bias_hh)
                                    : layer(d == 0 ? y : reversed(y), begin, cell, none, none);
      both.push_back(d == 0 ? out.y : reversed(out.y));
      for (std::size_t s = 0; s < count; ++s) last[s].push_back(out.states[s]);
    }
    y = side_by_side(both, -1);
  }
  Run result{options_.batch_first ? swapped(y) : y, {}};
  for (const std::vector<Tensor>& cells : last) result.states.push_back(stacked(cells));
  return result;
}

}  // namespace detail

using Cell = detail::RecurrentStack::Cell;
using Run = detail::RecurrentStack::Run;

LSTM::LSTM(std::int64_t in, std::int64_t hidden, LSTMOptions options)
    : stack_("LSTM", 4, in, hidden, options) {}

LSTMOutput LSTM::forward(const Tensor& x) const { return run(x, {}); }
LSTMOutput LSTM::forward(const Tensor& x, const LSTMState& state) const { return run(x, {state.h, state.c}); }

LSTMOutput LSTM::run(const Tensor& x, std::vector<Tensor> states) const {
  const Run out = stack_.run(x, std::move(states), 2, training,
                             [](const Tensor& in, const std::vector<Tensor>& begin, const Cell& cell,
                                const Tensor& w_bias, const Tensor& r_bias) {
                               const LstmOutput one = lstm(in, begin[0], begin[1], cell.weight_ih,
                                                           cell.weight_hh, w_bias, r_bias);
                               return Run{one.y, {one.h, one.c}};
                             });
  return {observed(*this, out.y), {out.states[0], out.states[1]}};
}

GRU::GRU(std::int64_t in, std::int64_t hidden, GRUOptions options) : stack_("GRU", 3, in, hidden, options) {}

RecurrentOutput GRU::forward(const Tensor& x) const { return run(x, {}); }
RecurrentOutput GRU::forward(const Tensor& x, const Tensor& h) const { return run(x, {h}); }

RecurrentOutput GRU::run(const Tensor& x, std::vector<Tensor> states) const {
  const Run out = stack_.run(x, std::move(states), 1, training,
                             [](const Tensor& in, const std::vector<Tensor>& begin, const Cell& cell,
                                const Tensor& w_bias, const Tensor& r_bias) {
                               const GruOutput one =
                                   gru(in, begin[0], cell.weight_ih, cell.weight_hh, w_bias, r_bias);
                               return Run{one.y, {one.h}};
                             });
  return {observed(*this, out.y), out.states[0]};
}

RNN::RNN(std::int64_t in, std::int64_t hidden, RNNOptions options)
    : stack_("RNN", 1, in, hidden,
             {options.layers, options.batch_first, options.bidirectional, options.dropout, options.bias}),
      form_(options.nonlinearity) {}

RecurrentOutput RNN::forward(const Tensor& x) const { return run(x, {}); }
RecurrentOutput RNN::forward(const Tensor& x, const Tensor& h) const { return run(x, {h}); }

RecurrentOutput RNN::run(const Tensor& x, std::vector<Tensor> states) const {
  const Run out = stack_.run(x, std::move(states), 1, training,
                             [&](const Tensor& in, const std::vector<Tensor>& begin, const Cell& cell,
                                 const Tensor& w_bias, const Tensor& r_bias) {
                               const RnnOutput one =
                                   rnn(in, begin[0], cell.weight_ih, cell.weight_hh, w_bias, r_bias, form_);
                               return Run{one.y, {one.h}};
                             });
  return {observed(*this, out.y), out.states[0]};
}

}  // namespace systole::nn
