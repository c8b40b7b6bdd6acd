#include "ir/hash.h"

#include <bit>
#include <cstring>

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
      attrs);
  return h.result();
}

std::uint64_t Graph::hash() const {
  Hasher h;
  for (const Node& node : nodes_) {
    h.add(static_cast<std::uint64_t>(node.op));
    for (ValueId v : node.operands)
      h.add(static_cast<std::uint64_t>(v.node) << 32 | static_cast<std::uint32_t>(v.index));
    h.add(hash_attrs(node.attrs));
    for (const Type& t : node.types) add_type(h, t);
    for (const GraphRef& g : node.graphs) h.add(g->hash());
    for (const auto& s : node.shardings)
      if (s)
        for (const MeshAxisNames& names : s->dims) FieldHasher{h}(names);
  }
  for (const Output& o : outputs_) {
    h.add(static_cast<std::uint64_t>(o.value.node) << 32 | static_cast<std::uint32_t>(o.value.index));
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
  if (nodes_.size() != other.nodes_.size() || outputs_ != other.outputs_ || mesh_ != other.mesh_)
    return false;
  for (std::size_t i = 0; i < nodes_.size(); ++i) {
    const Node &a = nodes_[i], &b = other.nodes_[i];
    if (a.op != b.op || !(a.operands == b.operands) || a.types != b.types || a.shardings != b.shardings ||
        a.attrs != b.attrs || a.graphs.size() != b.graphs.size())
      return false;
    for (std::size_t g = 0; g < a.graphs.size(); ++g)
      if (!a.graphs[g]->same_structure(*b.graphs[g])) return false;
  }
  return true;
}

}  // namespace systole::ir
