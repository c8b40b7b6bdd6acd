// The kernels of every fixture's Program, with and without the passes, as CUDA C++: NVRTC compiles each
// distinct source to machine code. Many kernels stand in one file, since starting the compiler costs more
// than a kernel.

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <string>
#include <vector>

#include "codegen/few_channels.h"
#include "nvrtc.h"
#include "runtime/source_kernels.h"
#include "systole/ops.h"

namespace systole {

namespace {

constexpr std::size_t kKernelsPerFile = 150;

void add(codegen::KernelSet& kernels, const lower::Program& program) {
  for (const lower::Step& step : program.steps) {
    for (const auto& inner : step.programs) add(kernels, *inner);
    const std::string name = fmt::format("k{}", kernels.distinct().size());
    for (codegen::Kernel& kernel : codegen::make_kernels(step, name, codegen::Dialect::cuda))
      kernels.add(std::move(kernel));
  }
}

TEST(Nvrtc, EveryKernelCompiles) {
  const nvrtc::Api* const api = nvrtc::find();
  if (api == nullptr) GTEST_SKIP() << "no NVRTC: scripts/setup fetches it";
  const char* const chosen = std::getenv("SYSTOLE_TEST_ARCHITECTURE");
  const std::string architecture = chosen != nullptr ? chosen : "sm_90";
  codegen::KernelSet all;
  for (const std::string& row : conformance::fixture_names())
    for (const bool optimize : {true, false})
      if (const std::optional<lower::Program> program =
              nvrtc::program_of(conformance::load_fixture(row), optimize))
        add(all, *program);
  const nvrtc::Shard shard = nvrtc::shard();
  std::vector<codegen::Kernel> mine;
  for (std::size_t i = shard.index; i < all.distinct().size(); i += shard.count)
    mine.push_back(all.distinct()[i]);
  ASSERT_GT(mine.size(), 100u);
  for (std::size_t i = 0; i < mine.size(); i += kKernelsPerFile) {
    const auto first = mine.begin() + static_cast<std::ptrdiff_t>(i);
    const auto last = mine.begin() + static_cast<std::ptrdiff_t>(std::min(i + kKernelsPerFile, mine.size()));
    const std::string source = codegen::source_file({first, last}, codegen::Dialect::cuda);
    EXPECT_NO_THROW(nvrtc::machine_code(*api, source, architecture));
  }
  RecordProperty("kernels", static_cast<int>(mine.size()));
}

class Cutting final : public lower::Target {
 public:
  std::string_view name() const override { return "cutting"; }
  lower::KernelLimits limits() const override { return {.cuts_rows = true}; }
};

// Many rows, few and very long ones, and columns, of the widest types too: local memory suffices for each.
TEST(Nvrtc, EveryFormOfLargeReductionsCompiles) {
  const nvrtc::Api* const api = nvrtc::find();
  if (api == nullptr) GTEST_SKIP() << "no NVRTC: scripts/setup fetches it";
  codegen::KernelSet all;
  for (const DType dtype : {DType::f64, DType::bf16})
    for (const Shape& shape : {Shape{512, 65536}, Shape{65536, 512}, Shape{3, 200000}, Shape{200000, 64}}) {
      ir::Graph graph("sums");
      const ir::Value x = graph.input("x", {dtype, shape}), y = graph.input("y", {dtype, shape});
      const ir::Value more = ops::convert(ops::greater(x, y), DType::i64);
      for (const std::int64_t axis : {0, 1}) {
        graph.output(ops::sum(x, {axis}));
        graph.output(ops::sum(more, {axis}));
        graph.output(ops::sum(ops::convert(more, DType::i32), {axis}));
      }
      graph.output(ops::exp(x));
      const Cutting target;
      const lower::Program program = lower::make_program(lower::prepared(graph, target), target);
      for (const lower::Step& step : program.steps)
        for (const codegen::Form& form : codegen::forms(step)) {
          const std::string name = fmt::format("k{}", all.distinct().size());
          for (codegen::Kernel& kernel : codegen::make_kernels(step, name, codegen::Dialect::cuda, form))
            all.add(std::move(kernel));
        }
    }
  EXPECT_NO_THROW(
      nvrtc::machine_code(*api, codegen::source_file(all.distinct(), codegen::Dialect::cuda), "sm_90"));
}

// Every word of docs/kernels.md.
TEST(Nvrtc, PortableSourcesCompile) {
  const nvrtc::Api* const api = nvrtc::find();
  if (api == nullptr) GTEST_SKIP() << "no NVRTC: scripts/setup fetches it";
  const std::string source = R"(
S_ENTRY place(S_GLOBAL int* y, s_i64 n) {
  const s_i64 i = (S_THREAD_Z * S_GROUPS_Y * S_LANES_Y + S_THREAD_Y) * S_STEP + S_THREAD;
  if (i < n) y[i] = S_GROUP_Z + S_GROUP_Y + S_GROUP + S_LANE_Z + S_LANE_Y + S_LANE + S_GROUPS + S_LANES;
}
S_KERNEL(THREADS) turn(S_GLOBAL const float* x, S_GLOBAL float* y) {
  S_LOCAL float part[THREADS];
  part[S_LANE] = x[S_THREAD];
  S_BARRIER;
  y[S_THREAD] = part[THREADS - 1 - S_LANE];
}
#define MATHEMATICS(T, name)                                                                           \
  S_ENTRY name(S_GLOBAL T* y, T x) {                                                                   \
    y[0] = s_exp(x) + s_expm1(x) + s_log(x) + s_log1p(x) + s_sqrt(x) + s_rsqrt(x) + s_cbrt(x) +        \
           s_sin(x) + s_cos(x) + s_tan(x) + s_tanh(x) + s_erf(x) + s_fabs(x) + s_floor(x) + s_ceil(x) + \
           s_rint(x) + s_pow(x, x) + s_atan2(x, x) + s_fmod(x, x) + s_fma(x, x, x) + s_min(x, x) +     \
           s_max(x, x) + s_min(1, 2) + s_max(3u, 4u);                                                  \
  }
MATHEMATICS(float, in_float)
MATHEMATICS(double, in_double)
S_ENTRY add(S_GLOBAL int* a, S_GLOBAL unsigned* b, S_GLOBAL float* c, S_GLOBAL s_u16* h) {
  s_atomic_add(a, 1);
  s_atomic_add(b, 1u);
  s_atomic_add(c, 1.0f);
  h[0] = s_convert_f32_f16(s_convert_f16_f32(h[0])) + s_convert_f32_bf16(s_convert_bf16_f32(h[1]));
})";
  const std::string head =
      runtime::source_head(codegen::Dialect::cuda, true, {.defines = {{"THREADS", "64"}}});
  EXPECT_NO_THROW(nvrtc::machine_code(*api, head + source, "sm_90"));
}

class WithTensorCores final : public lower::Target {
 public:
  std::string_view name() const override { return "tensor cores"; }
  std::int64_t kernel_scratch(const lower::Region& region) const override {
    const auto few = codegen::few_channels(region);
    return few ? codegen::few_channels_scratch(*few) : 0;
  }
};

TEST(Nvrtc, ConvolutionsOfFewChannelsCompileForTensorCores) {
  const nvrtc::Api* const api = nvrtc::find();
  if (api == nullptr) GTEST_SKIP() << "no NVRTC: scripts/setup fetches it";
  struct Case {
    std::int64_t channels, window, padding, stride, filters;
  };
  for (const DType dtype : {DType::f32, DType::bf16, DType::f16})
    for (const Case& c :
         {Case{3, 3, 0, 1, 32}, Case{3, 3, 1, 1, 32}, Case{1, 5, 2, 2, 64}, Case{4, 4, 1, 2, 96}}) {
      const std::int64_t size = 40, places = (size + 2 * c.padding - c.window) / c.stride + 1;
      const Ints strides{c.stride, c.stride}, padding{c.padding, c.padding};
      ir::Graph graph("images");
      const ir::Value x = graph.input("x", {dtype, {64, size, size, c.channels}}),
                      w = graph.input("w", {dtype, {c.filters, c.window, c.window, c.channels}}),
                      back = graph.input("back", {dtype, {64, places, places, c.filters}});
      ir::ConvolutionAttrs forwards{.layout = "b01f_o01i->b01f", .strides = strides};
      forwards.pad_low = forwards.pad_high = padding;
      ir::ConvolutionAttrs by_kernel{.layout = "f01b_i01o->f01b"};
      by_kernel.pad_low = padding;
      by_kernel.kernel_dilation = strides;
      const std::int64_t reach = (places - 1) * c.stride + c.window - size - c.padding;
      by_kernel.pad_high = {reach, reach};
      graph.output(ops::exp(graph.add(ir::Op::convolution, {x, w}, forwards)));
      const ir::Value gradient = graph.add(ir::Op::convolution, {x, back}, by_kernel);
      ASSERT_EQ(gradient.type().shape, w.type().shape);
      graph.output(ops::exp(gradient));
      const WithTensorCores target;
      const lower::Program program = lower::make_program(lower::prepared(graph, target), target);
      codegen::KernelSet all;
      for (std::size_t i = 0; i < program.steps.size(); ++i)
        for (codegen::Kernel& kernel :
             codegen::make_kernels(program.steps[i], "k" + std::to_string(i), codegen::Dialect::cuda,
                                   {.tensor_cores = true, .tf32 = true}))
          all.add(std::move(kernel));
      EXPECT_EQ(all.distinct().size(), 3u);  // the gradient's are two
      const std::string source = codegen::source_file(all.distinct(), codegen::Dialect::cuda);
      try {
        nvrtc::machine_code(*api, source, "sm_90");
      } catch (const std::exception& error) {
        ADD_FAILURE() << error.what() << source.substr(source.find("k0(") - 200);
      }
    }
}

}  // namespace

}  // namespace systole
