// The entry point: reads the command line, runs the subcommand and turns errors into a line on stderr and an
// exit code.

#include <fmt/format.h>
#include <algorithm>
#include <csignal>
#include <cstdio>
#include <exception>
#include <functional>
#include <map>
#include <new>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/env.h"
#include "base/log.h"
#include "base/nearest.h"
#include "base/printable.h"
#include "cli/child_commands.h"
#include "cli/cli.h"
#include "cli/options.h"
#include "cli/terminal.h"
#include "systole/base/error.h"

namespace systole::cli {

namespace {

constexpr int kFailed = 1, kWrongUsage = 2;

constexpr const char* kExamples = R"(Examples:
  Train a model on the digits that are part of the program, and see how good it is:
    systole train --model mlp --data digits --out run
    systole evaluate run --report
  Begin a project of your own:
    systole new fruit --template csv
  Run a graph on two arrays and print the results:
    systole run model.sir --in x.npy w.npy

`systole COMMAND --help` explains a command. docs/command_line.md leads through training, docs/ir.md describes
graphs.)";

int report(int code, std::string_view message) {
  std::fflush(stdout);
  fmt::print(stderr, "systole: error: {}\n", printable(message));
  return code;
}

std::string usage_hint(const std::string& command) {
  return fmt::format("; see systole {}{}--help", command, command.empty() ? "" : " ");
}

// CLI11 calls a wrong command an unexpected argument; say what was meant instead. Empty when the command is
// known.
std::string unknown_command(int argc, char** argv) {
  if (argc < 2 || argv[1][0] == '-') return {};
  std::vector<std::string_view> names;
  for (const Command& command : kCommands) names.push_back(command.name);
  if (std::find(names.begin(), names.end(), argv[1]) != names.end()) return {};
  const std::string_view meant = nearest(argv[1], names);
  return fmt::format("there is no command '{}'; {}", argv[1],
                     meant.empty() ? "see systole --help" : fmt::format("did you mean '{}'?", meant));
}

// A command's old name becomes the present one.
void rename_old_command(int argc, char** argv) {
  if (argc < 2) return;
  for (const OldName& name : kOldNames) {
    if (argv[1] != name.old) continue;
    fmt::print(stderr, "systole: note: `systole {0}` is now `systole {1}`; {0} still works\n", name.old,
               name.now);
    static std::string now;
    now = name.now;
    argv[1] = now.data();
    return;
  }
}

int run(int argc, char** argv) {
  rename_old_command(argc, argv);
  CommandLine line(
      "Systole trains, measures and uses models on any device, and runs the graphs they are made of.",
      "systole", "systole " SYSTOLE_VERSION);
  std::map<std::string, Action> actions;
  for (const Command& command : kCommands)
    actions[command.name] = command.add(*line.add_command(command.name, command.summary));
  line.footer(kExamples);
  if (const std::string message = unknown_command(argc, argv); !message.empty())
    return report(kWrongUsage, message);
  if (argc == 1) {
    fmt::print(stderr, "{}", line.help());
    return kWrongUsage;
  }
  const Parsed parsed = line.parse(argc, argv);
  switch (parsed.kind) {
    case Parsed::Kind::help: put(parsed.text); break;
    case Parsed::Kind::version: put(parsed.text + "\n"); break;
    case Parsed::Kind::wrong:  // one that is a question has the hint in it
      return report(kWrongUsage,
                    parsed.text + (parsed.text.ends_with('?') ? std::string() : usage_hint(parsed.command)));
    case Parsed::Kind::command:
      try {
        const int code = actions.at(parsed.command)();
        flush_output();
        return code;
      } catch (const UsageError& error) {
        return report(kWrongUsage, error.what() + usage_hint(parsed.command));
      }
  }
  flush_output();
  return 0;
}

int run_guarded(int argc, char** argv) try {
  // Before anything reads one where nobody can say so; doctor reports them all.
  if (argc < 2 || std::string_view(argv[1]) != "doctor") env::check();
  return run(argc, argv);
} catch (const Error& error) {
  return report(kFailed, error.kind() == ErrorKind::kInternal
                             ? fmt::format("{} (a bug in Systole: please report it)", error.what())
                             : error.what());
} catch (const std::bad_alloc&) {
  return report(kFailed, "out of memory");
} catch (const std::exception& error) {
  return report(kFailed, error.what());
}

}  // namespace

}  // namespace systole::cli

int main(int argc, char** argv) {
  // A reader that closes the pipe early (`systole ops | head`) ends the command quietly, whatever the parent
  // had set.
  std::signal(SIGPIPE, SIG_DFL);
  systole::cli::run_child_command(argc, argv);
  return systole::cli::run_guarded(argc, argv);
}
