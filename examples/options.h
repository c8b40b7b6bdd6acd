#pragma once

// The command line of the examples: names with values, each with a default.
//
//   const Options options(argc, argv, {{"data", ""}, {"epochs", "5"}, {"device", "auto"}});
//   const DeviceScope device(options["device"]);
//   … options.number("epochs") …

#include <systole/systole.h>

#include <cstdint>
#include <map>
#include <string>

class Options {
 public:
  Options(int argc, char** argv, std::map<std::string, std::string> defaults) : values_(std::move(defaults)) {
    std::string known;
    for (const auto& [name, value] : values_) known += (known.empty() ? "--" : ", --") + name;
    for (int i = 1; i < argc; i += 2) {
      const std::string name = argv[i];
      const auto at = name.starts_with("--") ? values_.find(name.substr(2)) : values_.end();
      if (at == values_.end() || i + 1 == argc)
        throw systole::Error(systole::ErrorKind::kInvalidArgument, name, "not an option with a value", known);
      at->second = argv[i + 1];
    }
  }

  const std::string& operator[](const std::string& name) const { return values_.at(name); }
  std::int64_t integer(const std::string& name) const { return std::stoll(values_.at(name)); }
  double number(const std::string& name) const { return std::stod(values_.at(name)); }

 private:
  std::map<std::string, std::string> values_;
};

// The first of these kinds of device that is here: first_device({"tpu", "pjrt:cpu", "reference"}).
inline std::string first_device(std::initializer_list<const char*> kinds) {
  for (const char* kind : kinds)
    for (const systole::runtime::DeviceInfo& device : systole::devices())
      if (device.name.backend_name() == kind) return kind;
  return "auto";
}
