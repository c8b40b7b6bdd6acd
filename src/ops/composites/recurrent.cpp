// One layer of LSTM or GRU with PyTorch's weights and gate order. The input's share of the gates is one
// product for all steps before the loop; only the hidden state's share is inside. With small floats the gates
// and the state that accumulates are f32, and the products take the operands as they are.

#include <memory>
#include <utility>

#include "ops/composites/common.h"
#include "ops/composites/definitions.h"

namespace systole::ops {

namespace {

// x [t,b,i], states [b,h]…, w [g·h,i], r [g·h,h], biases [g·h] twice.
struct Sizes {
  Dim length, batch;
  std::int64_t hidden;
};

Sizes check_recurrent(const Operands& check, const Values& operands, std::size_t states, std::int64_t gates) {
  const std::size_t w = 1 + states, r = w + 1;
  check.check_dtype(0, kFloats);
  for (const Value& v : operands)
    if (v.dtype() != operands[0].dtype()) check.refuse(ErrorKind::kDType, "the operands differ in dtype");
  check.check_rank(0, 3);
  check.check_rank(r, 2);
  const Sizes sizes{operands[0].shape()[0], operands[0].shape()[1],
                    check.static_size(r, 1, "the hidden size")};
  const Dim rows = Dim(gates) * Dim(sizes.hidden);
  for (std::size_t i = 1; i <= states; ++i) check.check_shape(i, {sizes.batch, sizes.hidden});
  check.check_shape(w, {rows, operands[0].shape()[2]});
  check.check_shape(r, {rows, sizes.hidden});
  for (const std::size_t bias : {r + 1, r + 2}) check.check_shape(bias, {rows});
  return sizes;
}

// x·weightᵀ in the dtype of the gates.
Value project(Value x, Value weight) {
  return dot_general(x, weight, {-1}, {1}, {}, {}, compute_dtype(x.dtype()));
}

// Part `i` of the last axis cut into parts of `size`.
Value gate(Value gates, std::int64_t i, std::int64_t size) {
  return slice_axis(gates, -1, i * size, (i + 1) * size);
}

Values build_lstm(Graph&, const Values& operands, const ir::AttrMap&) {
  const Operands check(operands, 7);
  const Sizes sizes = check_recurrent(check, operands, 2, 4);
  const std::int64_t n = sizes.hidden;
  const Value x = operands[0], h0 = operands[1], c0 = widen(operands[2]), r = operands[4];
  const Value w_bias = widen(operands[5]), r_bias = widen(operands[6]);
  const Value bias = add(w_bias, r_bias);
  const Value inputs = add(project(x, operands[3]), bias);  // [t,b,4h]

  auto step = std::make_shared<Graph>("lstm_step");
  const Value h = step->input("h", h0.type()), c = step->input("c", c0.type());
  const Value input = step->input("input", {c0.dtype(), {sizes.batch, 4 * n}});
  const Value gates = add(input, project(h, step->input("r", r.type())));
  const Value admit = logistic(gate(gates, 0, n)), forget = logistic(gate(gates, 1, n));
  const Value fresh = tanh(gate(gates, 2, n)), expose = logistic(gate(gates, 3, n));
  const Value kept = mul(forget, c);
  const Value next_c = add(kept, mul(admit, fresh));
  const Value next_h = convert(mul(expose, tanh(next_c)), x.dtype());
  step->output(next_h, "h");
  step->output(next_c, "c");
  step->output(next_h, "y");

  const Values results = scan(std::move(step), {h0, c0}, inputs, r, sizes.length);
  return {results[2], results[0], convert(results[1], x.dtype())};
}

Values build_gru(Graph&, const Values& operands, const ir::AttrMap&) {
  const Operands check(operands, 6);
  const Sizes sizes = check_recurrent(check, operands, 1, 3);
  const std::int64_t n = sizes.hidden;
  const Value x = operands[0], h0 = widen(operands[1]), r = operands[3];
  const Value w_bias = widen(operands[4]), r_bias = widen(operands[5]);
  const Value inputs = add(project(x, operands[2]), w_bias);  // [t,b,3h]

  auto step = std::make_shared<Graph>("gru_step");
  const Value h = step->input("h", h0.type());
  const Value input = step->input("input", {h0.dtype(), {sizes.batch, 3 * n}});
  const Value hidden_weight = step->input("r", r.type()), hidden_bias = step->input("r_bias", r_bias.type());
  const Value hidden = add(project(convert(h, x.dtype()), hidden_weight), hidden_bias);
  const Value input_r = gate(input, 0, n), input_z = gate(input, 1, n), input_n = gate(input, 2, n);
  const Value hidden_r = gate(hidden, 0, n), hidden_z = gate(hidden, 1, n), hidden_n = gate(hidden, 2, n);
  const Value reset = logistic(add(input_r, hidden_r)), update = logistic(add(input_z, hidden_z));
  const Value fresh = tanh(add(input_n, mul(reset, hidden_n)));
  const Value kept = mul(update, h);
  const Value next = add(mul(sub(scalar_like(update, 1), update), fresh), kept);
  step->output(next, "h");
  step->output(convert(next, x.dtype()), "y");

  const Values results = scan(std::move(step), h0, inputs, {r, r_bias}, sizes.length);
  return {results[1], convert(results[0], x.dtype())};
}

}  // namespace

ir::CompositeDef lstm_def() {
  return {
      .name = "lstm",
      .semantics =
          "lstm(x, h0, c0, w, r, w_bias, r_bias): c = σ(f)·c + σ(i)·tanh(g), h = σ(o)·tanh(c) over axis 0 "
          "of x, gates i f g o = w·x + w_bias + r·h + r_bias; every h, the last h, the last c",
      .tolerance = 16,
      .build = build_lstm};
}

ir::CompositeDef gru_def() {
  return {
      .name = "gru",
      .semantics =
          "gru(x, h0, w, r, w_bias, r_bias): h = (1 - σ(z))·n + σ(z)·h over axis 0 of x, gates r z n, the "
          "first two "
          "w·x + w_bias + r·h + r_bias, n = tanh(w·x + w_bias + σ(r)·(r·h + r_bias)); every h, the last h",
      .tolerance = 16,
      .build = build_gru};
}

LstmResult lstm(Value x, Value h0, Value c0, Value w, Value r, Value w_bias, Value r_bias) {
  const Values results = composite("lstm", {x, h0, c0, w, r, w_bias, r_bias});
  return {results[0], results[1], results[2]};
}

GruResult gru(Value x, Value h0, Value w, Value r, Value w_bias, Value r_bias) {
  const Values results = composite("gru", {x, h0, w, r, w_bias, r_bias});
  return {results[0], results[1]};
}

}  // namespace systole::ops
