// Convolutions as the CUDA backend hands them to cuDNN: what of a graph they are, and graphs rewritten for
// them. Nothing here needs a GPU; cuda_dnn_test runs them on one.

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "backend/cuda/dnn.h"
#include "backend/cuda/dnn_convolution.h"
#include "backend/patterns/convolution.h"
#include "backend/patterns/convolution_work.h"
#include "compile/fuse.h"
#include "systole/compile/passes.h"
#include "systole/ir/rewriter.h"
#include "systole/ops.h"
#include "systole/runtime.h"

namespace systole::cuda {

using namespace patterns;

namespace {

using ir::Graph;
using ir::Value;
using Work = ConvolutionWork::Kind;

ir::ConvolutionAttrs same_size() {
  ir::ConvolutionAttrs attrs;
  attrs.layout = "b01f_o01i->b01f";
  attrs.pad_low = attrs.pad_high = {1, 1};
  return attrs;
}

// y = convolution of x [2,5,5,8] with w [16,3,3,8], and what `work` makes of it.
template <class F>
lower::Region region_with(F&& work) {
  lower::Region region;
  Graph& graph = region.graph;
  const Value x = graph.input("x", {DType::bf16, {2, 5, 5, 8}});
  const Value w = graph.input("w", {DType::bf16, {16, 3, 3, 8}});
  const Value y = ops::convolution(x, w, same_size());
  region.anchor = y.id().node;
  graph.output(work(graph, y));
  return region;
}

Value bias_of(Graph& graph, const Value& y) { return ops::add(y, graph.input("bias", {DType::bf16, {16}})); }

std::string refusal(const lower::Region& region) {
  DnnConvolution problem;
  return read_dnn_convolution(region, problem);
}

std::vector<Work> steps_of(const lower::Region& region) {
  DnnConvolution problem;
  EXPECT_EQ(read_dnn_convolution(region, problem), "");
  std::vector<Work> kinds;
  for (const ConvolutionWork::Step& step : problem.work.steps) kinds.push_back(step.kind);
  return kinds;
}

TEST(CudaConvolutionWork, NothingOnTheResultIsRead) {
  const lower::Region region = region_with([](Graph&, const Value& y) { return y; });
  EXPECT_EQ(steps_of(region), std::vector<Work>{});
}

TEST(CudaConvolutionWork, ABiasAnArrayAndAReluAreReadInTheirOrder) {
  const lower::Region region = region_with([](Graph& graph, const Value& y) {
    const Value sum = ops::add(graph.input("skip", y.type()), bias_of(graph, y));
    return ops::relu(sum);
  });
  DnnConvolution problem;
  ASSERT_EQ(read_dnn_convolution(region, problem), "");
  ASSERT_EQ(problem.work.steps.size(), 3u);
  EXPECT_EQ(problem.work.steps[0].kind, Work::bias);
  EXPECT_EQ(region.graph.input_name(problem.work.steps[0].input), "bias");
  EXPECT_EQ(problem.work.steps[1].kind, Work::add);
  EXPECT_EQ(region.graph.input_name(problem.work.steps[1].input), "skip");
  EXPECT_EQ(problem.work.steps[2].kind, Work::relu);
  EXPECT_EQ(problem.work.text(), "bias.bf16 add.bf16 relu bf16");
}

TEST(CudaConvolutionWork, AReluByAChoiceIsOneToo) {
  const lower::Region region = region_with([](Graph& graph, const Value& y) {
    const Value zero = ops::full(graph, y.type(), 0);
    return ops::select(ops::less_equal(y, zero), zero, y);
  });
  EXPECT_EQ(steps_of(region), std::vector<Work>{Work::relu});
}

TEST(CudaConvolutionWork, ConversionsOnTheWayDecideTheDtypeOfTheResult) {
  const lower::Region region =
      region_with([](Graph&, const Value& y) { return ops::relu(ops::convert(y, DType::f32)); });
  DnnConvolution problem;
  ASSERT_EQ(read_dnn_convolution(region, problem), "");
  EXPECT_EQ(problem.work.output, DType::f32);
  EXPECT_EQ(problem.convolution.output, DType::bf16);
}

TEST(CudaConvolutionWork, OtherWorkIsDeclinedByItsName) {
  EXPECT_EQ(refusal(region_with([](Graph&, const Value& y) { return ops::tanh(y); })),
            "no tanh in the work on the result");
  EXPECT_EQ(refusal(region_with([](Graph&, const Value& y) { return ops::add(y, y); })),
            "no add in the work on the result");
  EXPECT_EQ(refusal(region_with([](Graph&, const Value& y) { return ops::max(y, ops::scalar_like(y, 1)); })),
            "no max in the work on the result");
}

TEST(CudaConvolutionWork, ABiasOfAnotherAxisIsDeclined) {
  const lower::Region region = region_with([](Graph& graph, const Value& y) {
    return ops::add(y, ops::broadcast(graph.input("rows", {DType::bf16, {5}}), y.shape(), {1}));
  });
  EXPECT_EQ(refusal(region), "what is added is neither an array nor a bias of the channels");
}

TEST(CudaConvolutionWork, AResultThatIsWantedBeforeTheWorkIsDeclined) {
  lower::Region region = region_with([](Graph& graph, const Value& y) {
    graph.output(y);
    return ops::relu(y);
  });
  EXPECT_EQ(refusal(region), "more than the last of the work on the result is wanted");
}

// Declines everything, and keeps what it was offered.
class Listener final : public lower::Target {
 public:
  std::string_view name() const override { return "listener"; }
  std::vector<lower::Claim> offers(const lower::Region& region) const override {
    if (region.graph.node(region.anchor).op == ir::Op::convolution) offered.push_back(refusal(region));
    return {};
  }
  mutable std::vector<std::string> offered;
};

TEST(CudaConvolutionWork, FusionOffersAConvolutionWithTheWorkOnItsResultFirst) {
  for (const bool is_wanted : {false, true}) {
    const lower::Region region = region_with([&](Graph& graph, const Value& y) {
      const Value sum = bias_of(graph, y);
      if (is_wanted) graph.output(sum);
      return ops::relu(sum);
    });
    const Listener listener;
    lower::fuse(region.graph, listener);
    const std::string first = is_wanted ? "more than the last of the work on the result is wanted" : "";
    EXPECT_EQ(listener.offered, (std::vector<std::string>{first, ""}));
  }
}

TEST(CudaConvolutionText, TellsApartWhatNeedsAnotherPlan) {
  const lower::Region plain = region_with([](Graph&, const Value& y) { return y; });
  DnnConvolution a;
  ASSERT_EQ(read_dnn_convolution(plain, a), "");
  DnnConvolution b = a;
  b.is_deterministic = true;
  EXPECT_NE(a.text(), b.text());
  b = a;
  b.convolution.after[1] = 2;
  EXPECT_NE(a.text(), b.text());
  b = a;
  b.first = 1;  // where operands stand is the call's business
  EXPECT_EQ(a.text(), b.text());
}

TEST(CudaConvolutionArrays, AreAsLargeAsTheNodesOperandsAndResults) {
  const lower::Region region = region_with([](Graph& graph, const Value& y) { return bias_of(graph, y); });
  DnnConvolution problem;
  ASSERT_EQ(read_dnn_convolution(region, problem), "");
  EXPECT_EQ(array_bytes(problem), (std::vector<std::int64_t>{2 * 400, 2 * 1152, 2 * 800, 2 * 16}));
}

// A scan over f32[7,1,5,5,3] hands its body slices of 300 bytes, one behind another.
TEST(CudaConvolutionArrays, AreDeclaredAsAlignedAsAScansSlicesAre) {
  lower::Region region;
  Graph& graph = region.graph;
  const Value x = graph.input("x", {DType::f32, {1, 5, 5, 3}});
  const Value w = graph.input("w", {DType::f32, {6, 3, 3, 3}});
  const Value y = ops::convolution(x, w, same_size());
  region.anchor = y.id().node;
  const Value sum = ops::add(y, graph.input("bias", {DType::f32, {6}}));
  graph.output(ops::add(sum, graph.input("skip", y.type())));
  DnnConvolution problem;
  ASSERT_EQ(read_dnn_convolution(region, problem), "");
  EXPECT_EQ(array_bytes(problem), (std::vector<std::int64_t>{300, 648, 600, 24, 600}));
  EXPECT_EQ(array_alignments(problem), (std::vector<std::int64_t>{4, 8, 8, 8, 8}));
  EXPECT_NE(problem.text().find("aligned 4 8 8 8 8"), std::string::npos) << problem.text();
  EXPECT_EQ(
      array_alignments(
          {.convolution =
               {.batch = 1, .channels = 8, .filters = 8, .image = {4, 4}, .window = {1, 1}, .result = {4, 4}},
           .work = {}}),
      (std::vector<std::int64_t>{16, 16, 16}));
}

TEST(CudaChannels, AreAskedForByWhatThePlansDependOn) {
  std::vector<DnnConvolution> exact(2);
  for (DnnConvolution& way : exact) way.convolution.channels = 3;
  std::vector<DnnConvolution> narrow = exact, repeatable = exact;
  narrow[0].is_true_f32 = narrow[1].is_true_f32 = false;
  repeatable[0].is_deterministic = repeatable[1].is_deterministic = true;
  const auto key = [](const std::vector<DnnConvolution>& ways, std::size_t version) {
    const Question question = channels_question(ways, version);
    return question.name + "|" + question.details;
  };
  EXPECT_EQ(key(exact, 91000), key(exact, 91000));
  EXPECT_NE(key(exact, 91000), key(narrow, 91000));
  EXPECT_NE(key(exact, 91000), key(repeatable, 91000));
  EXPECT_NE(key(exact, 91000), key(exact, 92000));
  EXPECT_FALSE(channels_question(repeatable, 91000).is_measured);
}

std::vector<double> run(const Graph& graph, const std::vector<Literal>& arguments) {
  return compile(graph, "reference", {.optimize = false}).run(arguments)[0].to_doubles();
}

Literal wave(const Type& type) {
  Literal made(type);
  double* const values = made.mutable_values<double>().data();
  for (std::int64_t i = 0; i < made.count(); ++i) values[i] = static_cast<double>((i * 37) % 23 - 11) / 8;
  return made;
}

int convolutions_with(const Graph& graph, std::int64_t channels) {
  int found = 0;
  for (const ir::Node& node : graph.nodes())
    if (node.op == ir::Op::convolution && graph.type(node.operands[0]).shape[3] == Dim(channels)) ++found;
  return found;
}

TEST(CudaChannels, MoreOfThemChangeNoNumberOfTheResult) {
  Graph graph;
  const Type x{DType::f64, {2, 7, 6, 3}}, w{DType::f64, {5, 3, 3, 3}};
  ir::ConvolutionAttrs attrs = same_size();
  attrs.strides = {2, 1};
  const Value image = graph.input("x", x), kernel = graph.input("w", w);
  graph.output(ops::convolution(image, kernel, attrs));
  const Graph more = with_more_channels(graph, [](const Convolution&) { return 8; });
  ir::verify(more);
  EXPECT_EQ(convolutions_with(more, 8), 1);
  const std::vector<Literal> arguments{wave(x), wave(w)};
  EXPECT_EQ(run(graph, arguments), run(more, arguments));
}

TEST(CudaChannels, TheGradientByAKernelLosesThemAgain) {
  Graph graph;
  const Type x{DType::f64, {2, 7, 6, 3}}, grad{DType::f64, {2, 4, 6, 5}};
  ir::ConvolutionAttrs attrs = same_size();
  attrs.strides = {2, 1};
  const Value given = graph.input("grad", grad), image = graph.input("x", x);
  graph.output(ops::conv_weight_grad(given, image, {5, 3, 3, 3}, attrs));
  const Graph bare = with_channels_last(passes::inline_composites(graph));
  const Graph more = with_more_channels(bare, [](const Convolution& c) {
    EXPECT_EQ(c.kind, Convolution::Kind::weight_grad);
    return c.channels + 1;
  });
  ir::verify(more);
  EXPECT_EQ(convolutions_with(more, 4), 1);
  const std::vector<Literal> arguments{wave(grad), wave(x)};
  EXPECT_EQ(run(bare, arguments), run(more, arguments));
}

TEST(CudaChannels, GroupsAndGradientsByTheImageKeepTheirs) {
  Graph graph;
  ir::ConvolutionAttrs attrs = same_size();
  attrs.feature_groups = 3;
  graph.output(ops::convolution(graph.input("x", {DType::f32, {2, 7, 6, 3}}),
                                graph.input("w", {DType::f32, {6, 3, 3, 1}}), attrs));
  attrs.feature_groups = 1;
  graph.output(ops::conv_input_grad(graph.input("grad", {DType::f32, {2, 7, 6, 5}}),
                                    graph.input("w2", {DType::f32, {5, 3, 3, 3}}), {2, 7, 6, 3}, attrs));
  const Graph bare = with_channels_last(passes::inline_composites(graph));
  EXPECT_TRUE(with_more_channels(bare, [](const Convolution&) { return 8; }).same_structure(bare));
}

}  // namespace

}  // namespace systole::cuda
