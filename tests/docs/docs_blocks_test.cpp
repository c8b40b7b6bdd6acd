// Every block of README.md and docs/*.md is compiled, run and compared with what the page shows, or says in a
// comment why not (page.h). Each C++ block is a test in a folder of its own; the commands of a page are one
// test, in one folder, in the order of the page. The folder has the tree's examples/, and data/NAME where
// shared/data has it.

#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/wait.h>

#include <algorithm>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <map>
#include <set>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "agreement.h"
#include "blocks.h"
#include "page.h"
#include "systole/tensor/random.h"

namespace systole::docs {

namespace fs = std::filesystem;

namespace {

const fs::path kRoot = SYSTOLE_SOURCE_DIR;

using Place = std::pair<std::string, int>;

std::map<Place, void (*)()>& all_code() {
  static std::map<Place, void (*)()> code;
  return code;
}

}  // namespace

Registration::Registration(const char* page, int line, void (*run)()) { all_code()[{page, line}] = run; }

void (*code_of(const std::string& page, int line))() {
  const auto found = all_code().find({page, line});
  return found == all_code().end() ? nullptr : found->second;
}

void holds(bool is_true, const char* expression) { EXPECT_TRUE(is_true) << expression; }

namespace {

// What becomes of a block.
enum class Kind {
  program,
  shown_by_program,
  commands,
  shown_by_commands,
  output,
  file,
  quotation,
  not_run,
  unknown
};

bool is_shown_by_commands(const Block& block) {
  const Mark* mark = block.mark("shown by");
  return mark != nullptr && mark->text.starts_with("$ ");
}

Kind kind_of(const Block& block) {
  if (block.mark("printed") != nullptr) return Kind::output;
  if (block.mark("from") != nullptr) return Kind::quotation;
  if (block.mark("shown by") != nullptr)
    return is_shown_by_commands(block) ? Kind::shown_by_commands : Kind::shown_by_program;
  if (block.mark("file") != nullptr) return Kind::file;
  if (block.is_cpp()) return Kind::program;
  const Mark* not_run = block.mark("not run");
  if (not_run != nullptr && not_run->limited.empty()) return Kind::not_run;
  return block.language.empty() ? Kind::commands : Kind::unknown;
}

std::string where(const Page& page, const Block& block) {
  return page.name + ":" + std::to_string(block.line);
}

std::string text_of(const fs::path& file) {
  std::ifstream in(file, std::ios::binary);
  std::ostringstream text;
  text << in.rdbuf();
  return text.str();
}

fs::path shared_data() {
  const char* folder = std::getenv("SYSTOLE_SHARED");
  return (folder != nullptr ? fs::path(folder) : kRoot / "../shared") / "data";
}

// As pages call data sets, and as shared/data does.
const std::map<std::string, std::string> kData{
    {"mnist", "mnist"}, {"cifar10", "cifar-10"}, {"gpt2-tokenizer", "gpt2-tokenizer"}};

// The missing data sets that a block names, with a space before each.
std::string missing_data(const Block& block) {
  std::string text = block.text(), missing;
  for (const Mark& mark : block.marks) text += mark.text;
  for (const auto& [name, folder] : kData)
    if (text.find(name) != std::string::npos && !fs::exists(shared_data() / folder)) missing += " " + folder;
  return missing;
}

class PageTest : public testing::Test {
 public:
  explicit PageTest(Page page) : page_(std::move(page)) {}

 protected:
  void SetUp() override {
    std::string name = (fs::temp_directory_path() / "systole-docs-XXXXXX").string();
    ASSERT_NE(::mkdtemp(name.data()), nullptr);
    folder_ = name;
    random::seed(0);  // as in a new process
    before_ = fs::current_path();
    fs::current_path(folder_);
    fs::create_directory_symlink(kRoot / "examples", "examples");
    fs::create_directory_symlink(kRoot / "tests", "tests");
    fs::create_directory("build");
    fs::create_directory_symlink(SYSTOLE_BUILD_DIR "/examples", "build/examples");
    fs::create_directory("data");
    for (const auto& [here, there] : kData)
      if (fs::exists(shared_data() / there))
        fs::create_directory_symlink(shared_data() / there, "data/" + here);
#ifdef SYSTOLE_COMMAND
    fs::create_directory("bin");
    fs::create_symlink(SYSTOLE_COMMAND, "bin/systole");
    fs::create_symlink(SYSTOLE_COMMAND, "build/systole");
#endif
  }
  void TearDown() override {
    fs::current_path(before_);
    fs::remove_all(folder_);
  }

  // Runs what stands in or before a block, and gives what it prints, the message of an error last.
  std::string print_of(const Block& block) {
    void (*code)() = code_of(page_.name, block.line);
    if (code == nullptr) {
      ADD_FAILURE() << where(page_, block) << " was not compiled";
      return {};
    }
    testing::internal::CaptureStdout();
    try {
      code();
    } catch (const std::exception& error) {
      thrown_ = error.what();
    }
    std::cout.flush();
    return testing::internal::GetCapturedStdout();
  }

  Numbers numbers_of(const Block& block) {
    const Mark* mark = block.mark("numbers vary");
    return mark != nullptr ? numbers_that_vary(mark->limited) : Numbers{};
  }

  void compare(const Block& block, const std::vector<std::string>& shown, const std::string& printed) {
    std::string expected;
    for (const std::string& line : shown) expected += line + "\n";
    EXPECT_TRUE(lines_agree(shown, lines_of(printed), numbers_of(block)))
        << where(page_, block) << " shows\n"
        << expected << "and this is printed:\n"
        << printed;
  }

  const Page page_;
  fs::path folder_, before_;
  std::string thrown_;  // by the last code that was run
};

// What comments of a block that begin with a word say, in order.
std::vector<std::string> said(const Block& block, const std::string& word) {
  std::vector<std::string> all;
  for (const std::string& line : block.lines) {
    const std::size_t at = line.find("// " + word + " ");
    if (at != std::string::npos) all.push_back(line.substr(at + 4 + word.size()));
  }
  return all;
}

// A comment shows one line of those that are printed.
std::vector<std::string> with_others_between(const std::vector<std::string>& lines) {
  std::vector<std::string> all{"…"};
  for (const std::string& line : lines) all.insert(all.end(), {line, "…"});
  return all;
}

class ProgramTest : public PageTest {
 public:
  ProgramTest(Page page, std::size_t block) : PageTest(std::move(page)), index_(block) {}

 private:
  void TestBody() override {
    const Block& block = page_.blocks[index_];
    if (const std::string missing = missing_data(block); !missing.empty())
      GTEST_SKIP() << "no shared/data:" << missing;
    const std::string printed = print_of(block);
    if (block.mark("shown by") != nullptr) return compare(block, lines_of(block.text()), printed + thrown_);

    const std::vector<std::string> throws = said(block, "throws"), prints = said(block, "prints");
    if (throws.empty())
      EXPECT_EQ(thrown_, "") << where(page_, block);
    else
      compare(block, throws, thrown_);
    if (!prints.empty()) compare(block, with_others_between(prints), printed);
    if (index_ + 1 < page_.blocks.size() && kind_of(page_.blocks[index_ + 1]) == Kind::output) {
      const Block& output = page_.blocks[index_ + 1];
      compare(output, lines_of(output.text()), printed);
    }
  }

  const std::size_t index_;
};

#ifdef SYSTOLE_COMMAND

struct Command {
  std::string line;
  std::vector<std::string> shown;  // below it; nothing is compared when it is empty
};

// Lines that begin with a prompt are commands, others what they print; without any prompt every line is a
// command.
std::vector<Command> commands_of(const std::string& text) {
  const std::vector<std::string> lines = lines_of(text);
  const auto has_prompt = [](const std::string& line) { return line.starts_with("$ "); };
  const bool prompts = std::any_of(lines.begin(), lines.end(), has_prompt);
  std::vector<Command> commands;
  for (const std::string& line : lines) {
    if (has_prompt(line))
      commands.push_back({line.substr(2), {}});
    else if (!prompts)
      commands.push_back({line, {}});
    else if (!commands.empty())
      commands.back().shown.push_back(line);
  }
  return commands;
}

class CommandsTest : public PageTest {
 public:
  using PageTest::PageTest;

 private:
  // What the command prints on both streams.
  std::string output_of(const std::string& line, int* code) {
    const std::string script = "exec </dev/null >stdout.txt 2>&1\nPATH=\"$PWD/bin:$PATH\"\n" + line + "\n";
    std::ofstream("command.sh") << script;
    const int status = std::system("/bin/sh command.sh");
    *code = WIFEXITED(status) ? WEXITSTATUS(status) : 128;
    return text_of("stdout.txt");
  }

  // A command whose error the page shows fails; all others do not.
  std::string checked_output(const Block& block, const Command& command,
                             const std::vector<std::string>& shown) {
    int code = -1;
    std::string output = output_of(command.line, &code);
    const bool fails = std::any_of(shown.begin(), shown.end(),
                                   [](const std::string& line) { return line.find("error: ") != line.npos; });
    EXPECT_EQ(code != 0, fails) << where(page_, block) << ": " << command.line << "\n" << output;
    return output;
  }

  void run(const Block& block) {
    if (block.mark("given") != nullptr) {
      print_of(block);
      ASSERT_EQ(thrown_, "") << where(page_, block);
    }
    if (block.mark("file") != nullptr) std::ofstream(block.mark("file")->text) << block.text();
    if (is_shown_by_commands(block)) {
      std::string output;  // of the last command; those before it make ready
      const std::vector<std::string> shown = lines_of(block.text());
      const std::vector<Command> commands = commands_of(block.mark("shown by")->text);
      for (const Command& command : commands)
        output =
            checked_output(block, command, &command == &commands.back() ? shown : std::vector<std::string>{});
      return compare(block, shown, output);
    }
    if (block.mark("file") != nullptr) return;
    for (const Command& command : commands_of(block.text())) {
      if (is_left_out(block, command)) continue;
      const std::string output = checked_output(block, command, command.shown);
      if (!command.shown.empty()) compare(block, command.shown, output);
    }
  }

  static bool is_left_out(const Block& block, const Command& command) {
    return std::any_of(block.marks.begin(), block.marks.end(), [&](const Mark& mark) {
      return mark.kind == "not run" && command.line.starts_with(mark.limited);
    });
  }

  void TestBody() override {
    std::set<std::string> missing;
    for (std::size_t i = 0; i < page_.blocks.size(); ++i) {
      const Kind kind = kind_of(page_.blocks[i]);
      if (kind != Kind::commands && kind != Kind::shown_by_commands && kind != Kind::file) continue;
      if (const std::string none = missing_data(page_.blocks[i]); !none.empty())
        missing.insert(none);
      else
        run(page_.blocks[i]);
    }
    std::string names;
    for (const std::string& name : missing) names += name;
    if (!missing.empty()) GTEST_SKIP() << "blocks were left out, no shared/data:" << names;
  }
};

#endif

// Lines as they stand there, indentation apart; … stands for any lines.
bool stands_in(const std::vector<std::string>& lines, const std::vector<std::string>& text) {
  std::vector<std::string> pattern{"…"};
  pattern.insert(pattern.end(), lines.begin(), lines.end());
  pattern.push_back("…");
  return lines_agree(pattern, text);
}

TEST(DocsPages, QuotationsStandInTheFilesThatTheyAreFrom) {
  for (const std::string& name : page_names(kRoot))
    for (const Block& block : read_page(kRoot, name).blocks)
      if (const Mark* from = block.mark("from"))
        EXPECT_TRUE(stands_in(lines_of(block.text()), lines_of(text_of(kRoot / from->text))))
            << name << ":" << block.line << " does not stand in " << from->text << ":\n"
            << block.text();
}

TEST(DocsPages, EveryBlockIsRunOrSaysWhyNot) {
  std::map<std::string, int> counts;
  std::vector<std::string> marked;
  for (const std::string& name : page_names(kRoot)) {
    const Page page = read_page(kRoot, name);
    for (std::size_t i = 0; i < page.blocks.size(); ++i) {
      const Block& block = page.blocks[i];
      for (const Mark& mark : block.marks) {
        const std::string limit = mark.limited.empty() ? "" : " `" + mark.limited + "`";
        EXPECT_NE(mark.text, "") << where(page, block) << ": " << mark.kind << " says nothing";
        if (mark.kind == "not run") marked.push_back(where(page, block) + limit + ": " + mark.text);
      }
      const Mark* not_run = block.mark("not run");
      switch (kind_of(page.blocks[i])) {
        case Kind::program:
          EXPECT_NE(code_of(name, block.line), nullptr) << where(page, block) << " was not compiled";
          ++counts[not_run != nullptr ? "C++ compiled only" : "C++ run"];
          break;
        case Kind::shown_by_program:
          EXPECT_NE(code_of(name, block.line), nullptr) << where(page, block) << " was not compiled";
          ++counts["texts that a program prints"];
          break;
        case Kind::commands: ++counts["commands run"]; break;
        case Kind::shown_by_commands: ++counts["texts that a command prints"]; break;
        case Kind::output:
          EXPECT_TRUE(i > 0 && page.blocks[i - 1].is_cpp())
              << where(page, block) << ": no C++ stands before it";
          ++counts["outputs of C++ compared"];
          break;
        case Kind::quotation: ++counts["quotations of files that tests run"]; break;
        case Kind::not_run: ++counts["not run"]; break;
        case Kind::file: {
          // A file that no command of the page reads proves nothing.
          const std::string file = block.mark("file")->text;
          const bool is_read = std::any_of(page.blocks.begin(), page.blocks.end(), [&](const Block& other) {
            const Mark* by = other.mark("shown by");
            return (other.line > block.line && other.text().find(file) != std::string::npos) ||
                   (by != nullptr && by->text.find(file) != std::string::npos);
          });
          EXPECT_TRUE(is_read) << where(page, block) << ": no command reads " << file;
          ++counts["files that commands read"];
          break;
        }
        case Kind::unknown:
          ADD_FAILURE() << where(page, block) << ": a block of " << block.language
                        << " that nothing compares";
      }
    }
  }
  for (const auto& [what, count] : counts) std::cout << count << " blocks: " << what << "\n";
  std::cout << marked.size() << " marks say why something is not run:\n";
  for (const std::string& mark : marked) std::cout << "  " << mark << "\n";
}

TEST(DocsPages, AgreementMasksTimesAndTakesDotsForAnything) {
  EXPECT_TRUE(line_agrees("epoch 1/5  2.2 s  28k/s  loss 0.3386", "epoch 1/5 11.0 s 7.9k/s  loss 0.3386"));
  EXPECT_TRUE(line_agrees("cuda: 0.139 ms, first 0.152 ms", "cuda: 1 ms, first 20 ms"));
  EXPECT_FALSE(line_agrees("epoch 1/5  2.2 s  loss 0.3386", "epoch 1/5  2.2 s  loss 0.3387"));
  EXPECT_FALSE(line_agrees("10 kernels", "11 kernels"));
  EXPECT_TRUE(line_agrees("loss …, f32[2]", "loss 0.5, f32[2]"));
  EXPECT_TRUE(line_agrees("loss 0.500, of 10", "loss 0.505, of 10", {.within = 0.02}));
  EXPECT_FALSE(line_agrees("loss 0.500, of 10", "loss 0.515, of 10", {.within = 0.02}));
  EXPECT_FALSE(line_agrees("loss 0.500, of 10", "loss 0.505, of 11", {.within = 0.02}));
  EXPECT_TRUE(line_agrees("loss 0.5, of 10", "loss -1e-5, of 12", {.are_any = true}));
  EXPECT_FALSE(line_agrees("loss 0.5, of 10", "loss, of 12", {.are_any = true}));
  EXPECT_TRUE(lines_agree({"a", "…", "d"}, {"a", "b", "c", "d"}));
  EXPECT_TRUE(lines_agree({"a", "…"}, {"a"}));
  EXPECT_FALSE(lines_agree({"a", "b"}, {"a", "b", "c"}));
  EXPECT_FALSE(lines_agree({"a", "…", "d"}, {"a", "b", "c"}));
}

template <class Test, class... Arguments>
void add_test(const std::string& suite, const std::string& name, const Page& page, Arguments... arguments) {
  testing::RegisterTest(suite.c_str(), name.c_str(), nullptr, nullptr, __FILE__, __LINE__,
                        [=]() -> testing::Test* { return new Test(page, arguments...); });
}

void add_tests() {
  for (const std::string& name : page_names(kRoot)) {
    const Page page = read_page(kRoot, name);
    bool commands = false, slow = false;
    for (std::size_t i = 0; i < page.blocks.size(); ++i) {
      const Block& block = page.blocks[i];
      const Kind kind = kind_of(page.blocks[i]);
      const bool is_program = kind == Kind::program && block.mark("not run") == nullptr;
      const std::string suite = block.mark("slow") != nullptr ? "SlowDocs" : "Docs";
      if (is_program || kind == Kind::shown_by_program)
        add_test<ProgramTest>(suite, identifier(name) + "_line_" + std::to_string(block.line), page, i);
      if (kind != Kind::commands && kind != Kind::shown_by_commands) continue;
      commands = true;
      slow = slow || block.mark("slow") != nullptr;
    }
#ifdef SYSTOLE_COMMAND
    if (commands) add_test<CommandsTest>(slow ? "SlowDocs" : "Docs", identifier(name) + "_commands", page);
#endif
  }
}

}  // namespace
}  // namespace systole::docs

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  ::setenv("CUDA_VISIBLE_DEVICES", "-1", 1);  // pages show what is printed without a GPU
  try {
    systole::docs::add_tests();
  } catch (const std::exception& error) {  // a page that cannot be read
    std::cerr << error.what() << "\n";
    return 1;
  }
  return RUN_ALL_TESTS();
}
