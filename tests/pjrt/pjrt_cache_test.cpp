// Compiled programs on disk. A second process loads what the first compiled and computes the same, donation
// and several devices included (XLA CPU plugin, in child processes: a client's own memory of programs must
// play no part). What plugins may do wrong is tried on a table made here.

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <functional>
#include <sstream>

#include "../scratch_folder.h"
#include "backend/pjrt/array.h"
#include "backend/pjrt/discovery.h"
#include "backend/pjrt/pjrt.h"
#include "backend/pjrt/stored.h"
#include "base/log.h"
#include "runtime/disk_cache.h"
#include "systole/base/error.h"
#include "systole/ir/text.h"
#include "systole/runtime.h"

namespace systole::pjrt {
namespace {

namespace fs = std::filesystem;

class PjrtCache : public ScratchFolder {
 protected:
  void SetUp() override {
    ::setenv("SYSTOLE_CACHE_DIR", folder_.c_str(), 1);
    ::setenv("SYSTOLE_CACHE_MIN_MS", "0", 1);
  }
  void TearDown() override {
    for (const char* name : {"SYSTOLE_CACHE_DIR", "SYSTOLE_CACHE_MIN_MS", "SYSTOLE_CACHE", "XLA_FLAGS"})
      ::unsetenv(name);
  }
  std::vector<fs::path> entries() const {
    std::vector<fs::path> files;
    if (fs::exists(folder_ / "compiled"))
      for (const auto& entry : fs::directory_iterator(folder_ / "compiled")) files.push_back(entry.path());
    return files;
  }
};

// A plugin that keeps the text of its programs and counts what it is asked.
struct Counts {
  int serialised = 0, loaded = 0, freed = 0, compiled = 0;
  bool implemented = true, refuses = false;
};
Counts counts;

struct FakeError {
  PJRT_Error_Code code;
};
PJRT_Error* fail(PJRT_Error_Code code) { return reinterpret_cast<PJRT_Error*>(new FakeError{code}); }
const FakeError& fake(const PJRT_Error* error) { return *reinterpret_cast<const FakeError*>(error); }

// Programs are pointers to their texts.
std::string& text_of(void* program) { return *static_cast<std::string*>(program); }

PJRT_Api fake_table() {
  PJRT_Api t{};
  t.struct_size = PJRT_Api_STRUCT_SIZE;
  t.pjrt_api_version = {PJRT_Api_Version_STRUCT_SIZE, nullptr, PJRT_API_MAJOR, PJRT_API_MINOR};
  t.PJRT_Error_Destroy = [](PJRT_Error_Destroy_Args* args) {
    delete reinterpret_cast<const FakeError*>(args->error);
  };
  t.PJRT_Error_Message = [](PJRT_Error_Message_Args* args) {
    args->message = "no";
    args->message_size = 2;
  };
  t.PJRT_Error_GetCode = [](PJRT_Error_GetCode_Args* args) -> PJRT_Error* {
    args->code = fake(args->error).code;
    return nullptr;
  };
  t.PJRT_LoadedExecutable_Destroy = [](PJRT_LoadedExecutable_Destroy_Args* args) -> PJRT_Error* {
    delete &text_of(args->executable);
    return nullptr;
  };
  t.PJRT_LoadedExecutable_GetExecutable = [](PJRT_LoadedExecutable_GetExecutable_Args* args) -> PJRT_Error* {
    args->executable = reinterpret_cast<PJRT_Executable*>(args->loaded_executable);
    return nullptr;
  };
  t.PJRT_Executable_Serialize = [](PJRT_Executable_Serialize_Args* args) -> PJRT_Error* {
    ++counts.serialised;
    if (!counts.implemented) return fail(PJRT_Error_Code_UNIMPLEMENTED);
    const std::string& text = *reinterpret_cast<const std::string*>(args->executable);
    args->serialized_bytes = text.data();
    args->serialized_bytes_size = text.size();
    args->serialized_executable_deleter = [](PJRT_SerializedExecutable*) { ++counts.freed; };
    return nullptr;
  };
  t.PJRT_Executable_DeserializeAndLoad = [](PJRT_Executable_DeserializeAndLoad_Args* args) -> PJRT_Error* {
    ++counts.loaded;
    if (counts.refuses) return fail(PJRT_Error_Code_INVALID_ARGUMENT);
    args->loaded_executable = reinterpret_cast<PJRT_LoadedExecutable*>(
        new std::string(args->serialized_executable, args->serialized_executable_size));
    return nullptr;
  };
  return t;
}

// What a process of its own would have compiled or loaded.
std::string ask(const StoredPrograms& programs, const Api& api, const std::string& program,
                const std::string& options = "options") {
  const LoadedExecutable executable = programs.find_or_compile(nullptr, program, options, [&] {
    ++counts.compiled;
    return LoadedExecutable(api,
                            reinterpret_cast<PJRT_LoadedExecutable*>(new std::string("code of " + program)));
  });
  return text_of(executable.get());
}

TEST_F(PjrtCache, AProgramIsCompiledOnceAndLoadedAfterwards) {
  counts = {};
  const PJRT_Api table = fake_table();
  const Api api(&table, "pjrt:fake");
  for (int process = 0; process < 3; ++process)
    EXPECT_EQ(ask(StoredPrograms(api, "maker"), api, "p"), "code of p");
  EXPECT_EQ(counts.compiled, 1);
  EXPECT_EQ(counts.serialised, 1);
  EXPECT_EQ(counts.freed, 1);
  EXPECT_EQ(counts.loaded, 2);
  // Another program, plugin or option is another entry.
  EXPECT_EQ(ask(StoredPrograms(api, "maker"), api, "q"), "code of q");
  EXPECT_EQ(ask(StoredPrograms(api, "other"), api, "p"), "code of p");
  EXPECT_EQ(ask(StoredPrograms(api, "maker"), api, "p", "others"), "code of p");
  EXPECT_EQ(counts.compiled, 4);
  ::setenv("SYSTOLE_CACHE", "0", 1);
  EXPECT_EQ(ask(StoredPrograms(api, "maker"), api, "p"), "code of p");
  EXPECT_EQ(counts.compiled, 5);
}

TEST_F(PjrtCache, WhatCompilesFastIsNotStored) {
  counts = {};
  ::setenv("SYSTOLE_CACHE_MIN_MS", "10000", 1);
  const PJRT_Api table = fake_table();
  const Api api(&table, "pjrt:fake");
  EXPECT_EQ(ask(StoredPrograms(api, "maker"), api, "p"), "code of p");
  EXPECT_EQ(counts.serialised, 0);
  EXPECT_TRUE(entries().empty());
}

TEST_F(PjrtCache, AnEntryThatThePluginRefusesIsCompiledAndReplaced) {
  counts = {};
  const PJRT_Api table = fake_table();
  const Api api(&table, "pjrt:fake");
  const StoredPrograms programs(api, "maker");
  ask(programs, api, "p");
  counts.refuses = true;
  EXPECT_EQ(ask(programs, api, "p"), "code of p");
  EXPECT_EQ(counts.compiled, 2);
  EXPECT_EQ(counts.serialised, 2);
  counts.refuses = false;
  EXPECT_EQ(ask(programs, api, "p"), "code of p");
  EXPECT_EQ(counts.compiled, 2);
}

TEST_F(PjrtCache, APluginThatCannotSerialiseIsAskedOnce) {
  counts = {};
  counts.implemented = false;
  const PJRT_Api table = fake_table();
  const Api api(&table, "pjrt:fake");
  const StoredPrograms programs(api, "maker");
  for (const char* program : {"p", "q", "r"}) ask(programs, api, program);
  EXPECT_EQ(counts.compiled, 3);
  EXPECT_EQ(counts.serialised, 1);
  PJRT_Api old = fake_table();
  old.PJRT_Executable_Serialize = nullptr;
  const Api without(&old, "pjrt:old");
  EXPECT_EQ(ask(StoredPrograms(without, "maker"), without, "p"), "code of p");
}

TEST_F(PjrtCache, ADamagedEntryOrABadFolderCostsACompilation) {
  counts = {};
  const PJRT_Api table = fake_table();
  const Api api(&table, "pjrt:fake");
  const StoredPrograms programs(api, "maker");
  ask(programs, api, "p");
  ASSERT_EQ(entries().size(), 1u);
  fs::resize_file(entries()[0], 40);
  EXPECT_EQ(ask(programs, api, "p"), "code of p");
  EXPECT_EQ(counts.compiled, 2);
  EXPECT_EQ(ask(programs, api, "p"), "code of p");
  EXPECT_EQ(counts.compiled, 2);
  fs::remove_all(folder_ / "compiled");
  std::ofstream(folder_ / "compiled") << "a file";
  EXPECT_EQ(ask(programs, api, "p"), "code of p");
  EXPECT_EQ(counts.compiled, 3);
}

// What a piece of work in a process of its own says; the plugin's threads must not be there when it forks.
std::string in_child(const std::function<std::string()>& work) {
  int ends[2];
  if (::pipe(ends) != 0) return "no pipe";
  const pid_t child = ::fork();
  if (child == 0) {
    std::string said;
    try {
      said = work();
    } catch (const std::exception& error) {
      said = error.what();
    }
    ::_exit(::write(ends[1], said.data(), said.size()) == static_cast<ssize_t>(said.size()) ? 0 : 1);
  }
  ::close(ends[1]);
  std::string said;
  char part[4096];
  for (ssize_t n; (n = ::read(ends[0], part, sizeof(part))) > 0;)
    said.append(part, static_cast<std::size_t>(n));
  ::close(ends[0]);
  int status = 0;
  ::waitpid(child, &status, 0);
  return status == 0 ? said : said + " (status " + std::to_string(status) + ")";
}

class PjrtCacheXla : public PjrtCache {
 protected:
  void SetUp() override {
    PjrtCache::SetUp();
    for (const PluginSpec& spec : plugins_in(SYSTOLE_DEPS))
      if (spec.name == "cpu") spec_ = spec;
    if (spec_.name.empty()) GTEST_SKIP() << "no XLA CPU plugin in " << SYSTOLE_DEPS;
  }

  // "compiled" or "loaded" for each program, then what `work` says.
  std::string in_process(const std::function<std::string(runtime::Backend&)>& work) const {
    return in_child([&] {
      std::string said;
      set_log_sink([&](LogLevel, std::string_view line) {
        for (const char* what : {"compiled", "loaded"})
          if (line.find(std::string("a program is ") + what) != std::string_view::npos)
            said += what + std::string(" ");
      });
      const auto backend = make_backend(spec_);
      if (backend->devices().empty()) return backend->unavailable_reason();
      const std::string result = work(*backend);
      return said + result;
    });
  }

  PluginSpec spec_;
};

std::string text_of(const Literal& value) {
  std::ostringstream out;
  out.precision(9);
  for (const float x : value.values<float>()) out << x << " ";
  return out.str();
}

// Four steps of w ← w − 0.5·(w·x − 1)·x with w donated; from w = 0, x = 1, 2: (w·x) after each step is
// 1 + (1 − 0.5·5)·(previous − 1), so w = (1, 2)·(1 − (−1.5)^n)/5; n = 4: (1, 2)·(1 − 5.0625)/5.
std::string descend(runtime::Backend& backend) {
  const ir::Graph graph = ir::parse(R"(systole.ir 1
graph @step(%w: f32[2] {alias=0}, %x: f32[2]) {
  %p = mul(%w, %x) : f32[2]
  %s = reduce(%p) {kind=sum, axes=[0]} : f32[]
  %one = constant() {value=f32[](1)} : f32[]
  %half = constant() {value=f32[](0.5)} : f32[]
  %d = sub(%s, %one) : f32[]
  %h = mul(%d, %half) : f32[]
  %b = broadcast(%h) {shape=[2], axes=[]} : f32[2]
  %g = mul(%b, %x) : f32[2]
  %n = sub(%w, %g) : f32[2]
  return w: %n, d: %d
})");
  const auto session = backend.compile(graph, 0, {})->new_session();
  const runtime::BufferRef w = backend.upload(Literal::of<float>({2}, {0, 0}), 0),
                           x = backend.upload(Literal::of<float>({2}, {1, 2}), 0);
  const auto address = [&] {
    const auto& array = dynamic_cast<const ArrayBuffer&>(*w);
    SYSTOLE_PJRT_ARGS(PJRT_Buffer_UnsafePointer, args);
    args.buffer = array.shards()->buffers[0].get();
    SYSTOLE_PJRT_CALL(array.client().api(), PJRT_Buffer_UnsafePointer, args);
    return args.buffer_pointer;
  };
  const auto first = address();
  bool in_place = true;
  for (int i = 0; i < 4; ++i) {
    in_place = in_place && session->run({{{w, x}}, {0}})[0][0] == w;
    in_place = in_place && address() == first;
  }
  return text_of(w->to_host()) + (in_place ? "in place" : "moved");
}

TEST_F(PjrtCacheXla, ASecondProcessLoadsAndUpdatesVariablesInPlace) {
  EXPECT_EQ(in_process(descend), "compiled -0.8125 -1.625 in place");
  EXPECT_EQ(in_process(descend), "loaded -0.8125 -1.625 in place");
  ::setenv("XLA_FLAGS", "--xla_cpu_use_fusion_emitters=false", 1);  // other code, so another entry
  EXPECT_EQ(in_process(descend), "compiled -0.8125 -1.625 in place");
  ::unsetenv("XLA_FLAGS");
  for (const fs::path& entry : entries()) {
    std::fstream file(entry, std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(200);
    file << "damage";
  }
  EXPECT_EQ(in_process(descend), "compiled -0.8125 -1.625 in place");
  EXPECT_EQ(in_process(descend), "loaded -0.8125 -1.625 in place");
}

// x·w over a 2×2 mesh, and a sum over four replicas; both by hand.
std::string over_four(runtime::Backend& backend) {
  const ir::Graph product = ir::parse(R"(systole.ir 1
graph @product(%x: f32[4,2] sharding(["r"], []), %w: f32[2,4] sharding([], ["c"])) mesh(r=2, c=2) {
  %y = dot_general(%x, %w) {a_contract=[1], b_contract=[0]} : f32[4,4] sharding(["r"], ["c"])
  %s = reduce(%y) {kind=sum, axes=[0, 1]} : f32[]
  return y: %y, s: %s
})");
  const ir::Graph sum = ir::parse(R"(systole.ir 1
graph @sum(%x: f32[2]) mesh(d=4) {
  %y = all_reduce(%x) {kind=sum, mesh_axes=["d"]} : f32[2]
  return y: %y
})");
  std::string said;
  const auto first = backend.compile(product, 0, {})->new_session();
  for (int i = 0; i < 2; ++i) {
    const auto results =
        first->run({{{backend.upload(Literal::of<float>({4, 2}, {1, 0, 0, 1, 1, 1, 2, 3}), 0),
                      backend.upload(Literal::of<float>({2, 4}, {1, 2, 3, 4, 5, 6, 7, 8}), 0)}},
                    {}});
    said += text_of(results[0][0]->to_host()) + "| " + text_of(results[0][1]->to_host()) + "| ";
  }
  runtime::RunArguments arguments;
  for (int d = 0; d < 4; ++d)
    arguments.per_device.push_back(
        {backend.upload(Literal::of<float>({2}, {1.0f * static_cast<float>(d), 10.0f}), d)});
  for (const auto& list : backend.compile(sum, 0, {})->new_session()->run(arguments))
    said += text_of(list[0]->to_host());
  return said;
}

TEST_F(PjrtCacheXla, ProgramsOverFourDevicesAreLoadedToo) {
  const std::string once = "1 2 3 4 5 6 7 8 6 8 10 12 17 22 27 32 | 170 | ";
  const std::string wanted = once + once + "6 40 6 40 6 40 6 40 ";
  EXPECT_EQ(in_process(over_four), "compiled compiled " + wanted);
  EXPECT_EQ(in_process(over_four), "loaded loaded " + wanted);
}

// The same text for another device is another program: its devices are compiled in.
TEST_F(PjrtCacheXla, EachDeviceHasItsOwnEntry) {
  const auto on = [](int ordinal) {
    return [ordinal](runtime::Backend& backend) {
      const ir::Graph graph = ir::parse(R"(systole.ir 1
graph @double(%x: f32[2]) {
  %y = add(%x, %x) : f32[2]
  return y: %y
})");
      const auto session = backend.compile(graph, ordinal, {})->new_session();
      const auto y = session->run({{{backend.upload(Literal::of<float>({2}, {1, 2}), ordinal)}}, {}})[0][0];
      return std::to_string(y->device().ordinal) + ": " + text_of(y->to_host());
    };
  };
  EXPECT_EQ(in_process(on(0)), "compiled 0: 2 4 ");
  EXPECT_EQ(in_process(on(1)), "compiled 1: 2 4 ");
  EXPECT_EQ(in_process(on(1)), "loaded 1: 2 4 ");
}

}  // namespace
}  // namespace systole::pjrt
