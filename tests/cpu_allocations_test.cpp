// A compiled program that was run before takes no memory from the system when it runs again. Every malloc of
// the process is counted, on all threads, those of libraries apart: by what stands on the stack.

#include <dlfcn.h>
#include <execinfo.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <string>
#include <vector>

#include "graph_arguments.h"
#include "sanitized.h"
#include "systole/nn/losses.h"
#include "systole/nn/models.h"
#include "systole/ops.h"
#include "systole/optim.h"
#include "systole/systole.h"

namespace {

struct Counts {
  std::atomic<int> ours{0}, of_libraries{0};
  void* frames[32];  // of the first of ours
  int depth = 0;
};
std::atomic<Counts*> counting{nullptr};
thread_local bool is_noting = false;

bool is_of_library(void* address) {
  Dl_info info{};
  if (::dladdr(address, &info) == 0 || info.dli_fname == nullptr) return false;
  return std::strstr(info.dli_fname, "libdnnl") != nullptr ||
         std::strstr(info.dli_fname, "libgomp") != nullptr;
}

[[maybe_unused]] void note() {
  Counts* const counts = counting.load(std::memory_order_relaxed);
  if (counts == nullptr || is_noting) return;
  is_noting = true;
  void* frames[32];
  const int depth = ::backtrace(frames, 32);
  bool is_library = false;
  for (int i = 0; i < depth; ++i) is_library = is_library || is_of_library(frames[i]);
  if (is_library) {
    ++counts->of_libraries;
  } else if (counts->ours++ == 0) {
    std::memcpy(counts->frames, frames, sizeof frames);
    counts->depth = depth;
  }
  is_noting = false;
}

}  // namespace

// Sanitizers have their own malloc.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SYSTOLE_COUNTS 0
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define SYSTOLE_COUNTS 0
#endif
#endif
#ifndef SYSTOLE_COUNTS
#define SYSTOLE_COUNTS 1
#endif

#if SYSTOLE_COUNTS
// glibc's own functions, under the names that they have beside the usual ones.
extern "C" {
void* __libc_malloc(std::size_t);
void* __libc_calloc(std::size_t, std::size_t);
void* __libc_realloc(void*, std::size_t);
void* __libc_memalign(std::size_t, std::size_t);

#define SYSTOLE_VISIBLE __attribute__((visibility("default")))
SYSTOLE_VISIBLE void* malloc(std::size_t bytes) {
  note();
  return __libc_malloc(bytes);
}
SYSTOLE_VISIBLE void* calloc(std::size_t count, std::size_t bytes) {
  note();
  return __libc_calloc(count, bytes);
}
SYSTOLE_VISIBLE void* realloc(void* old, std::size_t bytes) {
  note();
  return __libc_realloc(old, bytes);
}
SYSTOLE_VISIBLE void* aligned_alloc(std::size_t alignment, std::size_t bytes) {
  note();
  return __libc_memalign(alignment, bytes);
}
SYSTOLE_VISIBLE int posix_memalign(void** out, std::size_t alignment, std::size_t bytes) {
  note();
  *out = __libc_memalign(alignment, bytes);
  return *out != nullptr ? 0 : ENOMEM;
}
}
#endif

namespace systole {
namespace {

class CpuAllocations : public testing::Test {
 protected:
  void SetUp() override {
    if (kSanitized) GTEST_SKIP() << "a sanitizer has a malloc of its own, which is not counted";
    void* frames[4];
    ::backtrace(frames, 4);  // takes memory when first called
  }

  struct Count {
    int ours, of_libraries;
    std::string where;
  };
  template <class Work>
  static Count counted(const Work& work) {
    Counts counts;
    counting = &counts;
    work();
    counting = nullptr;
    std::string where;
    for (int i = 0; i < counts.depth; ++i) {
      Dl_info info{};
      const bool is_known = ::dladdr(counts.frames[i], &info) != 0;
      where += is_known && info.dli_sname != nullptr ? info.dli_sname : "?";
      where += "+" +
               std::to_string(static_cast<char*>(counts.frames[i]) - static_cast<char*>(info.dli_fbase)) +
               "\n";
    }
    return {counts.ours, counts.of_libraries, where};
  }

  // Runs of a graph with buffers that stay; what is assigned is donated and comes back in its place.
  static Count counted_runs(const ir::Graph& graph, std::size_t arguments) {
    const CompiledGraph compiled = compile(graph, "cpu");
    const std::unique_ptr<runtime::Session> session = compiled.new_session();
    const std::vector<Literal> values = random_arguments(graph, 3, 1);
    const auto uploaded = [&] {
      runtime::RunArguments call;
      call.per_device.resize(1);
      for (const Literal& value : values)
        call.per_device[0].push_back(runtime::backend("cpu").upload(value, 0));
      return call;
    };
    runtime::RunArguments call = uploaded();
    std::vector<std::vector<runtime::BufferRef>> results;
    for (std::size_t i = arguments; i < values.size(); ++i) call.donated.push_back(static_cast<int>(i));
    session->run_into(call, results);
    std::vector<int> returned;
    for (const int i : call.donated)
      for (const runtime::BufferRef& result : results[0])
        if (result == call.per_device[0][static_cast<std::size_t>(i)]) returned.push_back(i);
    results.clear();
    call = uploaded();
    call.donated = returned;
    for (int i = 0; i < 3; ++i) session->run_into(call, results);
    return counted([&] { session->run_into(call, results); });
  }

  template <class Model>
  static ir::Graph training_step(Model& model, const Tensor& x, const Tensor& y) {
    optim::Adam adam(parameters(model));
    const auto variables = parameters(model).variables();
    return compile([&](const Tensor& inputs, const Tensor& targets) {
             const auto loss_of = [&] { return cross_entropy(model.forward(inputs), targets); };
             auto [loss, grads] = value_and_grad(loss_of, variables);
             adam.update(grads);
             return loss;
           })
        .graph(x, y);
  }
};

TEST_F(CpuAllocations, AreCounted) {
  const Count count = counted([] {
    std::vector<int>* volatile made = new std::vector<int>(100);
    delete made;
  });
  EXPECT_EQ(count.ours, 2);
}

TEST_F(CpuAllocations, ForwardOfOneSampleTakesNoneAtAll) {
  const nn::models::Mlp model;
  const ir::Graph graph = compile([&](const Tensor& x) { return model.forward(x); }).graph(zeros({1, 784}));
  const Count count = counted_runs(graph, graph.inputs().size());
  EXPECT_EQ(count.ours, 0) << count.where;
  EXPECT_EQ(count.of_libraries, 0);
}

TEST_F(CpuAllocations, AStepOfAPerceptronTakesNoneOfOurs) {
  nn::models::Mlp model;
  const Count count = counted_runs(training_step(model, zeros({64, 784}), zeros({64}, DType::i32)), 2);
  EXPECT_EQ(count.ours, 0) << count.where;
}

TEST_F(CpuAllocations, AStepOfAConvolutionalNetworkTakesNoneOfOurs) {
  nn::models::KerasCnn model;
  const Count count = counted_runs(training_step(model, zeros({2, 32, 32, 3}), zeros({2}, DType::i32)), 2);
  EXPECT_EQ(count.ours, 0) << count.where;
}

TEST_F(CpuAllocations, AStepOfALongShortTermMemoryTakesNoneOfOurs) {
  nn::models::LstmClassifier model{{.vocabulary = 50, .embedding = 16, .hidden = 16}};
  const Count count =
      counted_runs(training_step(model, zeros({4, 8}, DType::i32), zeros({4}, DType::i32)), 2);
  EXPECT_EQ(count.ours, 0) << count.where;
}

// The list of arguments and that of results, a record and a buffer for what is new, and lists of what the
// program reads and writes.
TEST_F(CpuAllocations, ACallOfACompiledFunctionTakesAFewSmallOnes) {
  const DeviceScope scope("cpu");
  const nn::models::Mlp model;
  const auto forward = compile([&](const Tensor& x) { return model.forward(x); });
  const Tensor x = ones({1, 784});
  x.eval();
  Tensor y;
  for (int i = 0; i < 4; ++i) y = forward(x);
  const Count count = counted([&] { y = forward(x); });
  EXPECT_LE(count.ours, 8) << count.where;
  EXPECT_EQ(count.of_libraries, 0);
}

TEST(CpuRunInto, AResultThatSomebodyHoldsIsNotWrittenAgain) {
  ir::Graph graph("main");
  graph.output(ops::neg(graph.input("x", {DType::f32, {2}})), "y");
  const CompiledGraph compiled = compile(graph, "cpu");
  const std::unique_ptr<runtime::Session> session = compiled.new_session();
  const auto with = [](float first, float second) {
    runtime::RunArguments call;
    call.per_device.push_back({runtime::backend("cpu").upload(Literal::of<float>({2}, {first, second}), 0)});
    return call;
  };
  std::vector<std::vector<runtime::BufferRef>> results;
  session->run_into(with(1, 2), results);
  const runtime::Buffer* const memory = results[0][0].get();
  session->run_into(with(3, 4), results);
  EXPECT_EQ(results[0][0].get(), memory);
  const runtime::BufferRef held = results[0][0];
  session->run_into(with(5, 6), results);
  EXPECT_NE(results[0][0], held);
  EXPECT_EQ(held->to_host().to_doubles(), (std::vector<double>{-3, -4}));
  EXPECT_EQ(results[0][0]->to_host().to_doubles(), (std::vector<double>{-5, -6}));
}

}  // namespace
}  // namespace systole
