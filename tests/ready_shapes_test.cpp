// While one thread traces or compiles a new shape, calls of shapes that are ready go on; threads that need
// the same new shape wait for one compilation and share its result or its error. The backend's compile()
// waits until the test lets it go, so that no test depends on times: what blocks would block for good.

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <exception>
#include <functional>
#include <future>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "runtime/cache.h"
#include "scratch_folder.h"
#include "systole/systole.h"

namespace systole {
namespace {

// Holds those who pass until it is opened.
class Gate {
 public:
  void pass() {
    std::unique_lock lock(mutex_);
    ++inside_;
    changed_.notify_all();
    changed_.wait(lock, [&] { return open_; });
  }
  void wait_for(int inside) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return inside_ >= inside; });
  }
  void open() {
    const std::lock_guard lock(mutex_);
    open_ = true;
    changed_.notify_all();
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  int inside_ = 0;
  bool open_ = false;
};

// A backend that computes as the reference does, and compiles under the test's eyes.
struct Hooks {
  std::mutex mutex;
  std::function<void(const ir::Graph&)> on_compile;
  std::atomic<int> compilations = 0;

  void set(std::function<void(const ir::Graph&)> hook) {
    const std::lock_guard lock(mutex);
    on_compile = std::move(hook);
  }
  std::function<void(const ir::Graph&)> get() {
    const std::lock_guard lock(mutex);
    return on_compile;
  }
};
Hooks hooks;

const DeviceName kWatched{"watched", {}, 0};

struct WatchedBuffer : runtime::Buffer {
  explicit WatchedBuffer(Literal v) : value(std::move(v)) {}
  const Type& type() const override { return value.type(); }
  const DeviceName& device() const override { return kWatched; }
  Literal to_host() const override { return value; }
  Literal value;
};

struct WatchedSession : runtime::Session {
  explicit WatchedSession(const CompiledGraph& g) : graph(g) {}
  std::vector<std::vector<runtime::BufferRef>> run(const runtime::RunArguments& arguments) override {
    std::vector<Literal> values;
    for (const auto& buffer : arguments.per_device[0]) values.push_back(buffer->to_host());
    std::vector<runtime::BufferRef> results;
    for (Literal& value : graph.run(values))
      results.push_back(std::make_shared<WatchedBuffer>(std::move(value)));
    return {results};
  }
  CompiledGraph graph;
};

struct WatchedExecutable : runtime::Executable {
  explicit WatchedExecutable(CompiledGraph g) : graph(std::move(g)) {}
  std::unique_ptr<runtime::Session> new_session() const override {
    return std::make_unique<WatchedSession>(graph);
  }
  std::int64_t device_count() const override { return 1; }
  CompiledGraph graph;
};

struct WatchedBackend : runtime::Backend {
  std::string_view name() const override { return "watched"; }
  std::vector<runtime::DeviceInfo> devices() override { return {{kWatched, "for tests"}}; }
  runtime::BufferRef upload(const Literal& value, int) override {
    return std::make_shared<WatchedBuffer>(value);
  }
  std::shared_ptr<const runtime::Executable> compile(const ir::Graph& graph, int,
                                                     const runtime::CompileOptions&) override {
    ++hooks.compilations;
    if (const auto hook = hooks.get()) hook(graph);
    return std::make_shared<WatchedExecutable>(systole::compile(graph, "reference"));
  }
  std::string refusal(ir::Op) const override { return {}; }
};

// Whether an input of the graph has an axis of that size.
bool has_size(const ir::Graph& graph, std::int64_t size) {
  for (std::size_t i = 0; i < graph.inputs().size(); ++i)
    for (const Dim& d : graph.input_type(i).shape)
      if (d.is_static() && d.value() == size) return true;
  return false;
}

Tensor rows(std::int64_t n, float value = 1) {
  return Tensor(Literal::full({DType::f32, {n, 2}}, value)).to("watched");
}

class ReadyShapes : public ScratchFolder {
 protected:
  static void SetUpTestSuite() {
    static const bool once = [] {
      runtime::register_backend("watched", 5000, [] {
        return std::unique_ptr<runtime::Backend>(std::make_unique<WatchedBackend>());
      });
      return true;
    }();
    static_cast<void>(once);
  }
  ~ReadyShapes() override {
    gate.open();
    hooks.set(nullptr);
  }

  // The compilation of graphs with that size waits at the gate.
  void hold(std::int64_t size) {
    hooks.set([this, size](const ir::Graph& graph) {
      if (has_size(graph, size)) gate.pass();
    });
  }
  // Those fail, after the gate.
  void fail(std::int64_t size) {
    hooks.set([this, size](const ir::Graph& graph) {
      if (!has_size(graph, size)) return;
      gate.pass();
      throw Error(ErrorKind::kUnsupported, "watched", "not today");
    });
  }
  // The work in a thread of its own while the gate is closed. What waits for what is held there would wait
  // for good: the limit only turns that into a failure.
  template <class F>
  void expect_goes_on(F work) {
    std::future<void> done = std::async(std::launch::async, work);
    const bool goes_on = done.wait_for(std::chrono::seconds(120)) == std::future_status::ready;
    EXPECT_TRUE(goes_on) << "it waits for another shape's trace or compilation";
    if (!goes_on) gate.open();
    done.get();
  }

  Gate gate;
  const DeviceScope device{"watched"};
};

using Floats = std::vector<float>;

TEST_F(ReadyShapes, OfAFunctionRunWhileAnotherIsCompiled) {
  std::atomic<int> traced = 0;
  const auto f = compile([&](const Tensor& x) {
    ++traced;
    return x * 2 + 1;
  });
  ASSERT_EQ(f(rows(1)).to_vector<float>(), (Floats{3, 3}));
  hold(101);
  std::future<Floats> slow = std::async(std::launch::async, [&] { return f(rows(101)).to_vector<float>(); });
  gate.wait_for(1);
  expect_goes_on([&] {
    for (int i = 0; i < 10; ++i) EXPECT_EQ(f(rows(1)).to_vector<float>(), (Floats{3, 3}));
    EXPECT_EQ(f.traces(), 2);
    EXPECT_EQ(f(rows(2)).to_vector<float>(), Floats(4, 3));  // another new one does not wait either
    EXPECT_EQ(f.repeat(3, rows(1)).to_vector<float>(), Floats(6, 3));
  });
  gate.open();
  EXPECT_EQ(slow.get(), Floats(202, 3));
  EXPECT_EQ(traced, 3);
}

TEST_F(ReadyShapes, OfAFunctionRunWhileAnotherIsTraced) {
  const auto f = compile([&](const Tensor& x) {
    if (x.shape()[0].value() == 102) gate.pass();
    return x * 2;
  });
  ASSERT_EQ(f(rows(1)).to_vector<float>(), (Floats{2, 2}));
  std::future<Floats> slow = std::async(std::launch::async, [&] { return f(rows(102)).to_vector<float>(); });
  gate.wait_for(1);
  expect_goes_on([&] { EXPECT_EQ(f(rows(1, 5)).to_vector<float>(), (Floats{10, 10})); });
  gate.open();
  EXPECT_EQ(slow.get(), Floats(204, 2));
}

TEST_F(ReadyShapes, OfASavedModelRunWhileAnotherIsCompiled) {
  nn::Linear layer(2, 1, {.bias = false});
  layer.weight.assign(Tensor(Literal::full(layer.weight.type(), 0.5)).to("reference"));
  save(folder_ / "m.safetensors", layer, {{DType::f32, {Dim::symbol("N"), 2}}});
  const SavedModel m = load(folder_ / "m.safetensors", {.device = "watched"});
  ASSERT_EQ(m(rows(1)).to_vector<float>(), (Floats{1}));
  hold(103);
  std::future<Floats> slow = std::async(std::launch::async, [&] { return m(rows(103)).to_vector<float>(); });
  gate.wait_for(1);
  expect_goes_on([&] {
    for (int i = 0; i < 10; ++i) EXPECT_EQ(m(rows(1, 3)).to_vector<float>(), (Floats{3}));
  });
  gate.open();
  EXPECT_EQ(slow.get(), Floats(103, 1));
}

TEST_F(ReadyShapes, OfTensorsRunWhileAnotherIsCompiled) {
  const auto work = [](std::int64_t n) { return (exp(rows(n) * 0) + 2).to_vector<float>(); };
  ASSERT_EQ(work(1), (Floats{3, 3}));
  hold(104);
  std::future<Floats> slow = std::async(std::launch::async, [&] { return work(104); });
  gate.wait_for(1);
  expect_goes_on([&] {
    EXPECT_EQ(work(1), (Floats{3, 3}));
    EXPECT_EQ(work(2), Floats(4, 3));
  });
  gate.open();
  EXPECT_EQ(slow.get(), Floats(208, 3));
}

TEST_F(ReadyShapes, OfACompiledGraphRunWhileAnotherIsCompiled) {
  const ir::Graph graph = ir::parse(
      "systole.ir 1\n\ngraph @twice(%x: f32[N]) {\n  %y = add(%x, %x)\n  return y: %y\n}\n", "twice");
  const CompiledGraph twice = compile(graph, "watched");
  const auto run = [&](std::int64_t n) {
    return twice.run({Literal::full({DType::f32, {n}}, 1)})[0].to_doubles();
  };
  ASSERT_EQ(run(1), (std::vector<double>{2}));
  hold(105);
  std::future<std::vector<double>> slow = std::async(std::launch::async, [&] { return run(105); });
  gate.wait_for(1);
  expect_goes_on([&] { EXPECT_EQ(run(1), (std::vector<double>{2})); });
  gate.open();
  EXPECT_EQ(slow.get(), std::vector<double>(105, 2));
}

// What the call throws, kept: who lets go of a shared exception last frees it, by a count in libstdc++ that
// the thread sanitizer does not see. The test's own thread does, when all others have ended.
template <class F>
std::exception_ptr thrown_by(F&& call) {
  try {
    call();
  } catch (...) {
    return std::current_exception();
  }
  return nullptr;
}
int count_of(std::vector<std::future<std::exception_ptr>>& callers, std::string_view message) {
  std::vector<std::exception_ptr> all;
  for (auto& caller : callers) all.push_back(caller.get());
  int count = 0;
  for (const std::exception_ptr& error : all) try {
      if (error) std::rethrow_exception(error);
    } catch (const Error& e) {
      count += std::string_view(e.what()).find(message) != std::string_view::npos ? 1 : 0;
    }
  return count;
}

// Callers of one new shape: one of them makes it. How many wait at a moment nobody can see, so they are many.
constexpr int kCallers = 8;

TEST_F(ReadyShapes, CallersOfTheSameNewOneWaitForOneTraceAndOneCompilation) {
  std::atomic<int> traced = 0;
  const auto f = compile([&](const Tensor& x) {
    ++traced;
    return x * 4;
  });
  hold(106);
  const int before = hooks.compilations;
  std::vector<std::future<Floats>> callers;
  for (int i = 0; i < kCallers; ++i)
    callers.push_back(std::async(std::launch::async, [&] { return f(rows(106)).to_vector<float>(); }));
  gate.wait_for(1);
  gate.open();
  for (std::future<Floats>& caller : callers) EXPECT_EQ(caller.get(), Floats(212, 4));
  EXPECT_EQ(traced, 1);
  EXPECT_EQ(hooks.compilations, before + 1);
  EXPECT_EQ(f.traces(), 1);
}

// All who call before the gate opens get the error; the shape is compiled again by the next call.
TEST_F(ReadyShapes, OneThatFailsToCompileFailsForAllWhoWaitAndLeavesNothing) {
  const auto f = compile([](const Tensor& x) { return x * 5; });
  fail(107);
  const int before = hooks.compilations;
  std::atomic<int> begun = 0;
  std::vector<std::future<std::exception_ptr>> callers;
  const auto call = [&] {
    const Tensor x = rows(107);
    ++begun;
    return thrown_by([&] { f(x); });
  };
  callers.push_back(std::async(std::launch::async, call));
  gate.wait_for(1);
  for (int i = 1; i < kCallers; ++i) callers.push_back(std::async(std::launch::async, call));
  while (begun < kCallers) std::this_thread::yield();
  gate.open();
  // One that came after the error tried again, and failed too.
  EXPECT_EQ(count_of(callers, "not today"), kCallers);
  hooks.set(nullptr);
  const int failed = hooks.compilations - before;
  EXPECT_GE(failed, 1);
  EXPECT_EQ(f(rows(107)).to_vector<float>(), Floats(214, 5));
  EXPECT_EQ(hooks.compilations, before + failed + 1);
}

TEST_F(ReadyShapes, OneThatFailsToTraceFailsForAllWhoWaitAndLeavesNothing) {
  std::atomic<bool> fails = true;
  std::atomic<int> traced = 0;
  const auto f = compile([&](const Tensor& x) {
    ++traced;
    gate.pass();
    if (fails) throw Error(ErrorKind::kInvalidArgument, "the function", "not this one");
    return x * 6;
  });
  std::vector<std::future<std::exception_ptr>> callers;
  for (int i = 0; i < kCallers; ++i)
    callers.push_back(std::async(std::launch::async, [&] { return thrown_by([&] { f(rows(108)); }); }));
  gate.wait_for(1);
  gate.open();
  EXPECT_EQ(count_of(callers, "not this one"), kCallers);
  EXPECT_EQ(f.traces(), 0);
  fails = false;
  EXPECT_EQ(f(rows(108)).to_vector<float>(), Floats(216, 6));
  EXPECT_EQ(f.traces(), 1);
}

// The trace with the switch on fails; those who call after it was turned off wait for it, and have no part in
// it.
TEST_F(ReadyShapes, AnErrorIsNotForCallersWhoseSwitchesAreOthers) {
  Setting<bool> training = true;
  const auto f = compile([&](const Tensor& x) {
    if (!training) return x * 7;
    gate.pass();
    throw Error(ErrorKind::kInvalidArgument, "the function", "not in training");
  });
  std::future<std::exception_ptr> first =
      std::async(std::launch::async, [&] { return thrown_by([&] { f(rows(114)); }); });
  gate.wait_for(1);
  training = false;
  std::atomic<int> begun = 0;
  std::vector<std::future<Floats>> callers;
  for (int i = 0; i < kCallers; ++i)
    callers.push_back(std::async(std::launch::async, [&] {
      const Tensor x = rows(114);
      ++begun;
      return f(x).to_vector<float>();
    }));
  while (begun < kCallers) std::this_thread::yield();
  std::this_thread::sleep_for(std::chrono::milliseconds(50));  // most of them wait now
  gate.open();
  for (std::future<Floats>& caller : callers) EXPECT_EQ(caller.get(), Floats(228, 7));
  std::vector<std::future<std::exception_ptr>> failed;
  failed.push_back(std::move(first));
  EXPECT_EQ(count_of(failed, "not in training"), 1);
  EXPECT_EQ(f.traces(), 1);
}

// Who waits in the cache of executables gets the very error of the compilation, once for all.
TEST_F(ReadyShapes, TheExecutableCacheGivesItsErrorToAllWhoWait) {
  const ir::Graph graph =
      ir::parse("systole.ir 1\n\ngraph @g(%x: f32[3]) {\n  %y = add(%x, %x)\n  return y: %y\n}\n", "g");
  runtime::ExecutableCache cache(4, 1 << 20);
  std::atomic<int> asking = 0;
  const auto ask = [&] {
    ++asking;
    return thrown_by([&] {
      cache.find_or_compile(graph, kWatched, {}, [&]() -> runtime::ExecutableRef {
        gate.pass();
        throw Error(ErrorKind::kUnsupported, "watched", "not today");
      });
    });
  };
  std::vector<std::future<std::exception_ptr>> threads;
  threads.push_back(std::async(std::launch::async, ask));
  gate.wait_for(1);
  for (int i = 1; i < kCallers; ++i) threads.push_back(std::async(std::launch::async, ask));
  while (asking < kCallers) std::this_thread::yield();
  gate.open();
  EXPECT_EQ(count_of(threads, "not today"), kCallers);
  bool again = false;
  cache.find_or_compile(graph, kWatched, {}, [&] {
    again = true;
    return std::make_shared<const WatchedExecutable>(compile(graph, "reference"));
  });
  EXPECT_TRUE(again);
}

TEST_F(ReadyShapes, ATraceThatWasForgottenWhileItWasMadeServesItsCallersAlone) {
  Tensor captured = rows(1, 1);
  std::atomic<int> traced = 0;
  const auto f = compile([&](const Tensor& x) {
    const Tensor value = captured;
    if (++traced == 1) gate.pass();
    return x + value;
  });
  std::future<Floats> old = std::async(std::launch::async, [&] { return f(rows(109)).to_vector<float>(); });
  gate.wait_for(1);
  expect_goes_on([&] { f.forget(); });
  gate.open();
  EXPECT_EQ(old.get(), Floats(218, 2));
  captured = rows(1, 10);
  EXPECT_EQ(f(rows(109)).to_vector<float>(), Floats(218, 11));
  EXPECT_EQ(traced, 2);
}

// For the thread sanitizer: new and ready shapes, failures, forgetting and switches, all at once.
TEST_F(ReadyShapes, ManyThreadsWithNewAndReadyOnesGetTheRightNumbers) {
  const auto f = compile([](const Tensor& x) { return x * 3 + 1; });
  std::atomic<int> wrong = 0, failed = 0, left = 20;
  hooks.set([&](const ir::Graph& graph) {
    if (has_size(graph, 13) && left-- > 0) throw Error(ErrorKind::kUnsupported, "watched", "not today");
  });
  std::vector<std::thread> threads;
  for (int t = 0; t < 6; ++t)
    threads.emplace_back([&, t] {
      const DeviceScope scope("watched");
      for (int i = 0; i < 60; ++i) {
        const std::int64_t n = 1 + (i + t) % 17;
        try {
          const Tensor x = rows(n, static_cast<float>(i));
          const Floats got = i % 3 == 0   ? f(x).to_vector<float>()
                             : i % 3 == 1 ? (x * 3 + 1).to_vector<float>()
                                          : f.repeat(1, x).to_vector<float>();
          wrong += got != Floats(static_cast<std::size_t>(2 * n), static_cast<float>(3 * i + 1)) ? 1 : 0;
        } catch (const Error&) {
          ++failed;
        }
        if (t == 0 && i % 16 == 15) f.forget();
      }
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
  EXPECT_GT(failed, 0);
}

}  // namespace
}  // namespace systole
