// The entry point: reads the command line, runs the subcommand and turns errors into a line on stderr and an
// exit code.

#include <fmt/format.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <functional>
#include <map>
#include <new>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "base/log.h"
#include "base/nearest.h"
#include "base/parallel.h"
#include "cli/child_commands.h"
#include "cli/cli.h"
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
    systole eval model.sir --in x.npy w.npy

`systole COMMAND --help` explains a command. docs/command_line.md leads through training, docs/ir.md describes
graphs.)";

int report(int code, std::string_view message) {
  std::fflush(stdout);
  fmt::print(stderr, "systole: error: {}\n", on_one_line(message));
  return code;
}

std::string usage_hint(const CLI::App& app) {
  for (const CLI::App* command : app.get_subcommands())
    return fmt::format("; see systole {} --help", command->get_name());
  return "; see systole --help";
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

int run(int argc, char** argv) {
  CLI::App app(
      "Systole trains, measures and uses models on any device, and runs the graphs they are made of.",
      "systole");
  app.set_version_flag("--version", "systole " SYSTOLE_VERSION, "print the version and leave");
  app.set_help_flag("-h,--help", "print this help and leave");
  app.require_subcommand(1);
  for (const auto& [ours, theirs] :
       {std::pair{"COMMAND", "SUBCOMMAND"}, {"Arguments", "Positionals"}, {"", "REQUIRED"}})
    app.get_formatter()->label(theirs, ours);
  app.get_formatter()->column_width(22);
  std::map<const CLI::App*, Action> actions;
  for (const Command& command : kCommands) {
    CLI::App* sub = app.add_subcommand(command.name, command.summary);
    sub->group("Commands");
    actions[sub] = command.add(*sub);
  }
  app.footer(kExamples);  // after the commands, which would inherit it
  if (const std::string message = unknown_command(argc, argv); !message.empty())
    return report(kWrongUsage, message);
  if (argc == 1) {
    fmt::print(stderr, "{}", app.help());
    return kWrongUsage;
  }
  try {
    app.parse(argc, argv);
    const int code = actions.at(app.get_subcommands().at(0))();
    flush_output();
    return code;
  } catch (const CLI::CallForHelp&) {
    const auto chosen = app.get_subcommands();
    put(chosen.empty() ? app.help() : chosen.at(0)->help("systole"));
    flush_output();
    return 0;
  } catch (const CLI::CallForVersion& version) {
    put(fmt::format("{}\n", version.what()));
    flush_output();
    return 0;
  } catch (const CLI::ParseError& error) {
    return report(kWrongUsage, error.what() + usage_hint(app));
  } catch (const UsageError& error) {
    return report(kWrongUsage, error.what() + usage_hint(app));
  }
}

int run_guarded(int argc, char** argv) try {
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

// Whether others want all processors, now and for the next milliseconds: a shell that starts a pipeline is no
// such load.
bool processors_are_taken() {
  for (int look = 0; look < 4; ++look) {
    if (look > 0) std::this_thread::sleep_for(std::chrono::milliseconds(2));
    double load[3];
    int running = 0;
    std::FILE* const file = std::fopen("/proc/loadavg", "r");
    if (file == nullptr) return false;
    const int read = std::fscanf(file, "%lf %lf %lf %d", &load[0], &load[1], &load[2], &running);
    std::fclose(file);
    if (read != 4 || running - 1 < thread_count()) return false;  // this process is one of them
  }
  return true;
}

// On a machine whose processors others use, threads that watch for work keep the others from the processors
// and are put off themselves, by milliseconds each time: sleeping ones are tens of times as fast there. How
// the threads of OpenMP wait is settled before main begins, so the command begins once more.
void wait_politely(char** argv) {
  if (std::getenv("OMP_WAIT_POLICY") != nullptr || std::getenv("GOMP_SPINCOUNT") != nullptr) return;
  if (!processors_are_taken()) return;
  ::setenv("OMP_WAIT_POLICY", "passive", 1);
  ::execv("/proc/self/exe", argv);
}

}  // namespace systole::cli

int main(int argc, char** argv) {
  systole::cli::wait_politely(argv);
  // A reader that closes the pipe early (`systole ops | head`) ends the command quietly, whatever the parent
  // had set.
  std::signal(SIGPIPE, SIG_DFL);
  systole::cli::run_child_command(argc, argv);
  return systole::cli::run_guarded(argc, argv);
}
