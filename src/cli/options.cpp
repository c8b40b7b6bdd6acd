#include "cli/options.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <string_view>
#include <utility>

#include "base/nearest.h"

namespace systole::cli {

namespace {
// Without the check's own words, which the option's explanation holds already.
Option* checked(Option* self, CLI::Option* option, CLI::Validator validator) {
  option->check(validator.description(""));
  return self;
}

// Empty when the text is a number that fits; CLI11's own checks print their range with 309 digits.
template <class Fits>
std::function<std::string(const std::string&)> number(Fits fits, std::string expected) {
  return [fits, expected](const std::string& text) {
    double value = 0;
    const bool fine = CLI::detail::lexical_cast(text, value) && fits(value);
    return fine ? std::string() : "expected " + expected + ", got '" + text + "'";
  };
}
std::string not_there(std::string_view kind, const std::string& wrong,
                      const std::vector<std::string>& names) {
  const std::vector<std::string_view> views(names.begin(), names.end());
  return fmt::format("there is no {} '{}'{}", kind, wrong, did_you_mean(wrong, views));
}

// What the line has that this program or one of the subcommands it names does not know: an option, or a
// command below one. Empty when it is something else that is wrong.
std::string unknown_word(const CLI::App& app) {
  for (const CLI::App* command : app.get_subcommands())
    if (std::string text = unknown_word(*command); !text.empty()) return text;
  const std::vector<std::string> words = app.remaining();
  for (const std::string& word : words) {
    if (word.size() < 2 || word[0] != '-') continue;
    std::vector<std::string> names;
    for (const CLI::Option* option : app.get_options())
      for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
    return not_there("option", word.substr(0, word.find('=')), names);
  }
  const std::vector<const CLI::App*> commands = app.get_subcommands([](const CLI::App*) { return true; });
  if (words.empty() || commands.empty() || !app.get_subcommands().empty()) return {};
  std::vector<std::string> names;
  for (const CLI::App* command : commands) names.push_back(command->get_name());
  return not_there(app.get_name() + " command", words[0], names);
}
}  // namespace

Option* Option::required() {
  option_->required();
  return this;
}

Option* Option::type_name(std::string name) {
  option_->type_name(std::move(name));
  return this;
}

Option* Option::allow_extra_args(bool allow) {
  option_->allow_extra_args(allow);
  return this;
}

Option* Option::expected(int least, int most) {
  option_->expected(least, most);
  return this;
}

Option* Option::delimiter(char between) {
  option_->delimiter(between);
  return this;
}

Option* Option::excludes(const std::string& other) {
  option_->excludes(other);
  return this;
}

Option* Option::capture_default_str() {
  option_->capture_default_str();
  return this;
}

Option* Option::positive() {
  return check(number([](double value) { return value > 0; }, "a number above 0"));
}

Option* Option::not_negative() {
  return check(number([](double value) { return value >= 0; }, "a number of at least 0"));
}

Option* Option::array_file() {
  return check([](const std::string& file) {
    return file.ends_with(".npy") || file.ends_with(".npz")
               ? std::string()
               : fmt::format("expected FILE.npz or FILE.npy, got '{}'", file);
  });
}

Option* Option::one_of(std::vector<std::string> words) {
  return checked(this, option_, CLI::IsMember(std::move(words)));
}

Option* Option::check(std::function<std::string(const std::string&)> complaint) {
  return checked(this, option_,
                 CLI::Validator([complaint](std::string& text) { return complaint(text); }, ""));
}

bool Option::is_given() const { return option_->count() > 0; }

template <class T>
Option* App::add_option(const std::string& name, T& value, const std::string& help) {
  return &options_.emplace_back(app_->add_option(name, value, help));
}
template Option* App::add_option(const std::string&, std::string&, const std::string&);
template Option* App::add_option(const std::string&, std::optional<std::string>&, const std::string&);
template Option* App::add_option(const std::string&, std::vector<std::string>&, const std::string&);
template Option* App::add_option(const std::string&, std::int64_t&, const std::string&);
template Option* App::add_option(const std::string&, std::uint64_t&, const std::string&);
template Option* App::add_option(const std::string&, int&, const std::string&);
template Option* App::add_option(const std::string&, double&, const std::string&);

Option* App::add_flag(const std::string& name, bool& value, const std::string& help) {
  return &options_.emplace_back(app_->add_flag(name, value, help));
}

App* App::add_subcommand(const std::string& name, const std::string& help) {
  return &commands_.emplace_back(app_->add_subcommand(name, help));
}

void App::require_subcommand(int least) { app_->require_subcommand(least); }

void App::footer(const std::string& text) { app_->footer(text); }

bool App::parsed() const { return app_->parsed(); }

struct CommandLine::State {
  CLI::App app;
  std::deque<App> commands;
  State(const std::string& description, const std::string& name) : app(description, name) {}
};

CommandLine::CommandLine(const std::string& description, const std::string& name, const std::string& version)
    : state_(std::make_unique<State>(description, name)) {
  CLI::App& app = state_->app;
  app.set_version_flag("--version", version, "print the version and leave");
  app.set_help_flag("-h,--help", "print this help and leave");
  app.require_subcommand(1);
  for (const auto& [ours, theirs] :
       {std::pair{"COMMAND", "SUBCOMMAND"}, {"Arguments", "Positionals"}, {"", "REQUIRED"}})
    app.get_formatter()->label(theirs, ours);
  app.get_formatter()->column_width(22);
}

CommandLine::~CommandLine() = default;

App* CommandLine::add_command(const std::string& name, const std::string& help) {
  CLI::App* sub = state_->app.add_subcommand(name, help);
  sub->group("Commands");
  return &state_->commands.emplace_back(sub);
}

void CommandLine::footer(const std::string& text) { state_->app.footer(text); }

std::string CommandLine::help() const { return state_->app.help(); }

Parsed CommandLine::parse(int argc, char** argv) {
  CLI::App& app = state_->app;
  Parsed result;
  const auto find_command = [&] {
    const auto chosen = app.get_subcommands();
    if (!chosen.empty()) result.command = chosen.at(0)->get_name();
    return chosen;
  };
  try {
    app.parse(argc, argv);
    find_command();
  } catch (const CLI::CallForHelp&) {
    const auto chosen = find_command();
    result.kind = Parsed::Kind::help;
    result.text = chosen.empty() ? app.help() : chosen.at(0)->help("systole");
  } catch (const CLI::CallForVersion& version) {
    result.kind = Parsed::Kind::version;
    result.text = version.what();
  } catch (const CLI::ParseError& error) {
    find_command();
    result.kind = Parsed::Kind::wrong;
    result.text = unknown_word(app);
    if (result.text.empty()) result.text = error.what();
  }
  return result;
}

}  // namespace systole::cli
