// The timeline: what a compiled run leaves in the file, that the file is JSON at any moment and however the
// process ends, and that nothing about it disturbs a run.

#include "runtime/timeline.h"
#include "generated_only.h"

#include <gtest/gtest.h>
#include <spawn.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "base/log.h"
#include "error_check.h"
#include "scratch_folder.h"
#include "systole/ir/text.h"
#include "systole/systole.h"

extern char** environ;

namespace systole {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

Json parsed(const fs::path& file) {
  std::ifstream in(file);
  return Json::parse(in);
}

// The spans, checked to be what a viewer takes.
std::vector<Json> spans(const Json& trace) {
  std::vector<Json> found;
  for (const Json& event : trace.at("traceEvents")) {
    EXPECT_EQ(event.at("pid").get<int>(), ::getpid());
    EXPECT_TRUE(event.at("tid").is_number_integer());
    if (event.at("ph") == "M") continue;
    EXPECT_GE(event.at("ts").get<double>(), 0);
    if (event.at("ph") == "C") {  // a level
      EXPECT_TRUE(event.at("args").at("value").is_number_integer());
      continue;
    }
    EXPECT_EQ(event.at("ph"), "X");
    EXPECT_GE(event.at("dur").get<double>(), 0);
    EXPECT_FALSE(event.at("name").get<std::string>().empty());
    found.push_back(event);
  }
  return found;
}

std::multimap<std::string, Json> by_category(const Json& trace) {
  std::multimap<std::string, Json> found;
  for (const Json& span : spans(trace)) found.emplace(span.at("cat"), span);
  return found;
}

const Json* named(const std::vector<Json>& all, const std::string& name) {
  for (const Json& span : all)
    if (span.at("name") == name) return &span;
  return nullptr;
}

bool inside(const Json& inner, const Json& outer) {
  constexpr double kRounded = 0.002;
  const auto begin = [](const Json& s) { return s.at("ts").get<double>(); };
  const auto end = [](const Json& s) { return s.at("ts").get<double>() + s.at("dur").get<double>(); };
  return begin(inner) >= begin(outer) - kRounded && end(inner) <= end(outer) + kRounded;
}

ir::Graph small_graph(const std::string& name) {
  return ir::parse("systole.ir 1\ngraph @" + name +
                   "(%x: f32[64, 40], %w: f32[40, 48]) {\n"
                   "%d = dot_general(%x, %w) {a_contract=[1], b_contract=[0]}\n"
                   "%y = tanh(%d)\n%s = reduce(%y) {kind=sum, axes=[0, 1]}\nreturn %s\n}\n");
}

std::vector<Literal> ones(const ir::Graph& graph) {
  std::vector<Literal> arguments;
  for (std::size_t i = 0; i < graph.inputs().size(); ++i) {
    Literal x(graph.input_type(i));
    for (float& v : x.mutable_values<float>()) v = 1;
    arguments.push_back(std::move(x));
  }
  return arguments;
}

class Timelines : public ScratchFolder {
 protected:
  ~Timelines() override { Timeline::stop(); }
  fs::path file() const { return folder_ / "trace.json"; }
};

TEST_F(Timelines, ACompiledRunShowsItsCompilationItsRunAndItsSteps) {
  Timeline::start(file());
  const ir::Graph graph = small_graph("timed");
  compile(graph, "cpu").run(ones(graph));
  Timeline::stop();
  const Json trace = parsed(file());
  const std::vector<Json> all = spans(trace);
  const Json *compilation = named(all, "compile timed"), *run = named(all, "run timed");
  ASSERT_NE(compilation, nullptr) << trace.dump(1);
  ASSERT_NE(run, nullptr) << trace.dump(1);
  EXPECT_EQ(run->at("args").at("device"), "cpu");
  for (const char* part : {"passes", "lower", "codegen", "jit"}) {
    const Json* span = named(all, part);
    ASSERT_NE(span, nullptr) << part << trace.dump(1);
    EXPECT_TRUE(inside(*span, *compilation)) << part;
  }
  std::string steps;
  for (const auto& [category, span] : by_category(trace)) {
    if (category != "step") continue;
    steps += span.at("name").get<std::string>() + " ";
    EXPECT_TRUE(inside(span, *run)) << span;
    EXPECT_GT(span.at("args").at("bytes").get<int>(), 0) << span;
    EXPECT_GT(span.at("args").at("items").get<int>(), 0) << span;
    EXPECT_FALSE(span.at("args").at("kind").get<std::string>().empty()) << span;
  }
  for (const char* op : {"dot_general", "tanh", "reduce"})
    EXPECT_NE(steps.find(op), std::string::npos) << op << " in " << steps;
  // Viewers name the process and its threads.
  std::set<std::string> names;
  for (const Json& event : trace.at("traceEvents"))
    if (event.at("ph") == "M") names.insert(event.at("args").at("name"));
  EXPECT_TRUE(names.count("main")) << trace.dump(1);
  EXPECT_TRUE(names.count(fs::read_symlink("/proc/self/exe").filename())) << trace.dump(1);
}

TEST_F(Timelines, RunsOfOtherBackendsShowToo) {
  Timeline::start(file());
  const ir::Graph graph = small_graph("plain");
  const CompiledGraph compiled = compile(graph, "reference");
  compiled.run(ones(graph));
  const auto session = compiled.new_session();
  runtime::RunArguments arguments;
  arguments.per_device.emplace_back();
  for (const Literal& x : ones(graph))
    arguments.per_device[0].push_back(runtime::backend("reference").upload(x, 0));
  session->run(arguments);
  Timeline::stop();
  int runs = 0;
  for (const Json& span : spans(parsed(file())))
    if (span.at("name") == "run plain") {
      ++runs;
      EXPECT_EQ(span.at("args").at("device"), "reference");
    }
  EXPECT_EQ(runs, 2);
}

TEST_F(Timelines, ACompiledFunctionShowsItsTrace) {
  Timeline::start(file());
  const auto twice = systole::compile([](const Tensor& x) { return x + x; });
  twice(ones_like(Tensor(3.0f))).item<float>();
  Timeline::stop();
  EXPECT_NE(named(spans(parsed(file())), "trace"), nullptr);
}

TEST_F(Timelines, ScopesOfTheProgramNestAndMayHoldAnyText) {
  Timeline::start(file());
  {
    const Timeline::Scope outer("a \"batch\"\n\\ größe");
    const Timeline::Scope inner(std::string("bad \xff\xc3+ \xed\xa0\x80 end"));
  }
  Timeline::stop();
  const std::vector<Json> all = spans(parsed(file()));
  ASSERT_EQ(all.size(), 2u);
  EXPECT_EQ(all[0].at("name"), "bad ??+ ??? end");
  EXPECT_EQ(all[1].at("name"), "a \"batch\"\n\\ größe");
  EXPECT_EQ(all[1].at("cat"), "user");
  EXPECT_TRUE(inside(all[0], all[1]));
}

TEST_F(Timelines, NothingIsRecordedUnlessItRuns) {
  EXPECT_FALSE(Timeline::is_running());
  {
    const Timeline::Scope before("before");
  }
  Timeline::start(file());
  EXPECT_TRUE(Timeline::is_running());
  {
    const Timeline::Scope during("during");
  }
  Timeline::stop();
  Timeline::stop();
  EXPECT_FALSE(Timeline::is_running());
  {
    const Timeline::Scope after("after");
  }
  const std::vector<Json> all = spans(parsed(file()));
  ASSERT_EQ(all.size(), 1u);
  EXPECT_EQ(all[0].at("name"), "during");
}

TEST_F(Timelines, ASecondFileFollowsTheFirstAndNamesItsThreadsToo) {
  Timeline::start(file());
  {
    const Timeline::Scope scope("first");
  }
  Timeline::start(folder_ / "second.json");
  {
    const Timeline::Scope scope("second");
  }
  Timeline::stop();
  EXPECT_EQ(spans(parsed(file())).at(0).at("name"), "first");
  const Json second = parsed(folder_ / "second.json");
  EXPECT_EQ(spans(second).at(0).at("name"), "second");
  EXPECT_EQ(second.at("traceEvents").size(), 3u);  // process, thread, span
}

TEST_F(Timelines, TheFileIsJsonAtAnyMomentAndThreadsRecordTogether) {
  Timeline::start(file());
  EXPECT_NO_THROW(parsed(file()));
  constexpr int kThreads = 4, kScopes = 1000;
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t)
    threads.emplace_back([] {
      for (int i = 0; i < kScopes; ++i) const Timeline::Scope scope("one of many");
    });
  for (std::thread& thread : threads) thread.join();
  // Blocks are written as they fill: at most the last is missing.
  const std::size_t written = parsed(file()).at("traceEvents").size();
  EXPECT_GT(written, kThreads * kScopes / 2u);
  Timeline::stop();
  const Json trace = parsed(file());
  EXPECT_EQ(spans(trace).size(), static_cast<std::size_t>(kThreads * kScopes));
  std::set<int> numbers;
  for (const Json& span : spans(trace)) numbers.insert(span.at("tid").get<int>());
  EXPECT_EQ(numbers.size(), static_cast<std::size_t>(kThreads));
}

// Gives what it has held back, once.
int held_back = 0;
void give_them() {
  const std::int64_t now = timeline::now();
  for (; held_back > 0; --held_back) timeline::record_on("gpu", "work", "held back", now - 1500, now);
}

TEST_F(Timelines, WorkOfNoThreadHasARowAndMayComeAtTheEnd) {
  Timeline::start(file());
  timeline::before_stop(give_them);
  timeline::before_stop(give_them);
  timeline::record_on("gpu \"0\"", "work", "a", timeline::now(), timeline::now());
  timeline::record_on("gpu", "work", "b", timeline::now(), timeline::now() + 1500);
  held_back = 1;
  Timeline::stop();
  held_back = 1;
  Timeline::stop();  // nothing runs, so nobody is asked
  EXPECT_EQ(held_back, 1);
  std::map<std::string, int> rows;
  std::map<std::string, int> row_of;
  std::map<std::string, double> lengths;
  const Json trace = parsed(file());
  for (const Json& event : trace.at("traceEvents"))
    if (event.at("name") == "thread_name")
      rows[event.at("args").at("name")] = event.at("tid");
    else if (event.at("ph") == "X") {
      row_of[event.at("name")] = event.at("tid");
      lengths[event.at("name")] = event.at("dur");
    }
  ASSERT_EQ(rows.size(), 2u);
  EXPECT_NE(rows.at("gpu"), rows.at("gpu \"0\""));
  EXPECT_GT(rows.at("gpu"), 4194304);  // the largest number of a thread on Linux
  EXPECT_EQ(row_of.at("a"), rows.at("gpu \"0\""));
  EXPECT_EQ(row_of.at("b"), rows.at("gpu"));
  EXPECT_EQ(row_of.at("held back"), rows.at("gpu"));
  EXPECT_EQ(lengths.at("held back"), 1.5);
  held_back = 0;
}

TEST_F(Timelines, AFileThatCannotBeWrittenIsAnErrorThatNamesIt) {
  const std::string path = folder_ / "no" / "such" / "folder.json";
  const std::string words = error_of(ErrorKind::kIo, [&] { Timeline::start(path); });
  EXPECT_NE(words.find(path), std::string::npos) << words;
  EXPECT_FALSE(Timeline::is_running());
  error_of(ErrorKind::kIo, [&] { Timeline::start(folder_); });
  const std::string device = error_of(ErrorKind::kIo, [&] { Timeline::start("/dev/full"); });
  EXPECT_NE(device.find("not a regular file"), std::string::npos) << device;
  Timeline::start(file());  // and the next may work
  EXPECT_TRUE(Timeline::is_running());
}

// This program in a process of its own with SYSTOLE_TRACE, running one test that is otherwise off.
int traced_process(const std::string& test, const fs::path& trace) {
  std::string program = fs::read_symlink("/proc/self/exe").string(), filter = "--gtest_filter=" + test,
              off = "--gtest_also_run_disabled_tests", brief = "--gtest_brief=1";
  char* const arguments[] = {program.data(), filter.data(), off.data(), brief.data(), nullptr};
  ::setenv("SYSTOLE_TRACE", trace.c_str(), 1);
  pid_t child = -1;
  EXPECT_EQ(::posix_spawn(&child, program.c_str(), nullptr, nullptr, arguments, environ), 0);
  ::unsetenv("SYSTOLE_TRACE");
  int status = -1;
  EXPECT_EQ(::waitpid(child, &status, 0), child);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

// A variable that names the wrong file must not cost the file.
TEST_F(Timelines, AFileThatHoldsSomethingElseIsLeftAsItIs) {
  const auto holds = [&] {
    std::ifstream in(file(), std::ios::binary);
    return std::string(std::istreambuf_iterator<char>(in), {});
  };
  for (const std::string text :
       {"my thesis\n", "{\"traceEvents\":[]}", "{\"displayTimeUnit\":\"ns\",", "\n"}) {
    std::ofstream(file(), std::ios::binary | std::ios::trunc) << text;
    const std::string words = error_of(ErrorKind::kIo, [&] { Timeline::start(file()); });
    EXPECT_NE(words.find("trace.json: the timeline cannot be written: the file holds something else"),
              std::string::npos)
        << words;
    EXPECT_EQ(holds(), text);
    EXPECT_EQ(traced_process("TimelineChild.DISABLED_RunsWithAWarning", file()), 0);
    EXPECT_EQ(holds(), text);
  }
  // Through a link as well, and a pipe is not waited for.
  fs::create_symlink(file(), folder_ / "link.json");
  error_of(ErrorKind::kIo, [&] { Timeline::start(folder_ / "link.json"); });
  EXPECT_EQ(holds(), "\n");
  ASSERT_EQ(::mkfifo((folder_ / "pipe").c_str(), 0600), 0);
  error_of(ErrorKind::kIo, [&] { Timeline::start(folder_ / "pipe"); });
  // Empty, an older timeline, and one that a full disk cut short are replaced.
  for (const std::string text : {"", "{\"displayTimeUnit\":\"ms\",\"traceEvents\":[\n]}\n", "{\"displayT"}) {
    std::ofstream(file(), std::ios::binary | std::ios::trunc) << text;
    Timeline::start(file());
    Timeline::stop();
    EXPECT_NO_THROW(parsed(file())) << text;
  }
}

TEST_F(Timelines, TheNameMayHoldTheNumberOfTheProcess) {
  Timeline::start(folder_ / "trace-%p.json");
  Timeline::stop();
  EXPECT_TRUE(fs::exists(folder_ / ("trace-" + std::to_string(::getpid()) + ".json")));
}

TEST_F(Timelines, AChildOfForkLeavesTheFileAlone) {
  Timeline::start(file());
  {
    const Timeline::Scope scope("parent");
  }
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    {
      const Timeline::Scope scope("child");
    }
    const bool quiet = !Timeline::is_running();
    Timeline::stop();
    ::_exit(quiet ? 0 : 1);
  }
  int status = -1;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  Timeline::stop();
  EXPECT_EQ(spans(parsed(file())).size(), 1u);
}

TEST_F(Timelines, TheVariableTracesAProcessThatEndsByExit) {
  EXPECT_EQ(traced_process("TimelineChild.DISABLED_RunsAndExits", file()), 7);
  std::set<std::string> names;
  const Json trace = parsed(file());
  for (const Json& event : trace.at("traceEvents"))
    if (event.at("ph") == "X") names.insert(event.at("name"));
  EXPECT_TRUE(names.count("run child")) << trace.dump(1);
}

TEST_F(Timelines, AFileThatTheVariableNamesInVainIsOneWarning) {
  EXPECT_EQ(traced_process("TimelineChild.DISABLED_RunsWithAWarning", folder_ / "no" / "trace.json"), 0);
}

// A file may not grow beyond 2 KiB here: the end of the timeline does not fit.
TEST_F(Timelines, AFileThatCannotGrowStaysJsonAndIsOneWarning) {
  EXPECT_EQ(traced_process("TimelineChild.DISABLED_RunsOutOfSpace", file()), 0);
  EXPECT_NO_THROW(parsed(file()));
}

TEST_F(Timelines, AProcessDoesNotWriteOverTheFileThatItsParentWrites) {
  Timeline::start(file());
  {
    const Timeline::Scope scope("parent");
  }
  EXPECT_EQ(traced_process("TimelineChild.DISABLED_RunsWithAWarning", file()), 0);
  Timeline::stop();
  EXPECT_EQ(spans(parsed(file())).size(), 1u);
}

void run_child() {
  const ir::Graph graph = small_graph("child");
  compile(graph, "reference").run(ones(graph));
}

// What follows runs in processes of their own, which the tests above start; alone it proves nothing.
TEST(TimelineChild, DISABLED_RunsAndExits) {
  run_child();
  std::exit(7);
}

TEST(TimelineChild, DISABLED_RunsOutOfSpace) {
  run_child();
  rlimit limit{};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &limit), 0);
  limit.rlim_cur = 2048;
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &limit), 0);
  ASSERT_NE(std::signal(SIGXFSZ, SIG_IGN), SIG_ERR);
  for (int i = 0; i < 200; ++i) const Timeline::Scope scope("one of many");
  std::vector<std::string> warnings;
  set_log_sink([&](LogLevel, std::string_view message) { warnings.emplace_back(message); }, LogLevel::warn);
  Timeline::stop();
  set_log_sink({});
  ASSERT_EQ(warnings.size(), 1u);
  EXPECT_NE(warnings[0].find("trace.json: the timeline ends here: File too large"), std::string::npos);
}

TEST(TimelineChild, DISABLED_RunsWithAWarning) {
  int warnings = 0;
  set_log_sink(
      [&](LogLevel, std::string_view message) {
        if (message.find("trace.json") != std::string_view::npos) ++warnings;
      },
      LogLevel::warn);
  run_child();
  run_child();
  set_log_sink({});
  EXPECT_EQ(warnings, 1);
  EXPECT_FALSE(Timeline::is_running());
}

}  // namespace
}  // namespace systole
