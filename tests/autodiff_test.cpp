// The gradient of every kind of op against central differences in f64, forward mode against reverse mode, and
// second derivatives.

#include <set>

#include "autodiff_check.h"

namespace systole::autodiff {
namespace {

const Case kCases[] = {
    {"abs", "%x: f64[7]", "%y = abs(%x) return %y"},
    {"neg", "%x: f64[7]", "%y = neg(%x) return %y"},
    {"exp", "%x: f64[7]", "%y = exp(%x) return %y"},
    {"expm1", "%x: f64[7]", "%y = expm1(%x) return %y"},
    {"log", "%x: f64[7]", "%y = log(%x) return %y", "", 0.5, 2},
    {"log1p", "%x: f64[7]", "%y = log1p(%x) return %y", "", -0.5, 2},
    {"sqrt", "%x: f64[7]", "%y = sqrt(%x) return %y", "", 0.5, 2},
    {"rsqrt", "%x: f64[7]", "%y = rsqrt(%x) return %y", "", 0.5, 2},
    {"cbrt", "%x: f64[7]", "%y = cbrt(%x) return %y", "", 0.5, 2},
    {"sin", "%x: f64[7]", "%y = sin(%x) return %y"},
    {"cos", "%x: f64[7]", "%y = cos(%x) return %y"},
    {"tan", "%x: f64[7]", "%y = tan(%x) return %y"},
    {"tanh", "%x: f64[7]", "%y = tanh(%x) return %y"},
    {"logistic", "%x: f64[7]", "%y = logistic(%x) return %y"},
    {"erf", "%x: f64[7]", "%y = erf(%x) return %y"},
    {"sign", "%x: f64[7]", "%y = sign(%x) return %y"},
    {"floor", "%x: f64[7]", "%y = floor(%x) return %y"},
    {"ceil", "%x: f64[7]", "%y = ceil(%x) return %y"},
    {"round", "%x: f64[7]", "%y = round(%x) return %y"},
    {"add", "%x: f64[7], %z: f64[7]", "%y = add(%x, %z) return %y"},
    {"add self", "%x: f64[7]", "%y = add(%x, %x) return %y"},
    {"sub", "%x: f64[7], %z: f64[7]", "%y = sub(%x, %z) return %y"},
    {"mul", "%x: f64[7], %z: f64[7]", "%y = mul(%x, %z) return %y"},
    {"div", "%x: f64[7], %z: f64[7]", "%y = div(%x, %z) return %y", "", 0.5, 2},
    {"rem", "%x: f64[7], %z: f64[7]", "%y = rem(%x, %z) return %y", "", 0.5, 2},
    {"pow", "%x: f64[7], %z: f64[7]", "%y = pow(%x, %z) return %y", "", 0.5, 2},
    {"max", "%x: f64[7], %z: f64[7]", "%y = max(%x, %z) return %y"},
    {"min", "%x: f64[7], %z: f64[7]", "%y = min(%x, %z) return %y"},
    {"atan2", "%x: f64[7], %z: f64[7]", "%y = atan2(%x, %z) return %y"},
    {"select", "%p: bool[7], %x: f64[7], %z: f64[7]", "%y = select(%p, %x, %z) return %y"},
    {"clamp", "%x: f64[7], %l: f64[], %h: f64[7]", "%y = clamp(%l, %x, %h) return %y"},
    {"convert", "%x: f64[7]",
     "%a = convert(%x) {dtype=i32} %b = convert(%a) {dtype=f64} %y = mul(%b, %x) return %y", "", 1.1, 1.9},
    {"reshape", "%x: f64[2,3]", "%y = reshape(%x) {shape=[3,2]} return %y"},
    {"transpose", "%x: f64[2,3,5]", "%y = transpose(%x) {permutation=[2,0,1]} return %y"},
    {"broadcast", "%x: f64[1,3]", "%y = broadcast(%x) {shape=[2,4,3], axes=[1,2]} return %y"},
    {"slice", "%x: f64[11,3]", "%y = slice(%x) {starts=[1,0], limits=[10,2], strides=[3,1]} return %y"},
    {"pad", "%x: f64[4,3], %v: f64[]",
     "%y = pad(%x, %v) {low=[2,-1], high=[-1,3], interior=[2,0]} return %y"},
    {"concat", "%x: f64[2,3], %z: f64[2,2]", "%y = concat(%x, %z, %x) {axis=1} return %y"},
    {"reverse", "%x: f64[2,3]", "%y = reverse(%x) {axes=[1]} return %y"},
    {"gather", "%x: f64[5,4]",
     "%i = constant() {value=i32[3,1](4, -2, 9)} %y = gather(%x, %i) {offset_axes=[1], collapsed_axes=[0], "
     "start_index_map=[0], index_vector_axis=1, slice_sizes=[1,3]} return %y"},
    {"scatter sum", "%x: f64[5], %u: f64[4,2]",
     "%i = constant() {value=i32[4](1, 4, 1, -1)} %y = scatter(%x, %i, %u) {combine=sum, "
     "update_window_axes=[1], "
     "index_map=[0], index_vector_axis=1} return %y"},
    {"scatter set", "%x: f64[5], %u: f64[4]",
     "%i = constant() {value=i32[4](1, 3, 1, 7)} %y = scatter(%x, %i, %u) {inserted_axes=[0], index_map=[0], "
     "index_vector_axis=1} return %y"},
    {"scatter max", "%x: f64[5], %u: f64[4]",
     "%i = constant() {value=i32[4](1, 3, 1, 7)} %y = scatter(%x, %i, %u) {combine=max, inserted_axes=[0], "
     "index_map=[0], index_vector_axis=1} return %y"},
    {"scatter prod", "%x: f64[5,2], %u: f64[3,2]",
     "%i = constant() {value=i32[3](1, 3, 7)} %y = scatter(%x, %i, %u) {combine=prod, "
     "update_window_axes=[1], inserted_axes=[0], index_map=[0], index_vector_axis=1, unique=true} return %y"},
    {"dynamic_slice", "%x: f64[5,4], %i: i32[]", "%y = dynamic_slice(%x, %i, %i) {sizes=[2,4]} return %y"},
    {"dynamic_update_slice", "%x: f64[5], %u: f64[2], %i: i32[]",
     "%y = dynamic_update_slice(%x, %u, %i) return %y"},
    {"reduce sum", "%x: f64[2,3,5]", "%y = reduce(%x) {axes=[2,0]} return %y"},
    {"reduce max", "%x: f64[2,3,5]", "%y = reduce(%x) {kind=max, axes=[1]} return %y"},
    {"reduce min", "%x: f64[2,3,5]", "%y = reduce(%x) {kind=min, axes=[0,1,2]} return %y"},
    {"reduce prod", "%x: f64[2,3,5]", "%y = reduce(%x) {kind=prod, axes=[2,0]} return %y"},
    {"window sum", "%x: f64[3,11]",
     "%y = reduce_window(%x) {kind=sum, window=[2,3], strides=[1,2], pad_low=[1,2], pad_high=[0,1], "
     "base_dilation=[1,2], "
     "window_dilation=[1,3]} return %y"},
    {"window sum negative pads", "%x: f64[13]",
     "%y = reduce_window(%x) {kind=sum, window=[3], strides=[3], pad_low=[-2], pad_high=[-1]} return %y"},
    {"window max", "%x: f64[3,11]",
     "%y = reduce_window(%x) {kind=max, window=[2,3], strides=[1,2], pad_low=[1,1], pad_high=[0,2], "
     "window_dilation=[1,2]} return %y"},
    {"window max negative pads", "%x: f64[13]",
     "%y = reduce_window(%x) {kind=max, window=[3], strides=[3], pad_low=[-2], pad_high=[-1]} return %y"},
    {"window max mostly padding", "%x: f64[3]",
     "%y = reduce_window(%x) {kind=max, window=[3], strides=[4], pad_low=[2], pad_high=[3]} return %y"},
    {"window min", "%x: f64[9]", "%y = reduce_window(%x) {kind=min, window=[3], strides=[2]} return %y"},
    {"window prod", "%x: f64[3,11]",
     "%y = reduce_window(%x) {kind=prod, window=[2,3], strides=[1,2], pad_low=[1,2], pad_high=[0,2], "
     "base_dilation=[1,2], window_dilation=[1,2]} return %y"},
    {"cumulative sum", "%x: f64[3,5]", "%y = cumulative(%x) {axis=1} return %y"},
    {"cumulative sum reverse", "%x: f64[3,5]", "%y = cumulative(%x) {axis=0, reverse=true} return %y"},
    {"cumulative prod", "%x: f64[3,5]", "%y = cumulative(%x) {kind=prod, axis=1} return %y"},
    {"cumulative prod reverse", "%x: f64[5,2]",
     "%y = cumulative(%x) {kind=prod, axis=0, reverse=true} return %y"},
    {"cumulative max", "%x: f64[2,9]", "%y = cumulative(%x) {kind=max, axis=1} return %y"},
    {"cumulative min reverse", "%x: f64[2,9]",
     "%y = cumulative(%x) {kind=min, axis=1, reverse=true} return %y"},
    {"sort", "%x: f64[2,9], %z: f64[2,9]", "%y, %w = sort(%x, %z) {axis=1, descending=true} return %y, %w"},
    {"top_k", "%x: f64[2,9]", "%y, %i = top_k(%x) {k=3} return %y, %i"},
    {"dot", "%a: f64[2,3,4], %b: f64[4,5,2]",
     "%y = dot_general(%a, %b) {a_batch=[0], b_batch=[2], a_contract=[2], b_contract=[0]} return %y"},
    {"dot two contractions", "%a: f64[2,3,4], %b: f64[4,5,3]",
     "%y = dot_general(%a, %b) {a_contract=[1,2], b_contract=[2,0]} return %y"},
    {"convolution", "%x: f64[2,7,6,4], %k: f64[3,2,2,6]",
     "%y = convolution(%x, %k) {layout=\"b01f_01io->b01f\", strides=[2,1], pad_low=[1,0], pad_high=[2,1], "
     "kernel_dilation=[1,2], "
     "feature_groups=2} return %y"},
    // The gradient by the kernel has operands exchanged.
    {"convolution transposed", "%x: f64[2,3,4,4], %k: f64[3,2,2,6]",
     "%y = convolution(%x, %k) {layout=\"b01f_01io->b01f\", operand_dilation=[2,3], kernel_dilation=[1,2], "
     "pad_low=[1,2], pad_high=[2,1], reverse=[1,1], feature_groups=2} return %y"},
    {"convolution transposed without holes", "%x: f64[2,1,3,5], %k: f64[4,5,4,3]",
     "%y = convolution(%x, %k) {layout=\"b01f_oi01->b01f\", pad_low=[3,2], pad_high=[3,1], reverse=[1,1]} "
     "return %y"},
    {"convolution of an operand with holes", "%x: f64[2,4,3], %k: f64[3,3,2]",
     "%y = convolution(%x, %k) {layout=\"b0f_0io->b0f\", operand_dilation=[3], pad_low=[1]} return %y"},
    {"convolution flipped along one axis", "%x: f64[1,4,3,2], %k: f64[2,3,2,2]",
     "%y = convolution(%x, %k) {layout=\"b01f_01io->b01f\", operand_dilation=[1,2], reverse=[0,1]} return "
     "%y"},
    {"convolution batch groups", "%x: f64[4,7,3], %k: f64[2,3,6]",
     "%y = convolution(%x, %k) {layout=\"b0f_0io->b0f\", strides=[2], pad_low=[1], batch_groups=2} return "
     "%y"},
    {"cholesky", "%x: f64[2,3,3]",
     "%e = constant() {value=f64[3,3](3, 0, 0, 0, 3, 0, 0, 0, 3)} %b = broadcast(%e) {shape=[2,3,3], "
     "axes=[1,2]} %a = add(%x, %b) "
     "%y = cholesky(%a) return %y"},
    {"cholesky upper", "%x: f64[3,3]",
     "%e = constant() {value=f64[3,3](3, 0, 0, 0, 3, 0, 0, 0, 3)} %a = add(%x, %e) %y = cholesky(%a) "
     "{lower=false} return %y"},
    {"triangular_solve", "%a: f64[3,3], %b: f64[3,2]", "%y = triangular_solve(%a, %b) return %y", "", 0.5, 1},
    {"triangular_solve right upper transposed", "%a: f64[2,3,3], %b: f64[2,2,3]",
     "%y = triangular_solve(%a, %b) {left_side=false, lower=false, transpose_a=true} return %y", "", 0.5, 1},
    {"triangular_solve unit", "%a: f64[3,3], %b: f64[3,2]",
     "%y = triangular_solve(%a, %b) {unit_diagonal=true, transpose_a=true} return %y"},
    {"cond", "%p: bool[], %x: f64[3], %z: f64[3]", "%y = cond(%p, %x, %z) @a @b return %y",
     "graph @a(%x: f64[3], %z: f64[3]) { %y = mul(%x, %z) return %y }\ngraph @b(%x: f64[3], %z: f64[3]) { %y "
     "= exp(%x) return %y }\n"},
    {"scan", "%h: f64[3], %xs: f64[4,3], %w: f64[3]",
     "%y, %ys = scan(%h, %xs, %w) {length=4, carries=1, xs=1} @body return %y, %ys",
     "graph @body(%h: f64[3], %x: f64[3], %w: f64[3]) { %a = mul(%h, %w) %b = add(%a, %x) %c = tanh(%b) %d = "
     "mul(%c, %x) return %c, %d }\n"},
    {"scan reverse remat", "%h: f64[3], %xs: f64[4,3], %w: f64[3]",
     "%y, %ys = scan(%h, %xs, %w) {length=4, carries=1, xs=1, reverse=true, remat=true} @body return %y, %ys",
     "graph @body(%h: f64[3], %x: f64[3], %w: f64[3]) { %a = mul(%h, %w) %b = add(%a, %x) %c = tanh(%b) %d = "
     "mul(%c, %x) return %c, %d }\n"},
    {"scan in scan", "%h: f64[3], %xs: f64[2,3], %w: f64[3]",
     "%y, %ys = scan(%h, %xs, %w) {length=2, carries=1, xs=1} @outer return %y, %ys",
     "graph @inner(%h: f64[3], %w: f64[3]) { %a = mul(%h, %w) %b = sin(%a) return %b }\n"
     "graph @outer(%h: f64[3], %x: f64[3], %w: f64[3]) { %a = add(%h, %x) %b = scan(%a, %w) {length=3, "
     "carries=1} @inner "
     "%c = mul(%b, %x) return %b, %c }\n"},
    {"scan with integers", "%h: f64[], %xs: f64[5]",
     "%n = constant() {value=i32[](1)} %y, %m, %ys = scan(%h, %n, %xs) {length=5, carries=2, xs=1} @body "
     "return %y, %ys",
     "graph @body(%h: f64[], %n: i32[], %x: f64[]) { %f = convert(%n) {dtype=f64} %a = mul(%h, %f) %b = "
     "add(%a, %x) %m = add(%n, %n) "
     "%s = sin(%b) return %s, %m, %b }\n"},
    {"scan without a round", "%h: f64[3]", "%y = scan(%h) {length=0, carries=1} @body return %y",
     "graph @body(%h: f64[3]) { %z = constant() {value=f64[3](splat 2)} return %z }\n"},
    {"remat", "%x: f64[3], %n: i32[], %w: f64[3]",
     "%y, %m, %z = composite remat(%x, %n, %w) @body %s = mul(%y, %z) return %s, %m",
     "graph @body(%x: f64[3], %n: i32[], %w: f64[3]) { %a = mul(%x, %w) %b = sin(%a) %m = add(%n, %n) %f = "
     "convert(%m) {dtype=f64} %g = broadcast(%f) {shape=[3], axes=[]} %c = mul(%b, %g) return %b, %m, %c "
     "}\n"},
    {"remat in remat in scan", "%h: f64[3], %xs: f64[4,3], %w: f64[3]",
     "%y, %ys = scan(%h, %xs, %w) {length=4, carries=1, xs=1} @body return %y, %ys",
     "graph @inner(%h: f64[3], %w: f64[3]) { %a = mul(%h, %w) %b = tanh(%a) return %b }\n"
     "graph @outer(%h: f64[3], %x: f64[3], %w: f64[3]) { %a = composite remat(%h, %w) @inner %b = add(%a, "
     "%x) "
     "%c = sin(%b) return %c }\n"
     "graph @body(%h: f64[3], %x: f64[3], %w: f64[3]) { %a = composite remat(%h, %x, %w) @outer %b = mul(%a, "
     "%x) return %a, %b }\n"},
    {"remat of scan", "%h: f64[3], %w: f64[3]", "%y = composite remat(%h, %w) @loop return %y",
     "graph @body(%h: f64[3], %w: f64[3]) { %a = mul(%h, %w) %b = sin(%a) return %b }\n"
     "graph @loop(%h: f64[3], %w: f64[3]) { %b = scan(%h, %w) {length=3, carries=1} @body return %b }\n"},
    {"own backward", "%n: i32[3], %x: f64[3]",
     "%y, %c = composite user.sine(%n, %x) @sine @sine_back %z = mul(%y, %c) return %z, %y", kSine},
    {"own backward in scan", "%n: i32[3], %h: f64[3], %xs: f64[4,3]",
     "%y, %ys = scan(%h, %xs, %n) {length=4, carries=1, xs=1} @body return %y, %ys", kSineInScan},
    {"barrier", "%x: f64[3], %z: f64[3]", "%a, %b = barrier(%x, %z) %y = mul(%a, %b) return %y"},
    {"empty", "%x: f64[0,3]", "%y = exp(%x) %s = reduce(%y) {axes=[0]} return %s"},
    {"softmax", "%x: f64[2,5]", "%y = composite softmax(%x) return %y"},
    {"log_softmax", "%x: f64[2,5]", "%y = composite log_softmax(%x) return %y"},
    {"gelu", "%x: f64[9]", "%y = composite gelu(%x) return %y"},
    {"layer_norm", "%x: f64[3,7], %s: f64[7], %b: f64[7]", "%y = composite layer_norm(%x, %s, %b) return %y"},
    {"batch_norm", "%x: f64[5,2,3], %s: f64[3], %b: f64[3]",
     "%y, %m, %v = composite batch_norm_train(%x, %s, %b) return %y, %m, %v"},
    {"attention", "%q: f64[1,2,3,4], %k: f64[1,2,5,4], %v: f64[1,2,5,4]",
     "%y, %l = composite attention(%q, %k, %v) {causal=true} return %y"},
    {"attention and lse", "%q: f64[1,2,3,4], %k: f64[1,2,5,4], %v: f64[1,2,5,3]",
     "%y, %l = composite attention(%q, %k, %v) {scale=0.75} return %y, %l"},
    {"lse", "%q: f64[1,2,3,4], %k: f64[1,2,5,4], %v: f64[1,2,5,4]",
     "%y, %l = composite attention(%q, %k, %v) {causal=true} return %l"},
    {"cross_entropy", "%x: f64[4,3], %l: i32[4]", "%y = composite cross_entropy(%x, %l) return %y"},
    {"embedding", "%t: f64[5,3], %i: i32[2,2]", "%y = composite embedding(%t, %i) return %y"},
    {"lstm",
     "%x: f64[3,2,4], %h: f64[2,3], %c: f64[2,3], %w: f64[12,4], %r: f64[12,3], %a: f64[12], %b: f64[12]",
     "%y, %g, %d = composite lstm(%x, %h, %c, %w, %r, %a, %b) return %y, %g, %d"},
    {"gru", "%x: f64[3,2,4], %h: f64[2,3], %w: f64[9,4], %r: f64[9,3], %a: f64[9], %b: f64[9]",
     "%y, %g = composite gru(%x, %h, %w, %r, %a, %b) return %y, %g"},
    {"max_pool", "%x: f64[1,5,6,2]",
     "%y = composite max_pool(%x) {window=[2,3], strides=[2,2], pad_low=[1,0], pad_high=[0,1]} return %y"},
    {"avg_pool", "%x: f64[1,5,6,2]",
     "%y = composite avg_pool(%x) {window=[2,3], strides=[2,2], pad_low=[1,0], pad_high=[0,1], "
     "count_padding=false} return %y"},
};

class Gradient : public testing::TestWithParam<Case> {};
TEST_P(Gradient, AgreesWithDifferencesAndForwardMode) {
  check_gradient(graph_of(GetParam()), GetParam().low, GetParam().high);
}
INSTANTIATE_TEST_SUITE_P(Ops, Gradient, testing::ValuesIn(kCases), test_name);

// The gradient of f's gradient along a fixed direction: the same check on the graph that vjp made.
class SecondOrder : public testing::TestWithParam<Case> {};
TEST_P(SecondOrder, AgreesWithDifferences) {
  const Graph graph = graph_of(GetParam());
  check_gradient(vjp(graph, float_inputs(graph)), GetParam().low, GetParam().high);
}
const std::set<std::string> kTwice = {"remat",
                                      "remat in remat in scan",
                                      "remat of scan",
                                      "own backward",
                                      "own backward in scan",
                                      "log_softmax",
                                      "cross_entropy",
                                      "window prod",
                                      "scatter prod",
                                      "tanh",
                                      "mul",
                                      "dot",
                                      "convolution",
                                      "softmax",
                                      "layer_norm",
                                      "scan",
                                      "cond",
                                      "lstm",
                                      "pow",
                                      "gather",
                                      "scatter set",
                                      "reduce prod",
                                      "cumulative prod",
                                      "cholesky",
                                      "attention",
                                      "attention and lse",
                                      "batch_norm"};
std::vector<Case> twice() {
  std::vector<Case> out;
  for (const Case& c : kCases)
    if (kTwice.contains(c.name)) out.push_back(c);
  return out;
}
INSTANTIATE_TEST_SUITE_P(Ops, SecondOrder, testing::ValuesIn(twice()), test_name);

// libtpu 0.0.51 aborts for a TPU v7 on strided slices of a padded image, as in the stem of a ResNet.
TEST(Gradient, OfAMaximumPoolTakesSlicesOfTheImageItself) {
  const Graph graph = graph_of({"", "%x: bf16[2,8,8,3]",
                                "%y = reduce_window(%x) {kind=max, window=[1,3,3,1], strides=[1,2,2,1], "
                                "pad_low=[0,1,1,0], pad_high=[0,1,1,0]} return %y"});
  const Graph back = vjp(graph, {0});
  int slices = 0;
  for (const ir::Node& node : back.nodes()) {
    if (node.op != ir::Op::slice || node.as<ir::SliceAttrs>().strides != Ints{1, 2, 2, 1}) continue;
    ++slices;
    EXPECT_NE(back.node(node.operands[0].node).op, ir::Op::pad);
  }
  EXPECT_EQ(slices, 9);
}

}  // namespace
}  // namespace systole::autodiff
