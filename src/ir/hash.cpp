#include "ir/hash.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "systole/ir/attrs_variant.h"

namespace systole::ir {

namespace {

void add_dim(Hasher& h, const Dim& d) {
  h.add(static_cast<std::uint64_t>(d.offset()));
  if (!d.is_static()) {
    h.add(static_cast<std::uint64_t>(d.scale()));
    h.add(d.symbol_name());
  }
}

// One overload per kind of field; the field list of the struct drives them.
struct FieldHasher {
  Hasher& h;

  void operator()(bool v) { h.add(v); }
  void operator()(std::int64_t v) { h.add(static_cast<std::uint64_t>(v)); }
  void operator()(double v) { h.add(std::bit_cast<std::uint64_t>(v)); }
  void operator()(const std::string& v) { h.add(std::string_view(v)); }
  void operator()(DType v) { h.add(static_cast<std::uint64_t>(v)); }
  void operator()(Combine v) { h.add(static_cast<std::uint64_t>(v)); }
  void operator()(const Ints& v) {
    h.add(v.size());
    for (std::int64_t i : v) h.add(static_cast<std::uint64_t>(i));
  }
  void operator()(const std::optional<DType>& v) { h.add(v ? static_cast<std::uint64_t>(*v) : 255); }
  void operator()(const Dim& v) { add_dim(h, v); }
  void operator()(const Shape& v) {
    h.add(v.size());
    for (const Dim& d : v) add_dim(h, d);
  }
  void operator()(const Literal& v) {
    add_type(h, v.type());
    h.add_bytes(v.bytes(), v.byte_size());
  }
  void operator()(const MeshAxisNames& v) {
    h.add(v.size());
    for (const std::string& s : v) h.add(std::string_view(s));
  }
  void operator()(const std::vector<Type>& v) {
    h.add(v.size());
    for (const Type& t : v) add_type(h, t);
  }
  void operator()(const AttrMap& v) {
    h.add(v.size());
    for (const auto& [key, value] : v) {
      h.add(std::string_view(key));
      h.add(value.index());
      std::visit(*this, value);
    }
  }
};

}  // namespace

void Hasher::add_bytes(const void* data, std::size_t size) {
  const auto* bytes = static_cast<const unsigned char*>(data);
  for (; size >= 8; size -= 8, bytes += 8) {
    std::uint64_t word;
    std::memcpy(&word, bytes, 8);
    add(word);
  }
  std::uint64_t tail = 0;
  if (size != 0) std::memcpy(&tail, bytes, size);
  add(tail ^ static_cast<std::uint64_t>(size) << 56);
}

void add_type(Hasher& h, const Type& type) {
  h.add(static_cast<std::uint64_t>(type.dtype) << 32 | type.shape.size());
  for (const Dim& d : type.shape) add_dim(h, d);
}

std::uint64_t hash_attrs(const Attrs& attrs) {
  Hasher h;
  h.add(attrs.index());
  std::visit(
      [&]<class A>(const A& a) {
        A::fields([&](std::string_view, auto member) { FieldHasher{h}(a.*member); });
      },
      variant(attrs));
  return h.result();
}

namespace {

// Nodes in the order of the text: inputs first, wherever they were added. Structure is compared in that
// order.
struct TextOrder {
  std::vector<std::int32_t> nodes, place;

  explicit TextOrder(const Graph& graph)
      : nodes(graph.inputs()), place(static_cast<std::size_t>(graph.size())) {
    for (std::int32_t i = 0; i < graph.size(); ++i)
      if (graph.node(i).op != Op::input) nodes.push_back(i);
    for (std::size_t i = 0; i < nodes.size(); ++i)
      place[static_cast<std::size_t>(nodes[i])] = static_cast<std::int32_t>(i);
  }
  ValueId operator()(ValueId v) const { return {place[static_cast<std::size_t>(v.node)], v.index}; }
};

void add_value(Hasher& h, ValueId v) {
  h.add(static_cast<std::uint64_t>(v.node) << 32 | static_cast<std::uint32_t>(v.index));
}

}  // namespace

std::uint64_t Graph::hash() const {
  const TextOrder order(*this);
  Hasher h;
  for (const std::int32_t i : order.nodes) {
    const Node& node = this->node(i);
    h.add(static_cast<std::uint64_t>(node.op));
    for (ValueId v : node.operands) add_value(h, order(v));
    h.add(hash_attrs(node.attrs));
    for (const Type& t : node.types) add_type(h, t);
    for (const GraphRef& g : node.graphs) h.add(g->hash());
    for (const auto& s : node.shardings)
      if (s)
        for (const MeshAxisNames& names : s->dims) FieldHasher{h}(names);
  }
  for (const Output& o : outputs_) {
    add_value(h, order(o.value));
    h.add(std::string_view(o.name));
  }
  if (mesh_)
    for (const Mesh::Axis& a : mesh_->axes) {
      h.add(std::string_view(a.name));
      h.add(static_cast<std::uint64_t>(a.size));
    }
  return h.result();
}

bool Graph::same_structure(const Graph& other) const {
  if (this == &other) return true;
  if (nodes_.size() != other.nodes_.size() || outputs_.size() != other.outputs_.size() ||
      mesh_ != other.mesh_)
    return false;
  const TextOrder order(*this), other_order(other);
  const auto same_value = [&](ValueId a, ValueId b) { return order(a) == other_order(b); };
  for (std::size_t i = 0; i < nodes_.size(); ++i) {
    const Node &a = node(order.nodes[i]), &b = other.node(other_order.nodes[i]);
    if (a.op != b.op || a.types != b.types || a.shardings != b.shardings || a.attrs != b.attrs ||
        !std::equal(a.operands.begin(), a.operands.end(), b.operands.begin(), b.operands.end(), same_value) ||
        !std::equal(a.graphs.begin(), a.graphs.end(), b.graphs.begin(), b.graphs.end(),
                    [](const GraphRef& x, const GraphRef& y) { return x->same_structure(*y); }))
      return false;
  }
  return std::equal(
      outputs_.begin(), outputs_.end(), other.outputs_.begin(),
      [&](const Output& a, const Output& b) { return same_value(a.value, b.value) && a.name == b.name; });
}

}  // namespace systole::ir
