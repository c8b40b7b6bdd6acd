// Composites from outside that bear a registered name and do not fit its definition: refused by the verifier
// and the reader of texts on every device, and left alone by each matcher that a graph reaches all the same.

#include "look_alikes.h"

#include <gtest/gtest.h>

#include "backend/cpu/target.h"
#include "backend/patterns/attention.h"
#include "backend/patterns/layers.h"
#include "backend/patterns/on_result.h"
#include "backend/patterns/recurrence.h"
#include "compile/program.h"
#include "error_check.h"
#include "systole/autodiff.h"
#include "systole/compile/passes.h"
#include "systole/ir/text.h"
#include "systole/runtime.h"

namespace systole {
namespace {

// All patterns that libraries are offered, on a machine that has none of the libraries.
class EveryPattern final : public lower::Target {
 public:
  std::string_view name() const override { return "every pattern"; }
  std::vector<lower::Claim> offers(const lower::Region& region) const override {
    const ir::Node& anchor = region.graph.node(region.anchor);
    if (patterns::is_attention(anchor)) {
      patterns::Attention attention;
      return {claim(patterns::read_attention(region, attention, {.dtypes = kDTypes}))};
    }
    if (patterns::is_layer(anchor)) {
      patterns::Layer layer;
      return {claim(patterns::read_layer(region, layer))};
    }
    if (patterns::is_lstm_loop(anchor)) {
      patterns::LstmLoop loop;
      return {claim(patterns::read_lstm_loop(region, loop))};
    }
    if (patterns::is_product(anchor)) {
      patterns::Product product;
      patterns::OnResult work;
      return {claim(patterns::read_on_result(patterns::flat(region), product, work))};
    }
    return {};
  }

 private:
  static constexpr DType kDTypes[] = {DType::f32};
  static lower::Claim claim(std::string reason) {
    return reason.empty() ? lower::Claim{"library", {}, 0, 0} : lower::Claim::declined(std::move(reason));
  }
};

class PlainTarget final : public lower::Target {
 public:
  std::string_view name() const override { return "plain"; }
};

void expect_half(const std::vector<Literal>& results) {
  for (const Literal& result : results)
    for (const double v : result.to_doubles()) ASSERT_EQ(v, 0.5);
}

TEST(LookAlikes, TheOriginalsAreTakenByTheMatchers) {
  for (const WholeComposite& whole : claimed_composites()) {
    SCOPED_TRACE(whole.name);
    const ir::Graph graph = graph_of(whole);
    EXPECT_NO_THROW(ir::verify(graph));
    EXPECT_NO_THROW(ir::parse(ir::print(graph)));
    EXPECT_TRUE(has_composite(lower::prepared(graph, EveryPattern())));
  }
}

TEST(LookAlikes, AreRefusedByTheVerifierWithTheirName) {
  for (const LookAlike& each : look_alikes()) {
    SCOPED_TRACE(each.what);
    try {
      ir::verify(each.graph);
      ADD_FAILURE() << "nothing was thrown";
    } catch (const Error& error) {
      EXPECT_NE(error.kind(), ErrorKind::kInternal) << error.what();
      const std::string name = each.what.substr(0, each.what.find(' '));
      EXPECT_NE(std::string(error.what()).find("composite " + name), std::string::npos) << error.what();
    }
  }
}

TEST(LookAlikes, InATextAreRefusedWithTheirLine) {
  for (const LookAlike& each : look_alikes()) {
    // Attributes left out of a text have their defaults.
    if (each.what.find(" without ") != std::string::npos) continue;
    SCOPED_TRACE(each.what);
    try {
      ir::parse(ir::print(each.graph), "file.sir");
      ADD_FAILURE() << "nothing was thrown";
    } catch (const Error& error) {
      EXPECT_NE(error.kind(), ErrorKind::kInternal) << error.what();
      EXPECT_TRUE(std::string(error.what()).starts_with("file.sir:")) << error.what();
    }
  }
}

TEST(LookAlikes, AreRefusedByEveryDevice) {
  for (const runtime::DeviceInfo& device : devices())
    for (const LookAlike& each : look_alikes()) {
      SCOPED_TRACE(device.name.to_string() + ": " + each.what);
      EXPECT_THROW(compile(each.graph, device.name.to_string()), Error);
    }
}

TEST(LookAlikes, AreLeftAloneByEachMatcher) {
  const EveryPattern every_pattern;
  const PlainTarget plain_target;
  const lower::Target *const every = &every_pattern, *const plain = &plain_target;
  for (const LookAlike& each : look_alikes()) {
    SCOPED_TRACE(each.what);
    for (const lower::Target* const target : {&cpu::target(), every, plain})
      EXPECT_FALSE(has_composite(lower::prepared(each.graph, *target))) << target->name();
  }
}

TEST(LookAlikes, AreDifferentiatedThroughTheirBodies) {
  for (const LookAlike& each : look_alikes()) {
    if (each.graph.input_type(0).dtype != DType::f32) continue;
    SCOPED_TRACE(each.what);
    EXPECT_NO_THROW(autodiff::vjp(each.graph, {0}));
  }
}

// Names that the CPU and libraries of products give to composites of their own are free for others.
TEST(LookAlikes, OfNamesThatBackendsUseInsideAreComputedByTheirBodies) {
  const Type some{DType::f32, {3}};
  for (const char* name : kInsideNames)
    for (const runtime::DeviceInfo& device : devices()) {
      SCOPED_TRACE(device.name.to_string() + ": " + name);
      const ir::Graph graph = with_own_body(name, {some}, {}, {some});
      expect_half(compile(graph, device.name.to_string()).run({Literal(some)}));
      EXPECT_FALSE(has_composite(lower::prepared(graph, EveryPattern())));
    }
}

// No target claims a softmax: its body comes in its place, with all that it holds.
TEST(LookAlikes, InTheBodyOfACompositeThatFitsAreComputedByTheirBodies) {
  const EveryPattern every_pattern;
  const PlainTarget plain_target;
  const lower::Target *const every = &every_pattern, *const plain = &plain_target;
  for (const LookAlike& each : nested_look_alikes()) {
    SCOPED_TRACE(each.what);
    for (const lower::Target* const target : {&cpu::target(), every, plain})
      EXPECT_FALSE(has_composite(lower::prepared(each.graph, *target))) << target->name();
  }
  for (const Type& type : {Type{DType::f32, {3}}, Type{DType::f32, {2, 3, 4}}})
    for (const char* const inside : kInsideNames)
      for (const Nest nest : {Nest::body, Nest::loop})
        for (const runtime::DeviceInfo& device : devices()) {
          SCOPED_TRACE(device.name.to_string() + ": " + inside + " of " + type.to_string() + " " +
                       std::string(name(nest)));
          const ir::Graph graph = in_a_softmax(with_own_body(inside, {type}, {}, {type}), nest);
          expect_half(compile(graph, device.name.to_string()).run({Literal(graph.input_type(0))}));
        }
  for (const LookAlike& each : look_alikes())
    for (const Nest nest : {Nest::body, Nest::loop}) {
      SCOPED_TRACE(each.what);
      EXPECT_THROW(compile(in_a_softmax(each.graph, nest), "cpu"), Error);
    }
}

// What matchers are offered of a composite with such a name, when nothing has looked at it before.
TEST(LookAlikes, OfNamesThatBackendsUseInsideAreDeclinedByTheirMatchers) {
  const auto reason_of = [](const char* const name, const std::vector<Type>& operands,
                            const std::vector<Type>& results) {
    lower::Region region{with_own_body(name, operands, {}, results), -1};
    region.anchor = region.graph.size() - 1;
    const std::vector<lower::Claim> claims = EveryPattern().offers(region);
    return claims.at(0).reason;
  };
  const auto f32 = [](Shape shape) { return Type{DType::f32, std::move(shape)}; };
  const Type some = f32({3}), steps = f32({3, 2, 4}), gates = f32({3, 2, 16}), state = f32({2, 4}),
             r = f32({16, 4}), kept = f32({4, 2, 4});
  EXPECT_EQ(reason_of("library.product", {some}, {some}), "there is no product in it");
  EXPECT_EQ(reason_of("lstm_loop", {some}, {some}), "1 operands");
  EXPECT_EQ(reason_of("lstm_loop_grad", {f32({2, 3, 4})}, {some}), "1 operands");
  const std::vector<Type> loop{gates, f32({16}), state, state, r}, results{steps, state, state},
      grad{steps, state, state, gates, kept, r}, grads{state, state, gates};
  EXPECT_EQ(reason_of("lstm_loop", loop, results), "");
  EXPECT_EQ(reason_of("lstm_loop_grad", grad, grads), "");
  const auto expect_declined = [&](const char* const name, const std::vector<Type>& operands,
                                   const std::vector<Type>& made) {
    for (std::size_t i = 0; i < operands.size(); ++i)
      for (const Shape& shape : {Shape{}, Shape{7}, Shape{2, 5}, Shape{3, 2, 5}}) {
        std::vector<Type> changed = operands;
        changed[i].shape = shape;
        EXPECT_NE(reason_of(name, changed, made), "") << name << ", operand " << i;
      }
    for (std::size_t i = 0; i < made.size(); ++i) {
      std::vector<Type> changed = made;
      changed[i].shape = {7};
      EXPECT_NE(reason_of(name, operands, changed), "") << name << ", result " << i;
    }
    EXPECT_NE(reason_of(name, operands, {made[0]}), "");
    std::vector<Type> more = operands;
    more.push_back(operands.back());
    EXPECT_NE(reason_of(name, more, made), "");
  };
  expect_declined("lstm_loop", loop, results);
  expect_declined("lstm_loop_grad", grad, grads);
}

// In release builds as well, where nothing else of a graph is verified then.
TEST(LookAlikes, MadeByAPassAreRefusedWithItsName) {
  constexpr passes::Pass kPasses[] = {{"breaks", [](const ir::Graph&) { return look_alikes()[0].graph; }}};
  class Restating final : public lower::Target {
    std::string_view name() const override { return "restating"; }
    ir::Graph restated(const ir::Graph&) const override { return look_alikes()[0].graph; }
  };
  class Adapting final : public lower::Target {
    std::string_view name() const override { return "adapting"; }
    ir::Graph adapted(const ir::Graph&) const override { return look_alikes()[0].graph; }
  };
  const ir::Graph graph = graph_of(claimed_composites()[0]);
  const auto refused = [&](const std::string& step, const std::function<void()>& work) {
    const std::string message = error_of(ErrorKind::kInvalidArgument, work);
    EXPECT_NE(message.find("after pass " + step), std::string::npos) << message;
    EXPECT_NE(message.find("composite attention"), std::string::npos) << message;
  };
  refused("breaks", [&] { passes::run_passes(graph, kPasses); });
  refused("restated", [&] { lower::prepared(graph, Restating()); });
  refused("adapted", [&] { lower::prepared(graph, Adapting()); });
}

TEST(LookAlikes, OfOneNodeAreRefusedWhereTheCpuReadOperandsThatAreNotThere) {
  const std::string message = error_of(ErrorKind::kInvalidArgument, [] {
    ir::parse(
        "systole.ir 1\n"
        "graph @own(%x: f32[3]) { return %x }\n"
        "graph @main(%x: f32[3]) {\n"
        "  %y = composite lstm_grad(%x) @own : f32[3]\n"
        "  return %y\n"
        "}\n",
        "file.sir");
  });
  EXPECT_EQ(message.substr(0, 12), "file.sir:4:1") << message;
  EXPECT_NE(message.find("composite lstm_grad"), std::string::npos) << message;
}

TEST(LookAlikes, DefaultsFillWhatATextWithABodyLeavesOut) {
  const ir::Graph graph = ir::parse(
      "systole.ir 1\n"
      "graph @own(%x: f32[3]) { return %x }\n"
      "graph @main(%x: f32[3]) {\n"
      "  %y = composite softmax(%x) @own : f32[3]\n"
      "  return %y\n"
      "}\n");
  const auto& attrs = graph.node(1).as<ir::CompositeAttrs>().attrs;
  EXPECT_EQ(ir::get_int(attrs, "axis"), -1);
  EXPECT_NO_THROW(ir::verify(graph));
}

}  // namespace
}  // namespace systole
