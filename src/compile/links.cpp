#include "compile/links.h"

#include <algorithm>

#include "compile/narrow.h"
#include "compile/strided.h"

namespace systole::lower {

namespace {

using ir::Op;

constexpr std::int64_t kLargestTextConstant = 16;
constexpr int kLongestMovement = 64;
constexpr int kMostPlaces = 1 << 20;  // more are counted as these

bool moves(Op op) {
  switch (op) {
    case Op::reshape:
    case Op::transpose:
    case Op::broadcast:
    case Op::slice:
    case Op::pad:
    case Op::concat:
    case Op::reverse:
    case Op::gather:
    case Op::dynamic_slice: return true;
    default: return false;
  }
}

Role first_role(const ir::Node& node) {
  switch (ir::info(node.op).op_class) {
    case ir::OpClass::elementwise: return Role::member;
    case ir::OpClass::movement: return moves(node.op) ? Role::inlined : Role::alone;
    case ir::OpClass::source:
      if (node.op == Op::input) return Role::source;
      if (node.op == Op::random_bits) return Role::member;
      return is_stored_constant(node) ? Role::source : Role::inlined;
    case ir::OpClass::reduction: return node.op == Op::reduce ? Role::member : Role::alone;
    default: return Role::alone;
  }
}

class Finder {
 public:
  Finder(const ir::Graph& graph, const Target& target)
      : graph_(graph), target_(target), through_(at(graph.size())), lengths_(at(graph.size()), 0) {}

  Links run() {
    links_.sources.resize(through_.size());
    for (const ir::Node& node : graph_.nodes()) links_.roles.push_back(first_role(node));
    store_what_others_want();
    for (std::int32_t i = 0; i < graph_.size(); ++i) {
      const ir::Node& node = graph_.node(i);
      if (role(i) == Role::inlined) keep_short(i);
      std::vector<Link>& out = role(i) == Role::inlined ? through_[at(i)] : links_.sources[at(i)];
      for (std::size_t k = 0; k < node.operands.size(); ++k)
        for (const Link& link : of(node.operands[k].node)) add_link(out, read_by(node, k, link));
    }
    return std::move(links_);
  }

 private:
  static std::size_t at(std::int32_t i) { return static_cast<std::size_t>(i); }
  Role& role(std::int32_t i) { return links_.roles[at(i)]; }

  // Movement that is an output or an operand of something that is no generated kernel is done for itself;
  // a constant becomes memory.
  void store_what_others_want() {
    const auto store = [&](std::int32_t i) {
      if (role(i) != Role::inlined) return;
      role(i) = graph_.node(i).op == Op::constant ? Role::source : Role::member;
    };
    for (const ir::Output& output : graph_.outputs()) store(output.value.node);
    for (std::int32_t i = 0; i < graph_.size(); ++i)
      if (role(i) == Role::alone)
        for (std::size_t k = 0; k < graph_.node(i).operands.size(); ++k)
          if (!is_read_through(graph_.node(i), k)) store(graph_.node(i).operands[k].node);
  }

  // Movement of movement is written out once per way it is read: what would get too long is stored.
  void keep_short(std::int32_t i) {
    // A full concat may be one of many that another one joins.
    if (graph_.node(i).op == Op::concat && graph_.node(i).operands.size() >= kMostJoined) {
      role(i) = Role::member;
      return;
    }
    int length = 1;
    for (const ir::ValueId v : graph_.node(i).operands)
      if (role(v.node) == Role::inlined) length += lengths_[at(v.node)];
    if (length > kLongestMovement && graph_.node(i).operands.size() > 0) {
      role(i) = Role::member;
      return;
    }
    lengths_[at(i)] = length;
  }

  // A contraction reads what was only moved where it lies; a composite that is claimed may.
  bool is_read_through(const ir::Node& reader, std::size_t operand) {
    if (reader.op != Op::dot_general && reader.op != Op::convolution && reader.op != Op::composite)
      return false;
    const auto view =
        strided(graph_, reader.operands[operand], [&](std::int32_t i) { return role(i) != Role::inlined; });
    if (!view || !target_.reads_moved(reader, operand, *view)) return false;
    return reader.op != Op::convolution || std::all_of(view->axes.begin(), view->axes.end(),
                                                       [](const auto& pieces) { return pieces.size() <= 1; });
  }

  // What reading node `i` reads in the end.
  std::vector<Link> of(std::int32_t i) {
    if (role(i) == Role::inlined) return through_[at(i)];
    return {{i, Link::Reads::same, std::nullopt}};
  }

  // `link` is what operand k of `node` reads; the result says what an element of the node reads.
  Link read_by(const ir::Node& node, std::size_t k, const Link& link) const {
    const auto anywhere = [&] { return Link{link.source, Link::Reads::anywhere, std::nullopt, link.places}; };
    const Type& operand = graph_.type(node.operands[k]);
    switch (node.op) {
      case Op::reshape: return link;
      case Op::broadcast: {
        std::optional<Domain> domain = domain_of_broadcast(operand.shape, node.as<ir::BroadcastAttrs>());
        if (!domain) return link;
        if (link.reads != Link::Reads::same) return anywhere();
        return {link.source, Link::Reads::row, std::move(domain)};
      }
      case Op::reduce: return link;  // an element of its operand
      case Op::random_bits: return anywhere();
      default: break;
    }
    if (ir::info(node.op).op_class != ir::OpClass::elementwise) return anywhere();
    // A scalar beside a larger result: select's condition, clamp's bounds.
    if (operand.shape.count() != node.types[0].shape.count()) return anywhere();
    return link;
  }

  const ir::Graph& graph_;
  const Target& target_;
  std::vector<std::vector<Link>> through_;  // of inlined nodes
  std::vector<int> lengths_;                // of inlined nodes: movement that an element goes through
  Links links_;
};

}  // namespace

void add_link(std::vector<Link>& links, Link link) {
  link.places = std::min(link.places, kMostPlaces);
  for (Link& known : links)
    if (known.source == link.source && known.reads == link.reads && known.domain == link.domain) {
      if (link.reads == Link::Reads::anywhere)
        known.places = std::min(known.places + link.places, kMostPlaces);
      return;
    }
  links.push_back(std::move(link));
}

bool is_stored_constant(const ir::Node& node) {
  return node.op == Op::constant && node.types[0].shape.count() > kLargestTextConstant;
}

int element_cost(const ir::Node& node) {
  switch (node.op) {
    case Op::exp:
    case Op::expm1:
    case Op::log:
    case Op::log1p:
    case Op::cbrt:
    case Op::sin:
    case Op::cos:
    case Op::tan:
    case Op::tanh:
    case Op::logistic:
    case Op::erf:
    case Op::pow:
    case Op::atan2:
    case Op::rem:
    case Op::random_bits: return 16;
    case Op::div:
    case Op::sqrt:
    case Op::rsqrt: return 4;
    default: return ir::info(node.op).op_class == ir::OpClass::elementwise ? 1 : 0;
  }
}

Links find_links(const ir::Graph& graph, const Target& target) { return Finder(graph, target).run(); }

}  // namespace systole::lower
