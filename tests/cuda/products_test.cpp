// How cublasLt is called: a library that computes what the documentation says must give the graph's numbers,
// for every layout and every work on the result, and its proposals are timed, or the first is taken.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <random>
#include <string>
#include <vector>

#include "../graph_arguments.h"
#include "../program_check.h"
#include "backend/cuda/blas.h"
#include "backend/cuda/target.h"
#include "backend/patterns/on_result.h"
#include "eval/eval.h"
#include "fake_blas.h"
#include "fake_check.h"
#include "systole/autodiff.h"
#include "systole/compile/passes.h"
#include "systole/ops.h"

namespace systole::cuda {

using namespace patterns;
namespace {

using ir::Value;
using ir::Values;

class CudaProduct : public FakeCuda {
 protected:
  CudaProduct() { ::unsetenv("SYSTOLE_TUNE"); }

  // A graph with one product, as the region it would be.
  using Build = std::function<Values(const Values& inputs)>;
  static lower::Region region(const std::vector<Type>& inputs, const Build& build) {
    ir::Graph graph;
    Values values;
    for (const Type& type : inputs) values.push_back(graph.input({}, type));
    for (const Value& output : build(values)) graph.output(output);
    lower::Region out{passes::inline_composites(graph)};
    for (std::int32_t i = 0; i < out.graph.size(); ++i)
      if (out.graph.node(i).op == ir::Op::dot_general) out.anchor = i;
    return out;
  }

  // What the call writes, on the host's memory.
  std::vector<Literal> run(const LibraryCall& call, const ir::Graph& graph,
                           const std::vector<Literal>& arguments) const {
    std::vector<Literal> results;
    std::vector<Address> inputs, outputs;
    for (const Literal& argument : arguments) inputs.push_back(reinterpret_cast<Address>(argument.bytes()));
    for (const ir::Output& output : graph.outputs()) results.emplace_back(graph.type(output.value));
    for (Literal& result : results) outputs.push_back(reinterpret_cast<Address>(result.mutable_bytes()));
    call.run(nullptr, inputs, outputs, 0);
    return results;
  }

  void expect_same(const std::string& work, const std::vector<Type>& inputs, const Build& build) {
    SCOPED_TRACE(inputs[0].to_string() + work);
    const lower::Region part = region(inputs, build);
    const BlasWishes wishes{.is_deterministic = true};
    const lower::Claim claim = blas_offer(device_, part, wishes);
    ASSERT_EQ(claim.implementation, "cublasLt.matmul" + work) << claim.reason;
    EXPECT_EQ(claim.workspace_bytes, 1000);
    const std::vector<Literal> arguments = random_arguments(part.graph, 5, 1),
                               wanted = eval::evaluate(part.graph, arguments),
                               got = run(*blas_call(device_, part, wishes), part.graph, arguments);
    const DType dtype = wanted[0].dtype();
    const double tolerance = dtype == DType::f64    ? 1e-12
                             : dtype == DType::f32  ? 1e-5
                             : dtype == DType::bf16 ? 0.03
                                                    : 0.004;
    for (std::size_t i = 0; i < got.size(); ++i) {
      const std::vector<double> a = got[i].to_doubles(), b = wanted[i].to_doubles();
      double largest = 0;
      for (const double x : b) largest = std::max(largest, std::abs(x));
      for (std::size_t k = 0; k < a.size(); ++k)
        ASSERT_NEAR(a[k], b[k], tolerance * largest) << "output " << i << " at " << k;
    }
  }

  void SetUp() override { ::setenv("SYSTOLE_CUDA_PREFER", "cublasLt", 1); }  // small products too
  void TearDown() override { ::unsetenv("SYSTOLE_CUDA_PREFER"); }

  FakeDriver fake_;
  const Device device_{0};
  lt::FakeBlas blas_;
};

Value with_bias(Value y, Value b) { return ops::add(y, ops::broadcast_to(b, y.shape())); }

TEST_F(CudaProduct, SmallProductsAreLeftToGeneratedKernels) {
  ::unsetenv("SYSTOLE_CUDA_PREFER");
  const auto refusal = [&](std::int64_t rows, std::int64_t depth) {
    const lower::Region part =
        region({{DType::f32, {rows, depth}}, {DType::f32, {depth, 128}}},
               [](const ir::Values& x) { return ir::Values{ops::dot_general(x[0], x[1], {1}, {0})}; });
    return blas_offer(device_, part, {.is_deterministic = true}).reason;
  };
  EXPECT_NE(refusal(64, 10).find("SYSTOLE_CUDA_PREFER=cublasLt"), std::string::npos) << refusal(64, 10);
  EXPECT_EQ(refusal(64, 784), "");     // deep
  EXPECT_EQ(refusal(16384, 100), "");  // large
}

TEST_F(CudaProduct, EveryOrderOfTheOperandsIsTold) {
  for (const DType dtype : {DType::f32, DType::f64, DType::bf16, DType::f16})
    for (const bool a_first : {false, true})
      for (const bool b_first : {false, true})
        expect_same(
            "", {{dtype, a_first ? Shape{5, 3} : Shape{3, 5}}, {dtype, b_first ? Shape{5, 7} : Shape{7, 5}}},
            [&](const Values& v) -> Values {
              return {ops::dot_general(v[0], v[1], {a_first ? 0 : 1}, {b_first ? 0 : 1})};
            });
}

TEST_F(CudaProduct, BatchesAndPartsAreReadWhereTheyLie) {
  expect_same("", {{DType::f32, {2, 4, 3, 5}}, {DType::f32, {2, 3, 5, 7}}}, [](const Values& v) -> Values {
    return {ops::dot_general(ops::transpose(v[0], {0, 2, 1, 3}), v[1], {3}, {2}, {0, 1}, {0, 1})};
  });
  expect_same("", {{DType::f32, {9, 33}}, {DType::f32, {7, 33}}}, [](const Values& v) -> Values {
    return {ops::dot_general(ops::slice(v[0], {1, 3}, {9, 24}), ops::slice(v[1], {0, 1}, {7, 22}), {1}, {1})};
  });
  const auto aligned = blas_.preferences;  // the first operand of the library is the second one here
  EXPECT_EQ(aligned.at(lt::kAlignmentA), 4);
  EXPECT_EQ(aligned.at(lt::kAlignmentB), 4);
}

TEST_F(CudaProduct, AddressesAreAsAlignedAsALoopsSlicesMayBe) {
  expect_same("", {{DType::f32, {3, 6}}, {DType::f32, {16, 6}}},
              [](const Values& v) -> Values { return {ops::dot_general(v[0], v[1], {1}, {1})}; });
  EXPECT_EQ(blas_.preferences.at(lt::kAlignmentB), 8);    // 72 bytes
  EXPECT_EQ(blas_.preferences.at(lt::kAlignmentA), 128);  // 384 bytes
  EXPECT_EQ(blas_.preferences.at(lt::kAlignmentD), 64);   // 192 bytes
}

TEST_F(CudaProduct, WorkOnTheResultIsTold) {
  for (const DType dtype : {DType::f32, DType::bf16, DType::f16}) {
    const Type x{dtype, {6, 5}}, w{dtype, {16, 5}}, b{dtype, {16}}, c{dtype, {6, 16}};
    const auto product = [](const Values& v) { return ops::dot_general(v[0], v[1], {1}, {1}); };
    expect_same("+bias", {x, w, b}, [&](const Values& v) -> Values { return {with_bias(product(v), v[2])}; });
    expect_same("+bias+relu", {x, w, b},
                [&](const Values& v) -> Values { return {ops::relu(with_bias(product(v), v[2]))}; });
    expect_same("+gelu", {x, w}, [&](const Values& v) -> Values { return {ops::gelu(product(v), true)}; });
    expect_same("+bias+gelu+before", {x, w, b}, [&](const Values& v) -> Values {
      const Value sum = with_bias(product(v), v[2]);
      return {sum, ops::gelu(sum, true)};
    });
    expect_same("+scale 0.25+array", {x, w, c}, [&](const Values& v) -> Values {
      const Value y = product(v);
      return {ops::add(v[2], ops::mul(y, ops::broadcast_to(ops::scalar_like(y, 0.25), y.shape())))};
    });
    expect_same("+array+bias", {x, w, b, c},
                [&](const Values& v) -> Values { return {ops::add(with_bias(product(v), v[2]), v[3])}; });
  }
}

TEST_F(CudaProduct, WorkOnBatchesIsTold) {
  const Type x{DType::f32, {2, 6, 3, 5}}, w{DType::f32, {2, 3, 5, 8}}, b{DType::f32, {8}};
  const auto product = [](const Values& v) {
    return ops::dot_general(ops::transpose(v[0], {0, 2, 1, 3}), v[1], {3}, {2}, {0, 1}, {0, 1});
  };
  expect_same("+bias+gelu+before", {x, w, b}, [&](const Values& v) -> Values {
    const Value sum = with_bias(product(v), v[2]);
    return {ops::gelu(sum, true), sum};
  });
  expect_same("+array", {x, w, {DType::f32, {2, 3, 6, 8}}},
              [&](const Values& v) -> Values { return {ops::add(product(v), v[2])}; });
}

// (d·w) · gelu'(x), written as the derivative of a sum.
Value gelu_gradient(Value d, Value x) {
  const auto number = [&](double n) { return ops::broadcast_to(ops::scalar_like(x, n), x.shape()); };
  const double c = std::sqrt(2 / std::numbers::pi);
  const Value cube = ops::mul(ops::mul(x, x), x);
  const Value t = ops::tanh(ops::mul(ops::add(x, ops::mul(cube, number(0.044715))), number(c)));
  const Value slope = ops::mul(ops::add(number(1), ops::mul(ops::mul(x, x), number(0.134145))), number(c));
  const Value bend = ops::mul(ops::mul(ops::mul(x, number(0.5)), ops::sub(number(1), ops::mul(t, t))), slope);
  return ops::mul(d, ops::add(ops::mul(ops::add(t, number(1)), number(0.5)), bend));
}

TEST_F(CudaProduct, GradientsAreTold) {
  const Type d{DType::f32, {6, 5}}, w{DType::f32, {5, 16}}, x{DType::f32, {6, 16}};
  expect_same("+gelu gradient", {d, w, x}, [](const Values& v) -> Values {
    return {gelu_gradient(ops::dot_general(v[0], v[1], {1}, {0}), v[2])};
  });
  expect_same("+gelu gradient+sum of rows", {d, w, x}, [](const Values& v) -> Values {
    const Value result = gelu_gradient(ops::dot_general(v[0], v[1], {1}, {0}), v[2]);
    return {result, ops::sum(result, {0})};
  });
  const Type a{DType::bf16, {9, 4}}, b{DType::bf16, {9, 6}};
  expect_same("+sum of operand 0", {a, b}, [](const Values& v) -> Values {
    return {ops::dot_general(v[0], v[1], {0}, {0}), ops::sum(v[0], {0})};
  });
  expect_same("+sum of operand 1", {a, b}, [](const Values& v) -> Values {
    return {ops::sum(v[1], {0}), ops::dot_general(v[0], v[1], {0}, {0})};
  });
}

// A step of training, lowered for the card: the library's part by the fake, in the memory that the plan
// gives.
TEST_F(CudaProduct, ATrainingStepInThePlansMemoryGivesTheGraphsNumbers) {
  for (const DType dtype : {DType::f32, DType::bf16})
    for (const bool is_relu : {true, false}) {
      SCOPED_TRACE(std::string(name(dtype)) + (is_relu ? " relu" : " gelu"));
      ir::Graph loss;
      const Value x = loss.input("x", {dtype, {6, 16}}), w1 = loss.input("w1", {DType::f32, {24, 16}}),
                  b1 = loss.input("b1", {DType::f32, {24}}), w2 = loss.input("w2", {DType::f32, {8, 24}}),
                  b2 = loss.input("b2", {DType::f32, {8}});
      const auto layer = [&](Value in, Value w, Value b) {
        return with_bias(ops::dot_general(in, ops::convert(w, dtype), {1}, {1}), ops::convert(b, dtype));
      };
      const Value sum = layer(x, w1, b1), zero = ops::scalar_like(sum, 0);
      const Value h = is_relu ? ops::select(ops::less_equal(sum, zero), zero, sum) : ops::gelu(sum, true);
      const Value y = ops::convert(layer(h, w2, b2), DType::f32);
      loss.output(ops::sum(ops::mul(y, y), {0, 1}));
      const ir::Graph graph =
          passes::run_passes(autodiff::value_and_grad(loss, {0, 1, 2, 3, 4}), passes::standard_passes());

      const Target target(device_, runtime::Math::f32, true);
      const lower::Program program = lower::make_program(lower::prepared(graph, target), target);
      lower::verify(program);
      std::string calls;
      const program_check::OtherMeans library = [&](const lower::Program&, const lower::Step& step,
                                                    const std::vector<std::byte*>& buffers) {
        if (step.kind != lower::StepKind::library) return false;
        calls += step.implementation.substr(15) + ";";
        std::vector<Address> all;
        for (std::byte* const each : buffers) all.push_back(reinterpret_cast<Address>(each));
        const std::span<const Address> places(all);
        target.library_call(step)->run(nullptr, places.subspan(0, step.inputs.size()),
                                       places.subspan(step.inputs.size(), step.outputs.size()), all.back());
        return true;
      };
      const std::vector<Literal> arguments = random_arguments(graph, 5, 1),
                                 wanted = eval::evaluate(graph, arguments);
      std::vector<Literal> held = arguments, got;
      std::vector<std::byte*> inputs, outputs;
      for (Literal& each : held) inputs.push_back(each.mutable_bytes());
      for (const Literal& each : wanted) got.emplace_back(each.type());
      for (Literal& each : got) outputs.push_back(each.mutable_bytes());
      std::vector<std::byte> arena(static_cast<std::size_t>(program.arena_bytes), std::byte{0xab});
      program_check::Runner(program, inputs, outputs, arena.data(), &library).run();
      EXPECT_NE(calls.find(is_relu ? "+bias+relu;" : "+bias+gelu+before;"), std::string::npos) << calls;
      EXPECT_EQ(calls.find("+gelu gradient+sum of rows;") != std::string::npos, !is_relu) << calls;
      EXPECT_NE(calls.find("+sum of operand 0;"), std::string::npos) << calls;
      for (std::size_t i = 0; i < got.size(); ++i) {
        const std::vector<double> a = got[i].to_doubles(), b = wanted[i].to_doubles();
        double largest = 0;
        for (const double each : b) largest = std::max(largest, std::abs(each));
        for (std::size_t k = 0; k < a.size(); ++k)
          ASSERT_NEAR(a[k], b[k], (dtype == DType::f32 ? 1e-5 : 0.04) * largest) << "output " << i;
      }
    }
}

TEST_F(CudaProduct, WhatTheLibraryHasNoAlgorithmForIsDeclined) {
  blas_.refused_epilogue = lt::kBias;
  const lower::Region part = region(
      {{DType::f64, {3, 5}}, {DType::f64, {7, 5}}, {DType::f64, {7}}},
      [](const Values& v) -> Values { return {with_bias(ops::dot_general(v[0], v[1], {1}, {1}), v[2])}; });
  const lower::Claim claim = blas_offer(device_, part, {});
  EXPECT_FALSE(claim);
  EXPECT_NE(claim.reason.find("no algorithm for 3x7x5 f64+bias"), std::string::npos) << claim.reason;
}

TEST_F(CudaProduct, MathIsWhatWasAskedFor) {
  const auto product = [](const Values& v) -> Values { return {ops::dot_general(v[0], v[1], {1}, {1})}; };
  const lower::Region part = region({{DType::f32, {3, 5}}, {DType::f32, {7, 5}}}, product);
  EXPECT_TRUE(blas_offer(device_, part, {.is_deterministic = true}));
  EXPECT_EQ(blas_.compute_of_last, lt::kCompute32F);
  EXPECT_TRUE(blas_offer(device_, part, {.math = runtime::Math::tf32, .is_deterministic = true}));
  EXPECT_EQ(blas_.compute_of_last, lt::kCompute32FTf32);
}

TEST_F(CudaProduct, ProposalsAreTimedOnceUnlessTheSameIsWantedEverywhere) {
  const lower::Region part =
      region({{DType::f32, {3, 9}}, {DType::f32, {7, 9}}},
             [](const Values& v) -> Values { return {ops::dot_general(v[0], v[1], {1}, {1})}; });
  EXPECT_TRUE(blas_offer(device_, part, {.is_deterministic = true}));
  EXPECT_TRUE(blas_.algorithms.empty());
  EXPECT_TRUE(blas_offer(device_, part, {}));
  for (std::uint64_t i = 0; i < 3; ++i)
    EXPECT_TRUE(std::count(blas_.algorithms.begin(), blas_.algorithms.end(), i) > 1) << i;
  blas_.algorithms.clear();
  EXPECT_TRUE(blas_offer(device_, part, {}));
  EXPECT_TRUE(blas_.algorithms.empty());
  EXPECT_EQ(fake_.violations(), "");
}

TEST_F(CudaProduct, WithoutMemoryForATrialTheFirstIsTaken) {
  const lower::Region part =
      region({{DType::f32, {3, 11}}, {DType::f32, {7, 11}}},
             [](const Values& v) -> Values { return {ops::dot_general(v[0], v[1], {1}, {1})}; });
  fake_.fail(1, kErrorOutOfMemory, "cuMemAllocAsync", 2);
  const lower::Claim claim = blas_offer(device_, part, {});
  EXPECT_TRUE(claim);
  EXPECT_EQ(claim.workspace_bytes, 1000);
  EXPECT_TRUE(blas_.algorithms.empty());
}

}  // namespace
}  // namespace systole::cuda
