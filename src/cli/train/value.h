#pragma once

// Values of a configuration: what TOML has, without dates, and the place each came from. `--set train.lr=0.1`
// gives one value as text; its words need no quotes, which a shell would eat.

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "systole/base/error.h"

namespace systole::cli {

struct Entry;

struct Value {
  using List = std::vector<Value>;
  using Table = std::vector<Entry>;  // in the order of the file

  std::variant<bool, std::int64_t, double, std::string, List, Table> data;
  std::string where = {};  // "run.toml:12"

  template <class T>
  const T* get() const {
    return std::get_if<T>(&data);
  }
};
struct Entry {
  std::string key;
  Value value;
};
using Table = Value::Table;

// A number, bool, "text", 'text', [list] or {table = 1}; anything else is text itself. Throws kParse.
Value parse_value(std::string_view text, std::string_view where);

std::string to_toml(const Value& value);  // on one line; parse_value() reads it back
std::string in_quotes(std::string_view text);
std::string key_text(std::string_view key);  // quoted where TOML wants it
std::string number_text(double value);       // with a point or exponent, as TOML tells floats

const Value* find(const Table& table, std::string_view key);
// Sets "train.optimizer_options.beta1", making tables on the way. Throws kInvalidArgument where something
// else stands in the way.
void set_path(Table& table, std::string_view path, Value value);

std::string described(const Value& value);  // for messages: "the text \"fast\"", "a list"

// "train.lr: expected a number, got 'fast' (run.toml:7)"; without the place where an option gave the value.
Error wrong_kind(std::string_view key, const Value& value, std::string_view expected);

// kNotFound for a name that is none of these: the message, then the nearest or all that there are.
Error unknown_key(std::string where, std::string_view message, std::string_view name,
                  std::span<const std::string_view> known);

bool reads_toml();  // whether this build does
// All of a TOML file. Throws kParse with file and line, kLimit for what stands too deep, kUnsupported in a
// build without toml++.
Table read_toml(const std::string& file);
Table parse_toml(std::string_view text,
                 const std::string& file);  // the same of a text; `file` is for messages

}  // namespace systole::cli
