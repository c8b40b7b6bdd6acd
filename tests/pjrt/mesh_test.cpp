// Functions compiled for a mesh, on four devices of the XLA CPU plugin: the numbers are those of one device,
// and what a rule splits lies in parts. What is wrong with a mesh is found without a plugin.

#include "systole/tensor/mesh.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <functional>
#include <thread>

#include "../error_check.h"
#include "systole/systole.h"
#include "tensor/mesh.h"

namespace systole {
namespace {

constexpr const char* kDevice = "pjrt:cpu";

class MeshOnXla : public testing::Test {
 protected:
  void SetUp() override {
    setenv("SYSTOLE_PLUGIN_PATH", SYSTOLE_DEPS, 1);
    const std::vector<std::string> names = runtime::backend_names();
    if (std::find(names.begin(), names.end(), kDevice) == names.end())
      GTEST_SKIP() << "no XLA CPU plugin in " << SYSTOLE_DEPS;
    ASSERT_GE(runtime::backend(kDevice).devices().size(), 4U);
  }
};

// What share of the Variable each device has, and on how many it lies.
struct Parts {
  std::int64_t parts;
  std::size_t devices;
  bool operator==(const Parts&) const = default;
};
std::ostream& operator<<(std::ostream& out, const Parts& p) {
  return out << "1/" << p.parts << " on each of " << p.devices << " devices";
}
Parts parts_of(const Variable& v) {
  const runtime::Placement at = placement(v.value());
  return {v.shape().count() / at.part.count(), at.devices.size()};
}

struct Net {  // a batch's statistics and random draws are of the whole batch
  nn::Linear fc1{12, 32}, fc2{32, 32}, fc3{32, 5};
  nn::BatchNorm norm{32};
  nn::Dropout dropout{0.1};
  Tensor forward(const Tensor& x) const { return fc3(relu(fc2(dropout(relu(norm(fc1(x))))))); }
};

struct Reader {  // one block of attention over words
  nn::Embedding words{40, 16};
  nn::TransformerBlock block{16, 4};
  nn::Linear out{16, 40};
  Tensor forward(const Tensor& x) const { return out(block(words(x))); }
};

struct Trained {
  std::vector<double> losses;
  std::vector<Literal> state;  // of model and optimiser
  std::vector<std::string> names;
};

enum class Calls { single, many, many_at };

// Trains a model on 50 batches of 8, always from the same start. In f64, because a parameter whose gradient
// is zero but for rounding (a bias before a batch norm, that of the keys) goes where Adam blows up the
// rounding.
template <class Model>
Trained train(const FunctionOptions& options, const Tensor& xs, const Tensor& ys, Calls calls = Calls::single,
              DType dtype = DType::f64, const std::function<void(const Model&)>& look = {}) {
  random::seed(1);
  Model model;
  nn::cast(model, dtype);
  optim::Adam opt(parameters(model), {.lr = 1e-3});
  random::seed(2);
  auto step = compile(
      [&](const Tensor& x, const Tensor& y) {
        auto [loss, grads] = value_and_grad(
            [&] {
              const Tensor logits = model.forward(x);
              return cross_entropy(reshape(logits, {-1, logits.size(-1)}), reshape(y, {-1}));
            },
            parameters(model));
        opt.update(grads);
        return loss;
      },
      options);
  Trained trained;
  if (calls == Calls::single) {
    for (std::int64_t i = 0; i < xs.size(0); ++i)
      trained.losses.push_back(step(xs[i], ys[i]).to(DType::f64).template item<double>());
  } else if (calls == Calls::many) {
    trained.losses = step.many(xs, ys).to(DType::f64).template to_vector<double>();
  } else {
    const std::int64_t steps = xs.size(0), batch = xs.size(1);
    Shape rows{steps * batch};
    for (int i = 2; i < xs.rank(); ++i) rows.push_back(xs.size(i));
    const Tensor labels = ys.rank() == 2 ? reshape(ys, {-1}) : reshape(ys, {steps * batch, -1});
    trained.losses = step.many_at(reshape(arange(steps * batch), {steps, batch}), reshape(xs, rows), labels)
                         .to(DType::f64)
                         .template to_vector<double>();
  }
  EXPECT_EQ(step.traces(), 1);
  if (look) look(model);
  for (const Parameters& list : {nn::variables(model), opt.state()})
    for (std::size_t i = 0; i < list.size(); ++i) {
      trained.state.push_back(list[i].variable.literal());
      trained.names.push_back(list[i].name);
    }
  return trained;
}

void expect_same(const Trained& mesh, const Trained& one, double tolerance) {
  ASSERT_EQ(mesh.losses.size(), one.losses.size());
  for (std::size_t i = 0; i < one.losses.size(); ++i)
    EXPECT_NEAR(mesh.losses[i], one.losses[i], tolerance) << "step " << i;
  ASSERT_EQ(mesh.state.size(), one.state.size());
  for (std::size_t i = 0; i < one.state.size(); ++i) {
    if (!is_float(one.state[i].dtype())) {
      EXPECT_TRUE(std::ranges::equal(mesh.state[i].as_bytes(), one.state[i].as_bytes())) << one.names[i];
      continue;
    }
    const auto a = Tensor(mesh.state[i]).to(DType::f64).to_vector<double>(),
               b = Tensor(one.state[i]).to(DType::f64).to_vector<double>();
    for (std::size_t k = 0; k < b.size(); ++k)
      ASSERT_NEAR(a[k], b[k], tolerance) << one.names[i] << " element " << k;
  }
}

Tensor pictures(DType dtype = DType::f64) { return random::normal(random::key(7), {50, 8, 12}).to(dtype); }
Tensor labels() { return random::randint(random::key(8), {50, 8}, 0, 5); }
Tensor texts() { return random::randint(random::key(9), {50, 8, 6}, 0, 40); }
Tensor next_words() { return random::randint(random::key(10), {50, 8, 6}, 0, 40); }

TEST_F(MeshOnXla, DataParallelIsOneDevice) {
  const Trained one = train<Net>({.device = kDevice}, pictures(), labels());
  const DeviceMesh mesh(kDevice, {{"data", 4}});
  const Trained four =
      train<Net>({.mesh = mesh}, pictures(), labels(), Calls::single, DType::f64, [](const Net& net) {
        EXPECT_EQ(parts_of(net.fc1.weight), (Parts{1, 4}));  // whole on each
      });
  EXPECT_LT(one.losses.back(), one.losses.front());
  expect_same(four, one, 1e-9);
}

TEST_F(MeshOnXla, DataParallelInF32) {
  struct Plain {
    nn::Linear fc1{12, 32}, fc2{32, 5};
    Tensor forward(const Tensor& x) const { return fc2(relu(fc1(x))); }
  };
  const Tensor x = pictures(DType::f32);
  const Trained one = train<Plain>({.device = kDevice}, x, labels(), Calls::single, DType::f32);
  const DeviceMesh mesh(kDevice, {{"data", 4}});
  expect_same(train<Plain>({.mesh = mesh}, x, labels(), Calls::single, DType::f32), one, 1e-5);
}

TEST_F(MeshOnXla, ManyStepsInOneProgramAreSplitAlike) {
  const Trained one = train<Net>({.device = kDevice}, pictures(), labels(), Calls::many);
  const DeviceMesh mesh(kDevice, {{"data", 4}});
  expect_same(train<Net>({.mesh = mesh}, pictures(), labels(), Calls::many), one, 1e-9);
  expect_same(train<Net>({.mesh = mesh}, pictures(), labels(), Calls::many_at), one, 1e-9);
}

TEST_F(MeshOnXla, TensorParallelLinearLayersLieInParts) {
  const Trained one = train<Net>({.device = kDevice}, pictures(), labels());
  DeviceMesh mesh(kDevice, {{"model", 4}});
  mesh.column_parallel("fc1").row_parallel("fc2");
  const Trained four =
      train<Net>({.mesh = mesh}, pictures(), labels(), Calls::single, DType::f64, [](const Net& net) {
        EXPECT_EQ(parts_of(net.fc1.weight), (Parts{4, 4}));
        EXPECT_EQ(parts_of(net.fc1.bias), (Parts{4, 4}));
        EXPECT_EQ(parts_of(net.fc2.weight), (Parts{4, 4}));
        EXPECT_EQ(parts_of(net.fc2.bias), (Parts{1, 4}));
        EXPECT_EQ(parts_of(net.fc3.weight), (Parts{1, 4}));
      });
  expect_same(four, one, 1e-9);
}

TEST_F(MeshOnXla, AttentionSplitByHeadsAndBatch) {
  const Trained one = train<Reader>({.device = kDevice}, texts(), next_words());
  DeviceMesh mesh(kDevice, {{"data", 2}, {"model", 2}});
  mesh.rule("in_proj_weight", {"model", ""}).rule("in_proj_bias", {"model"});
  mesh.row_parallel("out_proj")
      .column_parallel("fc1")
      .row_parallel("fc2")
      .rule("words.weight", {"", "model"});
  for (const Calls calls : {Calls::single, Calls::many}) {
    const Trained four =
        train<Reader>({.mesh = mesh}, texts(), next_words(), calls, DType::f64, [](const Reader& reader) {
          EXPECT_EQ(parts_of(reader.block.attn.in_proj_weight), (Parts{2, 4}));
          EXPECT_EQ(parts_of(reader.block.fc2.weight), (Parts{2, 4}));
          EXPECT_EQ(parts_of(reader.words.weight), (Parts{2, 4}));
        });
    expect_same(four, one, 1e-9);
  }
}

TEST_F(MeshOnXla, OptimizerStateIsSplitWithItsParameter) {
  Net net;
  optim::Adam opt(parameters(net), {.lr = 1e-3});
  DeviceMesh mesh(kDevice, {{"model", 4}});
  mesh.column_parallel("fc1");
  auto step = compile(
      [&](const Tensor& x) {
        auto [loss, grads] = value_and_grad([&] { return sum(net.forward(x)); }, parameters(net));
        opt.update(grads);
        return loss;
      },
      mesh);
  step(pictures(DType::f32)[0]).eval();
  for (std::size_t i = 0; i < opt.state().size(); ++i) {
    const NamedVariable moment = opt.state()[i];
    if (moment.name.ends_with("fc1.weight")) {
      EXPECT_EQ(parts_of(moment.variable), (Parts{4, 4})) << moment.name;
    } else if (moment.name.ends_with("fc2.weight")) {
      EXPECT_EQ(parts_of(moment.variable), (Parts{1, 4})) << moment.name;
    }
  }
}

TEST_F(MeshOnXla, VariablesAreReadAndWrittenOutsideBetweenSteps) {
  Variable v(arange(8).to(DType::f32));
  DeviceMesh mesh(kDevice, {{"data", 4}});
  mesh.rule("v", {"data"});
  v.set_name("v");
  auto step = compile(
      [&](const Tensor& x) {
        v += x;
        return sum(v.value());
      },
      mesh);
  const Tensor ones = Tensor(Literal::full({DType::f32, {8}}, 1));
  EXPECT_EQ(step(ones).item<float>(), 28 + 8);
  EXPECT_EQ(parts_of(v), (Parts{4, 4}));
  const Tensor held = v.value();
  EXPECT_EQ((v.value() * 2).to_vector<float>(), (std::vector<float>{2, 4, 6, 8, 10, 12, 14, 16}));
  v.assign(v.value() * 10);  // somewhere on one device
  EXPECT_EQ(step(ones).item<float>(), 360 + 8);
  EXPECT_EQ(held.to_vector<float>(), (std::vector<float>{1, 2, 3, 4, 5, 6, 7, 8}));
  EXPECT_EQ(v.to_vector<float>(), (std::vector<float>{11, 21, 31, 41, 51, 61, 71, 81}));
}

TEST_F(MeshOnXla, ABatchCanBeKeptInAVariableThatIsWhole) {
  Variable kept(Tensor(Literal(Type{DType::f32, {8}})), "kept");
  auto keep = compile(
      [&](const Tensor& x) {
        kept.assign(x);
        return x;
      },
      DeviceMesh(kDevice, {{"data", 4}}));
  const Tensor x = arange(8).to(DType::f32);
  EXPECT_EQ(keep(x).to_vector<float>(), x.to_vector<float>());
  EXPECT_EQ(kept.to_vector<float>(), x.to_vector<float>());
  EXPECT_EQ(parts_of(kept), (Parts{1, 4}));
}

TEST_F(MeshOnXla, FullyShardedIsOneDevice) {
  const Trained one = train<Reader>({.device = kDevice}, texts(), next_words());
  DeviceMesh mesh(kDevice, {{"data", -1}});
  mesh.shard("*");
  const Trained four =
      train<Reader>({.mesh = mesh}, texts(), next_words(), Calls::many, DType::f64, [](const Reader& reader) {
        EXPECT_EQ(parts_of(reader.words.weight), (Parts{4, 4}));
        EXPECT_EQ(parts_of(reader.block.ln1.weight), (Parts{4, 4}));
      });
  expect_same(four, one, 1e-9);
}

TEST_F(MeshOnXla, WhatIsOnlyReadStaysOnTheMeshToo) {
  Variable w(ones({8, 8}), "w");
  auto f = compile([&](const Tensor& x) { return matmul(x, w); }, DeviceMesh(kDevice, {{"data", 4}}));
  f(ones({4, 8})).eval();
  EXPECT_EQ(parts_of(w), (Parts{1, 4}));
  // One device's function takes the copy that is there.
  auto one = compile([&](const Tensor& x) { return sum(x + w.value()); }, {.device = "pjrt:cpu:2"});
  EXPECT_EQ(one(zeros({8, 8})).item<float>(), 64);
  EXPECT_EQ(parts_of(w), (Parts{1, 4}));
}

TEST_F(MeshOnXla, VariablesComeBackToOneDevice) {
  Variable v(arange(8).to(DType::f32), "v");
  DeviceMesh mesh(kDevice, {{"data", 4}});
  mesh.rule("v", {"data"});
  place(std::vector<Variable>{v}, mesh);
  EXPECT_EQ(parts_of(v), (Parts{4, 4}));
  v.move_to("pjrt:cpu:0");
  EXPECT_EQ(parts_of(v), (Parts{1, 1}));
  EXPECT_EQ(v.to_vector<float>(), (std::vector<float>{0, 1, 2, 3, 4, 5, 6, 7}));
}

TEST_F(MeshOnXla, AnOldValueSurvivesThatDoesNotFitOnOneDevice) {
  Variable v(arange(8).to(DType::f32), "v");
  DeviceMesh mesh(kDevice, {{"data", 4}});
  mesh.rule("v", {"data"});
  auto step = compile([&] { v += Tensor(1.0f); }, mesh);
  std::vector<Tensor> old;
  for (int i = 0; i < 3; ++i) {
    old.push_back(v.value());
    step();
  }
  for (int i = 0; i < 3; ++i) EXPECT_EQ(old[static_cast<std::size_t>(i)].to_vector<float>()[7], 7 + i);
  EXPECT_EQ(v.to_vector<float>()[7], 10);
  EXPECT_EQ(parts_of(v), (Parts{4, 4}));
}

TEST_F(MeshOnXla, ResultsAreSplitByRule) {
  DeviceMesh mesh(kDevice, {{"data", 4}});
  mesh.rule("result1", {"data"});
  auto f = compile([](const Tensor& x) { return std::pair(x * 2, x * 3); }, mesh);
  const auto [whole, split] = f(arange(8));
  EXPECT_EQ(placement(whole).part, Shape{8});
  EXPECT_EQ(placement(split).part, Shape{2});
  EXPECT_EQ(split.to_vector<std::int32_t>(), (std::vector<std::int32_t>{0, 3, 6, 9, 12, 15, 18, 21}));
}

TEST_F(MeshOnXla, ManyCallsInFlightFromSeveralThreads) {
  auto f = compile([](const Tensor& x) { return sum(x); }, DeviceMesh(kDevice, {{"data", 4}}));
  const Tensor x = ones({64});
  std::vector<std::thread> threads;
  std::vector<std::vector<Tensor>> results(3);
  for (auto& mine : results)
    threads.emplace_back([&] {
      for (int i = 0; i < 300; ++i) mine.push_back(f(x));
    });
  for (std::thread& t : threads) t.join();
  for (const auto& mine : results)
    for (const Tensor& y : mine) ASSERT_EQ(y.item<float>(), 64);
}

TEST_F(MeshOnXla, OneDeviceIsAMeshToo) {
  auto f = compile([](const Tensor& x) { return sum(x); }, DeviceMesh("pjrt:cpu:1", {{"data", 1}}));
  EXPECT_EQ(f(ones({5})).item<float>(), 5);
  auto pair = compile([](const Tensor& x) { return sum(x); }, DeviceMesh("pjrt:cpu:2", {{"data", 2}}));
  EXPECT_EQ(pair(ones({6})).item<float>(), 6);
}

TEST_F(MeshOnXla, MoreDevicesThanThereAreIsRefused) {
  auto f = compile([](const Tensor& x) { return x * 2; }, DeviceMesh(kDevice, {{"data", 64}}));
  const std::string message =
      error_of(ErrorKind::kUnsupported, [&] { f(Tensor(Literal(Type{DType::f32, {64}}))).eval(); });
  EXPECT_NE(message.find("not enough devices"), std::string::npos) << message;
}

// The reference has one device, which does the work of all.
TEST(Mesh, MeansTheSameOnTheReference) {
  const Trained one = train<Net>({.device = "reference"}, pictures(), labels());
  DeviceMesh mesh("reference", {{"data", 2}, {"model", 2}});
  mesh.column_parallel("fc1");
  expect_same(train<Net>({.mesh = mesh}, pictures(), labels()), one, 0);
  expect_same(train<Net>({.mesh = mesh}, pictures(), labels(), Calls::many), one, 0);
}

TEST(Mesh, TheGraphTellsTheShardings) {
  Variable w(Tensor(Literal(Type{DType::f32, {4, 6}})), "layer.weight");
  DeviceMesh mesh("reference", {{"data", 2}, {"model", 2}});
  mesh.rule("layer.weight", {"", "model"}).rule("arg1", {});
  auto f = compile(
      [&](const Tensor& x, const Tensor& scale) {
        w += scale;
        return matmul(x, w);
      },
      mesh);
  const ir::Graph graph =
      f.graph(Tensor(Literal(Type{DType::f32, {8, 4}})), Tensor(Literal(Type{DType::f32, {6}})));
  ASSERT_TRUE(graph.mesh());
  EXPECT_EQ(graph.mesh()->size(), 4);
  const auto of = [&](std::size_t input) { return graph.node(graph.inputs()[input]).shardings[0]->dims; };
  using Dims = std::vector<ir::MeshAxisNames>;
  EXPECT_EQ(of(0), (Dims{{"data"}, {}}));
  EXPECT_EQ(of(1), (Dims{{}}));
  EXPECT_EQ(of(2), (Dims{{}, {"model"}}));
  const ir::Output& assigned = graph.outputs()[1];
  EXPECT_EQ(graph.node(assigned.value.node).shardings[0]->dims, (Dims{{}, {"model"}}));
}

TEST(Mesh, RulesFitWholeNamesAndWhatFollowsADot) {
  DeviceMesh mesh("reference", {{"model", 2}});
  mesh.rule("fc.weight", {"model"}).rule("h.*.proj.*", {"", "model"}).rule("/top", {"model"});
  const Type matrix{DType::f32, {4, 4}};
  using Dims = std::vector<ir::MeshAxisNames>;
  const Dims first{{"model"}, {}}, second{{}, {"model"}}, whole{{}, {}};
  const auto of = [&](const char* name) { return recording::variable_sharding(mesh, name, matrix).dims; };
  EXPECT_EQ(of("fc.weight"), first);
  EXPECT_EQ(of("adam.m.h.0.fc.weight"), first);
  EXPECT_EQ(of("pfc.weight"), whole);
  EXPECT_EQ(of("fc.weights"), whole);
  EXPECT_EQ(of("h.11.proj.weight"), second);
  EXPECT_EQ(of("adam.v.h.11.proj.weight"), second);
  EXPECT_EQ(of("h.proj.weight"), whole);
  EXPECT_EQ(of("top"), first);
  EXPECT_EQ(of("h.top"), whole);
}

TEST(Mesh, WhatIsWrongIsNamed) {
  const auto with = [](DeviceMesh mesh) {
    return compile([](const Tensor& x) { return x; }, std::move(mesh));
  };
  const auto message = [&](ErrorKind kind, DeviceMesh mesh) {
    return error_of(kind, [&] { with(std::move(mesh)); });
  };
  EXPECT_NE(message(ErrorKind::kInvalidArgument, DeviceMesh("reference", {})).find("no axes"),
            std::string::npos);
  EXPECT_NE(message(ErrorKind::kInvalidArgument, DeviceMesh("reference", {{"a", 0}})).find("\"a\""),
            std::string::npos);
  EXPECT_NE(message(ErrorKind::kInvalidArgument, DeviceMesh("reference", {{"a", 2}, {"a", 2}})).find("twice"),
            std::string::npos);
  DeviceMesh lacks("reference", {{"a", 2}});
  lacks.rule("w", {"b"});
  EXPECT_NE(message(ErrorKind::kNotFound, lacks).find("\"w\""), std::string::npos);
  DeviceMesh twice("reference", {{"a", 2}});
  twice.rule("w", {"a", "a"});
  EXPECT_NE(message(ErrorKind::kInvalidArgument, twice).find("two dimensions"), std::string::npos);
  EXPECT_THROW(
      compile([](const Tensor& x) { return x; }, DeviceMesh("reference", {{"a", 2}}), {.device = "cpu"}),
      Error);

  EXPECT_NE(
      message(ErrorKind::kInvalidArgument, DeviceMesh("reference", {{"数据", 2}})).find("name of an axis"),
      std::string::npos);
  EXPECT_NO_THROW(compile([](const Tensor& x) { return x; }, DeviceMesh("reference", {{"a", 2}}),
                          {.device = "Reference:0"}));
  error_of(ErrorKind::kLimit,
           [] { (void)DeviceMesh("reference", {{"a", std::int64_t{1} << 62}, {"b", 4}}).size(); });

  const auto call = [&](DeviceMesh mesh, Shape shape) {
    return error_of(ErrorKind::kShape,
                    [&] { with(std::move(mesh))(Tensor(Literal(Type{DType::f32, shape}))); });
  };
  const std::string uneven = call(DeviceMesh("reference", {{"data", 4}}), {63, 2});
  EXPECT_NE(uneven.find("argument 0"), std::string::npos) << uneven;
  EXPECT_NE(uneven.find("multiple of 4"), std::string::npos) << uneven;
  EXPECT_NE(uneven.find("f32[63,2]"), std::string::npos) << uneven;
  DeviceMesh deep("reference", {{"data", 4}});
  deep.rule("arg0", {"", "", "data"});
  EXPECT_NE(call(deep, {4, 4}).find("at most 2"), std::string::npos);
}

TEST(Mesh, WhatWouldDoNothingIsRefused) {
  const Tensor x = ones({8});
  auto axis = compile([](const Tensor& t) { return t * 2; }, DeviceMesh("reference", {{"batch", 4}}));
  const std::string unused = error_of(ErrorKind::kInvalidArgument, [&] { axis(x); });
  EXPECT_NE(unused.find("\"batch\" splits nothing"), std::string::npos) << unused;
  EXPECT_NE(unused.find("\"data\""), std::string::npos) << unused;

  Variable w(ones({8}), "w");
  DeviceMesh mesh("reference", {{"data", 4}});
  mesh.rule("weight", {"data"});
  auto rule = compile([&](const Tensor& t) { return t * w; }, mesh);
  const std::string missed = error_of(ErrorKind::kNotFound, [&] { rule(x); });
  EXPECT_NE(missed.find("\"weight\""), std::string::npos) << missed;
  EXPECT_NE(missed.find("a name like w"), std::string::npos) << missed;
}

TEST(Mesh, ManyAtTakesNoRuleForItsData) {
  DeviceMesh mesh("reference", {{"data", 2}});
  mesh.rule("arg0", {"data"});
  auto f = compile([](const Tensor& x) { return sum(x); }, mesh);
  const Tensor rows = reshape(arange(8), {2, 4});
  error_of(ErrorKind::kInvalidArgument, [&] { f.many_at(rows, ones({8, 3})); });
}

TEST(Mesh, StarsMeanVariablesAndSplitWhatDivides) {
  DeviceMesh mesh("reference", {{"data", 4}});
  mesh.shard("*");
  using Dims = std::vector<ir::MeshAxisNames>;
  const auto of = [&](const Type& type) { return recording::variable_sharding(mesh, "any", type).dims; };
  EXPECT_EQ(of({DType::f32, {8, 12}}), (Dims{{}, {"data"}}));
  EXPECT_EQ(of({DType::f32, {16, 10}}), (Dims{{"data"}, {}}));
  EXPECT_EQ(of({DType::f32, {3, 5}}), (Dims{{}, {}}));
  EXPECT_EQ(of({DType::f32, {}}), Dims{});
  EXPECT_EQ(recording::argument_sharding(mesh, 0, {DType::f32, {4, 8}}, 0).dims, (Dims{{"data"}, {}}));
  mesh.rule("two", {{"data", "model"}, ""});
  EXPECT_EQ(mesh.rules.back().dims[0].names, (std::vector<std::string>{"data", "model"}));
}

TEST(Mesh, AFunctionOfAMeshJoinsOnlyItsOwnMesh) {
  const DeviceMesh mesh("reference", {{"data", 4}});
  auto inner = compile([](const Tensor& x) { return sum(x * x); }, mesh);
  const Tensor x = ones({8});
  error_of(ErrorKind::kInvalidArgument, [&] { grad(inner)(x); });
  auto outer = compile([&](const Tensor& t) { return grad(inner)(t); }, mesh);
  EXPECT_EQ(outer(x).to_vector<float>()[3], 2);
}

TEST(Mesh, NamesAreThoseOfTheOutermostModule) {
  struct Inner {
    nn::Linear fc{4, 4};
  };
  struct Outer {
    Inner left, right;
  };
  Outer outer;
  parameters(outer.left);
  parameters(outer);
  EXPECT_EQ(outer.left.fc.weight.name(), "left.fc.weight");
  EXPECT_EQ(outer.right.fc.weight.name(), "right.fc.weight");
}

}  // namespace
}  // namespace systole
