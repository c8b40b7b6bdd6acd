#pragma once

// The command line's options, as the commands declare them. CLI11, which reads them, takes seconds to compile
// and is included by options.cpp alone.
//
//   app.add_option("--batch", options->batch, "samples at a time")->type_name("NUMBER")->positive();
//   app.add_flag("--json", options->json, "a JSON line per result");

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace CLI {
class App;
class Option;
}  // namespace CLI

namespace systole::cli {

class Option {
 public:
  explicit Option(CLI::Option* option) : option_(option) {}

  Option* required();
  Option* type_name(std::string name);
  Option* allow_extra_args(bool allow);   // false: one value each time the option is given
  Option* expected(int least, int most);  // -1: any number
  Option* delimiter(char between);
  Option* excludes(const std::string& other);
  Option* capture_default_str();

  // Checks of the value; help does not repeat them.
  Option* positive();
  Option* not_negative();
  Option* array_file();  // FILE.npy or FILE.npz
  Option* one_of(std::vector<std::string> words);
  Option* check(std::function<std::string(const std::string&)> complaint);  // empty: the value is fine

  bool is_given() const;  // whether the line had it, be its value empty

 private:
  CLI::Option* option_;
};

// The options of the program or of a subcommand.
class App {
 public:
  explicit App(CLI::App* app) : app_(app) {}
  App(const App&) = delete;
  App& operator=(const App&) = delete;

  // The option's value goes to the variable, which must live until the command has run.
  template <class T>
  Option* add_option(const std::string& name, T& value, const std::string& help);
  Option* add_flag(const std::string& name, bool& value, const std::string& help);

  App* add_subcommand(const std::string& name, const std::string& help);
  void require_subcommand(int least);
  void footer(const std::string& text);
  bool parsed() const;  // whether the line had this subcommand

 private:
  CLI::App* app_;
  std::deque<Option> options_;
  std::deque<App> commands_;
};

// What a line asked for. `help` and `version` are the text to print.
struct Parsed {
  enum class Kind { command, help, version, wrong } kind = Kind::command;
  std::string text;     // of help and version; what is wrong
  std::string command;  // the subcommand's name; empty when the line has none
};

// A program of subcommands: declares them, then reads the line.
class CommandLine {
 public:
  CommandLine(const std::string& description, const std::string& name, const std::string& version);
  ~CommandLine();

  App* add_command(const std::string& name, const std::string& help);
  void footer(const std::string& text);  // after the commands, which would inherit it
  std::string help() const;
  Parsed parse(int argc, char** argv);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace systole::cli
