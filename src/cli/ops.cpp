// systole ops: the primitives of ops.def and the registered composites, with what each backend supports. One
// list of rows feeds the three forms: a table for people, JSON for tools and the Markdown of docs/ir.md.

#include <fmt/format.h>
#include <algorithm>
#include <iterator>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "cli/cli.h"
#include "cli/options.h"
#include "cli/terminal.h"
#include "systole/ir/composite.h"
#include "systole/ir/op.h"
#include "systole/runtime.h"

namespace systole::cli {

namespace {

using Json = nlohmann::ordered_json;

struct Attribute {
  std::string name, type;
  Json default_value;  // of a composite's attribute
};

struct Row {
  std::string name, op_class;
  const ir::OpInfo* info = nullptr;  // null for a composite
  bool composite() const { return info == nullptr; }
  DTypeSet dtypes;
  double tolerance = 0;
  std::string semantics;
  std::vector<Attribute> attributes;
  std::vector<std::pair<std::string, std::string>> refusals;  // every backend; an empty reason: supported
};

template <class T>
std::string type_label() {
  if constexpr (std::is_same_v<T, bool>)
    return "flag";
  else if constexpr (std::is_same_v<T, std::int64_t>)
    return "integer";
  else if constexpr (std::is_same_v<T, double>)
    return "float";
  else if constexpr (std::is_same_v<T, std::string>)
    return "string";
  else if constexpr (std::is_same_v<T, DType> || std::is_same_v<T, std::optional<DType>>)
    return "dtype";
  else if constexpr (std::is_same_v<T, Ints>)
    return "list of integers";
  else if constexpr (std::is_same_v<T, Dim>)
    return "dimension";
  else if constexpr (std::is_same_v<T, Shape>)
    return "list of dimensions";
  else if constexpr (std::is_same_v<T, Literal>)
    return "literal";
  else if constexpr (std::is_same_v<T, ir::Combine>)
    return "kind";
  else if constexpr (std::is_same_v<T, ir::MeshAxisNames>)
    return "list of names";
  else if constexpr (std::is_same_v<T, std::vector<Type>>)
    return "list of types";
  else {
    static_assert(std::is_same_v<T, ir::AttrMap>);
    return "any";
  }
}

template <class A>
std::vector<Attribute> attributes_of() {
  std::vector<Attribute> out;
  A::fields([&](std::string_view name, auto member) {
    out.push_back(
        {std::string(name), type_label<std::remove_cvref_t<decltype(std::declval<A>().*member)>>(), {}});
  });
  return out;
}

std::vector<Attribute> attributes_of(ir::Op op) {
  using namespace ir;
  switch (op) {
#define SYSTOLE_OP(name, op_class, least, most, AttrsType, ...) \
  case Op::name: return attributes_of<AttrsType>();
#include "systole/ir/ops.def"
  }
  return {};
}

struct DefaultValue {
  template <class T>
  Json operator()(const T& v) const {
    return v;
  }
  Json operator()(DType v) const { return name(v); }
  Json operator()(const Ints& v) const { return std::vector<std::int64_t>(v.begin(), v.end()); }
  Json operator()(const Shape& v) const { return v.to_string(); }
};

std::vector<Attribute> attributes_of(const ir::CompositeDef& def) {
  std::vector<Attribute> out;
  for (const auto& [name, value] : def.defaults)
    out.push_back({name, std::visit([]<class T>(const T&) { return type_label<T>(); }, value),
                   std::visit(DefaultValue{}, value)});
  return out;
}

bool open_ended(const ir::OpInfo& info) { return info.most_operands == ir::kAnyNumber; }

std::string operand_text(const Row& row) {
  if (row.composite()) return {};
  const int least = row.info->least_operands, most = row.info->most_operands;
  return open_ended(*row.info) ? fmt::format("{}+", least)
         : least == most       ? std::to_string(least)
                               : fmt::format("{}–{}", least, most);
}

std::vector<std::string> dtype_names(DTypeSet set) {
  std::vector<std::string> names;
  for (int i = 0; i < kDTypeCount; ++i)
    if (set.contains(static_cast<DType>(i))) names.emplace_back(name(static_cast<DType>(i)));
  return names;
}

std::string dtype_text(DTypeSet set) {
  const std::pair<DTypeSet, const char*> known[] = {{kAnyDType, "any"},    {kNumbers, "numbers"},
                                                    {kSigned, "signed"},   {kFloats, "floats"},
                                                    {kBits, "ints, bool"}, {kInts, "ints"}};
  for (const auto& [value, text] : known)
    if (value == set) return text;
  return fmt::format("{}", fmt::join(dtype_names(set), ", "));
}

std::vector<Row> make_rows() {
  std::vector<Row> rows;
  std::vector<std::pair<std::string, runtime::Backend*>> backends;
  for (const std::string& name : runtime::backend_names())
    backends.emplace_back(name, &runtime::backend(name));

  for (const ir::OpInfo& info : ir::all_ops()) {
    Row row{std::string(info.name),      std::string(name(info.op_class)), &info, info.dtypes, info.tolerance,
            std::string(info.semantics), attributes_of(info.op),           {}};
    for (const auto& [name, backend] : backends) row.refusals.emplace_back(name, backend->refusal(info.op));
    rows.push_back(std::move(row));
  }
  // A composite runs wherever the primitives of its body do; bodies are made of all but collectives and
  // kernels.
  std::vector<std::pair<std::string, std::string>> refusals;
  for (const auto& [name, backend] : backends) {
    std::string reason;
    for (const ir::OpInfo& info : ir::all_ops())
      if (info.op_class != ir::OpClass::collective && info.op_class != ir::OpClass::opaque && reason.empty())
        if (const std::string why = backend->refusal(info.op); !why.empty())
          reason = fmt::format("its body may need {}: {}", info.name, why);
    refusals.emplace_back(name, std::move(reason));
  }
  for (const ir::CompositeDef* def : ir::all_composites())
    rows.push_back({def->name, "composite", nullptr, def->dtypes, def->tolerance, def->semantics,
                    attributes_of(*def), refusals});
  return rows;
}

// One line per op, so that line tools can be used as well.
void print_json(const std::vector<Row>& rows) {
  put("[");
  for (const Row& row : rows) {
    Json operands, attributes = Json::array(), backends = Json::object();
    if (!row.composite())
      operands = {{"least", row.info->least_operands},
                  {"most", open_ended(*row.info) ? Json() : Json(row.info->most_operands)}};
    for (const Attribute& a : row.attributes) {
      attributes.push_back({{"name", a.name}, {"type", a.type}});
      if (row.composite()) attributes.back()["default"] = a.default_value;
    }
    for (const auto& [name, reason] : row.refusals) {
      backends[name] = {{"supported", reason.empty()}};
      if (!reason.empty()) backends[name]["reason"] = reason;
    }
    const Json op = {{"name", row.name},
                     {"kind", row.composite() ? "composite" : "primitive"},
                     {"class", row.op_class},
                     {"operands", std::move(operands)},
                     {"dtypes", dtype_names(row.dtypes)},
                     {"tolerance", row.tolerance},
                     {"semantics", row.semantics},
                     {"attributes", std::move(attributes)},
                     {"backends", std::move(backends)}};
    put((&row == rows.data() ? "\n" : ",\n") + op.dump());
  }
  put("\n]\n");
}

std::string escaped(std::string_view text) {
  std::string out;
  for (const char c : text) out += c == '|' ? "\\|" : std::string(1, c);
  return out;
}

// Of a composite: "axis=-1, eps=1e-05".
std::string attribute_text(const Row& row) {
  std::string text;
  for (const Attribute& a : row.attributes)
    text += fmt::format("{}{}={}", text.empty() ? "" : ", ", a.name, a.default_value.dump());
  return text;
}

void print_markdown(const std::vector<Row>& rows) {
  std::string section;
  for (const Row& row : rows) {
    if (row.op_class != section) {
      section = row.op_class;
      std::string title = section + (row.composite() ? "s" : "");
      title[0] = static_cast<char>(title[0] - 'a' + 'A');
      put(fmt::format("\n### {}\n\n", title));
      put(row.composite()
              ? "| composite | attributes | dtypes | tolerance | semantics |\n|---|---|---|---|---|\n"
              : "| op | operands | dtypes | tolerance | semantics |\n|---|---|---|---|---|\n");
    }
    put(fmt::format("| `{}` | {} | {} | {} | {} |\n", row.name,
                    row.composite() ? escaped(attribute_text(row)) : operand_text(row),
                    dtype_text(row.dtypes), row.tolerance, escaped(row.semantics)));
  }
  put("\n");
}

// Rows of one class stand together; classes come in the order of their first op.
std::vector<Row> grouped_by_class(const std::vector<Row>& rows) {
  std::vector<Row> grouped;
  for (const Row& first : rows) {
    const auto same_class = [&](const Row& row) { return row.op_class == first.op_class; };
    if (std::none_of(grouped.begin(), grouped.end(), same_class))
      std::copy_if(rows.begin(), rows.end(), std::back_inserter(grouped), same_class);
  }
  return grouped;
}

// Semantics, then what a person must know before using the op.
std::vector<std::string> explanation(const Row& row, int width) {
  std::vector<std::string> lines = wrapped(row.semantics, width);
  if (row.composite() && !row.attributes.empty())
    for (std::string& line : wrapped("attributes: " + attribute_text(row), width))
      lines.push_back(std::move(line));
  for (const auto& [name, reason] : row.refusals)
    if (!reason.empty())
      for (const std::string& line : wrapped(fmt::format("not on {}: {}", name, reason), width))
        lines.push_back(coloured(Colour::yellow, line));
  return lines;
}

void print_table(const std::vector<Row>& rows) {
  constexpr int kOperands = 4, kTolerance = 3, kNarrowest = 45;
  int name_width = 2, dtype_width = 6;
  for (const Row& row : rows) {
    name_width = std::max(name_width, columns(row.name));
    dtype_width = std::max(dtype_width, columns(dtype_text(row.dtypes)));
  }
  const int left = 2 + name_width + 2 + kOperands + 2 + dtype_width + 2 + kTolerance + 2;
  // A narrow terminal gets the semantics on lines of their own.
  const bool beside = terminal_width() - left >= kNarrowest;
  const int indent = beside ? left : 6;
  const auto facts = [&](std::string_view name, std::string_view operands, std::string_view dtypes,
                         std::string_view tolerance) {
    return "  " + padded(name, name_width) + "  " + padded(operands, kOperands) + "  " +
           padded(dtypes, dtype_width) + "  " +
           (beside ? padded(tolerance, kTolerance) : std::string(tolerance));
  };
  std::string section;
  for (const Row& row : rows) {
    if (row.op_class != section) {
      put(section.empty() ? "" : "\n");
      section = row.op_class;
      put(coloured(Colour::bold, facts(section, "args", "dtypes", "tol") + (beside ? "  semantics" : "")) +
          "\n");
    }
    put(facts(row.name, operand_text(row), dtype_text(row.dtypes), fmt::format("{}", row.tolerance)));
    const std::vector<std::string> lines = explanation(row, terminal_width() - indent);
    for (std::size_t i = 0; i < lines.size(); ++i)
      put((i == 0 && beside ? "  " : "\n" + std::string(static_cast<std::size_t>(indent), ' ')) + lines[i]);
    put("\n");
  }
  put("\n");
  for (const std::string& line :
       wrapped(fmt::format(
                   "{} ops; backends: {}. An op runs on every backend unless a line below it says why not. "
                   "args: number of operands. tol: a result may differ from the exact one by "
                   "tol·eps·sqrt(K), 0 means every bit is right. docs/ir.md has the details.",
                   rows.size(), fmt::join(runtime::backend_names(), ", ")),
               terminal_width()))
    put(line + "\n");
}

struct Options {
  bool json = false, markdown = false;
};

int list_ops(const Options& options) {
  if (options.json && options.markdown) throw UsageError("--json and --markdown exclude each other");
  const std::vector<Row> rows = grouped_by_class(make_rows());
  if (options.json)
    print_json(rows);
  else if (options.markdown)
    print_markdown(rows);
  else
    print_table(rows);
  return 0;
}

}  // namespace

Action add_ops(App& app) {
  auto options = std::make_shared<Options>();
  app.add_flag("--json", options->json, "an array with one object per op, for tools");
  app.add_flag("--markdown", options->markdown, "the tables of docs/ir.md");
  app.footer(
      "Examples:\n  systole ops | less\n  systole ops --json | jq '.[] | select(.class == "
      "\"reduction\").name'");
  return [options] { return list_ops(*options); };
}

}  // namespace systole::cli
