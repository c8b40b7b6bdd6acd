// Text to graphs: a recursive-descent parser without recursion (nothing in the grammar nests beyond lists of
// lists). Everything is built through Graph::add, so whatever parses is well-formed; errors carry file, line
// and column.

#include <fmt/format.h>
#include <algorithm>
#include <cstring>
#include <map>
#include <unordered_map>

#include "base/budget.h"
#include "base/nearest.h"
#include "ir/composite_check.h"
#include "ir/text_lexer.h"
#include "ir/text_literal.h"
#include "systole/ir/composite.h"
#include "systole/ir/text.h"

namespace systole::ir {

namespace {

static_assert(kIrVersion == 2);  // the error of a file without a version names all that there are

std::string nearest_op(std::string_view wrong) {
  if (const CompositeDef* def = find_composite(wrong)) return "composite " + def->name;
  std::vector<std::string_view> names;
  for (const OpInfo& op : all_ops())
    if (op.op != Op::input) names.push_back(op.name);
  return std::string(nearest(wrong, names));
}

void append(std::string& comment, std::string more) {
  if (!comment.empty() && !more.empty()) comment += '\n';
  comment += more;
}

// What an op cannot do without: the fields that say what it makes.
template <class A, class T>
constexpr bool kRequired =
    std::is_same_v<T, Literal> || std::is_same_v<T, Shape> || std::is_same_v<T, Dim> ||
    (std::is_same_v<T, DType> && (std::is_same_v<A, ConvertAttrs> || std::is_same_v<A, IotaAttrs>));

class Parser {
 public:
  Parser(std::string_view text, std::string_view file)
      : lexer_(text, file),
        budget_({}, expansion_limit(text.size()), "broadcast a scalar instead of a splat") {}

  Graph parse_file() {
    if (!at_name("systole.ir"))
      fail("not a Systole graph", "a first line of \"systole.ir 1\" or \"systole.ir 2\"");
    next();
    const Token version = token();
    if (const std::int64_t number = parse_integer(); number < 1 || number > kIrVersion)
      lexer_.fail(version, "a version this reader does not know", fmt::format("1 to {}", kIrVersion));
    std::optional<Graph> last;
    while (token().kind != TokenKind::end) {
      if (last) {
        std::string name = last->name();
        graphs_[std::move(name)] = std::make_shared<const Graph>(std::move(*last));
      }
      last = parse_graph();
    }
    if (!last) fail("no graph in the file", "graph @name(…) {");
    if (!unused_.empty()) {
      const auto& [name, token] = *unused_.begin();
      if (name != last->name() || unused_.size() > 1)
        lexer_.fail(name != last->name() ? token : std::next(unused_.begin())->second,
                    "a graph that no later one uses");
    }
    // Passes copy a sub-graph to each place where it is used. A composite usually has some dozen
    // nodes: up to kUsualNodes of each count little, so that only larger ones use up the budget.
    constexpr std::int64_t kNodeBytes = 1024, kUsualNodes = 64, kUsualNodeBytes = 32;
    const std::int64_t copies = std::max<std::int64_t>(last->expanded_size() - nodes_, 0);
    const std::int64_t usual = std::min(copies, composites_ * kUsualNodes);
    take(token(), (copies - usual) * kNodeBytes + usual * kUsualNodeBytes,
         "sub-graphs that are used in many places");
    GraphComments comments = last->comments();
    append(comments.after, lexer_.take_comments());
    last->set_comments(std::move(comments));
    return std::move(*last);
  }

  Type parse_whole_type() {
    const Type type = parse_type();
    if (token().kind != TokenKind::end) fail("text after the type", "the end");
    return type;
  }

 private:
  const Token& token() const { return lexer_.token(); }
  void next() { lexer_.advance(); }
  [[noreturn]] void fail(std::string message, std::string expected = {}) const {
    lexer_.fail(token(), std::move(message), std::move(expected));
  }
  bool at(char c) const { return token().kind == TokenKind::symbol && token().text[0] == c; }
  bool at_name(std::string_view name) const {
    return token().kind == TokenKind::name && token().text == name;
  }
  bool accept(char c) {
    if (!at(c)) return false;
    next();
    return true;
  }
  void expect(char c) {
    if (!accept(c)) fail("unexpected text", fmt::format("'{}'", c));
  }
  void expect_name(std::string_view name) {
    if (!at_name(name)) fail("unexpected text", std::string(name));
    next();
  }

  void take(const Token& at, std::int64_t bytes, std::string_view what) {
    try {
      budget_.take(static_cast<std::uint64_t>(bytes), what);
    } catch (const Error& e) {
      throw e.within(lexer_.position(at));
    }
  }

  // `item` is called for each element up to `close`; the opening symbol is consumed here.
  template <class F>
  void parse_list(char open, char close, F&& item) {
    expect(open);
    if (accept(close)) return;
    do item();
    while (accept(','));
    expect(close);
  }

  std::string parse_name(const char* what) {
    if (token().kind != TokenKind::name && token().kind != TokenKind::string)
      fail(fmt::format("{} is missing", what), "a name");
    std::string name = token().name;
    next();
    return name;
  }

  std::int64_t parse_integer() {
    std::int64_t value;
    if (token().kind != TokenKind::number || !parse_number(token().text, value))
      fail("not a 64-bit integer", "an integer");
    next();
    return value;
  }

  DType parse_dtype_name() {
    const std::optional<DType> dtype =
        token().kind == TokenKind::name ? parse_dtype(token().text) : std::nullopt;
    if (!dtype) fail("not a dtype", "f64, f32, f16, bf16, f8e4m3fn, f8e5m2, i64 … i8, u64 … u8 or bool");
    next();
    return *dtype;
  }

  // Dimension arithmetic refuses with its own errors; they get the position here.
  template <class F>
  auto located(const Token& at, F&& f) {
    try {
      return f();
    } catch (const Error& e) {
      throw e.within(lexer_.position(at));
    }
  }

  std::int64_t parse_offset() {
    if (token().kind == TokenKind::number && token().text[0] == '-')
      fail("two signs", "a number without one");
    return parse_integer();
  }

  Dim parse_dim() {
    const Token start = token();
    std::int64_t scale = 1;
    if (token().kind == TokenKind::number) {
      scale = parse_integer();
      if (!accept('*')) return scale;
    }
    if (token().kind != TokenKind::name) fail("not a dimension", "an integer or a symbol");
    std::string symbols = token().name;
    next();
    while (accept('*')) {
      if (token().kind != TokenKind::name) fail("not a product of symbols", "a symbol after *");
      symbols += "*" + token().name;
      next();
    }
    std::int64_t offset = 0;
    if (accept('+'))
      offset = parse_offset();
    else if (accept('-'))
      offset = -parse_offset();
    else if (token().kind == TokenKind::number && token().text[0] == '-')
      offset = parse_integer();
    return located(start, [&] { return Dim::affine(scale, symbols, offset); });
  }

  Shape parse_shape() {
    Shape shape;
    parse_list('[', ']', [&] {
      if (shape.rank() == kMaxRank) fail("too many dimensions", fmt::format("at most {}", kMaxRank));
      shape.push_back(parse_dim());
    });
    return shape;
  }

  Type parse_type() {
    const Token start = token();
    const DType dtype = parse_dtype_name();
    Type type{dtype, parse_shape()};
    located(start, [&] { check_type(type, "type"); });
    return type;
  }

  Literal parse_literal() {
    const Token start = token();
    const Type type = parse_type();
    if (!type.shape.is_static()) lexer_.fail(start, "a literal of symbolic shape", "numbers");
    const std::size_t size = size_of(type.dtype);
    const std::int64_t count = type.shape.count();
    const auto wrong_count = [&](std::int64_t got) {
      lexer_.fail(start, fmt::format("{} has {} elements, {} are given", type.to_string(), count, got));
    };
    expect('(');
    if (at_name("splat")) return parse_splat(start, type);
    std::vector<std::byte> bytes;
    if (at_name("hex")) {
      next();
      if (token().kind != TokenKind::string) fail("hex needs its digits", "a string");
      parse_hex(token(), bytes);
      next();
      if (static_cast<std::int64_t>(bytes.size()) != type.bytes())
        wrong_count(static_cast<std::int64_t>(bytes.size() / size));
    } else {
      if (!at(')')) do {
          bytes.resize(bytes.size() + size);
          parse_element_into(type.dtype, bytes.data() + bytes.size() - size);
        } while (accept(','));
      if (static_cast<std::int64_t>(bytes.size() / size) != count)
        wrong_count(static_cast<std::int64_t>(bytes.size() / size));
    }
    expect(')');
    return located(start, [&] { return Literal::copy_of(type, bytes); });
  }

  // The one literal whose text is shorter than its bytes.
  Literal parse_splat(const Token& start, const Type& type) {
    next();
    if (type.bytes() > kMaxSplatBytes)
      lexer_.fail(start, "a splat literal this large", "at most 64 MiB; broadcast a scalar instead");
    std::byte element[8];
    parse_element_into(type.dtype, element);
    expect(')');
    take(start, type.bytes(), "a splat literal");
    return located(start, [&] {
      Literal value = Literal::uninitialized(type);
      std::byte* const bytes = value.mutable_bytes();
      const std::size_t size = size_of(type.dtype);
      for (std::size_t i = 0; i < value.byte_size(); i += size) std::memcpy(bytes + i, element, size);
      return value;
    });
  }

  void parse_element_into(DType dtype, std::byte* element) {
    const bool number = token().kind == TokenKind::number || token().kind == TokenKind::name;
    if (!number || !parse_element(token().text, dtype, element))
      fail("not a value of the dtype", fmt::format("a number that fits {}", name(dtype)));
    next();
  }

  void parse_hex(const Token& digits, std::vector<std::byte>& bytes) const {
    const auto value = [&](char c) -> int {
      if (c >= '0' && c <= '9') return c - '0';
      if (c >= 'a' && c <= 'f') return c - 'a' + 10;
      lexer_.fail(digits, "malformed hex", "digits 0-9 and a-f, two per byte");
    };
    if (digits.name.size() % 2 != 0) lexer_.fail(digits, "malformed hex", "two digits per byte");
    bytes.reserve(digits.name.size() / 2);
    for (std::size_t i = 0; i < digits.name.size(); i += 2)
      bytes.push_back(static_cast<std::byte>(value(digits.name[i]) * 16 + value(digits.name[i + 1])));
  }

  // One overload per kind of attribute field.
  void parse_field(bool& v) {
    if (!at_name("true") && !at_name("false")) fail("not a flag", "true or false");
    v = at_name("true");
    next();
  }
  void parse_field(std::int64_t& v) { v = parse_integer(); }
  void parse_field(std::string& v) {
    if (token().kind != TokenKind::string) fail("not a string", "\"…\"");
    v = token().name;
    next();
  }
  void parse_field(DType& v) { v = parse_dtype_name(); }
  void parse_field(std::optional<DType>& v) { v = parse_dtype_name(); }
  void parse_field(Combine& v) {
    const auto* it = std::find(std::begin(kCombineNames), std::end(kCombineNames), token().text);
    if (token().kind != TokenKind::name || it == std::end(kCombineNames))
      fail("not a kind", "set, sum, prod, max, min, bitwise_and or bitwise_or");
    v = static_cast<Combine>(it - std::begin(kCombineNames));
    next();
  }
  void parse_field(Dim& v) { v = parse_dim(); }
  void parse_field(Ints& v) {
    v.clear();
    parse_list('[', ']', [&] { v.push_back(parse_integer()); });
  }
  void parse_field(Shape& v) { v = parse_shape(); }
  void parse_field(Literal& v) { v = parse_literal(); }
  void parse_field(MeshAxisNames& v) {
    v.clear();
    parse_list('[', ']', [&] { v.push_back(parse_name("a mesh axis")); });
  }
  void parse_field(std::vector<Type>& v) {
    v.clear();
    parse_list('[', ']', [&] { v.push_back(parse_type()); });
  }

  void parse_field(AttrMap& v) { v = parse_attr_map(); }

  AttrValue parse_open_value() {
    if (token().kind == TokenKind::string) return parse_name("a string");
    if (at_name("true") || at_name("false")) {
      bool flag;
      parse_field(flag);
      return flag;
    }
    if (at('[')) {
      const Shape shape = parse_shape_or_ints();
      if (!shape.is_static()) return shape;
      return shape.dims();
    }
    std::int64_t integer;
    if (token().kind == TokenKind::number && parse_number(token().text, integer)) {
      next();
      return integer;
    }
    double number;
    if ((token().kind == TokenKind::number || at_name("inf") || at_name("nan")) &&
        parse_number(token().text, number)) {
      next();
      return number;
    }
    if (token().kind == TokenKind::name && parse_dtype(token().text)) return parse_dtype_name();
    fail("not an attribute value", "a number, flag, string, dtype or list of integers");
  }

  Shape parse_shape_or_ints() {
    Shape list;
    parse_list('[', ']', [&] { list.push_back(parse_dim()); });
    return list;
  }

  AttrMap parse_attr_map() {
    AttrMap attrs;
    if (!at('{')) return attrs;
    parse_list('{', '}', [&] {
      const Token start = token();
      std::string key = parse_name("an attribute");
      expect('=');
      if (!attrs.emplace(std::move(key), parse_open_value()).second)
        lexer_.fail(start, "attribute given twice");
    });
    return attrs;
  }

  template <class A>
  void parse_attrs(A& attrs, const Token& op) {
    std::vector<std::string> seen;
    if (at('{'))
      parse_list('{', '}', [&] {
        const Token start = token();
        const std::string key = parse_name("an attribute");
        expect('=');
        if (std::find(seen.begin(), seen.end(), key) != seen.end())
          lexer_.fail(start, "attribute given twice");
        seen.push_back(key);
        bool found = false;
        std::string known;
        A::fields([&](std::string_view field, auto member) {
          known += (known.empty() ? "" : ", ") + std::string(field);
          if (field == key) {
            found = true;
            parse_field(attrs.*member);
          }
        });
        if (!found)
          lexer_.fail(start, fmt::format("{} has no such attribute", op.name),
                      known.empty() ? "none" : known);
      });
    A::fields([&](std::string_view field, auto member) {
      if constexpr (kRequired<A, std::remove_cvref_t<decltype(attrs.*member)>>)
        if (std::find(seen.begin(), seen.end(), field) == seen.end())
          lexer_.fail(op, fmt::format("{} needs the attribute {}", op.name, field),
                      fmt::format("{{{}=…}}", field));
    });
  }

  Attrs parse_attrs(Op op, const Token& where) {
    switch (op) {
#define SYSTOLE_OP(name, op_class, least, most, AttrsType, ...) \
  case Op::name: {                                              \
    AttrsType attrs;                                            \
    parse_attrs(attrs, where);                                  \
    return attrs;                                               \
  }
#include "systole/ir/ops.def"
    }
    fail("unknown op");
  }

  std::string value_key() {
    if (token().kind != TokenKind::value && token().kind != TokenKind::anonymous_value)
      fail("not a value", "%name");
    // Anonymous and named values live apart: %0 and %"0" are two.
    std::string key = (token().kind == TokenKind::value ? "n" : "#") + token().name;
    next();
    return key;
  }

  Value parse_operand() {
    const Token start = token();
    const auto it = values_.find(value_key());
    if (it == values_.end()) lexer_.fail(start, "a value that is not defined before this line");
    return it->second;
  }

  void define(const Token& at, std::string key, Value value) {
    if (!values_.emplace(std::move(key), value).second)
      lexer_.fail(at, "a value of this name exists already");
  }

  GraphRef parse_graph_reference() {
    const auto it = graphs_.find(token().name);
    if (it == graphs_.end()) fail("a graph that is not defined before this one");
    unused_.erase(it->first);
    next();
    return it->second;
  }

  void parse_loc(DebugInfo& debug) {
    if (!at_name("loc")) return;
    next();
    parse_list('(', ')', [&] {
      const Token start = token();
      const std::string key = parse_name("scope, file or line");
      expect('=');
      if (key == "scope")
        parse_field(debug.scope);
      else if (key == "file")
        parse_field(debug.file);
      else if (key == "line")
        debug.line = static_cast<int>(std::clamp<std::int64_t>(parse_integer(), 0, 1 << 30));
      else
        lexer_.fail(start, "unknown part of loc", "scope, file or line");
    });
  }

  struct LocatedSharding {
    Token at;
    std::optional<Sharding> sharding;  // nothing for sharding(none)
  };

  std::optional<LocatedSharding> parse_sharding() {
    if (!at_name("sharding")) return std::nullopt;
    LocatedSharding result{token(), Sharding{}};
    next();
    expect('(');
    if (at_name("none")) {
      next();
      result.sharding.reset();
    } else if (!at(')')) {
      do parse_field(result.sharding->dims.emplace_back());
      while (accept(','));
    }
    expect(')');
    return result;
  }

  void apply(Graph& graph, Value value, LocatedSharding& sharding) {
    if (sharding.sharding)
      located(sharding.at, [&] { graph.set_sharding(value, std::move(*sharding.sharding)); });
  }

  void parse_shardings(Graph& graph, const Values& results) {
    for (const Value& result : results)
      if (auto sharding = parse_sharding()) apply(graph, result, *sharding);
  }

  // A comment behind an input, past its comma too, is that input's.
  void end_input(Graph& graph) {
    const std::string comment = lexer_.take_trailing();
    if (comment.empty()) return;
    if (graph.size() == 0) {
      GraphComments comments = graph.comments();
      append(comments.before, comment);
      graph.set_comments(std::move(comments));
      return;
    }
    const Node& node = graph.node(graph.size() - 1);
    DebugInfo debug = node.debug ? *node.debug : DebugInfo{};
    append(debug.comment, comment);
    graph.set_debug(graph.size() - 1, std::move(debug));
  }

  void parse_input(Graph& graph) {
    const Token start = token();
    DebugInfo debug;
    ++nodes_;
    end_input(graph);
    debug.comment = lexer_.take_comments();
    std::string key = value_key();
    const std::string name = key[0] == 'n' ? key.substr(1) : std::string();
    expect(':');
    const Type type = parse_type();
    InputAttrs attrs;
    if (at('{')) {
      const Token where{TokenKind::name, start.text, "input", start.line, start.column};
      parse_attrs(attrs, where);
      if (!attrs.name.empty()) lexer_.fail(start, "an input's name stands before its type");
    }
    const Value input = located(start, [&] { return graph.input(name, type, attrs.alias); });
    define(start, std::move(key), input);
    if (attrs.alias != -1) aliases_.emplace_back(start, input.id().node);
    // Shardings refer to the mesh, which stands after the inputs.
    if (auto sharding = parse_sharding()) pending_.emplace_back(input, std::move(*sharding));
    parse_loc(debug);
    graph.set_debug(input.id().node, std::move(debug));
  }

  void parse_statement(Graph& graph) {
    DebugInfo debug;
    debug.comment = lexer_.take_comments();
    const Token start = token();
    std::vector<std::string> keys;
    std::vector<Token> key_tokens;
    if (token().kind != TokenKind::name) {
      do {
        key_tokens.push_back(token());
        keys.push_back(value_key());
      } while (accept(','));
      expect('=');
    }
    const Token op_token = token();
    ++nodes_;
    const bool composite = at_name("composite");
    if (composite) {
      next();
      ++composites_;
    }
    const Token name_token = token();
    const std::string op_name = parse_name("an op");
    std::optional<Op> op = composite ? Op::composite : find_op(op_name);
    if (op == Op::input)
      lexer_.fail(name_token, "inputs stand in the graph's signature, not among its statements");
    if (!op || (op == Op::composite && !composite)) {
      const std::string guess = nearest_op(op_name);
      throw Error(ErrorKind::kNotFound, lexer_.position(name_token),
                  fmt::format("no op is named '{}'", op_name),
                  guess.empty() ? "a name that `systole ops` lists" : guess);
    }
    Values operands;
    parse_list('(', ')', [&] { operands.push_back(parse_operand()); });
    Attrs attrs = composite ? Attrs(CompositeAttrs{op_name, parse_attr_map()}) : parse_attrs(*op, name_token);
    std::vector<GraphRef> graphs;
    while (token().kind == TokenKind::graph_name) graphs.push_back(parse_graph_reference());
    if (composite && graphs.empty())
      graphs.push_back(registered_body(op_name, name_token, operands, attrs.get<CompositeAttrs>()));
    else if (composite)
      add_defaults(attrs.get<CompositeAttrs>());
    const Values results = located(
        op_token, [&] { return graph.add_multi(*op, operands, std::move(attrs), std::move(graphs)); });
    if (composite) check_name(graph.node(graph.size() - 1), operands, name_token);
    if (keys.size() != results.size())
      lexer_.fail(start,
                  fmt::format("{} has {} results, {} are named", op_name, results.size(), keys.size()));
    for (std::size_t i = 0; i < keys.size(); ++i) {
      if (keys[i][0] == 'n') {
        debug.names.resize(results.size());
        debug.names[i] = keys[i].substr(1);
      }
      define(key_tokens[i], std::move(keys[i]), results[i]);
    }
    if (accept(':')) check_types(results, op_name);
    parse_shardings(graph, results);
    parse_loc(debug);
    append(debug.comment, lexer_.take_trailing());
    graph.set_debug(graph.size() - 1, std::move(debug));
  }

  GraphRef registered_body(const std::string& name, const Token& at, const Values& operands,
                           CompositeAttrs& attrs) {
    const CompositeDef* def = find_composite(name);
    if (def == nullptr)
      throw Error(ErrorKind::kNotFound, lexer_.position(at), fmt::format("no composite is named '{}'", name),
                  "a registered one, or a body: composite name(…) @body");
    std::vector<Type> types;
    for (const Value& v : operands) types.push_back(v.type());
    std::string key = name;
    for (const Type& type : types) key += " " + type.to_string();
    std::vector<RegisteredBody>& alike = registered_bodies_[std::move(key)];
    const auto known = std::find_if(alike.begin(), alike.end(),
                                    [&](const RegisteredBody& one) { return one.written == attrs.attrs; });
    if (known != alike.end()) {
      attrs.attrs = known->complete;
      return known->body;
    }
    RegisteredBody made{.written = attrs.attrs};
    made.body = located(at, [&] { return composite_body(*def, types, attrs.attrs); });
    made.complete = attrs.attrs;
    return alike.emplace_back(std::move(made)).body;
  }

  static void add_defaults(CompositeAttrs& attrs) {
    if (const CompositeDef* def = find_composite(attrs.name))
      attrs.attrs.insert(def->defaults.begin(), def->defaults.end());
  }

  // A registered name promises the registered operands, attributes and results, whatever body stands there.
  void check_name(const Node& node, const Values& operands, const Token& at) const {
    std::vector<Type> types;
    for (const Value& v : operands) types.push_back(v.type());
    if (const std::optional<Error> misfit = composite_misfit(node, types))
      throw misfit->within(lexer_.position(at));
  }

  void check_types(const Values& results, const std::string& op_name) {
    for (std::size_t i = 0; i < results.size(); ++i) {
      if (i > 0) expect(',');
      const Token start = token();
      const Type type = parse_type();
      if (!(type == results[i].type()))
        throw Error(ErrorKind::kShape, lexer_.position(start),
                    fmt::format("result {} of {} is written with another type", i, op_name),
                    results[i].type().to_string(), type.to_string());
    }
  }

  Graph parse_graph() {
    lexer_.take_trailing();
    GraphComments comments{lexer_.take_comments(), {}, {}};
    expect_name("graph");
    const Token name = token();
    if (name.kind != TokenKind::graph_name) fail("a graph needs a name", "@name");
    if (graphs_.contains(name.name)) fail("a graph of this name exists already");
    Graph graph(name.name);
    unused_.emplace(name.name, name);
    next();
    values_.clear();
    pending_.clear();
    aliases_.clear();
    graph.set_comments(comments);
    parse_list('(', ')', [&] { parse_input(graph); });
    end_input(graph);
    if (at_name("mesh")) parse_mesh(graph);
    for (auto& [input, sharding] : pending_) apply(graph, input, sharding);
    expect('{');
    comments = graph.comments();
    append(comments.before, lexer_.take_trailing());
    while (!at_name("return")) {
      if (token().kind == TokenKind::end) fail("the graph has no end", "return … }");
      parse_statement(graph);
    }
    comments.before_return = lexer_.take_comments();
    parse_return(graph);
    append(comments.before_return, lexer_.take_comments());
    append(comments.before_return, lexer_.take_trailing());
    expect('}');
    append(comments.after, lexer_.take_trailing());
    graph.set_comments(std::move(comments));
    return graph;
  }

  void parse_mesh(Graph& graph) {
    const Token start = token();
    next();
    Mesh mesh;
    parse_list('(', ')', [&] {
      std::string name = parse_name("a mesh axis");
      expect('=');
      mesh.axes.push_back({std::move(name), parse_integer()});
    });
    located(start, [&] { graph.set_mesh(std::move(mesh)); });
  }

  void parse_return(Graph& graph) {
    expect_name("return");
    if (at('}')) return;
    do {
      std::string name;
      const Token start = token();
      if (token().kind == TokenKind::name || token().kind == TokenKind::string) {
        name = parse_name("an output");
        expect(':');
      }
      const Value value = parse_operand();
      located(start, [&] { graph.output(value, std::move(name)); });
    } while (accept(','));
    // An alias names an output, so it can be checked only now.
    for (const auto& [at, input] : aliases_) {
      const std::int64_t alias = graph.node(input).as<InputAttrs>().alias;
      const auto count = static_cast<std::int64_t>(graph.outputs().size());
      if (alias < 0 || alias >= count ||
          !(graph.output_type(static_cast<std::size_t>(alias)) == graph.node(input).types[0]))
        lexer_.fail(
            at, fmt::format("alias={} names no output of this type", alias),
            fmt::format("0 to {}, an output of type {}", count - 1, graph.node(input).types[0].to_string()));
    }
  }

  Lexer lexer_;
  Budget budget_;
  std::int64_t nodes_ = 0, composites_ = 0;  // that the file writes out
  struct RegisteredBody {
    AttrMap written, complete;
    GraphRef body;
  };
  // By the composite's name and its operands' types: equal composites share one.
  std::unordered_map<std::string, std::vector<RegisteredBody>> registered_bodies_;
  std::map<std::string, GraphRef, std::less<>> graphs_;
  std::map<std::string, Token, std::less<>> unused_;  // graphs that no other has used so far
  std::unordered_map<std::string, Value> values_;
  std::vector<std::pair<Token, std::int32_t>> aliases_;     // of the inputs under way
  std::vector<std::pair<Value, LocatedSharding>> pending_;  // of the inputs under way
};

}  // namespace

Graph parse(std::string_view text, std::string_view file) {
  Graph graph = Parser(text, file).parse_file();
  return graph;
}

Type parse_type(std::string_view text) { return Parser(text, "<type>").parse_whole_type(); }

}  // namespace systole::ir
