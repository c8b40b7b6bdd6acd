// compile(fn): traces, Variables, captures, many steps per launch, and the traps docs/tensors.md names.

#include <gtest/gtest.h>

#include <cmath>
#include <stdexcept>
#include <thread>

#include "error_check.h"
#include "systole/ir/text.h"
#include "systole/tensor/compiled.h"
#include "systole/tensor/control.h"
#include "systole/tensor/creation.h"
#include "systole/tensor/math.h"
#include "systole/tensor/neural.h"
#include "systole/tensor/random.h"
#include "systole/tensor/shaping.h"
#include "systole/tensor/transforms.h"
#include "tensor/evaluate.h"

namespace systole {
namespace {

Tensor vec(std::vector<float> v) {
  const auto n = static_cast<std::int64_t>(v.size());
  return Tensor(Literal::of<float>(Shape{n}, std::span<const float>(v)));
}
using Floats = std::vector<float>;

const float* address_of(const Variable& v) {
  return reinterpret_cast<const float*>(v.value().literal().bytes());
}

TEST(Compiled, TracesOncePerArgumentTypes) {
  int runs = 0;
  auto f = compile([&](const Tensor& x) {
    ++runs;
    return x * 2;
  });
  EXPECT_EQ(f(vec({1, 2})).to_vector<float>(), (Floats{2, 4}));
  EXPECT_EQ(f(vec({3, 4})).to_vector<float>(), (Floats{6, 8}));
  EXPECT_EQ(runs, 1);
  EXPECT_EQ(f(vec({1, 2, 3})).to_vector<float>(), (Floats{2, 4, 6}));
  EXPECT_EQ(runs, 2);
  EXPECT_EQ(f.traces(), 2);
}

TEST(Compiled, ReadsAndAssignsVariables) {
  Variable w(vec({1, 2}));
  auto step = compile([&](const Tensor& x) {
    w.assign(w + x);
    return sum(w.value());
  });
  EXPECT_EQ(step(vec({1, 1})).item<float>(), 5);
  EXPECT_EQ(step(vec({1, 1})).item<float>(), 7);
  EXPECT_EQ(w.value().to_vector<float>(), (Floats{3, 4}));
  w.assign(vec({0, 0}));
  EXPECT_EQ(step(vec({1, 1})).item<float>(), 2);
}

TEST(Compiled, AVariablesMemoryStaysWhereItIs) {
  const DeviceScope device("reference");  // whose memory is what literal() shows
  Variable w(vec(Floats(1000, 1)));
  auto step = compile([&](const Tensor& x) { w.assign(w + x); });
  step(1.f);
  const float* before = address_of(w);
  for (int i = 0; i < 5; ++i) step(1.f);
  EXPECT_EQ(address_of(w), before);
  EXPECT_EQ(w.value().to_vector<float>()[999], 7);
}

TEST(Compiled, AHeldOldValueKeepsItsNumbers) {
  const DeviceScope device("reference");  // whose memory is what literal() shows
  Variable w(vec({1, 2}));
  auto step = compile([&] { w.assign(w * 10); });
  step();
  const Tensor old = w;
  const float* before = address_of(w);
  step();
  EXPECT_EQ(old.to_vector<float>(), (Floats{10, 20}));
  EXPECT_EQ(w.value().to_vector<float>(), (Floats{100, 200}));
  EXPECT_EQ(address_of(w), before);  // the holder got the copy
}

TEST(Compiled, TwoVariablesThatShareAValueStayApart) {
  Variable a(vec({1, 1})), b(a.value());
  auto step = compile([&] {
    a.assign(a + 1);
    b.assign(b * 5);
  });
  step();
  step();
  EXPECT_EQ(a.value().to_vector<float>(), (Floats{3, 3}));
  EXPECT_EQ(b.value().to_vector<float>(), (Floats{25, 25}));
}

TEST(Compiled, CapturedTensorsAreInputsNotConstants) {
  const Tensor captured = vec({5, 6});
  const Tensor pending = captured + 1;
  auto f = compile([&](const Tensor& x) { return x + captured * pending; });
  EXPECT_EQ(f(vec({0, 0})).to_vector<float>(), (Floats{30, 42}));
  const std::string text = ir::print(f.graph(vec({0, 0})));
  EXPECT_EQ(text.find("constant"), std::string::npos) << text;
  EXPECT_NE(text.find("captured"), std::string::npos) << text;
}

TEST(Compiled, ACapturedHandleIsReadAtTheTraceOnly) {
  Tensor captured = vec({1});
  auto f = compile([&](const Tensor& x) { return x + captured; });
  EXPECT_EQ(f(vec({0})).item<float>(), 1);
  captured = vec({100});
  EXPECT_EQ(f(vec({0})).item<float>(), 1);
}

TEST(Compiled, AHostScalarIsAConstantAndAnArgumentIsNot) {
  double rate = 2;
  auto constant = compile([&](const Tensor& x) { return x * rate; });
  auto argument = compile([](const Tensor& x, const Tensor& rate) { return x * rate; });
  EXPECT_EQ(constant(vec({1})).item<float>(), 2);
  EXPECT_EQ(argument(vec({1}), rate).item<float>(), 2);
  rate = 3;
  EXPECT_EQ(constant(vec({1})).item<float>(), 2);  // the trap: traced with 2
  EXPECT_EQ(argument(vec({1}), rate).item<float>(), 3);
  EXPECT_EQ(argument.traces(), 1);
}

TEST(Compiled, AScalarArgumentStaysWeak) {
  auto f = compile([](const Tensor& x, const Tensor& rate) { return x * rate; });
  EXPECT_EQ(f(vec({1}).to(DType::bf16), 2.0).dtype(), DType::bf16);
}

TEST(Compiled, ItemInATraceIsAnError) {
  auto f = compile([](const Tensor& x) { return x * sum(x).item<float>(); });
  const std::string message = error_of(ErrorKind::kInvalidArgument, [&] { f(vec({1, 2})); });
  EXPECT_NE(message.find("traced"), std::string::npos) << message;
  auto g = compile([&](const Tensor& x) { return x * vec({4}).item<float>(); });  // a value that is there
  EXPECT_EQ(g(vec({2})).item<float>(), 8);
}

TEST(Compiled, ATraceThatThrowsChangesNothing) {
  Variable w(vec({1}));
  bool fail = true;
  auto step = compile([&](const Tensor& x) {
    w.assign(w + x);
    if (fail) throw std::runtime_error("user");
    return x;
  });
  EXPECT_THROW(step(vec({5})), std::runtime_error);
  EXPECT_EQ(w.value().item<float>(), 1);
  EXPECT_EQ((w.value() + 1).item<float>(), 2);  // the thread records as before
  fail = false;
  step(vec({5}));
  EXPECT_EQ(w.value().item<float>(), 6);
}

TEST(Compiled, ATensorLeakedFromATraceIsRefused) {
  Tensor leaked;
  auto f = compile([&](const Tensor& x) {
    leaked = x * 2;
    return x;
  });
  f(vec({1}));
  error_of(ErrorKind::kInvalidArgument, [&] { leaked + 1; });
  error_of(ErrorKind::kInvalidArgument, [&] { leaked.eval(); });
}

TEST(Compiled, StructuresOfTensorsGoInAndOut) {
  struct Batch {
    Tensor image, label;
  };
  auto f = compile([](const Batch& b, const std::vector<Tensor>& more) {
    Tensor all = b.image;
    for (const Tensor& m : more) all = all + m;
    return std::pair{all, std::map<std::string, Tensor>{{"label", b.label * 2}}};
  });
  const auto [all, map] = f(Batch{vec({1}), vec({3})}, std::vector<Tensor>{vec({10}), vec({20})});
  EXPECT_EQ(all.item<float>(), 31);
  EXPECT_EQ(map.at("label").item<float>(), 6);
}

TEST(Compiled, FixedIntegersAndBoolsAreStatic) {
  auto f = compile([](const Tensor& x, int times, bool negate) {
    Tensor y = x;
    for (int i = 1; i < times; ++i) y = y * x;
    return negate ? -y : y;
  });
  EXPECT_EQ(f(vec({2}), fixed(3), false).item<float>(), 8);
  EXPECT_EQ(f(vec({2}), fixed(2), true).item<float>(), -4);
  EXPECT_EQ(f.traces(), 2);
}

TEST(Compiled, ANumberIsATracedArgument) {
  auto f = compile([](const Tensor& x, const Tensor& step) { return x * step; });
  for (int i = 0; i < 5; ++i) EXPECT_EQ(f(vec({2}), i).item<float>(), 2 * i);
  EXPECT_EQ(f.traces(), 1);
}

TEST(Compiled, TypesOfArgumentsTellTracesApart) {
  auto f = compile([](const auto& pair) {
    if constexpr (std::is_same_v<std::decay_t<decltype(pair)>, std::pair<Tensor, Tensor>>)
      return pair.first - pair.second;
    else
      return pair[0] + pair[1];
  });
  EXPECT_EQ(f(std::pair{vec({5}), vec({3})}).item<float>(), 2);
  EXPECT_EQ(f(std::array{vec({5}), vec({3})}).item<float>(), 8);
}

TEST(Compiled, ASettingThatChangesIsTracedAgain) {
  Setting<bool> training = true;
  auto f = compile(
      [&](const Tensor& x) { return grad([&](const Tensor& v) { return training ? v * 10 : v; })(x); });
  EXPECT_EQ(f(Tensor(1.f)).item<float>(), 10);
  training = false;
  EXPECT_EQ(f(Tensor(1.f)).item<float>(), 1);
  training = true;
  EXPECT_EQ(f(Tensor(1.f)).item<float>(), 10);
  EXPECT_EQ(f.traces(), 2);
  const Setting<bool> copy = training;
  training = false;
  EXPECT_TRUE(copy);
}

TEST(Compiled, ASettingIsRememberedAsItWasRead) {
  Setting<bool> first = true;
  Variable n(Tensor(0.f));
  const auto f = compile([&] {
    if (first) {
      first = false;
      n += 100;
    } else {
      n += 1;
    }
  });
  f();
  f();
  f();
  EXPECT_EQ(n.item<float>(), 102);
}

TEST(Compiled, SettingsCanBeMovedAndSwapped) {
  Setting<bool> a = true, b = false;
  std::swap(a, b);
  EXPECT_FALSE(a);
  EXPECT_TRUE(b);
  const Setting<bool> c = std::move(b);
  b = a;
  EXPECT_TRUE(c);
  EXPECT_FALSE(b);
}

TEST(Compiled, ManyVariablesOfOneNameHaveShortNamesOfTheirOwn) {
  std::vector<Variable> all;
  for (int i = 0; i < 300; ++i) all.emplace_back(Tensor(1.f), "weight");
  const auto f = compile([&](Tensor x) {
    for (const Variable& v : all) x = x + v;
    return x;
  });
  EXPECT_EQ(f(0.f).item<float>(), 300);
  const ir::Graph graph = f.graph(0.f);
  for (std::size_t i = 0; i < graph.inputs().size(); ++i) EXPECT_LT(graph.input_name(i).size(), 12u);
}

TEST(Compiled, AFunctionMayAskForItsTraces) {
  Function<Tensor(const Tensor&)>* self = nullptr;
  Function<Tensor(const Tensor&)> f([&](const Tensor& x) { return x + static_cast<float>(self->traces()); });
  self = &f;
  EXPECT_EQ(f(1.f).item<float>(), 1);
}

TEST(Compiled, RepeatNeedsNoArgument) {
  const auto f = compile([] { return Tensor(1.f) + 1; });
  EXPECT_EQ(f.repeat(3).to_vector<float>(), (Floats{2, 2, 2}));
}

TEST(Compiled, RepeatRunsManyStepsOnTheSameArguments) {
  Variable w(Tensor(1.f));
  const auto step = compile([&](const Tensor& x) {
    w *= x;
    return w.value();
  });
  EXPECT_EQ(step.repeat(4, 2.f).to_vector<float>(), (Floats{2, 4, 8, 16}));
  EXPECT_EQ(w.item<float>(), 16);
}

TEST(Compiled, ForgettingSeesCapturedValuesAnew) {
  Tensor captured = vec({1});
  const auto f = compile([&](const Tensor& x) { return x + captured; });
  EXPECT_EQ(f(vec({0})).item<float>(), 1);
  captured = vec({5});
  f.forget();
  EXPECT_EQ(f(vec({0})).item<float>(), 5);
}

TEST(Compiled, AFunctionCanBeNamedByItsSignature) {
  struct Trainer {
    Function<Tensor(const Tensor&)> step{[](const Tensor& x) { return x + 1; }};
    Tensor run() const { return step(Tensor(1.f)); }
  };
  EXPECT_EQ(Trainer().run().item<float>(), 2);
}

TEST(Compiled, AFunctionMayReturnNothingOrAVariable) {
  Variable w(Tensor(3.f));
  const auto set = compile([&](const Tensor& x) { w.assign(x); });
  set(Tensor(4.f));
  const auto get = compile([&] { return w; });
  EXPECT_EQ(get().item<float>(), 4);
}

TEST(Compiled, ManyEqualsOneAtATime) {
  Variable w(vec({1, 2})), count(Tensor(0.f));
  const auto body = [&](const Tensor& x) {
    w.assign(w * 0.5f + x);
    count.assign(count + 1);
    return sum(w.value());
  };
  auto step = compile(body);
  const Tensor xs = reshape(arange(6).to(DType::f32), {3, 2});
  Floats one_by_one;
  for (int i = 0; i < 3; ++i) one_by_one.push_back(step(xs[i]).item<float>());
  const Floats final = w.value().to_vector<float>();
  w.assign(vec({1, 2}));
  count.assign(Tensor(0.f));
  EXPECT_EQ(step.many(xs).to_vector<float>(), one_by_one);
  EXPECT_EQ(w.value().to_vector<float>(), final);
  EXPECT_EQ(count.value().item<float>(), 3);
  EXPECT_EQ(step.traces(), 1);
  // By hand: w = (1,2)/2 + (0,1), …
  EXPECT_EQ(one_by_one, (Floats{2.5, 6.25, 12.125}));
}

TEST(Compiled, ManyByIndexReadsRowsOfDataInPlace) {
  Variable w(Tensor(0.f));
  auto step = compile([&](const Tensor& x, const Tensor& y) {
    w.assign(w + sum(x) * sum(y));
    return w.value();
  });
  const Tensor data = vec({1, 2, 3, 4}), labels = vec({1, 10, 100, 1000});
  const Tensor rows = Tensor(Literal::of<std::int32_t>({2, 2}, {3, 0, 1, 1}));
  EXPECT_EQ(step.many_at(rows, data, labels).to_vector<float>(), (Floats{5005, 5085}));
}

// Rows of a few bytes are taken for all steps before the first, longer ones in theirs; in whichever order.
// By hand: 8·(4 + 1)·(1000 + 1), then 8·(2 + 2)·(10 + 10) more.
TEST(Compiled, ManyByIndexTakesShortAndLongRows) {
  Variable w(Tensor(0.f));
  auto step = compile([&](const Tensor& x, const Tensor& y) {
    w.assign(w + sum(x) * sum(y));
    return w.value();
  });
  const Tensor data = broadcast_to(vec({1, 2, 3, 4}).reshape({4, 1}), {4, 8}),
               labels = vec({1, 10, 100, 1000});
  const Tensor rows = Tensor(Literal::of<std::int32_t>({2, 2}, {3, 0, 1, 1}));
  EXPECT_EQ(step.many_at(rows, data, labels).to_vector<float>(), (Floats{40040, 40680}));
  w.assign(Tensor(0.f));
  EXPECT_EQ(step.many_at(rows, labels, data).to_vector<float>(), (Floats{40040, 40680}));
}

TEST(Compiled, ACompiledFunctionJoinsAnotherTrace) {
  Variable w(Tensor(1.f));
  auto inner = compile([&](const Tensor& x) {
    w.assign(w + 1);
    return x * x;
  });
  auto outer = compile([&](const Tensor& x) { return inner(x) + inner(x); });
  EXPECT_EQ(outer(Tensor(3.f)).item<float>(), 18);
  EXPECT_EQ(w.value().item<float>(), 3);
  EXPECT_EQ(inner.traces(), 0);
  EXPECT_EQ(grad(inner)(Tensor(3.f)).item<float>(), 6);
}

TEST(Compiled, AVariableFirstReadInsideATransformIsAnInputOfTheProgram) {
  Variable w(Tensor(2.f)), seen(Tensor(0.f));
  const auto step = compile([&](const Tensor& x) {
    const auto [y, g] = value_and_grad([&](const Tensor& v) {
      seen.assign(seen + v);
      return v * v * w;
    })(x);
    return g;
  });
  EXPECT_EQ(step(Tensor(3.f)).item<float>(), 12);
  w.assign(Tensor(5.f));
  EXPECT_EQ(step(Tensor(3.f)).item<float>(), 30);
  EXPECT_EQ(seen.item<float>(), 6);
}

TEST(Compiled, TwoDropoutsDifferAndSoDoSteps) {
  random::seed(3);
  const auto step = compile([](const Tensor& x) {
    return std::pair{dropout(x, 0.5, random::next_key()), dropout(x, 0.5, random::next_key())};
  });
  const Tensor x = ones({200});
  const auto [a, b] = step(x);
  const auto [c, d] = step(x);
  EXPECT_NE(a.to_vector<float>(), b.to_vector<float>());
  EXPECT_NE(a.to_vector<float>(), c.to_vector<float>());
  EXPECT_EQ(step.traces(), 1);
  const Tensor key = random::key(9);
  EXPECT_EQ(dropout(x, 0.5, key).to_vector<float>(), dropout(x, 0.5, key).to_vector<float>());
}

TEST(Compiled, AnotherRandomKeyDoesNotRecompile) {
  const auto draw = [](int seed) {
    return random::uniform(random::key(static_cast<std::uint64_t>(seed)), {3}).eval();
  };
  draw(1);
  const auto before = recording::cache_counts();
  for (int i = 2; i < 6; ++i) draw(i);
  EXPECT_EQ(recording::cache_counts().misses, before.misses);
}

TEST(Compiled, ThreadsShareACompiledFunction) {
  auto f = compile([](const Tensor& x) { return x * x + 1; });
  std::vector<std::thread> threads;
  std::vector<float> results(8);
  for (int t = 0; t < 8; ++t)
    threads.emplace_back([&, t] {
      for (int i = 0; i < 20; ++i) results[static_cast<std::size_t>(t)] = f(vec({float(t)})).item<float>();
    });
  for (std::thread& t : threads) t.join();
  for (int t = 0; t < 8; ++t) EXPECT_EQ(results[static_cast<std::size_t>(t)], float(t * t + 1));
}

TEST(Compiled, AVariableOfAnotherShapeIsRefusedWithItsName) {
  Variable w(vec({1, 2}), "fc1.weight");
  const std::string message = error_of(ErrorKind::kShape, [&] { w.assign(vec({1, 2, 3})); });
  EXPECT_NE(message.find("fc1.weight"), std::string::npos) << message;
}

TEST(Compiled, VariablesMayHaveTheSameName) {
  Variable a(Tensor(1.f), "weight"), b(Tensor(2.f), "weight");
  const auto f = compile([&](const Tensor& x) { return x * a + b; });
  EXPECT_EQ(f(Tensor(3.f)).item<float>(), 5);
}

TEST(Control, ScanCarriesAndStacks) {
  const auto [last, all] =
      scan([](const Tensor& sum, const Tensor& x) { return std::pair{sum + x, sum * 10}; }, Tensor(0.f),
           vec({1, 2, 3}));
  EXPECT_EQ(last.item<float>(), 6);
  EXPECT_EQ(all.to_vector<float>(), (Floats{0, 10, 30}));
}

TEST(Control, ScanCapturesTensorsAndCarriesVariables) {
  Variable count(Tensor(0.f));
  const Tensor factor = vec({2, 3});
  const auto [last, ys] = scan(
      [&](const Tensor& c, const Tensor& x) {
        count.assign(count + 1);
        return std::pair{c * factor + x, count.value()};
      },
      vec({1, 1}), vec({1, 2}));
  EXPECT_EQ(last.to_vector<float>(), (Floats{8, 14}));
  EXPECT_EQ(ys.to_vector<float>(), (Floats{1, 2}));
  EXPECT_EQ(count.value().item<float>(), 2);
}

TEST(Control, WhileRunsUntilTheConditionFails) {
  Variable rounds(Tensor(0));
  const Tensor limit = Tensor(100.f) + 0;
  const Tensor x = while_loop([&](const Tensor& v) { return v < limit; },
                              [&](const Tensor& v) {
                                rounds.assign(rounds + 1);
                                return v * 2;
                              },
                              Tensor(3.f));
  EXPECT_EQ(x.item<float>(), 192);
  EXPECT_EQ(rounds.value().item<int>(), 6);
}

TEST(Control, CondRunsOneBranchAndMergesAssignments) {
  Variable taken(Tensor(0));
  const auto f = [&](const Tensor& x) {
    return cond(
        sum(x) > 0, [&](const Tensor& v) { return v * 2; },
        [&](const Tensor& v) {
          taken.assign(taken + 1);
          return -v;
        },
        x);
  };
  EXPECT_EQ(f(vec({1, 2})).to_vector<float>(), (Floats{2, 4}));
  EXPECT_EQ(taken.value().item<int>(), 0);
  EXPECT_EQ(f(vec({-1, -2})).to_vector<float>(), (Floats{1, 2}));
  EXPECT_EQ(taken.value().item<int>(), 1);
}

TEST(Control, ACarryThatChangesItsStructureIsRefused) {
  struct State {
    Tensor h;
    int t = 0;
  };
  error_of(ErrorKind::kInvalidArgument, [] {
    scan([](const State& s, const Tensor& x) { return std::pair{State{s.h + x, s.t + 1}, x}; },
         State{Tensor(0.f)}, vec({1, 2}));
  });
}

TEST(Control, ANumberToStartFromTakesTheBodysDType) {
  const auto sum_up = [](const Tensor& c, const Tensor& x) { return std::pair{c + x, c}; };
  EXPECT_EQ(scan(sum_up, 0, vec({1, 2})).first.dtype(), DType::f32);
  EXPECT_EQ(scan(sum_up, 0.0, vec({1, 2}).to(DType::f64)).first.dtype(), DType::f64);
  EXPECT_EQ(scan(sum_up, 0.0, vec({1, 2}).to(DType::bf16)).first.dtype(), DType::bf16);
  EXPECT_EQ(scan(sum_up, 0, vec({1, 2})).first.item<float>(), 3);
}

TEST(Control, BranchesWithOtherKeysAreRefused) {
  using Map = std::map<std::string, Tensor>;
  error_of(ErrorKind::kInvalidArgument, [] {
    cond(Tensor(true), [] { return Map{{"a", vec({1})}}; }, [] { return Map{{"b", vec({1})}}; });
  });
}

TEST(Control, ANumberInACarryIsCarried) {
  const auto [last, ys] =
      scan([](const Tensor& c, const Tensor& x) { return std::pair{c + 1, x * c}; }, 0, vec({1, 1, 1}));
  EXPECT_EQ(last.item<int>(), 3);
  EXPECT_EQ(ys.to_vector<float>(), (Floats{0, 1, 2}));
}

TEST(Control, ACarryThatChangesItsTypeIsRefused) {
  error_of(ErrorKind::kDType, [] {
    scan([](const Tensor& c, const Tensor& x) { return std::pair{c.to(DType::f64), x}; }, sum(vec({0})),
         vec({1}));
  });
}

}  // namespace
}  // namespace systole
