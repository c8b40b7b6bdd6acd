#pragma once

// Builders: one function per primitive and composite, on ir::Value. Elementwise ops of two operands promote
// dtypes (dtype.h) and broadcast shapes like numpy; nothing else converts or broadcasts by itself. Axes may
// be negative. The semantics of every op, with the corner cases, are in docs/ir.md.

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "systole/base/export.h"
#include "systole/ir/graph.h"

namespace systole::ops {

using ir::Combine;
using ir::Graph;
using ir::GraphRef;
using ir::Value;
using ir::ValueList;
using ir::Values;

// Elementwise primitives without attributes: abs(x), …, add(a, b), …
#define SYSTOLE_UNARY(name, ...) SYSTOLE_API Value name(Value x);
#define SYSTOLE_BINARY(name, ...) SYSTOLE_API Value name(Value a, Value b);
#include "systole/ir/ops.def"

// Other elementwise primitives.
SYSTOLE_API Value select(Value predicate, Value on_true, Value on_false);  // all three broadcast
SYSTOLE_API Value clamp(Value low, Value x, Value high);
SYSTOLE_API Value convert(Value x, DType dtype);
SYSTOLE_API Value bitcast(Value x, DType dtype);

// Sources.
SYSTOLE_API Value constant(Graph& graph, Literal value);
SYSTOLE_API Value full(Graph& graph, Type type, double value);  // a scalar constant, broadcast
SYSTOLE_API Value scalar_like(Value x, double value);           // a scalar constant of x's dtype
// The size as a scalar: a constant, or a `dimension` node when it is symbolic.
SYSTOLE_API Value dimension(Graph& graph, Dim dim, DType dtype = DType::i32);
SYSTOLE_API Value iota(Graph& graph, Type type, std::int64_t axis);
SYSTOLE_API Value random_bits(Value key, Shape shape, DType dtype = DType::u32);

// Movement.
SYSTOLE_API Value reshape(Value x, Shape shape);
SYSTOLE_API Value transpose(Value x, Ints permutation);
SYSTOLE_API Value broadcast(Value x, Shape shape, Ints axes);
SYSTOLE_API Value broadcast_to(Value x, Shape shape);  // numpy's rule: trailing axes aligned
SYSTOLE_API Value slice(Value x, Ints starts, Shape limits, Ints strides = {});
SYSTOLE_API Value slice_axis(Value x, std::int64_t axis, std::int64_t start, std::int64_t limit,
                             std::int64_t stride = 1);
SYSTOLE_API Value pad(Value x, Value value, Ints low, Ints high, Ints interior = {});
SYSTOLE_API Value concat(ValueList xs, std::int64_t axis);
SYSTOLE_API Value reverse(Value x, Ints axes);
SYSTOLE_API Value gather(Value x, Value indices, ir::GatherAttrs attrs);
SYSTOLE_API Value scatter(Value x, Value indices, Value updates, ir::ScatterAttrs attrs);
SYSTOLE_API Value dynamic_slice(Value x, ValueList starts, Shape sizes);
SYSTOLE_API Value dynamic_update_slice(Value x, Value update, ValueList starts);
SYSTOLE_API Value take(Value x, Value indices, std::int64_t axis);  // numpy's take: a gather of whole slices

// Reductions. The `keep` forms leave reduced axes in place with size 1.
SYSTOLE_API Value reduce(Value x, Combine kind, Ints axes, bool keep = false);
SYSTOLE_API Value sum(Value x, Ints axes, bool keep = false);
SYSTOLE_API Value mean(Value x, Ints axes, bool keep = false);
SYSTOLE_API Value arg_reduce(Value x, Combine kind, std::int64_t axis, DType dtype = DType::i32);
SYSTOLE_API Value reduce_window(Value x, ir::WindowAttrs attrs);
SYSTOLE_API Value cumulative(Value x, Combine kind, std::int64_t axis, bool reverse = false);
SYSTOLE_API Values sort(ValueList xs, std::int64_t axis, bool descending = false);
SYSTOLE_API Value sort(Value x, std::int64_t axis, bool descending = false);
SYSTOLE_API std::pair<Value, Value> top_k(Value x, std::int64_t k);  // values, i32 indices

// Contractions. A result dtype left out is the operands' own.
SYSTOLE_API Value dot_general(Value a, Value b, Ints a_contract, Ints b_contract, Ints a_batch = {},
                              Ints b_batch = {}, std::optional<DType> dtype = {});
SYSTOLE_API Value matmul(Value a,
                         Value b);  // numpy's: last two axes, leading axes broadcast, vectors allowed
SYSTOLE_API Value convolution(Value x, Value kernel, ir::ConvolutionAttrs attrs);
SYSTOLE_API Value cholesky(Value a, bool lower = true);
SYSTOLE_API Value triangular_solve(Value a, Value b, ir::TriangularSolveAttrs attrs = {});

// Control flow; bodies are closed graphs.
SYSTOLE_API Values scan(GraphRef body, ValueList carries, ValueList xs, ValueList constants, Dim length,
                        bool reverse = false);
SYSTOLE_API Values while_loop(GraphRef condition, GraphRef body, ValueList carries, ValueList constants = {});
SYSTOLE_API Values cond(Value predicate, GraphRef on_true, GraphRef on_false, ValueList operands);

// Collectives over named axes of the graph's mesh.
SYSTOLE_API Value all_reduce(Value x, Combine kind, std::vector<std::string> mesh_axes);
SYSTOLE_API Value all_gather(Value x, std::int64_t axis, std::vector<std::string> mesh_axes);
SYSTOLE_API Value reduce_scatter(Value x, Combine kind, std::int64_t axis,
                                 std::vector<std::string> mesh_axes);
SYSTOLE_API Value all_to_all(Value x, std::int64_t split_axis, std::int64_t concat_axis,
                             std::vector<std::string> mesh_axes);
SYSTOLE_API Value collective_permute(Value x, Ints sources, Ints targets, std::vector<std::string> mesh_axes);
SYSTOLE_API Value device_index(Graph& graph, std::vector<std::string> mesh_axes);

// `body` on the operands, computed again on the way back of a derivative instead of keeping what it needs.
SYSTOLE_API Values remat(GraphRef body, ValueList operands);

// The values themselves, across which no pass moves, merges or folds anything.
SYSTOLE_API Values barrier(ValueList values);

// A user's kernel; `body`, when given, is what backends without the dialect run, and what derivatives and
// vmap go through. A kernel with a backward of its own is the body of a composite whose second graph is the
// backward (docs/kernels.md).
SYSTOLE_API Values kernel_call(Graph& graph, ValueList operands, ir::KernelAttrs attrs, GraphRef body = {});

// Small compositions of primitives, inlined where they are used.
SYSTOLE_API Value square(Value x);
SYSTOLE_API Value reciprocal(Value x);
SYSTOLE_API Value relu(Value x);                                                           // max(x, 0)
SYSTOLE_API Value one_hot(Value indices, std::int64_t classes, DType dtype = DType::f32);  // new last axis
SYSTOLE_API Value split_key(Value key, std::int64_t n);                                    // u32[n,2]
SYSTOLE_API Value random_uniform(Value key, Shape shape, DType dtype = DType::f32);        // in [0, 1)

// Composites: kept whole in the graph for backends that have something better than the body.
SYSTOLE_API Value stop_gradient(Value x);  // x, a constant to derivatives
SYSTOLE_API Value softmax(Value x, std::int64_t axis = -1);
SYSTOLE_API Value log_softmax(Value x, std::int64_t axis = -1);
SYSTOLE_API Value gelu(Value x, bool tanh_form = false);
// Over the last `axes` axes; scale and bias have their shape.
SYSTOLE_API Value layer_norm(Value x, Value scale, Value bias, double eps = 1e-5, std::int64_t axes = 1);
struct LayerNormGrads {
  Value x, scale, bias;
};
SYSTOLE_API LayerNormGrads layer_norm_grad(Value grad, Value x, Value scale, double eps = 1e-5,
                                           std::int64_t axes = 1);
// Statistics over every axis but `axis`; variance is the biased one.
struct BatchNormResult {
  Value y, mean, variance;
};
SYSTOLE_API BatchNormResult batch_norm_train(Value x, Value scale, Value bias, double eps = 1e-5,
                                             std::int64_t axis = -1);
SYSTOLE_API Value batch_norm_inference(Value x, Value scale, Value bias, Value mean, Value variance,
                                       double eps = 1e-5, std::int64_t axis = -1);
struct BatchNormGrads {
  Value x, scale, bias;
};
SYSTOLE_API BatchNormGrads batch_norm_grad(Value grad, Value x, Value scale, Value mean, Value variance,
                                           double eps = 1e-5, std::int64_t axis = -1);
// Scaled dot-product attention on [batch, heads, length, depth]; scale 0 means 1/sqrt(depth); the causal mask
// lets query i see keys up to i + (keys - queries).
SYSTOLE_API Value attention(Value q, Value k, Value v, bool causal = false, double scale = 0);
// -log softmax(logits)[label] per row: logits [rows…, classes], labels integer [rows…].
SYSTOLE_API Value cross_entropy(Value logits, Value labels);
SYSTOLE_API Value embedding(Value table, Value indices);  // table [vocabulary, width]; rows, indices clamped
// One layer over x [length, batch, inputs]; weights as in PyTorch: w [gates·hidden, inputs], r [gates·hidden,
// hidden], biases [gates·hidden]; gates i f g o (LSTM), r z n (GRU). h0, c0 are [batch, hidden].
struct LstmResult {
  Value y, h, c;
};
SYSTOLE_API LstmResult lstm(Value x, Value h0, Value c0, Value w, Value r, Value w_bias, Value r_bias);
struct GruResult {
  Value y, h;
};
SYSTOLE_API GruResult gru(Value x, Value h0, Value w, Value r, Value w_bias, Value r_bias);
// Pooling over the spatial axes of NHWC (any number of them); lists have one entry per spatial axis.
SYSTOLE_API Value max_pool(Value x, Ints window, Ints strides, Ints pad_low = {}, Ints pad_high = {});
SYSTOLE_API Value avg_pool(Value x, Ints window, Ints strides, Ints pad_low = {}, Ints pad_high = {},
                           bool count_padding = true);
// Gradients of `convolution` with these attributes, given the operand's or kernel's type.
SYSTOLE_API Value conv_input_grad(Value grad, Value kernel, const Shape& input, ir::ConvolutionAttrs attrs);
SYSTOLE_API Value conv_weight_grad(Value grad, Value x, const Shape& kernel, ir::ConvolutionAttrs attrs);
// Optimiser updates with PyTorch's formulas; hyper-parameters that change per step are scalar operands of the
// parameter's dtype. `step` counts from 1.
SYSTOLE_API Value sgd_update(Value parameter, Value grad, Value lr, double weight_decay = 0);
struct MomentumResult {
  Value parameter, velocity;
};
SYSTOLE_API MomentumResult momentum_update(Value parameter, Value grad, Value velocity, Value lr,
                                           double momentum = 0.9, double weight_decay = 0,
                                           bool nesterov = false);
struct AdamResult {
  Value parameter, m, v;
};
SYSTOLE_API AdamResult adam_update(Value parameter, Value grad, Value m, Value v, Value lr, Value step,
                                   double beta1 = 0.9, double beta2 = 0.999, double eps = 1e-8,
                                   double weight_decay = 0);
SYSTOLE_API AdamResult adamw_update(Value parameter, Value grad, Value m, Value v, Value lr, Value step,
                                    double beta1 = 0.9, double beta2 = 0.999, double eps = 1e-8,
                                    double weight_decay = 0.01);

}  // namespace systole::ops

namespace systole::ir {

inline Value operator+(Value a, Value b) { return ops::add(a, b); }
inline Value operator-(Value a, Value b) { return ops::sub(a, b); }
inline Value operator*(Value a, Value b) { return ops::mul(a, b); }
inline Value operator/(Value a, Value b) { return ops::div(a, b); }
inline Value operator-(Value a) { return ops::neg(a); }

// A number takes the dtype of the value it stands beside.
inline Value operator+(Value a, double b) { return a + ops::scalar_like(a, b); }
inline Value operator-(Value a, double b) { return a - ops::scalar_like(a, b); }
inline Value operator*(Value a, double b) { return a * ops::scalar_like(a, b); }
inline Value operator/(Value a, double b) { return a / ops::scalar_like(a, b); }
inline Value operator+(double a, Value b) { return ops::scalar_like(b, a) + b; }
inline Value operator-(double a, Value b) { return ops::scalar_like(b, a) - b; }
inline Value operator*(double a, Value b) { return ops::scalar_like(b, a) * b; }
inline Value operator/(double a, Value b) { return ops::scalar_like(b, a) / b; }

}  // namespace systole::ir
