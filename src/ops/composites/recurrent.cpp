// One layer of LSTM or GRU with PyTorch's weights and gate order. The input's share of the gates is one
// product for all steps before the loop; only the hidden state's share is inside. With small floats the gates
// and the state that accumulates are f32, and the products take the operands as they are.
//
// A gradient is given every h, so the gates of all steps are two products again, outside of a loop. Only the
// way back is a loop with a product in it; the weights' gradients are one product each, after it.

#include "ops/composites/recurrent.h"

#include <functional>
#include <memory>
#include <string>
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

// A part of a formula, put into the graph of its operands.
using Part = std::function<Values(const Values& operands)>;

// As a composite of that name, with the part as its body.
Values as_composite(std::string_view name, const Values& operands, const Part& part) {
  auto body = std::make_shared<Graph>(std::string(name));
  Values inputs;
  for (const Value& v : operands) inputs.push_back(body->input({}, v.type()));
  for (const Value& v : part(inputs)) body->output(v);
  return operands[0].graph().add_multi(ir::Op::composite, operands, ir::CompositeAttrs{std::string(name), {}},
                                       {std::move(body)});
}

// Where it keeps them, the gates and every c come after the results.
Values lstm_loop(const Values& operands, bool keeps) {
  const Value inputs = add(operands[0], operands[1]), h0 = operands[2], c0 = operands[3], r = operands[4];
  const std::int64_t n = r.shape()[1].value();
  auto step = std::make_shared<Graph>("lstm_step");
  const Value h = step->input("h", h0.type()), c = step->input("c", c0.type());
  const Value input = step->input("input", {c0.dtype(), {inputs.shape()[1], 4 * n}});
  const Value gates = add(input, project(h, step->input("r", r.type())));
  const Value admit = logistic(gate(gates, 0, n)), forget = logistic(gate(gates, 1, n));
  const Value fresh = tanh(gate(gates, 2, n)), expose = logistic(gate(gates, 3, n));
  const Value kept = mul(forget, c);
  const Value next_c = add(kept, mul(admit, fresh));
  const Value next_h = convert(mul(expose, tanh(next_c)), h0.dtype());
  step->output(next_h, "h");
  step->output(next_c, "c");
  step->output(next_h, "y");
  if (keeps) {
    step->output(concat({admit, forget, fresh, expose}, 1), "gates");
    step->output(next_c, "cells");
  }
  Values results = scan(std::move(step), {h0, c0}, inputs, r, inputs.shape()[0]);
  Values ordered{results[2], results[0], convert(results[1], h0.dtype())};
  ordered.insert(ordered.end(), results.begin() + 3, results.end());
  return ordered;
}

// What lstm hands to its loop: x's share of the gates [t,b,4h], the bias [4h], h0, c0, r.
Values lstm_loop_operands(const Values& operands) {
  check_recurrent(Operands(operands, 7), operands, 2, 4);
  const Value w_bias = widen(operands[5]), r_bias = widen(operands[6]);
  const Value bias = add(w_bias, r_bias);
  return {project(operands[0], operands[3]), bias, operands[1], widen(operands[2]), operands[4]};
}

Values build_lstm(Graph&, const Values& operands, const ir::AttrMap&) {
  return lstm_loop(lstm_loop_operands(operands), false);
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

// `before`, then `all` [t,…].
Value after(Value before, Value all) {
  Shape first{1};
  for (const Dim& d : before.shape()) first.push_back(d);
  return concat({reshape(before, first), all}, 0);
}
Value all_but_first(Value x) { return slice_axis(x, 0, 1, x.shape()[0].value()); }
Value all_but_last(Value x) { return slice_axis(x, 0, 0, x.shape()[0].value() - 1); }

// What each step began with.
Value shifted(Value before, Value all) {
  return slice(after(before, all), Ints(all.shape().size(), 0), all.shape());
}

// The gradients of a product over all steps: gates [t,b,g·h], x [t,b,i] and weight [g·h,i].
Value project_grad_x(Value gates, Value weight, DType dtype) {
  return convert(dot_general(gates, convert(weight, gates.dtype()), {-1}, {0}), dtype);
}
Value project_grad_weight(Value gates, Value x) {
  return convert(dot_general(gates, convert(x, gates.dtype()), {0, 1}, {0, 1}), x.dtype());
}

Value one_minus(Value x) { return sub(scalar_like(x, 1), x); }
Value through_logistic(Value grad, Value y) { return mul(grad, mul(y, one_minus(y))); }
Value through_tanh(Value grad, Value y) { return mul(grad, one_minus(square(y))); }

// Cotangents of results of these types, which may not have arrived, as operands.
Values given_or_zero(const Values& results, const ir::MaybeValues& cotangents) {
  Values out;
  for (std::size_t i = 0; i < results.size(); ++i)
    out.push_back(cotangents[i] ? *cotangents[i] : full(results[i].graph(), results[i].type(), 0));
  return out;
}

// What the way back reads of a step, each [t,b,h]; the last is what c was before.
struct LstmSteps {
  Value admit, forget, fresh, expose, cells, before;
};

// The gradients by h0, c0 and the gates, of those of y, h and c.
Values lstm_loop_grad(const Values& grads, const LstmSteps& kept, Value r) {
  const Type state = grads[1].type();
  auto back = std::make_shared<Graph>("lstm_back");
  {
    const Value dh_next = back->input("dh", state), dc_next = back->input("dc", state);
    const Value dy = back->input("dy", state), i = back->input("i", state), f = back->input("f", state);
    const Value g = back->input("g", state), o = back->input("o", state);
    const Value bent = back->input("tanh_c", state), before = back->input("c_before", state);
    const Value weight = back->input("r", {state.dtype, r.shape()});
    const Value dh = add(dh_next, dy);
    const Value dc = add(dc_next, through_tanh(mul(dh, o), bent));
    const Value dgates = concat({through_logistic(mul(dc, g), i), through_logistic(mul(dc, before), f),
                                 through_tanh(mul(dc, i), g), through_logistic(mul(dh, bent), o)},
                                1);
    back->output(dot_general(dgates, weight, {1}, {0}), "dh");
    back->output(mul(dc, f), "dc");
    back->output(dgates, "dgates");
  }
  return scan(std::move(back), {grads[1], grads[2]},
              {grads[0], kept.admit, kept.forget, kept.fresh, kept.expose, tanh(kept.cells), kept.before},
              {r}, grads[0].shape()[0], true);
}

// The operands of lstm among those of lstm_grad: grads of y, h, c; y; then they.
Values checked_layer(const Values& operands) {
  const Operands check(operands, 11);
  const Values layer(operands.begin() + 4, operands.end());
  const Sizes sizes = check_recurrent(Operands(layer, 7), layer, 2, 4);
  for (const std::size_t i : {0, 3}) check.check_shape(i, {sizes.length, sizes.batch, sizes.hidden});
  for (const std::size_t i : {1, 2}) check.check_shape(i, layer[1].shape());
  for (std::size_t i = 0; i < 4; ++i)
    if (operands[i].dtype() != layer[0].dtype())
      check.refuse(ErrorKind::kDType, "the operands differ in dtype");
  return layer;
}

Values widened_grads(const Values& operands) {
  return {widen(operands[0]), widen(operands[1]), widen(operands[2])};
}

// lstm_grad's results of its loop's; hidden [t,b,h] is what each step began with.
Values lstm_grads(const Values& layer, Value hidden, const Values& loop) {
  const Value x = layer[0], dgates = loop[2], bias = convert(sum(dgates, {0, 1}), x.dtype());
  return {project_grad_x(dgates, layer[3], x.dtype()),
          convert(loop[0], x.dtype()),
          convert(loop[1], x.dtype()),
          project_grad_weight(dgates, x),
          project_grad_weight(dgates, hidden),
          bias,
          bias};
}

Values build_lstm_grad(Graph&, const Values& operands, const ir::AttrMap&) {
  const Values layer = checked_layer(operands);
  const Value x = layer[0], h0 = layer[1], c0 = widen(layer[2]), w = layer[3], r = layer[4];
  const std::int64_t n = r.shape()[1].value();
  const Value hidden = shifted(h0, operands[3]);  // [t,b,h]
  const Value gates = add(add(project(x, w), add(widen(layer[5]), widen(layer[6]))), project(hidden, r));
  const Value admit = logistic(gate(gates, 0, n)), forget = logistic(gate(gates, 1, n));
  const Value fresh = tanh(gate(gates, 2, n)), expose = logistic(gate(gates, 3, n));

  const Type state = c0.type();
  auto cells = std::make_shared<Graph>("lstm_cells");
  {
    const Value c = cells->input("c", state), kept = cells->input("forget", state);
    const Value next = add(mul(kept, c), cells->input("added", state));
    cells->output(next, "c");
    cells->output(next, "all");
  }
  const Value c = scan(std::move(cells), c0, {forget, mul(admit, fresh)}, {}, x.shape()[0])[1];
  return lstm_grads(
      layer, hidden,
      lstm_loop_grad(widened_grads(operands), {admit, forget, fresh, expose, c, shifted(c0, c)}, widen(r)));
}

// grads of y, h; y; then the operands of gru
Values build_gru_grad(Graph&, const Values& operands, const ir::AttrMap&) {
  const Operands check(operands, 9);
  const Values layer(operands.begin() + 3, operands.end());
  const Sizes sizes = check_recurrent(Operands(layer, 6), layer, 1, 3);
  const std::int64_t n = sizes.hidden;
  const Value x = layer[0], h0 = widen(layer[1]), w = layer[2], r = layer[3];
  for (const std::size_t i : {0, 2}) check.check_shape(i, {sizes.length, sizes.batch, n});
  check.check_shape(1, h0.shape());
  for (std::size_t i = 0; i < 3; ++i)
    if (operands[i].dtype() != x.dtype()) check.refuse(ErrorKind::kDType, "the operands differ in dtype");
  const Value rounded = shifted(layer[1], operands[2]);  // [t,b,h], as the products took it
  const Value inputs = add(project(x, w), widen(layer[4])),
              hidden = add(project(rounded, r), widen(layer[5]));
  const auto both = [&](std::int64_t i) { return add(gate(inputs, i, n), gate(hidden, i, n)); };
  const Value reset = logistic(both(0)), update = logistic(both(1));
  const Value hidden_n = gate(hidden, 2, n);
  const Value fresh = tanh(add(gate(inputs, 2, n), mul(reset, hidden_n)));

  const Type state = h0.type();
  auto states = std::make_shared<Graph>("gru_states");
  {
    const Value h = states->input("h", state), kept = states->input("update", state);
    const Value next = add(mul(kept, h), states->input("added", state));
    states->output(next, "h");
    states->output(h, "before");
  }
  const Value before =
      scan(std::move(states), h0, {update, mul(one_minus(update), fresh)}, {}, sizes.length)[1];

  auto back = std::make_shared<Graph>("gru_back");
  {
    const Value dh_next = back->input("dh", state), dy = back->input("dy", state);
    const Value r_gate = back->input("r_gate", state), z = back->input("z", state);
    const Value fresh_n = back->input("n", state), inner = back->input("hidden_n", state);
    const Value h = back->input("h", state), weight = back->input("r", {state.dtype, r.shape()});
    const Value dh = add(dh_next, dy);
    const Value dn = through_tanh(mul(dh, one_minus(z)), fresh_n);
    const Value dz = through_logistic(mul(dh, sub(h, fresh_n)), z);
    const Value dr = through_logistic(mul(dn, inner), r_gate);
    const Value dhidden = concat({dr, dz, mul(dn, r_gate)}, 1);
    back->output(add(mul(dh, z), dot_general(dhidden, weight, {1}, {0})), "dh");
    back->output(concat({dr, dz, dn}, 1), "dinputs");
    back->output(dhidden, "dhidden");
  }
  const Values results =
      scan(std::move(back), widen(operands[1]), {widen(operands[0]), reset, update, fresh, hidden_n, before},
           {widen(r)}, sizes.length, true);
  const Value dinputs = results[1], dhidden = results[2];
  return {project_grad_x(dinputs, w, x.dtype()),    convert(results[0], x.dtype()),
          project_grad_weight(dinputs, x),          project_grad_weight(dhidden, rounded),
          convert(sum(dinputs, {0, 1}), x.dtype()), convert(sum(dhidden, {0, 1}), x.dtype())};
}

// By the composite of that name, of the results' cotangents, the first result and the operands.
auto backward_by(const char* name) {
  return [name](const Values& operands, const Values& results, const ir::MaybeValues& cotangents,
                const ir::AttrMap&) {
    Values given = given_or_zero(results, cotangents);
    given.push_back(results[0]);
    given.insert(given.end(), operands.begin(), operands.end());
    const Values grads = composite(name, given);
    return ir::MaybeValues(grads.begin(), grads.end());
  };
}

}  // namespace

ir::CompositeDef lstm_def() {
  return {
      .name = "lstm",
      .semantics =
          "lstm(x, h0, c0, w, r, w_bias, r_bias): c = σ(f)·c + σ(i)·tanh(g), h = σ(o)·tanh(c) over axis 0 "
          "of x, gates i f g o = w·x + w_bias + r·h + r_bias; every h, the last h, the last c",
      .tolerance = 16,
      .build = build_lstm,
      .backward = backward_by("lstm_grad")};
}

ir::CompositeDef lstm_grad_def() {
  return {.name = "lstm_grad",
          .semantics =
              "lstm_grad(grad_y, grad_h, grad_c, y, x, h0, c0, w, r, w_bias, r_bias): the gradients of lstm "
              "by each of its operands, given those of its results and the first of them",
          .tolerance = 16,
          .build = build_lstm_grad};
}

ir::CompositeDef gru_def() {
  return {
      .name = "gru",
      .semantics =
          "gru(x, h0, w, r, w_bias, r_bias): h = (1 - σ(z))·n + σ(z)·h over axis 0 of x, gates r z n, the "
          "first two "
          "w·x + w_bias + r·h + r_bias, n = tanh(w·x + w_bias + σ(r)·(r·h + r_bias)); every h, the last h",
      .tolerance = 16,
      .build = build_gru,
      .backward = backward_by("gru_grad")};
}

ir::CompositeDef gru_grad_def() {
  return {.name = "gru_grad",
          .semantics =
              "gru_grad(grad_y, grad_h, y, x, h0, w, r, w_bias, r_bias): the gradients of gru by each of its "
              "operands, given those of its results and the first of them",
          .tolerance = 16,
          .build = build_gru_grad};
}

Values lstm_by_loop(const Values& operands, LstmKept* kept) {
  const Values results =
      as_composite(kLstmLoop, lstm_loop_operands(operands), [&](const Values& v) -> Values {
        const Values loop = lstm_loop(v, kept != nullptr);
        if (kept == nullptr) return loop;
        return {after(v[2], loop[0]), loop[1], loop[2], loop[3], after(v[3], loop[4])};
      });
  if (kept == nullptr) return results;
  *kept = {results[0], results[3], results[4]};
  return {all_but_first(results[0]), results[1], results[2]};
}

Values lstm_grad_by_loop(const Values& operands, const LstmKept& kept) {
  const Values layer = checked_layer(operands);
  Values given = widened_grads(operands);
  given.insert(given.end(), {kept.gates, kept.cells, widen(layer[4])});
  const Values loop = as_composite(kLstmLoopGrad, given, [](const Values& v) {
    const std::int64_t n = v[5].shape()[1].value();
    return lstm_loop_grad({v[0], v[1], v[2]},
                          {gate(v[3], 0, n), gate(v[3], 1, n), gate(v[3], 2, n), gate(v[3], 3, n),
                           all_but_first(v[4]), all_but_last(v[4])},
                          v[5]);
  });
  return lstm_grads(layer, all_but_last(kept.states), loop);
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
