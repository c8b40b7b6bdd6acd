#include "tensor/cut.h"

#include <bit>
#include <cstring>
#include <type_traits>
#include <variant>

#include "systole/ir/attrs_variant.h"

namespace systole::recording {

namespace {

class Writer {
 public:
  explicit Writer(Words& words) : words_(words) {}

  template <class T>
    requires std::is_integral_v<T> || std::is_enum_v<T>
  void operator()(T v) {
    words_.push_back(static_cast<std::uint64_t>(v));
  }
  void operator()(double v) { words_.push_back(std::bit_cast<std::uint64_t>(v)); }
  void operator()(const std::string& v) {
    (*this)(v.size());
    bytes(v.data(), v.size());
  }
  void operator()(const Dim& v) {
    (*this)(v.offset());
    if (!v.is_static()) {
      (*this)(v.scale());
      (*this)(std::string(v.symbol_name()));
    }
  }
  void operator()(const Shape& v) {
    std::uint64_t symbolic = 0;
    for (const Dim& d : v) symbolic |= d.is_static() ? 0 : 1;
    (*this)(v.size() * 2 + symbolic);
    for (const Dim& d : v) (*this)(d);
  }
  void operator()(const Ints& v) {
    (*this)(v.size());
    for (std::int64_t i : v) (*this)(i);
  }
  void operator()(const Type& v) {
    (*this)(v.dtype);
    (*this)(v.shape);
  }
  void operator()(const Literal& v) {
    (*this)(v.type());
    bytes(v.bytes(), v.byte_size());
  }
  template <class T>
  void operator()(const std::vector<T>& v) {
    (*this)(v.size());
    for (const T& item : v) (*this)(item);
  }
  template <class T>
  void operator()(const std::optional<T>& v) {
    (*this)(v.has_value());
    if (v) (*this)(*v);
  }
  void operator()(const ir::AttrMap& v) {
    (*this)(v.size());
    for (const auto& [key, value] : v) {
      (*this)(key);
      (*this)(value.index());
      std::visit(*this, value);
    }
  }

 private:
  void bytes(const void* data, std::size_t size) {
    const auto* at = static_cast<const std::byte*>(data);
    for (; size > 0;) {
      std::uint64_t word = 0;
      const std::size_t n = size < sizeof word ? size : sizeof word;
      std::memcpy(&word, at, n);
      words_.push_back(word);
      at += n;
      size -= n;
    }
  }
  Words& words_;
};

}  // namespace

void append(Words& words, const ir::Attrs& attrs) {
  Writer write(words);
  write(attrs.index());
  std::visit(
      [&]<class A>(const A& a) { A::fields([&](std::string_view, auto member) { write(a.*member); }); },
      ir::variant(attrs));
}

void append(Words& words, const Type& type) { Writer{words}(type); }
void append(Words& words, const Literal& literal) { Writer{words}(literal); }

std::vector<CutNode> cut_nodes(std::span<Record* const> order, std::span<const std::int32_t> input,
                               std::span<const std::int32_t> same) {
  std::vector<CutNode> nodes(order.size());
  const auto position = [&](const Record* record) {
    return same.empty() ? record->position : same[static_cast<std::size_t>(record->position)];
  };
  for (std::size_t i = 0; i < order.size(); ++i) {
    const Record& record = *order[i];
    CutNode& node = nodes[i];
    if (input[i] >= 0) {
      node.kind = CutNode::Kind::input;
      node.input = input[i];
      continue;
    }
    if (position(&record) != static_cast<std::int32_t>(i)) continue;
    switch (record.kind.load(std::memory_order_relaxed)) {
      case Kind::constant:
      case Kind::host:
        node.kind = CutNode::Kind::literal;
        node.literal = record.extra->literal;
        break;
      case Kind::result:
        node.kind = CutNode::Kind::result;
        node.index = record.index;
        node.operands.push_back(position(record.operands[0]));
        break;
      default:
        node.kind = CutNode::Kind::op;
        node.op = record.op;
        node.attrs = record.attrs();
        if (record.extra) node.graphs = record.extra->graphs;
        for (const Record* operand : record.operands) node.operands.push_back(position(operand));
    }
  }
  return nodes;
}

ir::Graph build_graph(std::span<const CutNode> nodes, std::span<const Type> inputs,
                      std::span<const CutOutput> outputs) {
  ir::Graph graph;
  ir::Values arguments;
  for (const Type& type : inputs) arguments.push_back(graph.input({}, type));
  std::vector<ir::Values> values(nodes.size());
  const auto of = [&](std::int32_t position) -> const ir::Values& {
    return values[static_cast<std::size_t>(position)];
  };
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    const CutNode& node = nodes[i];
    switch (node.kind) {
      case CutNode::Kind::none: break;
      case CutNode::Kind::input: values[i] = {arguments[static_cast<std::size_t>(node.input)]}; break;
      case CutNode::Kind::literal: values[i] = {graph.constant(node.literal)}; break;
      case CutNode::Kind::result: values[i] = {of(node.operands[0])[node.index]}; break;
      case CutNode::Kind::op: {
        ir::Values operands;
        for (const std::int32_t operand : node.operands) operands.push_back(of(operand)[0]);
        values[i] = graph.add_multi(node.op, operands, node.attrs, node.graphs);
      }
    }
  }
  for (const CutOutput& output : outputs)
    graph.output(of(output.position)[static_cast<std::size_t>(output.result)]);
  return graph;
}

}  // namespace systole::recording
