#pragma once

// What the examples read from their command line: --NAME VALUE, every NAME with a default. --help prints
// them.
//
//   const Options options(argc, argv, {{"data", ""}, {"epochs", "5"}, {"device", "auto"}});
//   trainer.fit(train, {.epochs = options.integer("epochs")});

#include <systole/base/error.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <string>

inline bool asks_for_help(const std::string& word) { return word == "--help" || word == "-h"; }

[[noreturn]] inline void print_help(const char* program, const std::string& words) {
  std::printf("usage: %s%s\n", std::filesystem::path(program).filename().c_str(), words.c_str());
  std::exit(0);
}

// For the examples that read `words`, such as "[STEPS]", in order: prints them and ends the program when
// --help is asked for.
inline void answer_help(int argc, char** argv, const std::string& words) {
  for (int i = 1; i < argc; ++i)
    if (asks_for_help(argv[i])) print_help(argv[0], words.empty() ? "" : " " + words);
}

// The whole number of at least `least` that the text is.
inline std::int64_t whole_number(const std::string& name, const std::string& text, std::int64_t least = 1) {
  std::size_t read = 0;
  std::int64_t number = 0;
  try {
    number = std::stoll(text, &read);
  } catch (const std::exception&) {
  }
  if (read == 0 || read != text.size() || number < least)
    throw systole::Error(systole::ErrorKind::kInvalidArgument, name, "not a value it can have",
                         "a whole number of at least " + std::to_string(least), "'" + text + "'");
  return number;
}

class Options {
 public:
  Options(int argc, char** argv, std::map<std::string, std::string> defaults) : values_(std::move(defaults)) {
    std::string list;
    for (const auto& [name, value] : values_)
      list += " [--" + name + " " + (value.empty() ? "PATH" : value) + "]";
    for (int i = 1; i < argc; i += 2) {
      const std::string word = argv[i];
      if (asks_for_help(word)) print_help(argv[0], list);
      const auto found = values_.find(word.starts_with("--") ? word.substr(2) : "");
      if (found == values_.end()) refuse(word, "there is no such option", "some of" + list);
      if (i + 1 == argc) refuse(word, "its value is missing", "--" + found->first + " VALUE");
      found->second = argv[i + 1];
    }
  }

  const std::string& operator[](const std::string& name) const { return values_.at(name); }
  bool has(const std::string& name) const { return !values_.at(name).empty(); }
  std::int64_t integer(const std::string& name, std::int64_t least = 1) const {
    return whole_number("--" + name, values_.at(name), least);
  }
  // Above 0.
  double number(const std::string& name) const {
    const std::string& text = values_.at(name);
    std::size_t read = 0;
    double number = 0;
    try {
      number = std::stod(text, &read);
    } catch (const std::exception&) {
    }
    if (read == 0 || read != text.size() || !(number > 0))
      throw systole::Error(systole::ErrorKind::kInvalidArgument, "--" + name, "not a value it can have",
                           "a number above 0", "'" + text + "'");
    return number;
  }

 private:
  [[noreturn]] static void refuse(const std::string& word, const std::string& what,
                                  const std::string& wanted) {
    throw systole::Error(systole::ErrorKind::kInvalidArgument, word, what, wanted);
  }

  std::map<std::string, std::string> values_;
};
