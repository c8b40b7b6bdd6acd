// Kernels of the processor: the same numbers from every instruction set and every compiler, and a cache that
// survives damage, many processes and folders that cannot be written.

#include "backend/cpu/jit.h"

#include <gtest/gtest.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cmath>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <iterator>
#include <optional>
#include <random>
#include <thread>

#include "backend/cpu/executor.h"
#include "backend/cpu/jit_compilers.h"
#include "base/log.h"
#include "error_check.h"
#include "eval/eval.h"
#include "generated_only.h"
#include "sanitized.h"
#include "scratch_folder.h"
#include "systole/ir/text.h"

extern char** environ;

namespace systole::cpu {
namespace {

namespace fs = std::filesystem;

std::vector<Literal> run_module(const ir::Graph& graph, const std::vector<Literal>& arguments,
                                const KernelOptions& options) {
  const std::shared_ptr<const Module> module = make_module(graph, false, options);
  EXPECT_EQ(module->library == nullptr, options.jit == "portable");
  std::vector<Literal> held, results;
  std::vector<std::byte*> inputs, outputs;
  for (const Literal& x : arguments) held.push_back(Literal::copy_of(x.type(), x.as_bytes()));
  for (Literal& x : held) inputs.push_back(x.mutable_bytes());
  for (const lower::BufferId b : module->program.outputs)
    results.push_back(Literal(module->program.buffers[static_cast<std::size_t>(b)].type));
  for (Literal& x : results) outputs.push_back(x.mutable_bytes());
  std::vector<std::byte> arena(static_cast<std::size_t>(module->program.arena_bytes) + 64);
  Executor(module->compiled)
      .run(inputs, outputs, arena.data() + (64 - reinterpret_cast<std::uintptr_t>(arena.data()) % 64));
  return results;
}

struct Case {
  std::string name, inputs, statements;
  ir::Op op;         // whose tolerance holds
  double terms = 1;  // of a sum
};

ir::Graph graph_of(const Case& c) {
  return ir::parse("systole.ir 1\ngraph @main(" + c.inputs + ") {\n" + c.statements + "\n}\n");
}

std::vector<Literal> arguments_of(const ir::Graph& graph) {
  std::mt19937 random(11);
  std::vector<Literal> arguments;
  for (std::size_t i = 0; i < graph.inputs().size(); ++i) {
    Literal value = Literal::uninitialized(graph.input_type(i));
    visit_dtype(value.dtype(), [&]<class T>() {
      for (T& x : value.mutable_values<T>())
        x = static_cast<T>(static_cast<double>(random() % 6001) / 1000 - 3);
    });
    arguments.push_back(std::move(value));
  }
  return arguments;
}

Literal absolute(const Literal& x) {
  Literal out = Literal::copy_of(x.type(), x.as_bytes());
  visit_dtype(x.dtype(), [&]<class T>() {
    if constexpr (!std::is_integral_v<T>)
      for (T& v : out.mutable_values<T>()) v = static_cast<T>(std::abs(static_cast<double>(v)));
  });
  return out;
}

// As evaluated, within c·eps·√K of the sum of absolute products for contractions, of the value otherwise.
void expect_as_evaluated(const Case& c, const KernelOptions& options) {
  const ir::Graph graph = graph_of(c);
  const std::vector<Literal> arguments = arguments_of(graph), wanted = eval::evaluate(graph, arguments),
                             got = run_module(graph, arguments, options);
  std::vector<Literal> magnitudes;
  for (const Literal& x : arguments) magnitudes.push_back(absolute(x));
  const bool sums = ir::info(c.op).op_class == ir::OpClass::contraction;
  const std::vector<Literal> scales = sums ? eval::evaluate(graph, magnitudes) : wanted;
  ASSERT_EQ(got.size(), wanted.size());
  for (std::size_t o = 0; o < wanted.size(); ++o) {
    ASSERT_EQ(got[o].type().to_string(), wanted[o].type().to_string());
    const double eps = wanted[o].dtype() == DType::f64    ? 0x1p-52
                       : wanted[o].dtype() == DType::bf16 ? 0x1p-7
                                                          : 0x1p-23;
    const std::vector<double> a = got[o].to_doubles(), b = wanted[o].to_doubles(),
                              scale = scales[o].to_doubles();
    for (std::size_t i = 0; i < a.size(); ++i)
      ASSERT_LE(std::abs(a[i] - b[i]),
                ir::info(c.op).tolerance * eps * std::sqrt(c.terms) * std::abs(scale[i]) + 1e-45)
          << c.name << ", " << options.isa << " " << options.jit << ", output " << o << ", element " << i
          << ": " << a[i] << ", evaluated " << b[i];
  }
}

// Every size from 1 to 67 of one elementwise function: whole vectors, tails, and both.
Case tails() {
  Case c{"tails", "", "", ir::Op::add};
  std::string results;
  for (int n = 1; n <= 67; ++n) {
    const std::string i = std::to_string(n), comma = n > 1 ? ", " : "";
    c.inputs += comma + "%x" + i + ": f32[" + i + "]";
    c.statements +=
        "%a" + i + " = add(%x" + i + ", %x" + i + ")\n%y" + i + " = max(%a" + i + ", %x" + i + ")\n";
    results += comma + "%y" + i;
  }
  c.statements += "return " + results;
  return c;
}

const std::vector<Case>& cases() {
  static const std::vector<Case> all = {
      tails(),
      {"exp tanh erf", "%x: f32[67], %y: f32[3, 16]",
       "%a = exp(%x)\n%b = tanh(%x)\n%c = erf(%x)\n%d = exp(%y)\n%e = tanh(%y)\nreturn %a, %b, %c, %d, %e",
       ir::Op::exp},
      {"f64 by libm", "%x: f64[19], %y: f64[19]",
       "%a = exp(%x)\n%b = rem(%x, %y)\n%c = tanh(%x)\nreturn %a, %b, %c", ir::Op::exp},
      {"softmax of rows", "%x: f32[5, 37]",
       "%m = reduce(%x) {kind=max, axes=[1]}\n%mb = broadcast(%m) {shape=[5, 37], axes=[0]}\n"
       "%c = sub(%x, %mb)\n%e = exp(%c)\n%s = reduce(%e) {kind=sum, axes=[1]}\n"
       "%sb = broadcast(%s) {shape=[5, 37], axes=[0]}\n%y = div(%e, %sb)\nreturn %y",
       ir::Op::exp, 37},
      {"dot", "%x: f32[13, 31], %w: f32[31, 71]",
       "%y = dot_general(%x, %w) {a_contract=[1], b_contract=[0]}\nreturn %y", ir::Op::dot_general, 31},
      {"convolution", "%x: f32[2, 9, 8, 3], %k: f32[3, 3, 3, 5]",
       "%y = convolution(%x, %k) {layout=\"b01f_01io->b01f\", strides=[2, 1], pad_low=[1, 1], "
       "pad_high=[1, 1]}\nreturn %y",
       ir::Op::convolution, 27},
      {"to bf16 and back", "%x: f32[67], %y: bf16[67]",
       "%a = convert(%x) {dtype=bf16}\n%b = convert(%y) {dtype=f32}\n%c = add(%a, %y)\nreturn %a, %b, %c",
       ir::Op::add}};
  return all;
}

// C whose kernel writes `value`.
std::string source_writing(int value) {
  return "void k(void* const* b, long long begin, long long end) {\n"
         "  for (long long i = begin; i < end; ++i) ((float*)b[0])[i] = " +
         std::to_string(value) + ";\n}\n";
}

float written_by(const Library& library) {
  float out = 0;
  void* const buffers[] = {&out};
  library.find("k")(buffers, 0, 1);
  return out;
}

bool has_module() { return clang_module() != nullptr; }
bool has_command() { return !compiler_commands().empty(); }

class CpuJit : public ScratchFolder {
 protected:
  CpuJit() {
    ::setenv("SYSTOLE_CACHE_DIR", (folder_ / "cache").c_str(), 1);
    ::unsetenv("SYSTOLE_JIT");
    ::unsetenv("SYSTOLE_ISA");
  }

  std::vector<fs::path> entries() const {
    std::vector<fs::path> files;
    std::error_code none;
    for (const auto& file : fs::directory_iterator(folder_ / "cache" / "compiled", none))
      files.push_back(file.path());
    return files;
  }

  // This program in a process of its own, running one test that is otherwise off.
  static pid_t start(const std::string& test) {
    std::string program = fs::read_symlink("/proc/self/exe").string(), filter = "--gtest_filter=" + test,
                off = "--gtest_also_run_disabled_tests", brief = "--gtest_brief=1";
    char* const arguments[] = {program.data(), filter.data(), off.data(), brief.data(), nullptr};
    pid_t child = -1;
    EXPECT_EQ(::posix_spawn(&child, program.c_str(), nullptr, nullptr, arguments, environ), 0);
    return child;
  }
  static bool succeeded(pid_t child) {
    int status = -1;
    EXPECT_EQ(::waitpid(child, &status, 0), child);
    return WIFEXITED(status) && WEXITSTATUS(status) == 0;
  }
};

TEST_F(CpuJit, EveryInstructionSetGivesWhatTheEvaluatorGives) {
  if (!has_module() && !has_command()) GTEST_SKIP() << "no compiler";
  for (const std::string& isa : instruction_sets())
    for (const Case& c : cases()) expect_as_evaluated(c, {.isa = isa});
}

TEST_F(CpuJit, ClangInProcessACommandAndNoKernelsAgree) {
  for (const std::string jit : {"clang", "cc", "portable"}) {
    if ((jit == "clang" && !has_module()) || (jit == "cc" && !has_command())) continue;
    for (const Case& c : {cases()[1], cases()[2], cases()[3]}) expect_as_evaluated(c, {.jit = jit});
  }
}

TEST_F(CpuJit, AnInstructionSetThatTheProcessorLacksIsNamed) {
  EXPECT_EQ(instruction_set({}, {"avx2", "sse2"}), "avx2");
  EXPECT_EQ(instruction_set({.isa = "sse2"}, {"avx2", "sse2"}), "sse2");
  const std::string lacking =
      error_of(ErrorKind::kUnsupported, [] { instruction_set({.isa = "avx512"}, {"avx2", "sse2"}); });
  EXPECT_NE(lacking.find("avx512"), std::string::npos) << lacking;
  EXPECT_NE(lacking.find("avx2, sse2"), std::string::npos) << lacking;
  ::setenv("SYSTOLE_ISA", "mmx", 1);
  const std::string unknown = error_of(ErrorKind::kInvalidArgument, [] { instruction_set(); });
  EXPECT_NE(unknown.find("SYSTOLE_ISA"), std::string::npos) << unknown;
  ::setenv("SYSTOLE_ISA", "sse2", 1);
  EXPECT_EQ(instruction_set(), "sse2");
  ::unsetenv("SYSTOLE_ISA");
}

TEST_F(CpuJit, TheDeviceSaysWhoMakesItsKernels) {
  EXPECT_NE(kernels_in_words({.jit = "portable"}).find("without kernels"), std::string::npos);
  ::setenv("SYSTOLE_JIT", "portable", 1);
  EXPECT_EQ(compile_kernels(source_writing(1)), nullptr);
  EXPECT_NE(kernels_in_words().find("SYSTOLE_JIT"), std::string::npos);
  ::setenv("SYSTOLE_JIT", "tcc", 1);
  error_of(ErrorKind::kInvalidArgument, [] { kernels_in_words(); });
  ::unsetenv("SYSTOLE_JIT");
  if (has_module()) {
    EXPECT_EQ(kernels_in_words({.isa = "sse2"}), "kernels by clang in process, sse2");
  }
}

TEST_F(CpuJit, LibrariesThatAreLoadedAtOneTimeKeepTheirOwnFunctions) {
  if (!has_module() && !has_command()) GTEST_SKIP() << "no compiler";
  std::vector<std::shared_ptr<const Library>> libraries;
  for (int i = 0; i < 5; ++i) libraries.push_back(compile_kernels(source_writing(i)));
  for (int i = 0; i < 5; ++i) EXPECT_EQ(written_by(*libraries[static_cast<std::size_t>(i)]), i);
}

TEST_F(CpuJit, ThreadsCompileAtTheSameTime) {
  if (!has_module()) GTEST_SKIP() << "no clang in process";
  std::vector<std::thread> threads;
  std::atomic<int> wrong{0};
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&wrong, t] {
      for (int n = 0; n < 3; ++n)
        if (written_by(*compile_kernels(source_writing(10 * t + n), {.jit = "clang"})) !=
            static_cast<float>(10 * t + n))
          ++wrong;
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
}

TEST_F(CpuJit, SourceThatIsRefusedGivesTheCompilersWordsAndTheNextIsCompiled) {
  for (const std::string jit : {"clang", "cc"}) {
    if (jit == "clang" ? !has_module() : !has_command()) continue;
    const std::string words = error_of(
        ErrorKind::kInternal, [&] { compile_kernels("void k(void) { no_such_type x; }", {.jit = jit}); });
    EXPECT_NE(words.find("no_such_type"), std::string::npos) << words;
    // An include finds nothing of the machine, whose headers are no part of a kernel.
    if (jit == "clang")
      error_of(ErrorKind::kInternal, [&] { compile_kernels("#include <stdio.h>\n", {.jit = jit}); });
    EXPECT_EQ(written_by(*compile_kernels(source_writing(3), {.jit = jit})), 3);
  }
  EXPECT_EQ(entries().size(), (has_module() ? 1u : 0u) + (has_command() ? 1u : 0u));
}

TEST_F(CpuJit, AKernelThatNeedsAFunctionThatIsNotThereDoesNotLoad) {
  if (!has_module()) GTEST_SKIP() << "no clang in process";
  const std::string words = error_of(ErrorKind::kUnsupported, [] {
    compile_kernels("void no_such_function(void); void k(void) { no_such_function(); }", {.jit = "clang"});
  });
  EXPECT_NE(words.find("no_such_function"), std::string::npos) << words;
  EXPECT_TRUE(entries().empty());
}

TEST_F(CpuJit, ACrashOfTheCompilerLeavesTheWorkToTheNextAndTheProcessAlive) {
  if (!has_module() || !has_command()) GTEST_SKIP() << "not two compilers";
  if (kSanitized) GTEST_SKIP() << "what a crash leaves behind is an error to a sanitizer";
  EXPECT_TRUE(succeeded(start("CpuJitChild.DISABLED_SurvivesACrashOfClang")));
  EXPECT_TRUE(succeeded(start("CpuJitChild.DISABLED_SurvivesAFatalErrorOfLlvm")));
}

TEST_F(CpuJit, AModuleThatIsNotOursIsRefused) {
  if (!has_command()) GTEST_SKIP() << "no compiler";
  int count = 0;
  const auto refusal = [&](const std::string& bytes) {
    // A folder each: the loader takes a path that it has seen for the library it has.
    const fs::path place = folder_ / std::to_string(++count);
    fs::create_directory(place);
    std::ofstream(place / "libsystole_clang.so", std::ios::binary) << bytes;
    ::setenv("SYSTOLE_CLANG_PATH", place.c_str(), 1);
    const std::unique_ptr<Compiler> module = clang_module();
    ::unsetenv("SYSTOLE_CLANG_PATH");
    return error_of(ErrorKind::kUnsupported, [&] { module->compile("", {}); });
  };
  const auto library = [](const std::string& source) {
    return compiler_commands().at(0)->compile(source, {"-fPIC"});
  };
  EXPECT_NE(refusal("not a library").find("does not load"), std::string::npos);
  EXPECT_NE(refusal(library("int x;")).find("not the compiler module"), std::string::npos);
  const std::string words =
      refusal(library("const char* systole_clang_build(void) { return \"0.0.1 clang 3\"; }\n"
                      "void systole_clang_compile(void) {}\nvoid systole_clang_free(void) {}\n"));
  EXPECT_NE(words.find("another build"), std::string::npos) << words;
  EXPECT_NE(words.find("0.0.1 clang 3"), std::string::npos) << words;
}

TEST_F(CpuJit, BytesThatAreNoLibraryDoNotLoad) {
  EXPECT_EQ(load_library(""), nullptr);
  EXPECT_EQ(load_library(std::string(5000, 'x')), nullptr);
  EXPECT_EQ(load_library("\x7f"
                         "ELF"),
            nullptr);
}

TEST_F(CpuJit, ADamagedEntryOfTheCacheIsMadeAnew) {
  if (!has_module() && !has_command()) GTEST_SKIP() << "no compiler";
  const std::string source = source_writing(7);
  ASSERT_EQ(written_by(*compile_kernels(source)), 7);
  ASSERT_EQ(entries().size(), 1u);
  const fs::path file = entries()[0];
  std::ifstream in(file, std::ios::binary);
  const std::string whole{std::istreambuf_iterator<char>(in), {}};
  std::string flipped = whole;
  flipped[whole.size() / 2] = static_cast<char>(flipped[whole.size() / 2] ^ 0x10);
  for (const std::string& damaged : {flipped, whole.substr(0, whole.size() / 2), whole.substr(0, 10),
                                     std::string(), std::string(3000, 'z')}) {
    std::ofstream(file, std::ios::binary | std::ios::trunc) << damaged;
    EXPECT_EQ(written_by(*compile_kernels(source)), 7);
    std::ifstream again(file, std::ios::binary);
    EXPECT_EQ(std::string(std::istreambuf_iterator<char>(again), {}), whole);
  }
}

TEST_F(CpuJit, ACacheThatCannotBeWrittenCostsACompilationOnly) {
  if (!has_module() && !has_command()) GTEST_SKIP() << "no compiler";
  std::ofstream(folder_ / "file") << "in the way";
  ::setenv("SYSTOLE_CACHE_DIR", (folder_ / "file").c_str(), 1);
  EXPECT_EQ(written_by(*compile_kernels(source_writing(8))), 8);
  EXPECT_EQ(written_by(*compile_kernels(source_writing(8))), 8);
  ::setenv("SYSTOLE_CACHE", "0", 1);
  EXPECT_EQ(written_by(*compile_kernels(source_writing(9))), 9);
  ::unsetenv("SYSTOLE_CACHE");
}

TEST_F(CpuJit, ProcessesShareOneCache) {
  if (!has_module() && !has_command()) GTEST_SKIP() << "no compiler";
  std::vector<pid_t> children;
  for (int i = 0; i < 4; ++i) children.push_back(start("CpuJitChild.DISABLED_CompilesTwoSources"));
  for (const pid_t child : children) EXPECT_TRUE(succeeded(child));
  EXPECT_EQ(entries().size(), 2u);  // and no half-written file
  for (const fs::path& file : entries()) EXPECT_EQ(file.extension(), ".systole");
}

TEST_F(CpuJit, AWarmStartLoadsNoCompiler) {
  if (!has_module()) GTEST_SKIP() << "no clang in process";
  ASSERT_TRUE(succeeded(start("CpuJitChild.DISABLED_CompilesTwoSources")));
  EXPECT_TRUE(succeeded(start("CpuJitChild.DISABLED_FindsTwoSourcesWithoutLlvm")));
}

// The ladder is looked up once, so each setting has a process of its own.
class CpuJitLadder : public CpuJit {
 protected:
  // Without clang in this process, and with an empty PATH unless there is a program for it.
  bool passes(const std::string& test, const std::string& cc, const std::string& path,
              const std::string& scratch = "") {
    const std::pair<const char*, std::string> settings[] = {{"CC", cc},
                                                            {"PATH", path},
                                                            {"TMPDIR", scratch},
                                                            {"SYSTOLE_CACHE", "0"},
                                                            {"SYSTOLE_CLANG_PATH", folder_ / "none"}};
    std::vector<std::optional<std::string>> old;
    for (const auto& [name, value] : settings) {
      const char* const before = std::getenv(name);
      old.push_back(before != nullptr ? std::optional<std::string>(before) : std::nullopt);
      value.empty() ? ::unsetenv(name) : ::setenv(name, value.c_str(), 1);
    }
    const bool passed = succeeded(start(test));
    for (std::size_t i = 0; i < old.size(); ++i)
      old[i] ? ::setenv(settings[i].first, old[i]->c_str(), 1) : ::unsetenv(settings[i].first);
    return passed;
  }
  std::string here() const { return (folder_ / "none").string(); }
};

TEST_F(CpuJitLadder, ACommandThatCannotCompileLeavesTheWorkToTheNext) {
  if (!has_command()) GTEST_SKIP() << "no compiler";
  for (const char* bad : {"/bin/false", "/bin/true", "/bin/sh -c false"})
    EXPECT_TRUE(passes("CpuJitChild.DISABLED_CompilesAndTellsWhyNotByCc", bad, std::getenv("PATH"))) << bad;
}

TEST_F(CpuJitLadder, WithoutACompilerThatWorksStepsAreEvaluated) {
  EXPECT_TRUE(passes("CpuJitChild.DISABLED_HasNoKernels", "/bin/false", here()));
  EXPECT_TRUE(passes("CpuJitChild.DISABLED_HasNoKernels", "/no/such/compiler", here()));
}

TEST_F(CpuJitLadder, AScratchFolderThatCannotBeMadeIsNoError) {
  if (!has_command()) GTEST_SKIP() << "no compiler";
  for (const char* scratch : {"/proc", "/no/such/folder"})
    EXPECT_TRUE(passes("CpuJitChild.DISABLED_HasNoKernels", "", std::getenv("PATH"), scratch)) << scratch;
}

TEST_F(CpuJitLadder, ACommandThatWorksAndRefusesAKernelIsAnError) {
  if (!has_command()) GTEST_SKIP() << "no compiler";
  EXPECT_TRUE(passes("CpuJitChild.DISABLED_RefusesAKernel", "", std::getenv("PATH")));
}

// It was taken for a compiler that does not work: all kernels were left to the evaluator, and only the log
// said so.
TEST_F(CpuJit, AVariableWithAWrongValueIsAnErrorAndNoReasonToWorkWithoutKernels) {
  const std::pair<const char*, const char*> settings[] = {{"SYSTOLE_CACHE", "/tmp/folder"},
                                                          {"SYSTOLE_CACHE", "maybe"},
                                                          {"SYSTOLE_CACHE_LIMIT", "much"},
                                                          {"SYSTOLE_CACHE_MIN_MS", "soon"}};
  for (const auto& [name, value] : settings) {
    ::setenv(name, value, 1);
    const std::string message =
        error_of(ErrorKind::kInvalidArgument, [] { compile_kernels(source_writing(3)); });
    ::unsetenv(name);
    EXPECT_NE(message.find(name), std::string::npos) << message;
    EXPECT_NE(message.find(value), std::string::npos) << message;
    if (value[0] == '/') {
      EXPECT_NE(message.find("SYSTOLE_CACHE_DIR names the folder"), std::string::npos) << message;
    }
  }
}

std::vector<std::string> warnings_of(const std::function<void()>& work) {
  std::vector<std::string> warnings;
  set_log_sink([&](LogLevel, std::string_view message) { warnings.emplace_back(message); }, LogLevel::warn);
  work();
  set_log_sink({});
  return warnings;
}

// What follows runs in processes of their own, which the tests above start; alone it proves nothing.
TEST(CpuJitChild, DISABLED_CompilesAndTellsWhyNotByCc) {
  EXPECT_NE(kernels_in_words().find("kernels by /bin/"), std::string::npos);  // nothing is tried for words
  std::vector<std::string> warnings = warnings_of([] {
    EXPECT_EQ(written_by(*compile_kernels(source_writing(3))), 3);
    EXPECT_EQ(written_by(*compile_kernels(source_writing(4))), 4);
  });
  std::erase_if(warnings, [](const std::string& w) { return w.find("SYSTOLE_CLANG_PATH") != w.npos; });
  ASSERT_EQ(warnings.size(), 1u);
  EXPECT_NE(warnings[0].find(std::string(std::getenv("CC")).substr(0, 7)), std::string::npos) << warnings[0];
  EXPECT_EQ(kernels_in_words().find("/bin/false"), std::string::npos);
}

TEST(CpuJitChild, DISABLED_HasNoKernels) {
  const std::vector<std::string> warnings = warnings_of([] {
    EXPECT_EQ(compile_kernels(source_writing(3)), nullptr);
    EXPECT_EQ(compile_kernels(source_writing(4)), nullptr);
  });
  EXPECT_LE(warnings.size(), 3u);  // of two variables, and of all compilers together
  EXPECT_FALSE(makes_kernels());
  EXPECT_NE(kernels_in_words().find("without kernels"), std::string::npos);
  for (const CompilerState& state : compiler_states()) EXPECT_FALSE(state.trouble.empty()) << state.name;
  ::setenv("SYSTOLE_JIT", "cc", 1);  // what is asked for must work
  const std::string words = error_of(ErrorKind::kUnsupported, [] { compile_kernels(source_writing(5)); });
  EXPECT_FALSE(words.empty());
}

TEST(CpuJitChild, DISABLED_RefusesAKernel) {
  error_of(ErrorKind::kInternal, [] { compile_kernels("void k(void) { no_such_type x; }"); });
  EXPECT_EQ(written_by(*compile_kernels(source_writing(3))), 3);
}

void compile_two() {
  ASSERT_EQ(written_by(*compile_kernels(source_writing(21))), 21);
  ASSERT_EQ(written_by(*compile_kernels(source_writing(22))), 22);
}

TEST(CpuJitChild, DISABLED_CompilesTwoSources) { compile_two(); }

TEST(CpuJitChild, DISABLED_FindsTwoSourcesWithoutLlvm) {
  compile_two();
  std::ifstream maps("/proc/self/maps");
  const std::string text{std::istreambuf_iterator<char>(maps), {}};
  EXPECT_EQ(text.find("libLLVM"), std::string::npos);
  EXPECT_EQ(text.find("libsystole_clang"), std::string::npos);
}

// clang has these faults for its own tests; a command has them in a process of its own.
void survive(const std::string& fault) {
  ::setenv("CC", "gcc", 1);
  const std::string source = "#pragma clang __debug " + fault + "\n" + source_writing(5);
  const std::string words =
      error_of(ErrorKind::kUnsupported, [&] { compile_kernels(source, {.jit = "clang"}); });
  EXPECT_NE(words.find("crashed"), std::string::npos) << words;
  ASSERT_EQ(written_by(*compile_kernels(source_writing(6))), 6);
  error_of(ErrorKind::kUnsupported, [] { compile_kernels(source_writing(7), {.jit = "clang"}); });
}

TEST(CpuJitChild, DISABLED_SurvivesACrashOfClang) { survive("crash"); }
TEST(CpuJitChild, DISABLED_SurvivesAFatalErrorOfLlvm) { survive("llvm_fatal_error"); }

}  // namespace
}  // namespace systole::cpu
