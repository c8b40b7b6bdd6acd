// The real XLA CPU plugin: discovery, programs given as text, donation in place, several devices, and graphs.
// Skipped where scripts/setup could not bring it.

#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <thread>

#include "backend/pjrt/array.h"
#include "backend/pjrt/client.h"
#include "backend/pjrt/discovery.h"
#include "backend/pjrt/pjrt.h"
#include "backend/pjrt/plugin.h"
#include "backend/pjrt/probe.h"
#include "base/log.h"
#include "systole/base/error.h"
#include "systole/ir/text.h"
#include "systole/runtime.h"

namespace systole::pjrt {
namespace {

namespace fs = std::filesystem;
using runtime::BufferRef;

runtime::Backend* xla() {
  static const std::unique_ptr<runtime::Backend> backend = []() -> std::unique_ptr<runtime::Backend> {
    for (const PluginSpec& spec : plugins_in(SYSTOLE_DEPS))
      if (spec.name == "cpu") return make_backend(spec);
    return nullptr;
  }();
  return backend.get();
}

class PjrtXla : public testing::Test {
 protected:
  void SetUp() override {
    if (xla() == nullptr) GTEST_SKIP() << "no XLA CPU plugin in " << SYSTOLE_DEPS;
    ASSERT_FALSE(xla()->devices().empty()) << xla()->unavailable_reason();
  }
};

std::uintptr_t address_of(const BufferRef& buffer) {
  const auto& array = dynamic_cast<const ArrayBuffer&>(*buffer);
  const ShardsRef shards = array.shards();
  SYSTOLE_PJRT_ARGS(PJRT_Buffer_UnsafePointer, args);
  args.buffer = shards->buffers[0].get();
  SYSTOLE_PJRT_CALL(array.client().api(), PJRT_Buffer_UnsafePointer, args);
  return args.buffer_pointer;
}

constexpr const char* kAdd = R"(
func.func @main(%a: tensor<2x2xf32>, %b: tensor<2x2xf32>) -> tensor<2x2xf32> {
  %0 = "stablehlo.add"(%a, %b) : (tensor<2x2xf32>, tensor<2x2xf32>) -> tensor<2x2xf32>
  "func.return"(%0) : (tensor<2x2xf32>) -> ()
})";

// The first argument's memory becomes the first result's.
constexpr const char* kStep = R"(
func.func @main(%a: tensor<65536xf32> {tf.aliasing_output = 0 : i32}, %b: tensor<65536xf32>)
    -> (tensor<65536xf32>, tensor<f32>) {
  %0 = "stablehlo.add"(%a, %b) : (tensor<65536xf32>, tensor<65536xf32>) -> tensor<65536xf32>
  %1 = "stablehlo.constant"() {value = dense<7.0> : tensor<f32>} : () -> tensor<f32>
  "func.return"(%0, %1) : (tensor<65536xf32>, tensor<f32>) -> ()
})";

TEST(PjrtDiscovery, NamesComeFromTheFile) {
  EXPECT_EQ(plugin_name("/x/xla_cpu_pjrt.so"), "cpu");
  EXPECT_EQ(plugin_name("libtpu.so"), "tpu");
  EXPECT_EQ(plugin_name("xla_cuda_plugin.so"), "cuda");
  EXPECT_EQ(plugin_name("pjrt_c_api_gpu_plugin.so"), "gpu");
  EXPECT_EQ(plugin_name("pjrt-Plugin-Metal.so.14"), "metal");
  EXPECT_EQ(plugin_name("pjrt.so"), "plugin");
}

TEST(PjrtDiscovery, VariablesComeBeforePackagesAndTheFirstOfANameCounts) {
  const fs::path folder = fs::temp_directory_path() / ("systole-find-" + std::to_string(::getpid()));
  for (const char* file : {"jax_plugins/xla_cuda13/xla_cuda_plugin.so", "jax_plugins/xla_cuda13/_triton.so",
                           "xla_plugins/xla_cpu_pjrt/xla_cpu_pjrt.so", "libtpu/libtpu.so"}) {
    fs::create_directories((folder / file).parent_path());
    std::ofstream(folder / file) << "x";
  }
  ::setenv("SYSTOLE_PJRT_PLUGIN", "/opt/one/xla_cpu_pjrt.so", 1);
  ::setenv("PJRT_NAMES_AND_LIBRARY_PATHS", "Mine-1:/opt/two.so,nonsense,cpu:/opt/three.so", 1);
  ::setenv("SYSTOLE_PLUGIN_PATH", folder.c_str(), 1);
  const std::vector<PluginSpec> found = discover();
  for (const char* variable : {"SYSTOLE_PJRT_PLUGIN", "PJRT_NAMES_AND_LIBRARY_PATHS", "SYSTOLE_PLUGIN_PATH"})
    ::unsetenv(variable);
  fs::remove_all(folder);
  ASSERT_GE(found.size(), 4u);
  EXPECT_EQ(found[0].name, "cpu");
  EXPECT_EQ(found[0].library, "/opt/one/xla_cpu_pjrt.so");
  EXPECT_EQ(found[1].name, "mine_1");
  EXPECT_EQ(found[1].library, "/opt/two.so");
  EXPECT_EQ(found[2].name, "cuda");
  EXPECT_EQ(found[2].library, folder / "jax_plugins/xla_cuda13/xla_cuda_plugin.so");
  EXPECT_EQ(found[3].name, "tpu");
}

TEST(PjrtDiscovery, ConfigFileComesAfterTheVariablesAndBeforePackages) {
  const fs::path folder = fs::temp_directory_path() / ("systole-config-" + std::to_string(::getpid()));
  for (const char* file : {"xla_plugins/xla_cpu_pjrt/xla_cpu_pjrt.so", "libtpu/libtpu.so"}) {
    fs::create_directories((folder / file).parent_path());
    std::ofstream(folder / file) << "x";
  }
  const fs::path file = folder / ".config/systole/plugins";
  fs::create_directories(file.parent_path());
  std::ofstream(file) << "# plugins\n\nmine:/opt/late.so\n  other : /opt/other.so  # a comment\n"
                         "nonsense\n:/opt/no_name.so\n7:/opt/number.so\nempty:\ncpu:/opt/cpu.so\n";
  const std::string home = std::getenv("HOME") != nullptr ? std::getenv("HOME") : "";
  ::setenv("PJRT_NAMES_AND_LIBRARY_PATHS", "mine:/opt/first.so", 1);
  ::setenv("SYSTOLE_PLUGIN_PATH", folder.c_str(), 1);
  std::vector<std::string> told;
  set_log_sink([&](LogLevel, std::string_view line) { told.emplace_back(line); }, LogLevel::warn);
  ::unsetenv("XDG_CONFIG_HOME");
  ::setenv("HOME", folder.c_str(), 1);
  const std::vector<PluginSpec> found = discover();
  ::setenv("XDG_CONFIG_HOME", (folder / "elsewhere").c_str(), 1);
  const std::vector<PluginSpec> without = discover();
  ::setenv("XDG_CONFIG_HOME", (folder / ".config").c_str(), 1);
  ::setenv("HOME", "/nowhere", 1);
  const std::vector<PluginSpec> again = discover();
  set_log_sink({});
  ::setenv("HOME", home.c_str(), 1);
  for (const char* variable : {"PJRT_NAMES_AND_LIBRARY_PATHS", "SYSTOLE_PLUGIN_PATH", "XDG_CONFIG_HOME"})
    ::unsetenv(variable);
  fs::remove_all(folder);
  ASSERT_GE(found.size(), 4u);
  EXPECT_EQ(found[0].library, "/opt/first.so");
  EXPECT_EQ(found[1].name, "other");
  EXPECT_EQ(found[1].library, "/opt/other.so");
  EXPECT_EQ(found[1].source, file.string() + ":4");
  EXPECT_EQ(found[2].name, "cpu");
  EXPECT_EQ(found[2].library, "/opt/cpu.so");
  EXPECT_EQ(found[3].name, "tpu");
  ASSERT_GE(again.size(), 3u);
  EXPECT_EQ(again[2].library, "/opt/cpu.so");
  ASSERT_GE(without.size(), 2u);
  EXPECT_EQ(without[1].library, folder / "xla_plugins/xla_cpu_pjrt/xla_cpu_pjrt.so");
  ASSERT_EQ(told.size(), 8u);  // four lines, read twice
  EXPECT_EQ(told[0], file.string() + ":5: \"nonsense\" is not NAME:PATH");
  EXPECT_EQ(told[3], file.string() + ":8: \"empty:\" is not NAME:PATH");
}

TEST(PjrtDiscovery, TpuIsSeenByItsDeviceFilesAndNotByGooglesOtherCards) {
  const fs::path root = fs::temp_directory_path() / ("systole-tpu-" + std::to_string(::getpid()));
  const auto card = [&](const char* address, const char* vendor, const char* model) {
    const fs::path folder = root / "sys/bus/pci/devices" / address;
    fs::create_directories(folder);
    std::ofstream(folder / "vendor") << vendor << "\n";
    std::ofstream(folder / "device") << model << "\n";
    std::ofstream(folder / "class") << "0xff0000\n";
  };
  EXPECT_FALSE(has_tpu(root));
  card("0000:00:04.0", "0x1ae0", "0x0042");  // Google's network
  EXPECT_FALSE(has_tpu(root));
  card("0000:00:05.0", "0x8086", "0x0063");
  EXPECT_FALSE(has_tpu(root));
  card("0000:00:06.0", "0x1ae0", "0x0063");
  EXPECT_TRUE(has_tpu(root));
  fs::remove_all(root / "sys");
  fs::create_directories(root / "dev/accel");  // another maker's NPU
  std::ofstream(root / "dev/accel/accel0") << "";
  std::ofstream(root / "dev/accelerometer") << "";
  fs::create_directories(root / "dev/accel1");
  EXPECT_FALSE(has_tpu(root));
  std::ofstream(root / "dev/accel0") << "";
  EXPECT_TRUE(has_tpu(root));
  fs::remove_all(root);
}

TEST(PjrtCompileOptions, AreTheBytesOfTheProto) {
  // protoc --encode of {executable_build_options {num_replicas: 1 num_partitions: 4
  // use_spmd_partitioning: true}}, worked by hand.
  EXPECT_EQ(compile_options({{}, 1, 4, true}), std::string("\x1a\x06\x20\x01\x28\x04\x30\x01", 8));
  // … num_replicas: 2 num_partitions: 1 device_assignment {replica_count: 2 computation_count: 1
  // computation_devices {replica_device_ids: 3 replica_device_ids: 300}}
  EXPECT_EQ(compile_options({{3, 300}, 2, 1, false}),
            std::string("\x1a\x11\x20\x02\x28\x01\x4a\x0b\x08\x02\x10\x01\x1a\x05\x08\x03\x08\xac\x02", 19));
  // … env_option_overrides {key: "f" value {bool_field: true}} and {key: "g" value {string_field: "/x"}}; the
  // bytes of the second are those of JAX's CompileOptions.
  EXPECT_EQ(compile_options({.flags = {{"f", true}, {"g", "/x"}}}), std::string("\x1a\x04\x20\x01\x28\x01"
                                                                                "\x3a\x07\x0a\x01"
                                                                                "f\x12\x02\x10\x01"
                                                                                "\x3a\x09\x0a\x01"
                                                                                "g\x12\x04\x0a\x02/x",
                                                                                26));
}

TEST(PjrtDiscovery, TheCudaToolkitOfThePackagesIsFoundBesideThePlugin) {
  const fs::path folder = fs::temp_directory_path() / ("systole-cuda-" + std::to_string(::getpid()));
  const fs::path library = folder / "jax_plugins/xla_cuda13/xla_cuda_plugin.so";
  EXPECT_EQ(cuda_toolkit(library), "");
  fs::create_directories(folder / "nvidia/cu13/nvvm/libdevice");
  EXPECT_EQ(cuda_toolkit(library), folder / "nvidia/cu13");
  ::setenv("CUDA_ROOT", "/opt/cuda", 1);
  EXPECT_EQ(cuda_toolkit(library), "/opt/cuda");
  ::unsetenv("CUDA_ROOT");
  fs::remove_all(folder);
}

TEST_F(PjrtXla, ProbesInAProcessOfItsOwn) {
  for (const PluginSpec& spec : plugins_in(SYSTOLE_DEPS)) {
    if (spec.name != "cpu") continue;
#ifdef SYSTOLE_COMMAND
    EXPECT_NO_THROW(probe(spec, {std::chrono::seconds(60), SYSTOLE_COMMAND, {}}));
#endif
  }
}

// The version that programs are written in is the one this plugin reads.
TEST_F(PjrtXla, SpeaksTheStableHloThatWeWrite) {
  const auto buffer = xla()->upload(Literal::scalar(1.0f), 0);
  const NamedValues& says = dynamic_cast<const ArrayBuffer&>(*buffer).client().plugin().attributes();
  const std::vector<std::int64_t> ours(kStableHloVersion.begin(), kStableHloVersion.end());
  EXPECT_GE(says.at("stablehlo_current_version").integers, ours);
  EXPECT_LE(says.at("stablehlo_minimum_version").integers, ours);
}

TEST_F(PjrtXla, TextRunsOnEveryDevice) {
  const Type type{DType::f32, {2, 2}};
  const int count = static_cast<int>(xla()->devices().size());
  ASSERT_GE(count, 2);
  for (int ordinal = 0; ordinal < count; ++ordinal) {
    const auto session = compile_text(*xla(), {kAdd, {type, type}, {type}, {}}, ordinal)->new_session();
    const BufferRef a = xla()->upload(Literal::of<float>({2, 2}, {1, 2, 3, 4}), ordinal);
    const BufferRef b = xla()->upload(Literal::of<float>({2, 2}, {10, 20, 30, 40}), 0);  // is moved over
    const BufferRef sum = session->run({{{a, b}}, {}})[0][0];
    EXPECT_EQ(sum->device().ordinal, ordinal);
    EXPECT_TRUE(sum->to_host().same_bits(Literal::of<float>({2, 2}, {11, 22, 33, 44})));
  }
}

TEST_F(PjrtXla, EveryDTypeAndShapeComesBackAsItWent) {
  for (int d = 0; d < kDTypeCount; ++d)
    for (const Shape& shape : {Shape{}, Shape{0}, Shape{3, 0, 2}, Shape{5}, Shape{2, 3, 4}, Shape{70'000}}) {
      Literal value(Type{static_cast<DType>(d), shape});
      std::byte* const bytes = value.mutable_bytes();
      for (std::size_t i = 0; i < value.byte_size(); ++i)
        bytes[i] = static_cast<std::byte>(value.dtype() == DType::boolean ? i % 2 : i * 37 % 60);
      EXPECT_TRUE(xla()->upload(value, 0)->to_host().same_bits(value)) << value.type().to_string();
    }
}

TEST_F(PjrtXla, UploadKeepsTheValueWhileItReads) {
  const std::int64_t count = 1 << 20;
  std::vector<BufferRef> buffers;
  for (int i = 0; i < 16; ++i) {
    Literal value = Literal::full({DType::f32, {count}}, i);
    buffers.push_back(xla()->upload(value, 0));
    value.mutable_values<float>()[0] = -1;  // a copy: the upload holds the storage
  }
  for (int i = 0; i < 16; ++i) {
    const Literal back = buffers[static_cast<std::size_t>(i)]->to_host();
    EXPECT_EQ(back.values<float>()[0], i);
    EXPECT_EQ(back.values<float>()[count - 1], i);
  }
}

TEST_F(PjrtXla, DonatedVariableStaysAtItsAddress) {
  const Type type{DType::f32, {65536}}, scalar{DType::f32, {}};
  const auto session = compile_text(*xla(), {kStep, {type, type}, {type, scalar}, {0, -1}})->new_session();
  const BufferRef x = xla()->upload(Literal::full(type, 1), 0),
                  step = xla()->upload(Literal::full(type, 2), 0);
  const std::uintptr_t address = address_of(x);
  for (int i = 0; i < 10; ++i) {
    const auto results = session->run({{{x, step}}, {0}});
    EXPECT_EQ(results[0][0], x);
    EXPECT_EQ(results[0][1]->to_host().item<float>(), 7.0f);
  }
  EXPECT_EQ(x->to_host().values<float>()[65535], 21.0f);
  EXPECT_EQ(address_of(x), address);
  const auto kept = session->run({{{x, step}}, {}});
  EXPECT_EQ(x->to_host().values<float>()[0], 21.0f);
  EXPECT_EQ(kept[0][0]->to_host().values<float>()[0], 23.0f);
}

TEST_F(PjrtXla, WrongProgramIsAnErrorWithTheCompilersMessage) {
  for (const char* text : {"", "nonsense", "func.func @main() { \"func.return\"(%0) : (f32) -> () }"}) try {
      compile_text(*xla(), {text, {}, {}, {}});
      ADD_FAILURE() << "compiled: " << text;
    } catch (const Error& error) {
      EXPECT_NE(error.kind(), ErrorKind::kInternal) << error.what();
      EXPECT_NE(std::string(error.what()).find("PJRT_Client_Compile"), std::string::npos) << error.what();
    }
}

TEST_F(PjrtXla, SessionsOfOneExecutableRunAtOnce) {
  const Type type{DType::f32, {2, 2}};
  const auto executable = compile_text(*xla(), {kAdd, {type, type}, {type}, {}});
  std::vector<std::thread> threads;
  std::vector<float> sums(4);
  for (std::size_t t = 0; t < sums.size(); ++t)
    threads.emplace_back([&, t] {
      const auto session = executable->new_session();
      BufferRef total = xla()->upload(Literal::full(type, 0), 0);
      const BufferRef one = xla()->upload(Literal::full(type, static_cast<double>(t + 1)), 0);
      for (int i = 0; i < 50; ++i) total = session->run({{{total, one}}, {}})[0][0];
      sums[t] = total->to_host().values<float>()[3];
    });
  for (std::thread& thread : threads) thread.join();
  for (std::size_t t = 0; t < sums.size(); ++t) EXPECT_EQ(sums[t], 50.0f * static_cast<float>(t + 1));
}

std::vector<std::vector<Literal>> run(const runtime::Executable& executable,
                                      const std::vector<std::vector<Literal>>& lists) {
  runtime::RunArguments arguments;
  for (std::size_t d = 0; d < lists.size(); ++d) {
    arguments.per_device.emplace_back();
    for (const Literal& value : lists[d])
      arguments.per_device[d].push_back(xla()->upload(value, static_cast<int>(d)));
  }
  std::vector<std::vector<Literal>> results;
  for (const auto& list : executable.new_session()->run(arguments)) {
    results.emplace_back();
    for (const BufferRef& buffer : list) results.back().push_back(buffer->to_host());
  }
  return results;
}

TEST_F(PjrtXla, CollectivesJoinTheDevicesOfTheMesh) {
  const ir::Graph graph = ir::parse(R"(systole.ir 1
graph @sum(%x: f32[2]) mesh(d=4) {
  %y = all_reduce(%x) {kind=sum, mesh_axes=["d"]} : f32[2]
  return y: %y
})");
  std::vector<std::vector<Literal>> lists;
  for (int d = 0; d < 4; ++d) lists.push_back({Literal::of<float>({2}, {1.0f * d, 10.0f * d})});
  const auto results = run(*xla()->compile(graph, 0, {}), lists);
  ASSERT_EQ(results.size(), 4u);
  for (const auto& list : results) EXPECT_TRUE(list[0].same_bits(Literal::of<float>({2}, {6, 60})));
}

// y = x·w with the rows of x on one axis of the mesh and the columns of w on the other; by hand.
TEST_F(PjrtXla, ShardedGraphMeansWhatItMeansWithoutShardings) {
  const ir::Graph graph = ir::parse(R"(systole.ir 1
graph @product(%x: f32[4,2] sharding(["r"], []), %w: f32[2,4] sharding([], ["c"])) mesh(r=2, c=2) {
  %y = dot_general(%x, %w) {a_contract=[1], b_contract=[0]} : f32[4,4] sharding(["r"], ["c"])
  %s = reduce(%y) {kind=sum, axes=[0, 1]} : f32[]
  return y: %y, s: %s
})");
  for (const codegen::Partitioner partitioner : {codegen::Partitioner::shardy, codegen::Partitioner::gspmd}) {
    const auto results = run(*compile_graph(*xla(), graph, partitioner),
                             {{Literal::of<float>({4, 2}, {1, 0, 0, 1, 1, 1, 2, 3}),
                               Literal::of<float>({2, 4}, {1, 2, 3, 4, 5, 6, 7, 8})}});
    ASSERT_EQ(results.size(), 1u);
    EXPECT_TRUE(results[0][0].same_bits(
        Literal::of<float>({4, 4}, {1, 2, 3, 4, 5, 6, 7, 8, 6, 8, 10, 12, 17, 22, 27, 32})));
    EXPECT_EQ(results[0][1].item<float>(), 170.0f);
  }
}

TEST_F(PjrtXla, ShardsStayOnTheirDevicesBetweenRuns) {
  const ir::Graph graph = ir::parse(R"(systole.ir 1
graph @double(%x: f32[8] {alias=0} sharding(["d"])) mesh(d=4) {
  %y = add(%x, %x) : f32[8] sharding(["d"])
  return y: %y
})");
  const auto session = xla()->compile(graph, 0, {})->new_session();
  const BufferRef x = xla()->upload(Literal::of<float>({8}, {0, 1, 2, 3, 4, 5, 6, 7}), 0);
  for (int i = 0; i < 3; ++i) EXPECT_EQ(session->run({{{x}}, {0}})[0][0], x);
  const auto shards = dynamic_cast<const ArrayBuffer&>(*x).shards();
  ASSERT_EQ(shards->buffers.size(), 4u);
  EXPECT_EQ(shards->placement()->part.to_string(), "f32[2]");
  EXPECT_TRUE(x->to_host().same_bits(Literal::of<float>({8}, {0, 8, 16, 24, 32, 40, 48, 56})));
}

}  // namespace
}  // namespace systole::pjrt
