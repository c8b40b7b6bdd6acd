#pragma once

// What the examples read from their command line: --NAME VALUE, every NAME with a default.
//
//   const Options options(argc, argv, {{"data", ""}, {"epochs", "5"}, {"device", "auto"}});
//   trainer.fit(train, {.epochs = options.integer("epochs")});

#include <systole/base/error.h>

#include <cstdint>
#include <map>
#include <string>

class Options {
 public:
  Options(int argc, char** argv, std::map<std::string, std::string> defaults) : values_(std::move(defaults)) {
    for (int i = 1; i < argc; i += 2) {
      const std::string word = argv[i];
      const auto found = values_.find(word.starts_with("--") ? word.substr(2) : "");
      if (found == values_.end() || i + 1 == argc) refuse(word, "an option with a value");
      found->second = argv[i + 1];
    }
  }

  const std::string& operator[](const std::string& name) const { return values_.at(name); }
  bool has(const std::string& name) const { return !values_.at(name).empty(); }
  std::int64_t integer(const std::string& name) const {
    const std::string& text = values_.at(name);
    std::size_t read = 0;
    std::int64_t number = 0;
    try {
      number = std::stoll(text, &read);
    } catch (const std::exception&) {
    }
    if (read == 0 || read != text.size()) refuse("--" + name + " " + text, "a whole number");
    return number;
  }
  double number(const std::string& name) const {
    const std::string& text = values_.at(name);
    std::size_t read = 0;
    double number = 0;
    try {
      number = std::stod(text, &read);
    } catch (const std::exception&) {
    }
    if (read == 0 || read != text.size()) refuse("--" + name + " " + text, "a number");
    return number;
  }

 private:
  [[noreturn]] void refuse(const std::string& word, const std::string& wanted) const {
    std::string names;
    for (const auto& [name, value] : values_) names += " --" + name + " " + (value.empty() ? "FILE" : value);
    throw systole::Error(systole::ErrorKind::kInvalidArgument, word, "not " + wanted, "some of" + names);
  }

  std::map<std::string, std::string> values_;
};
