// The reference backend behind the runtime's interfaces: buffers, donation, refusals, and the simulated
// devices of a mesh.

#include <gtest/gtest.h>

#include <cstdint>

#include "backend/reference/reference.h"
#include "eval_check.h"
#include "systole/runtime.h"

namespace systole::eval_check {
namespace {

using ir::Combine;
using ir::Graph;
using ir::GraphRef;
using ir::MeshAxisNames;
using ir::Op;
using ir::Value;
using runtime::BufferRef;
using runtime::RunArguments;
using i32 = std::int32_t;
using u32 = std::uint32_t;

const Type kScalar{DType::i32, {}};

struct Reference : ::testing::Test {
  std::unique_ptr<runtime::Backend> backend = runtime::make_reference_backend();

  std::shared_ptr<const runtime::Executable> compile(const Graph& graph) {
    return backend->compile(graph, 0, {});
  }

  BufferRef upload(const Literal& value) { return backend->upload(value, 0); }

  // One argument per device in, the first result per device out.
  std::vector<Literal> run_mesh(const Graph& graph, const std::vector<Literal>& inputs) {
    RunArguments arguments;
    for (std::size_t i = 0; i < inputs.size(); ++i)
      arguments.per_device.push_back({backend->upload(inputs[i], static_cast<int>(i))});
    std::vector<Literal> out;
    for (const auto& results : compile(graph)->new_session()->run(arguments))
      out.push_back(results.at(0)->to_host());
    return out;
  }
};

// Devices 0 1 / 2 3: x counts rows, y columns.
Graph mesh_graph(const char* name = "main") {
  Graph graph(name);
  graph.set_mesh({{{"x", 2}, {"y", 2}}});
  return graph;
}

Graph one_collective(Op op, Type type, ir::Attrs attrs) {
  Graph graph = mesh_graph();
  graph.output(graph.add(op, {graph.input("v", std::move(type))}, std::move(attrs)));
  return graph;
}

TEST_F(Reference, RunsAGraphOnBuffers) {
  Graph graph;
  const Value x = graph.input("x", {DType::f32, {2}});
  graph.output(graph.add(Op::add, {x, x}));
  graph.output(x);
  const auto executable = compile(graph);
  EXPECT_EQ(executable->device_count(), 1);
  const auto results = executable->new_session()->run({{{upload(row<float>({1, 2}))}}, {}});
  expect_row<float>(results.at(0).at(0)->to_host(), {2, 4});
  expect_row<float>(results[0].at(1)->to_host(), {1, 2});
  EXPECT_EQ(results[0][0]->device(), DeviceName::parse("reference"));
  EXPECT_EQ(backend->devices().size(), 1u);
}

TEST_F(Reference, ADonatedArgumentIsOverwrittenInPlaceAndNotReadable) {
  const std::vector<Literal> operands{row<float>({1, 2, 3}), row<float>({9}), scalar<i32>(1)};
  const auto session = compile(graph_of(Op::dynamic_update_slice, operands))->new_session();
  std::vector<BufferRef> list;
  const std::byte* storage;
  {
    Literal x = row<float>({1, 2, 3});
    storage = x.bytes();
    list = {upload(x), upload(operands[1]), upload(operands[2])};
  }
  const Literal kept = session->run({{list}, {}})[0][0]->to_host();
  EXPECT_NE(kept.bytes(), storage);
  expect_row<float>(list[0]->to_host(), {1, 2, 3});

  const Literal reused = session->run({{list}, {0}})[0][0]->to_host();
  expect_row<float>(reused, {1, 9, 3});
  EXPECT_EQ(reused.bytes(), storage);
  expect_error(ErrorKind::kInvalidArgument, "donated", [&] { list[0]->to_host(); });
  expect_error(ErrorKind::kInvalidArgument, "donated", [&] { session->run({{list}, {}}); });
}

// Runs `graph` with every input that has an alias donated.
std::vector<BufferRef> run_donating(runtime::Session& session, const Graph& graph,
                                    const std::vector<BufferRef>& list) {
  RunArguments arguments{{list}, {}};
  for (std::size_t i = 0; i < list.size(); ++i)
    if (graph.node(graph.inputs()[i]).as<ir::InputAttrs>().alias >= 0)
      arguments.donated.push_back(static_cast<int>(i));
  return session.run(arguments)[0];
}

const std::byte* address(const BufferRef& buffer) { return buffer->to_host().bytes(); }

TEST_F(Reference, AnAliasedResultTakesTheDonatedBufferAndItsMemoryRunAfterRun) {
  // w - x·lr, written over w at once; and count + 1 through ops that make new values.
  const Type type{DType::f32, {3}};
  Graph graph;
  const Value w = graph.input("w", type, 0), x = graph.input("x", type);
  const Value lr = graph.input("lr", {DType::f32, {}});
  const Value rate = graph.add(Op::broadcast, {lr}, ir::BroadcastAttrs{{3}, {}});
  const Value count = graph.input("count", {DType::i32, {2, 1}}, 1);
  const Value one = graph.constant(make<i32>({2, 1}, {1, 2}));
  const Value turned = graph.add(Op::transpose, {count}, ir::TransposeAttrs{{1, 0}});
  const Value back = graph.add(Op::transpose, {turned}, ir::TransposeAttrs{{1, 0}});
  graph.output(graph.add(Op::sub, {w, graph.add(Op::mul, {x, rate})}));
  graph.output(graph.add(Op::add, {back, one}));
  graph.output(graph.add(Op::reverse, {count}, ir::AxesAttrs{{0}}));

  const auto session = compile(graph)->new_session();
  const std::vector<BufferRef> list{upload(row<float>({1, 2, 3})), upload(row<float>({1, 0, -1})),
                                    upload(scalar<float>(0.5)), upload(make<i32>({2, 1}, {10, 20}))};
  const std::byte *w_memory = address(list[0]), *count_memory = address(list[3]);
  for (i32 step = 1; step <= 3; ++step) {
    const std::vector<BufferRef> results = run_donating(*session, graph, list);
    EXPECT_EQ(results[0], list[0]);
    EXPECT_EQ(results[1], list[3]);
    EXPECT_EQ(address(list[0]), w_memory);
    EXPECT_EQ(address(list[3]), count_memory);
    expect_row<float>(list[0]->to_host(), {1 - 0.5 * step, 2, 3 + 0.5 * step});
    expect_same(list[3]->to_host(), make<i32>({2, 1}, {10 + step, 20 + 2 * step}));
    expect_same(results[2]->to_host(), make<i32>({2, 1}, {20 + 2 * (step - 1), 10 + step - 1}));
  }
}

TEST_F(Reference, WhoHoldsTheOldValueOfADonatedBufferKeepsIt) {
  Graph aliased;
  aliased.output(aliased.add(Op::neg, {aliased.input("x", {DType::f32, {2}}, 0)}));
  const auto session = compile(aliased)->new_session();
  const std::vector<BufferRef> list{upload(row<float>({1, 2}))};
  const Literal held = list[0]->to_host();
  EXPECT_EQ(run_donating(*session, aliased, list)[0], list[0]);
  expect_row<float>(held, {1, 2});
  expect_row<float>(list[0]->to_host(), {-1, -2});
  // Without donation nothing is overwritten and the result is another buffer.
  const BufferRef other = session->run({{list}, {}})[0][0];
  EXPECT_NE(other, list[0]);
  expect_row<float>(list[0]->to_host(), {-1, -2});
  expect_row<float>(other->to_host(), {1, 2});
}

TEST_F(Reference, AliasesThatTradePlacesAndOldValuesAmongTheResultsStayApart) {
  const Type type{DType::i32, {2}};
  Graph graph;
  const Value a = graph.input("a", type, 0), b = graph.input("b", type, 1);
  graph.output(b);
  graph.output(a);
  graph.output(a);
  const auto session = compile(graph)->new_session();
  const std::vector<BufferRef> list{upload(row<i32>({1, 2})), upload(row<i32>({3, 4}))};
  const std::byte *a_memory = address(list[0]), *b_memory = address(list[1]);
  const std::vector<BufferRef> results = run_donating(*session, graph, list);
  expect_row<i32>(list[0]->to_host(), {3, 4});
  expect_row<i32>(list[1]->to_host(), {1, 2});
  expect_row<i32>(results[2]->to_host(), {1, 2});
  EXPECT_EQ(address(list[0]), a_memory);
  EXPECT_EQ(address(list[1]), b_memory);
}

TEST_F(Reference, ABufferDonatedTwiceTakesOneResult) {
  const Type type{DType::i32, {2}};
  Graph graph;
  const Value a = graph.input("a", type, 0), b = graph.input("b", type, 1);
  graph.output(graph.add(Op::add, {a, b}));
  graph.output(graph.add(Op::sub, {a, b}));
  const BufferRef one = upload(row<i32>({1, 2}));
  const std::vector<BufferRef> results = run_donating(*compile(graph)->new_session(), graph, {one, one});
  EXPECT_NE(results[0], results[1]);
  expect_row<i32>(results[0]->to_host(), {2, 4});
  expect_row<i32>(results[1]->to_host(), {0, 0});
}

TEST_F(Reference, AnUpdateBesideAViewOfTheOldValueKeepsTheMemory) {
  Graph graph;
  const Value x = graph.input("x", {DType::i32, {3}}, 0), one = graph.input("one", {DType::i32, {1}});
  const Value at = graph.input("at", kScalar);
  const Value view = graph.add(Op::reshape, {x}, ir::ReshapeAttrs{{3, 1}});
  graph.output(graph.add(Op::dynamic_update_slice, {x, one, at}));
  graph.output(graph.add(Op::neg, {view}));
  const auto session = compile(graph)->new_session();
  const std::vector<BufferRef> list{upload(row<i32>({1, 2, 3})), upload(row<i32>({9})),
                                    upload(scalar<i32>(1))};
  const std::byte* memory = address(list[0]);
  const std::vector<BufferRef> results = run_donating(*session, graph, list);
  expect_row<i32>(list[0]->to_host(), {1, 9, 3});
  expect_same(results[1]->to_host(), make<i32>({3, 1}, {-1, -2, -3}));
  EXPECT_EQ(address(list[0]), memory);
}

TEST_F(Reference, AVariableThatIsOnlyWrittenKeepsItsMemory) {
  const Type type{DType::f32, {2}};
  Graph graph;
  graph.input("w", type, 0);
  graph.output(graph.input("x", type));
  const auto session = compile(graph)->new_session();
  const std::vector<BufferRef> list{upload(row<float>({1, 2})), upload(row<float>({3, 4}))};
  const std::byte* memory = address(list[0]);
  EXPECT_EQ(run_donating(*session, graph, list)[0], list[0]);
  expect_row<float>(list[0]->to_host(), {3, 4});
  expect_row<float>(list[1]->to_host(), {3, 4});
  EXPECT_EQ(address(list[0]), memory);
}

TEST_F(Reference, ACarriedStateComesHomeFromALoop) {
  const Type type{DType::f32, {2}};
  Graph body("body");
  const Value s = body.input("s", type);
  body.output(body.add(Op::add, {s, s}));
  Graph graph;
  graph.output(graph.add(Op::scan, {graph.input("s", type, 0)}, ir::ScanAttrs{.length = 3, .carries = 1},
                         {std::make_shared<const Graph>(std::move(body))}));
  const auto session = compile(graph)->new_session();
  const std::vector<BufferRef> list{upload(row<float>({1, 2}))};
  const std::byte* memory = address(list[0]);
  run_donating(*session, graph, list);
  run_donating(*session, graph, list);
  expect_row<float>(list[0]->to_host(), {64, 128});
  EXPECT_EQ(address(list[0]), memory);
}

TEST_F(Reference, PassesKeepAliasesAndUnusedInputs) {
  Graph graph;
  const Value x = graph.input("x", {DType::f32, {2}}, 0);
  graph.input("unused", {DType::i32, {}});
  const Value same = graph.add(Op::reshape, {x}, ir::ReshapeAttrs{{2}});
  graph.output(graph.add(Op::add, {same, graph.add(Op::mul, {x, graph.constant(row<float>({1, 1}))})}));
  const CompiledGraph compiled = systole::compile(graph, "reference");
  ASSERT_EQ(compiled.inputs().size(), 2u);
  const std::vector<BufferRef> list{upload(row<float>({1, 2})), upload(scalar<i32>(0))};
  const std::byte* memory = address(list[0]);
  EXPECT_EQ(compiled.new_session()->run({{list}, {0}})[0][0], list[0]);
  EXPECT_EQ(address(list[0]), memory);
  expect_row<float>(list[0]->to_host(), {2, 4});
}

class ForeignBuffer : public runtime::Buffer {
 public:
  const Type& type() const override { return type_; }
  const DeviceName& device() const override { return device_; }
  Literal to_host() const override { return Literal(type_); }

 private:
  Type type_{DType::f32, {2}};
  DeviceName device_{"cuda", {}, 0};
};

TEST_F(Reference, RefusesWrongArgumentsWithAReason) {
  const auto session = compile(graph_of(Op::neg, {row<float>({1, 2})}))->new_session();
  const BufferRef good = upload(row<float>({1, 2}));
  expect_error(ErrorKind::kInvalidArgument, "argument lists", [&] { session->run({}); });
  expect_error(ErrorKind::kInvalidArgument, "argument lists", [&] { session->run({{{good}, {good}}, {}}); });
  expect_error(ErrorKind::kInvalidArgument, "number of arguments",
               [&] { session->run({{{good, good}}, {}}); });
  expect_error(ErrorKind::kInvalidArgument, "got none", [&] { session->run({{{nullptr}}, {}}); });
  expect_error(ErrorKind::kInvalidArgument, "cuda:0",
               [&] { session->run({{{std::make_shared<ForeignBuffer>()}}, {}}); });
  expect_error(ErrorKind::kInvalidArgument, "donated", [&] { session->run({{{good}}, {1}}); });
  expect_error(ErrorKind::kShape, "x0", [&] { session->run({{{upload(row<float>({1}))}}, {}}); });
  expect_error(ErrorKind::kDType, "x0", [&] { session->run({{{upload(row<i32>({1, 2}))}}, {}}); });
  expect_row<float>(session->run({{{good}}, {}})[0][0]->to_host(), {-1, -2});  // still usable
}

TEST_F(Reference, RefusesAtCompileTimeWhatItCannotRun) {
  EXPECT_EQ(backend->refusal(Op::add), "");
  EXPECT_EQ(backend->refusal(Op::all_reduce), "");
  EXPECT_NE(backend->refusal(Op::kernel_call).find("body graph"), std::string::npos);
  const ir::KernelAttrs kernel{.name = "mine", .c = "void mine(void);", .results = {kScalar}};
  const Graph bare = graph_of(Op::kernel_call, {scalar<i32>(1)}, kernel);
  expect_error(ErrorKind::kUnsupported, "mine", [&] { compile(bare); });
  const GraphRef hidden = std::make_shared<const Graph>(bare);
  expect_error(ErrorKind::kUnsupported, "mine", [&] {
    compile(graph_of(Op::composite, {scalar<i32>(1)}, ir::CompositeAttrs{"c", {}}, {hidden}));
  });
  expect_error(ErrorKind::kNotFound, "reference:1", [&] { backend->compile(Graph(), 1, {}); });
  Graph wide;
  wide.set_mesh({{{"x", 100000}}});
  wide.output(wide.add(Op::device_index, {}, ir::MeshAxesAttrs{{"x"}}));
  expect_error(ErrorKind::kLimit, "mesh", [&] { compile(wide); });
}

TEST_F(Reference, AMeshWithoutCollectivesIsOneDevice) {
  Graph graph = mesh_graph();
  const Value v = graph.input("v", {DType::i32, {4}});
  graph.set_sharding(v, {{{"x"}}});
  graph.output(graph.add(Op::neg, {v}));
  EXPECT_EQ(compile(graph)->device_count(), 1);
}

TEST_F(Reference, AllReduceCombinesRowsColumnsOrAll) {
  const std::vector<Literal> in{scalar<i32>(1), scalar<i32>(10), scalar<i32>(100), scalar<i32>(1000)};
  const auto sums = [&](MeshAxisNames axes, Combine kind) {
    std::vector<i32> out;
    for (const Literal& r :
         run_mesh(one_collective(Op::all_reduce, kScalar, ir::AllReduceAttrs{kind, std::move(axes)}), in))
      out.push_back(r.item<i32>());
    return out;
  };
  EXPECT_EQ(sums({"y"}, Combine::sum), (std::vector<i32>{11, 11, 1100, 1100}));
  EXPECT_EQ(sums({"x"}, Combine::sum), (std::vector<i32>{101, 1010, 101, 1010}));
  EXPECT_EQ(sums({"x", "y"}, Combine::sum), (std::vector<i32>{1111, 1111, 1111, 1111}));
  EXPECT_EQ(sums({"y"}, Combine::max), (std::vector<i32>{10, 10, 1000, 1000}));
}

TEST_F(Reference, AllReduceRoundsOnce) {
  const std::vector<Literal> in{scalar<float>(1e8), scalar<float>(1), scalar<float>(-1e8), scalar<float>(0)};
  const Graph graph =
      one_collective(Op::all_reduce, {DType::f32, {}}, ir::AllReduceAttrs{Combine::sum, {"x", "y"}});
  for (const Literal& r : run_mesh(graph, in)) expect_same(r, scalar<float>(1));
}

TEST_F(Reference, GatherScatterAndExchangeParts) {
  std::vector<Literal> in;
  for (i32 d = 0; d < 4; ++d) in.push_back(row<i32>({10 * d, 10 * d + 1}));
  const Type type{DType::i32, {2}};
  const auto check = [&](const Graph& graph, std::initializer_list<Literal> wanted) {
    const std::vector<Literal> got = run_mesh(graph, in);
    ASSERT_EQ(got.size(), 4u);
    for (std::size_t i = 0; i < 4; ++i) expect_same(got[i], wanted.begin()[i]);
  };
  check(one_collective(Op::all_gather, type, ir::AllGatherAttrs{0, {"y"}}),
        {row<i32>({0, 1, 10, 11}), row<i32>({0, 1, 10, 11}), row<i32>({20, 21, 30, 31}),
         row<i32>({20, 21, 30, 31})});
  check(one_collective(Op::reduce_scatter, type, ir::ReduceScatterAttrs{Combine::sum, 0, {"x"}}),
        {row<i32>({20}), row<i32>({40}), row<i32>({22}), row<i32>({42})});
  check(one_collective(Op::all_to_all, type, ir::AllToAllAttrs{0, 0, {"y"}}),
        {row<i32>({0, 10}), row<i32>({1, 11}), row<i32>({20, 30}), row<i32>({21, 31})});
  check(one_collective(Op::collective_permute, type, ir::PermuteAttrs{{"x", "y"}, {0, 3}, {1, 0}}),
        {row<i32>({30, 31}), row<i32>({0, 1}), row<i32>({0, 0}), row<i32>({0, 0})});
}

TEST_F(Reference, DeviceIndexIsTheRowMajorPositionInTheGroup) {
  const auto indices = [&](MeshAxisNames axes) {
    Graph graph = mesh_graph();
    graph.output(graph.add(Op::device_index, {}, ir::MeshAxesAttrs{std::move(axes)}));
    std::vector<u32> out;
    for (const auto& results : compile(graph)->new_session()->run({{{}, {}, {}, {}}, {}}))
      out.push_back(results.at(0)->to_host().item<u32>());
    return out;
  };
  EXPECT_EQ(indices({"x"}), (std::vector<u32>{0, 0, 1, 1}));
  EXPECT_EQ(indices({"y"}), (std::vector<u32>{0, 1, 0, 1}));
  EXPECT_EQ(indices({"x", "y"}), (std::vector<u32>{0, 1, 2, 3}));
}

TEST_F(Reference, CollectivesMeetInsideLoopsAndOnAMeshOfOne) {
  // Three rounds of v = all_reduce(v) over x: 4 times the sum of the pair, doubled twice.
  Graph body = mesh_graph("body");
  body.output(body.add(Op::all_reduce, {body.input("v", kScalar)}, ir::AllReduceAttrs{Combine::sum, {"x"}}));
  Graph graph = mesh_graph();
  graph.output(graph.add(Op::scan, {graph.input("v", kScalar)}, ir::ScanAttrs{.length = 3, .carries = 1},
                         {std::make_shared<const Graph>(std::move(body))}));
  const auto r = run_mesh(graph, {scalar<i32>(1), scalar<i32>(2), scalar<i32>(10), scalar<i32>(20)});
  expect_same(r[0], scalar<i32>(44));
  expect_same(r[3], scalar<i32>(88));

  Graph alone;
  alone.set_mesh({{{"x", 1}}});
  alone.output(
      alone.add(Op::all_reduce, {alone.input("v", kScalar)}, ir::AllReduceAttrs{Combine::sum, {"x"}}));
  expect_same(run_mesh(alone, {scalar<i32>(7)})[0], scalar<i32>(7));
}

// cond(device_index == 0, then, else) on a mesh of four.
Graph diverging(Graph then, Graph otherwise) {
  Graph graph = mesh_graph();
  const Value v = graph.input("v", kScalar);
  const Value index = graph.add(Op::device_index, {}, ir::MeshAxesAttrs{{"x", "y"}});
  const Value zero = graph.constant(scalar<u32>(0));
  graph.output(graph.add(
      Op::cond, {graph.add(Op::equal, {index, zero}), v}, ir::NoAttrs{},
      {std::make_shared<const Graph>(std::move(then)), std::make_shared<const Graph>(std::move(otherwise))}));
  return graph;
}

Graph branch(const char* name, std::optional<ir::AllReduceAttrs> attrs) {
  Graph graph = mesh_graph(name);
  const Value v = graph.input("v", kScalar);
  graph.output(attrs ? graph.add(Op::all_reduce, {v}, *attrs) : v);
  return graph;
}

TEST_F(Reference, DevicesThatMeetAtDifferentNodesAreAnErrorNotAHang) {
  const std::vector<Literal> in(4, scalar<i32>(1));
  const ir::AllReduceAttrs sum{Combine::sum, {"x", "y"}}, max{Combine::max, {"x", "y"}};
  expect_error(ErrorKind::kInvalidArgument, "all_reduce",
               [&] { run_mesh(diverging(branch("then", sum), branch("else", max)), in); });
  expect_error(ErrorKind::kInvalidArgument, "device 0 at its end",
               [&] { run_mesh(diverging(branch("then", {}), branch("else", sum)), in); });
}

TEST_F(Reference, TheFirstErrorOfADeviceReleasesTheOthers) {
  Graph failing = mesh_graph("then");
  const Value v = failing.input("v", kScalar);
  const Value many = failing.add(Op::broadcast, {v}, ir::BroadcastAttrs{{std::int64_t{1} << 45}, {}});
  failing.output(failing.add(Op::reduce, {many}, ir::ReduceAttrs{Combine::sum, {0}}));
  const ir::AllReduceAttrs sum{Combine::sum, {"x", "y"}};
  const auto executable = compile(diverging(std::move(failing), branch("else", sum)));
  const auto session = executable->new_session();
  RunArguments arguments;
  for (int i = 0; i < 4; ++i) arguments.per_device.push_back({backend->upload(scalar<i32>(1), i)});
  expect_error(ErrorKind::kOutOfMemory, "broadcast", [&] { session->run(arguments); });
  expect_error(ErrorKind::kOutOfMemory, "broadcast",
               [&] { session->run(arguments); });  // and the session lives on
}

TEST_F(Reference, SubgraphsWithAnotherMeshAreRefused) {
  Graph body("body");
  body.set_mesh({{{"x", 4}}});
  body.output(body.add(Op::all_reduce, {body.input("v", kScalar)}, ir::AllReduceAttrs{Combine::sum, {"x"}}));
  Graph graph = mesh_graph();
  graph.output(graph.add(Op::composite, {graph.input("v", kScalar)}, ir::CompositeAttrs{"c", {}},
                         {std::make_shared<const Graph>(std::move(body))}));
  expect_error(ErrorKind::kInvalidArgument, "mesh", [&] { compile(graph); });
}

}  // namespace
}  // namespace systole::eval_check
