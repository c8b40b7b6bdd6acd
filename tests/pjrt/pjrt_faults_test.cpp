// What a PJRT plugin can do wrong, with fake plugins: every fault is a typed error with a reason, and this
// process and its other devices go on.

#include <dlfcn.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "backend/pjrt/api.h"
#include "backend/pjrt/array.h"
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
using namespace std::chrono_literals;

PluginSpec fake(const std::string& variant) {
  return {"fake", fs::path(SYSTOLE_FAKES) / ("fake_" + variant + ".so"), "test"};
}

template <class F>
Error error_of(F&& f) {
  try {
    f();
  } catch (const Error& error) {
    return error;
  }
  ADD_FAILURE() << "nothing was thrown";
  return Error(ErrorKind::kInternal, "", "");
}

template <class F>
void expect_error(F&& f, ErrorKind kind, const std::string& part) {
  const Error error = error_of(f);
  EXPECT_EQ(name(error.kind()), name(kind)) << error.what();
  EXPECT_NE(std::string(error.what()).find(part), std::string::npos) << error.what();
}

// A function of the fake that works.
template <class F>
F* fake_function(const char* name) {
  return reinterpret_cast<F*>(::dlsym(::dlopen(fake("none").library.c_str(), RTLD_NOW), name));
}

class Fault {
 public:
  explicit Fault(const char* name) { fake_function<void(const char*)>("fake_fault")(name); }
  ~Fault() { fake_function<void(const char*)>("fake_fault")(""); }
  Fault(const Fault&) = delete;
  Fault& operator=(const Fault&) = delete;
};

// A folder of the test's own.
class PjrtFaults : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = fs::temp_directory_path() / ("systole-pjrt-" + std::to_string(::getpid()));
    fs::create_directories(folder_);
    ::setenv("SYSTOLE_CACHE_DIR", folder_.c_str(), 1);
    ::setenv("SYSTOLE_PJRT_TIMEOUT", "20", 1);
  }
  void TearDown() override {
    fs::remove_all(folder_);
    for (const char* variable : {"SYSTOLE_CACHE_DIR", "SYSTOLE_PJRT_TIMEOUT", "SYSTOLE_PJRT_OPTIONS"})
      ::unsetenv(variable);
  }
  fs::path write(const std::string& file, const std::string& content) {
    std::ofstream(folder_ / file, std::ios::binary) << content;
    return folder_ / file;
  }
  fs::path folder_;
};

// The two ways to probe: the command, or a fork.
std::vector<ProbeOptions> ways(std::chrono::milliseconds limit = 20s) {
  std::vector<ProbeOptions> options = {{limit, {}, {}}};
#ifdef SYSTOLE_COMMAND
  options.push_back({limit, SYSTOLE_COMMAND, {}});
#endif
  return options;
}

void expect_probe_error(const PluginSpec& spec, ErrorKind kind, const std::string& part,
                        std::chrono::milliseconds limit = 20s) {
  for (const ProbeOptions& options : ways(limit)) expect_error([&] { probe(spec, options); }, kind, part);
}

TEST_F(PjrtFaults, MissingFileIsNotFound) {
  expect_error([] { Plugin({"fake", "/nowhere/plugin.so", "SYSTOLE_PJRT_PLUGIN"}); }, ErrorKind::kNotFound,
               "there is no plugin /nowhere/plugin.so (SYSTOLE_PJRT_PLUGIN)");
  expect_probe_error({"fake", "/nowhere/plugin.so", "test"}, ErrorKind::kNotFound, "there is no plugin");
}

TEST_F(PjrtFaults, LibraryOfAnotherMachineIsNamed) {
  std::string head("\x7f\x45LF\x02\x01\x01", 7);  // 64 bits, little-endian
  head.resize(16, '\0');
  head += std::string("\x03\x00\xb7\x00", 4);  // a shared object for aarch64
  head.resize(64, '\0');
  const fs::path file = write("arm.so", head);
  expect_error([&] { Plugin({"fake", file, "test"}); }, ErrorKind::kUnsupported,
               "is for another machine type (aarch64");
}

TEST_F(PjrtFaults, FileThatIsNoLibraryIsRefused) {
  for (const std::string content : {"", "hello", "#!/bin/sh\nexit 1\n it is long enough for a header"}) {
    const fs::path file = write("text.so", content);
    expect_error([&] { Plugin({"fake", file, "test"}); }, ErrorKind::kUnsupported, "is not a shared library");
  }
  expect_error([&] { Plugin({"fake", folder_, "test"}); }, ErrorKind::kUnsupported, "is not a file");
}

TEST_F(PjrtFaults, TruncatedLibraryIsRefused) {
  std::ifstream in(fake("none").library, std::ios::binary);
  std::string head(4096, '\0');
  in.read(head.data(), static_cast<std::streamsize>(head.size()));
  const fs::path file = write("half.so", head);
  expect_probe_error({"fake", file, "test"}, ErrorKind::kUnsupported, "half.so");
}

TEST_F(PjrtFaults, MissingSymbolAndNullTableAreRefused) {
  expect_probe_error(fake("no_symbol"), ErrorKind::kUnsupported, "it has no GetPjrtApi");
  expect_probe_error(fake("null_api"), ErrorKind::kUnsupported, "gave nothing");
}

TEST_F(PjrtFaults, OtherMajorVersionIsRefusedWithBothVersions) {
  const Error error = error_of([] { Plugin{fake("other_major")}; });
  EXPECT_EQ(error.kind(), ErrorKind::kUnsupported);
  EXPECT_EQ(error.expected(), "0.x");
  EXPECT_EQ(error.got(), "1." + std::to_string(PJRT_API_MINOR));
  expect_probe_error(fake("other_major"), ErrorKind::kUnsupported, "expected 0.x");
}

TEST_F(PjrtFaults, TableTooShortForVersionOrErrorsIsRefused) {
  expect_probe_error(fake("tiny_table"), ErrorKind::kUnsupported, "too short to hold a version");
  expect_probe_error(fake("no_error_functions"), ErrorKind::kUnsupported, "no functions to report errors");
}

TEST_F(PjrtFaults, ShortTableHasTheFunctionsItHasAndNoOthers) {
  const std::unique_ptr<runtime::Backend> backend = make_backend(fake("no_execute"));
  ASSERT_EQ(backend->devices().size(), 2u) << backend->unavailable_reason();
  const auto session = compile_text(*backend, {"0", {}, {}, {}})->new_session();
  expect_error([&] { session->run({{{}}, {}}); }, ErrorKind::kUnsupported,
               "has no PJRT_LoadedExecutable_Execute");
}

TEST_F(PjrtFaults, AttributesAreReadFromShorterAndLongerStructs) {
  for (const char* variant : {"none", "older", "newer"}) {
    const Plugin plugin(fake(variant));
    ASSERT_EQ(plugin.attributes().size(), 2u) << variant;
    EXPECT_EQ(plugin.attributes().at("stablehlo_current_version").text, "1.9.5") << variant;
    EXPECT_EQ(plugin.attributes().at("maker").text, "nobody") << variant;
  }
}

TEST_F(PjrtFaults, OlderAndNewerPluginsRunPrograms) {
  for (const char* variant : {"none", "older", "newer"}) {
    const std::unique_ptr<runtime::Backend> backend = make_backend(fake(variant));
    ASSERT_EQ(backend->devices().size(), 2u) << variant << ": " << backend->unavailable_reason();
    EXPECT_EQ(backend->devices()[1].name.to_string(), "pjrt:fake:1");
    EXPECT_EQ(backend->devices()[1].memory_bytes, 4096);
    const Type type{DType::f32, {2}};
    const auto session = compile_text(*backend, {"1", {type}, {type}, {}})->new_session();
    const auto results = session->run({{{backend->upload(Literal::of<float>({2}, {3, 4}), 0)}}, {}});
    EXPECT_TRUE(results[0][0]->to_host().same_bits(Literal::of<float>({2}, {3, 4}))) << variant;
  }
}

TEST_F(PjrtFaults, ErrorOfInitialisationKeepsItsMessageAndKind) {
  expect_probe_error(fake("init_error"), ErrorKind::kIo,
                     "the driver sleeps (UNAVAILABLE in PJRT_Plugin_Initialize)");
  expect_probe_error(fake("client_error"), ErrorKind::kNotFound,
                     "no such accelerator (NOT_FOUND in PJRT_Client_Create)");
}

// A sanitizer in the child turns the signal into an exit.
TEST_F(PjrtFaults, CrashWhileLoadingOrStartingIsAReason) {
  for (const char* variant : {"load_crash", "init_crash", "client_abort"})
    for (const ProbeOptions& options : ways()) {
      const Error error = error_of([&] { probe(fake(variant), options); });
      EXPECT_EQ(error.kind(), ErrorKind::kUnsupported);
      const std::string text = error.what();
      EXPECT_TRUE(text.find("crashed (") != text.npos || text.find("ended the process") != text.npos) << text;
    }
}

TEST_F(PjrtFaults, HangWhileStartingEndsAtTheLimit) {
  const auto start = std::chrono::steady_clock::now();
  expect_probe_error(fake("init_hang"), ErrorKind::kUnsupported, "took more than 0.3 s", 300ms);
  EXPECT_LT(std::chrono::steady_clock::now() - start, 10s);
}

TEST_F(PjrtFaults, PluginThatEndsTheProcessGivesNoAnswer) {
  expect_probe_error(fake("init_exit"), ErrorKind::kUnsupported, "left without an answer");
}

TEST_F(PjrtFaults, BrokenPluginHasNoDevicesAndOtherDevicesWork) {
  for (const char* variant : {"no_symbol", "null_api", "other_major", "load_crash", "init_crash", "init_exit",
                              "init_error", "client_error", "client_abort", "no_devices"}) {
    const std::unique_ptr<runtime::Backend> backend = make_backend(fake(variant));
    EXPECT_TRUE(backend->devices().empty()) << variant;
    EXPECT_FALSE(backend->unavailable_reason().empty()) << variant;
    error_of([&] { backend->upload(Literal::scalar(1.0f), 0); });
  }
  ir::Graph graph;
  const ir::Value x = graph.input("x", {DType::f32, {}});
  graph.output(graph.add(ir::Op::add, {x, x}), "y");
  EXPECT_EQ(compile(graph, "reference").run({Literal::scalar(2.0f)})[0].item<float>(), 4.0f);
}

TEST_F(PjrtFaults, SuccessIsRememberedUntilThePluginOrItsVariablesChange) {
  const fs::path file = folder_ / "plugin.so";
  fs::copy_file(fake("none").library, file);
  const PluginSpec spec{"fake", file, "test"};
  const ProbeOptions options{20s, {}, folder_};
  probe(spec, options);
  const auto remembered = [&] {
    int files = 0;
    for (const auto& entry : fs::directory_iterator(folder_ / "pjrt"))
      files += entry.is_regular_file() ? 1 : 0;
    return files;
  };
  EXPECT_EQ(remembered(), 1);
  probe(spec, options);
  EXPECT_EQ(remembered(), 1);
  ::setenv("SYSTOLE_PJRT_OPTIONS", "fake:refuse=1", 1);
  expect_error([&] { probe(spec, options); }, ErrorKind::kInvalidArgument, "asked to refuse");
  ::unsetenv("SYSTOLE_PJRT_OPTIONS");
  fs::remove(file);
  fs::copy_file(fake("init_crash").library, file);
  fs::last_write_time(file, fs::file_time_type::clock::now() + 1h);
  error_of([&] { probe(spec, options); });
}

TEST_F(PjrtFaults, MalformedVariablesAreTypedErrors) {
  ::setenv("SYSTOLE_PJRT_TIMEOUT", "soon", 1);
  expect_error([] { default_probe_options(); }, ErrorKind::kInvalidArgument, "SYSTOLE_PJRT_TIMEOUT");
  ::setenv("SYSTOLE_PJRT_OPTIONS", "nonsense", 1);
  expect_probe_error(fake("none"), ErrorKind::kInvalidArgument, "NAME:key=value");
}

TEST_F(PjrtFaults, PluginThatNoLongerTakesOurStableHloIsRefusedWithBothVersions) {
  const Fault fault("new StableHLO");
  const Error error = error_of([] { Plugin{fake("none")}; });
  EXPECT_EQ(error.kind(), ErrorKind::kUnsupported);
  EXPECT_EQ(error.expected(), "1.13.3");
  EXPECT_EQ(error.got(), "99.1.0 or newer");
}

class PjrtFake : public PjrtFaults {
 protected:
  void SetUp() override {
    PjrtFaults::SetUp();
    backend_ = make_backend(fake("none"));
    ASSERT_FALSE(backend_->devices().empty()) << backend_->unavailable_reason();
    live_ = fake_function<int()>("fake_live_objects");
    before_ = live_();
  }
  // Whatever a test does, all objects go back to the plugin; the client stays.
  void TearDown() override {
    EXPECT_EQ(live_(), before_);
    PjrtFaults::TearDown();
  }
  runtime::BufferRef value(float x) { return backend_->upload(Literal::of<float>({1}, {x}), 0); }
  static float number(const runtime::BufferRef& buffer) { return buffer->to_host().item<float>(); }

  const Type type_{DType::f32, {1}};
  std::unique_ptr<runtime::Backend> backend_;
  int (*live_)() = nullptr;
  int before_ = 0;
};

TEST_F(PjrtFake, CompileErrorsKeepMessageAndKind) {
  expect_error([&] { compile_text(*backend_, {"too big", {}, {}, {}}); }, ErrorKind::kOutOfMemory,
               "16 GB do not fit (RESOURCE_EXHAUSTED in PJRT_Client_Compile)");
  expect_error([&] { compile_text(*backend_, {"strange", {}, {}, {}}); }, ErrorKind::kUnsupported,
               "op is not known");
}

TEST_F(PjrtFake, WrongNumberOfOutputsIsRefusedBeforeARun) {
  const Error error = error_of([&] { compile_text(*backend_, {"3", {type_}, {type_}, {}}); });
  EXPECT_EQ(error.kind(), ErrorKind::kUnsupported);
  EXPECT_EQ(error.expected(), "1");
  EXPECT_EQ(error.got(), "3");
}

TEST_F(PjrtFake, ExecuteErrorLeavesTheArgumentsUsable) {
  const auto session = compile_text(*backend_, {"1 fails", {type_}, {type_}, {0}})->new_session();
  const runtime::BufferRef x = value(5);
  expect_error([&] { session->run({{{x}}, {0}}); }, ErrorKind::kUnsupported, "the chip is on fire (INTERNAL");
  EXPECT_EQ(number(x), 5);
}

TEST_F(PjrtFake, ArgumentThatCannotBeMovedToTheProgramsDeviceIsKept) {
  const auto session = compile_text(*backend_, {"1", {type_}, {type_}, {0}}, 1)->new_session();
  const runtime::BufferRef x = value(5);  // on device 0
  {
    const Fault fault("upload to 1");
    expect_error([&] { session->run({{{x}}, {0}}); }, ErrorKind::kOutOfMemory, "device 1 is full");
  }
  EXPECT_EQ(number(x), 5);
  EXPECT_EQ(session->run({{{x}}, {0}})[0][0], x);
  EXPECT_EQ(number(x), 5);
}

// The memory that a transfer reads is freed after its end, however the call fails.
TEST_F(PjrtFake, UploadWhoseEndCannotBeHeardOfIsWaitedFor) {
  const Fault fault("on_ready");
  expect_error([&] { backend_->upload(Literal(Type{DType::f32, {1 << 15}}), 0); }, ErrorKind::kUnsupported,
               "no callbacks today");
  EXPECT_EQ(fake_function<int()>("fake_abandoned_transfers")(), 0);
}

ir::Graph split_in_two() {
  return ir::parse(R"(systole.ir 1
graph @same(%x: f32[2] sharding(["d"])) mesh(d=2) {
  %y = add(%x, %x) : f32[2] sharding(["d"])
  return y: %y
})");
}

TEST_F(PjrtFake, WhereShardyIsRefusedGspmdIsTried) {
  std::string told;
  set_log_sink([&](LogLevel, std::string_view line) { told += line; }, LogLevel::info);
  {
    const Fault fault("Shardy");
    const auto session = backend_->compile(split_in_two(), 0, {})->new_session();
    const runtime::BufferRef x = backend_->upload(Literal::of<float>({2}, {3, 4}), 0);
    EXPECT_TRUE(session->run({{{x}}, {}})[0][0]->to_host().same_bits(Literal::of<float>({2}, {3, 4})));
    expect_error([&] { compile_graph(*backend_, split_in_two(), codegen::Partitioner::shardy); },
                 ErrorKind::kInvalidArgument, "dialect sdy is not known");
  }
  set_log_sink({});
  EXPECT_NE(told.find("GSPMD is tried"), std::string::npos) << told;
  EXPECT_NE(told.find("dialect sdy is not known"), std::string::npos) << told;
}

TEST_F(PjrtFake, ProgramThatBothPartitionersRefuseHasTheFirstOnesError) {
  const Fault fault("all programs");
  expect_error([&] { backend_->compile(split_in_two(), 0, {}); }, ErrorKind::kInvalidArgument, "no sdy");
}

TEST_F(PjrtFake, ErrorThatComesLaterIsThrownByReadingTheResult) {
  const auto session = compile_text(*backend_, {"1 late", {type_}, {type_}, {}})->new_session();
  const auto results = session->run({{{value(5)}}, {}});
  expect_error([&] { results[0][0]->to_host(); }, ErrorKind::kContextLost, "the chip went away");
}

TEST_F(PjrtFake, UploadThatDoesNotFitIsOutOfMemory) {
  expect_error([&] { backend_->upload(Literal(Type{DType::f64, {1 << 20}}), 0); }, ErrorKind::kOutOfMemory,
               "out of imaginary memory");
}

TEST_F(PjrtFake, DonatedBufferTakesTheResultItAliases) {
  const auto session = compile_text(*backend_, {"2", {type_, type_}, {type_, type_}, {1, -1}})->new_session();
  const runtime::BufferRef x = value(5), y = value(6);
  const auto results = session->run({{{x, y}}, {0, 1}});
  EXPECT_EQ(results[0][1], x);  // the same Buffer
  EXPECT_EQ(number(x), 6);
  EXPECT_EQ(number(results[0][0]), 5);
  expect_error([&] { y->to_host(); }, ErrorKind::kInvalidArgument, "used after it was donated");
  expect_error([&] { session->run({{{y, x}}, {}}); }, ErrorKind::kInvalidArgument,
               "used after it was donated");
}

TEST_F(PjrtFake, ArgumentThatIsNotDonatedIsNeverTaken) {
  const auto session = compile_text(*backend_, {"1", {type_}, {type_}, {0}})->new_session();
  const runtime::BufferRef x = value(5);
  for (int i = 0; i < 3; ++i) EXPECT_EQ(number(session->run({{{x}}, {}})[0][0]), 5);
  EXPECT_EQ(number(x), 5);
}

TEST_F(PjrtFake, BufferGivenTwiceMayBeDonatedOnce) {
  const auto session = compile_text(*backend_, {"2", {type_, type_}, {type_, type_}, {0, -1}})->new_session();
  const runtime::BufferRef x = value(5);
  const auto results = session->run({{{x, x}}, {0}});
  EXPECT_EQ(results[0][0], x);
  EXPECT_EQ(number(x), 5);
  EXPECT_EQ(number(results[0][1]), 5);
}

TEST_F(PjrtFake, BufferDonatedTwiceTakesOneResult) {
  const auto session = compile_text(*backend_, {"2", {type_, type_}, {type_, type_}, {0, 1}})->new_session();
  const runtime::BufferRef x = value(5);
  const auto results = session->run({{{x, x}}, {0, 1}});
  EXPECT_EQ(results[0][0], x);
  EXPECT_NE(results[0][1], x);
  EXPECT_EQ(number(x), 5);
  EXPECT_EQ(number(results[0][1]), 5);
}

TEST_F(PjrtFake, WrongArgumentLeavesTheDonatedOnesBeforeIt) {
  const auto session = compile_text(*backend_, {"1", {type_, type_}, {type_}, {0, -1}})->new_session();
  const runtime::BufferRef x = value(5), wrong = backend_->upload(Literal::scalar(1.0f), 0);
  expect_error([&] { session->run({{{x, wrong}}, {0}}); }, ErrorKind::kShape, "argument 1");
  EXPECT_EQ(number(x), 5);
  EXPECT_EQ(session->run({{{x, value(6)}}, {0}})[0][0], x);
}

// Another thread may be reading what a run is given; the plugin must not overwrite it.
TEST_F(PjrtFake, ArrayThatSomebodyReadsIsNotTaken) {
  const auto session = compile_text(*backend_, {"1", {type_}, {type_}, {0}})->new_session();
  const runtime::BufferRef x = value(5);
  const auto& array = dynamic_cast<const ArrayBuffer&>(*x);
  const ShardsRef reading = array.shards();
  EXPECT_EQ(session->run({{{x}}, {0}})[0][0], x);
  EXPECT_EQ(download(array.client(), *reading, type_, array.device()).item<float>(), 5);
  EXPECT_EQ(number(x), 5);
}

TEST_F(PjrtFake, ArgumentsAreCheckedBeforeThePluginSeesThem) {
  const auto executable = compile_text(*backend_, {"1", {type_}, {type_}, {}});
  const auto session = executable->new_session();
  expect_error([&] { session->run({{}, {}}); }, ErrorKind::kInvalidArgument, "argument lists");
  expect_error([&] { session->run({{{}}, {}}); }, ErrorKind::kInvalidArgument, "number of arguments");
  expect_error([&] { session->run({{{nullptr}}, {}}); }, ErrorKind::kInvalidArgument,
               "a buffer of this backend");
  expect_error([&] { session->run({{{value(1)}}, {7}}); }, ErrorKind::kInvalidArgument, "out of range");
  expect_error([&] { session->run({{{backend_->upload(Literal::scalar(1.0f), 0)}}, {}}); }, ErrorKind::kShape,
               "argument 0");
  expect_error([&] { session->run({{{backend_->upload(Literal::of<double>({1}, {1}), 0)}}, {}}); },
               ErrorKind::kDType, "argument 0");
  expect_error([&] { backend_->upload(Literal::scalar(1.0f), 2); }, ErrorKind::kNotFound, "no such device");
}

TEST_F(PjrtFake, EachDeviceHasItsArgumentsAndResults) {
  const auto executable = compile_text(*backend_, {"1", {type_}, {type_}, {}, 2});
  EXPECT_EQ(executable->device_count(), 2);
  const auto results = executable->new_session()->run({{{value(1)}, {value(2)}}, {}});
  EXPECT_EQ(number(results[0][0]), 1);
  EXPECT_EQ(number(results[1][0]), 2);
  EXPECT_EQ(results[1][0]->device().to_string(), "pjrt:fake:1");
  expect_error([&] { compile_text(*backend_, {"1", {type_}, {type_}, {}, 3}); }, ErrorKind::kUnsupported,
               "not enough devices");
}

}  // namespace
}  // namespace systole::pjrt
