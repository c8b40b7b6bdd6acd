// Meshes on backends whose programs run on one device: refused, but for those of one device. "reference" does
// the work of all devices by itself.

#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <vector>

#include "error_check.h"
#include "systole/base/error.h"
#include "systole/ir/text.h"
#include "systole/runtime.h"
#include "systole/systole.h"
#include "tensor/mesh.h"

namespace systole {
namespace {

template <class F>
void expect_error(ErrorKind kind, const std::string& part, F&& call) {
  const std::string message = error_of(kind, call);
  EXPECT_NE(message.find(part), std::string::npos) << message;
}

// y = x + x, split over so many devices.
ir::Graph doubling(int devices) {
  return ir::parse("systole.ir 1\ngraph @main(%x: f32[4] sharding([data])) mesh(data=" +
                   std::to_string(devices) + ") {\n  %y = add(%x, %x)\n  return y: %y\n}\n");
}

std::optional<std::string> reason_for(const std::string& device) {
  try {
    if (runtime::backend(device).devices().empty()) return runtime::backend(device).unavailable_reason();
  } catch (const Error& error) {
    return error.what();
  }
  return std::nullopt;
}

class MeshOfOneDevice : public testing::TestWithParam<const char*> {};

// No device is needed to say so.
TEST_P(MeshOfOneDevice, AGraphSplitOverSeveralIsRefused) {
  runtime::Backend& backend = runtime::backend(GetParam());
  expect_error(ErrorKind::kUnsupported, "a mesh of 4 devices", [&] { backend.compile(doubling(4), 0, {}); });
}

TEST_P(MeshOfOneDevice, AGraphWhoseBodyAloneIsSplitIsRefusedToo) {
  const ir::Graph graph = ir::parse(R"(systole.ir 1
graph @body(%c: f32[4], %x: f32[4]) mesh(data=4) {
  %s = add(%c, %x) sharding([data])
  return %s, %s
}
graph @main(%c: f32[4], %x: f32[3,4]) mesh(data=4) {
  %l, %y = scan(%c, %x) {length=3, carries=1, xs=1} @body
  return %l, %y
}
)");
  expect_error(ErrorKind::kUnsupported, "a mesh of 4 devices",
               [&] { runtime::backend(GetParam()).compile(graph, 0, {}); });
}

TEST_P(MeshOfOneDevice, AFunctionOfSeveralIsRefusedWhereItIsMade) {
  if (const auto reason = reason_for(GetParam())) GTEST_SKIP() << *reason;
  const std::string wanted = runtime::backend(GetParam()).devices()[0].name.to_string() +
                             ": a program of this backend runs on one device";
  expect_error(ErrorKind::kUnsupported, wanted, [] {
    compile([](const Tensor& x) { return x + x; },
            DeviceMesh(GetParam(), {{"data", 4}}))(tensor({1, 2, 3, 4}));
  });
  expect_error(ErrorKind::kUnsupported, wanted, [] {
    nn::Linear net(2, 3);
    training::Trainer(net, "sgd", {.mesh = DeviceMesh(GetParam(), {{"data", 2}, {"model", 2}})});
  });
}

TEST_P(MeshOfOneDevice, AMeshOfOneIsThatDevice) {
  if (const auto reason = reason_for(GetParam())) GTEST_SKIP() << *reason;
  const DeviceScope device(GetParam());
  const DeviceMesh one(GetParam(), {{"data", 1}});
  const Tensor y = compile([](const Tensor& x) { return x + x; }, one)(tensor({1.f, 2.f, 3.f, 4.f}));
  EXPECT_EQ(y.to_vector<float>(), (std::vector<float>{2, 4, 6, 8}));
  EXPECT_EQ(
      compile(doubling(1), GetParam()).run({Literal::of<float>({4}, {1, 2, 3, 4})})[0].values<float>()[3], 8);
}

// Of several devices, all are a mesh of several.
TEST_P(MeshOfOneDevice, AllDevicesAreOneWhereThereIsOne) {
  if (const auto reason = reason_for(GetParam())) GTEST_SKIP() << *reason;
  const DeviceMesh all(GetParam(), {{"data", -1}});
  if (const std::size_t count = runtime::backend(GetParam()).devices().size(); count > 1)
    expect_error(ErrorKind::kUnsupported, "a mesh of", [&] { recording::checked(all); });
  else
    EXPECT_EQ(recording::checked(all).size(), 1);
}

INSTANTIATE_TEST_SUITE_P(Backends, MeshOfOneDevice, testing::Values("cpu", "opencl", "cuda"));

TEST(MeshOfReference, DoesTheWorkOfAllDevices) {
  const DeviceScope device("reference");
  const Tensor y = compile([](const Tensor& x) { return x + x; },
                           DeviceMesh("reference", {{"data", 4}}))(tensor({1.f, 2.f, 3.f, 4.f}));
  EXPECT_EQ(y.to_vector<float>(), (std::vector<float>{2, 4, 6, 8}));
  EXPECT_EQ(
      compile(doubling(4), "reference").run({Literal::of<float>({4}, {1, 2, 3, 4})})[0].values<float>()[3],
      8);
}

}  // namespace
}  // namespace systole
