#include "conformance.h"

#include <fmt/format.h>
#include <algorithm>

#include "compare.h"
#include "fixture.h"
#include "systole/base/error.h"
#include "systole/compile/passes.h"
#include "systole/runtime.h"

namespace systole::conformance {

namespace {

// Ops that return the larger or smaller of two zeros may return either.
bool either_zero(const ir::Node& node) {
  const auto extreme = [](ir::Combine kind) { return kind == ir::Combine::max || kind == ir::Combine::min; };
  switch (node.op) {
    case ir::Op::max:
    case ir::Op::min:
    case ir::Op::clamp: return true;
    case ir::Op::reduce: return extreme(node.as<ir::ReduceAttrs>().kind);
    case ir::Op::reduce_window: return extreme(node.as<ir::WindowAttrs>().kind);
    case ir::Op::cumulative: return extreme(node.as<ir::CumulativeAttrs>().kind);
    case ir::Op::scatter: return extreme(node.as<ir::ScatterAttrs>().combine);
    case ir::Op::all_reduce: return extreme(node.as<ir::AllReduceAttrs>().kind);
    case ir::Op::reduce_scatter: return extreme(node.as<ir::ReduceScatterAttrs>().kind);
    default: return false;
  }
}

// Ops that move elements keep their bits, those of a NaN too.
bool keeps_bits(const ir::Node& node) {
  if (node.op == ir::Op::scatter) return node.as<ir::ScatterAttrs>().combine == ir::Combine::set;
  return ir::info(node.op).op_class == ir::OpClass::movement || node.op == ir::Op::select ||
         node.op == ir::Op::bitcast;
}

using Results = std::vector<std::vector<Literal>>;  // per device, per output

// The evaluation's results for arguments without denormals.
Results flushed_results(const Fixture& fixture) {
  std::vector<std::vector<Literal>> arguments = fixture.arguments;
  for (std::vector<Literal>& list : arguments)
    std::transform(list.begin(), list.end(), list.begin(), without_denormals);
  return compile(fixture.graph, "reference", {.optimize = false}).run_devices(arguments);
}

struct RowCase {
  std::string row, device;
  BackendRules rules;
  bool optimize;
};

void check_row(const RowCase& c) {
  const Fixture fixture = load_fixture(c.row);
  std::string absence;
  runtime::Backend* const backend = available(c.device, absence);
  if (backend == nullptr) GTEST_SKIP() << absence;
  if (const std::string reason = refusal(*backend, fixture.graph); !reason.empty()) GTEST_SKIP() << reason;
  const ir::Graph typed = bound_graph(fixture);
  // What the passes leave as it is has been seen.
  if (!c.optimize && passes::run_passes(typed, passes::standard_passes()).same_structure(typed)) return;
  const Results results =
      compile(fixture.graph, c.device, {.optimize = c.optimize}).run_devices(fixture.arguments);
  const Results flushed = c.rules.flushes_denormals ? flushed_results(fixture) : Results();
  ASSERT_EQ(results.size(), fixture.expected.size());
  for (std::size_t d = 0; d < results.size(); ++d) {
    ASSERT_EQ(results[d].size(), fixture.expected[d].size());
    for (std::size_t i = 0; i < results[d].size(); ++i) {
      const ir::Output& output = fixture.graph.outputs()[i];
      const ir::Node& node = fixture.graph.node(output.value.node);
      Rule rule{row_tolerance(c.row), either_zero(node), !keeps_bits(node)};
      if (c.rules.flushes_denormals && !keeps_bits(node)) rule.flushed = flushed[d][i];
      const std::string difference =
          compare(results[d][i], typed.output_type(i), fixture.expected[d][i], rule);
      EXPECT_TRUE(difference.empty()) << c.row << " " << output.name << " on " << c.device
                                      << (results.size() > 1 ? fmt::format(", device {}", d) : "")
                                      << (c.optimize ? ", optimised" : "") << difference;
    }
  }
}

class RowTest : public Conformance {
 public:
  explicit RowTest(RowCase row) : row_(std::move(row)) {}
  void TestBody() override { check_row(row_); }

 private:
  RowCase row_;
};

class AbsentTest : public Conformance {
 public:
  explicit AbsentTest(std::string reason) : reason_(std::move(reason)) {}
  void TestBody() override { GTEST_SKIP() << reason_; }

 private:
  const std::string reason_;
};

class RandomGraphsTest : public Conformance {
 public:
  explicit RandomGraphsTest(std::string device) : device_(std::move(device)) {}
  void TestBody() override { check_random_graphs(device_); }

 private:
  std::string device_;
};

}  // namespace

std::string refusal(const runtime::Backend& backend, const ir::Graph& graph) {
  for (const ir::Node& node : graph.nodes()) {
    const bool runs_its_body = node.op == ir::Op::kernel_call && !node.graphs.empty();
    if (!runs_its_body)
      if (std::string reason = backend.refusal(node.op); !reason.empty())
        return fmt::format("{}: {}", ir::name(node.op), reason);
    for (const ir::GraphRef& body : node.graphs)
      if (std::string reason = refusal(backend, *body); !reason.empty()) return reason;
  }
  return {};
}

runtime::Backend* available(const std::string& device, std::string& reason) {
  const DeviceName name = DeviceName::parse(device);
  const std::string registered = name.backend_name();
  const std::vector<std::string> names = runtime::backend_names();
  if (std::find(names.begin(), names.end(), registered) == names.end()) {
    reason = fmt::format("no plugin {} on this machine", registered);  // CMakeLists.txt knows the words
    return nullptr;
  }
  runtime::Backend& backend = runtime::backend(registered);
  if (backend.devices().empty() && name.plugin.empty()) {
    reason = fmt::format("no plugin {} on this machine: {}", registered, backend.unavailable_reason());
    return nullptr;
  }
  if (backend.devices().empty())
    throw Error(ErrorKind::kUnsupported, device,
                "is here but does not start: " + backend.unavailable_reason());
  return &backend;
}

// A colon separates tests in a filter, so names cannot have one.
std::string test_name(const std::string& row, const std::string& device) {
  std::string name = row + "/" + device;
  std::replace(name.begin(), name.end(), ':', '_');
  return name;
}

void register_conformance_tests_if_there(const std::string& device) {
  std::string reason;
  if (available(device, reason) != nullptr) return register_conformance_tests(device);
  testing::RegisterTest("Conformance", test_name("Rows", device).c_str(), nullptr, nullptr, __FILE__,
                        __LINE__, [=]() -> Conformance* { return new AbsentTest(reason); });
}

void register_conformance_tests(const std::string& device, const BackendRules& rules) {
  const auto add = [&](const std::string& name, const RowCase& row) {
    testing::RegisterTest("Conformance", test_name(name, device).c_str(), nullptr, nullptr, __FILE__,
                          __LINE__, [=]() -> Conformance* { return new RowTest(row); });
  };
  for (const std::string& row : fixture_names()) {
    add(row, {row, device, rules, true});
    add("Unoptimised_" + row, {row, device, rules, false});
  }
  testing::RegisterTest("Conformance", test_name("RandomGraphs", device).c_str(), nullptr, nullptr, __FILE__,
                        __LINE__, [=]() -> Conformance* { return new RandomGraphsTest(device); });
  register_gradient_tests(device);
}

}  // namespace systole::conformance
