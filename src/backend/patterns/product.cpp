#include "backend/patterns/product.h"

#include <fmt/format.h>

#include <algorithm>

#include "compile/strided.h"

namespace systole::patterns {

namespace {

using lower::Strided;

Pieces pieces_of(const Strided& view, const Ints& axes) {
  Pieces all;
  for (const std::int64_t axis : axes) {
    const Pieces& own = view.axes[static_cast<std::size_t>(axis)];
    all.insert(all.end(), own.begin(), own.end());
  }
  return all;
}

// The last two axes' worth of batches that both operands have at one stride; the rest is the outer loop.
struct Batches {
  std::int64_t outer = 1, inner = 1;
  std::int64_t outer_stride = 0, inner_stride = 0;
};

bool read_batches(const Pieces& pieces, Batches& out) {
  if (pieces.size() > 2) return false;
  if (!pieces.empty()) {
    out.inner = pieces.back().size;
    out.inner_stride = pieces.back().stride;
  }
  if (pieces.size() == 2) {
    out.outer = pieces[0].size;
    out.outer_stride = pieces[0].stride;
  }
  return true;
}

// Splits the operand's batches as the other's are, where it has one run of what the other has in two.
bool split_like(Batches& batches, const Batches& other) {
  if (batches.outer == other.outer && batches.inner == other.inner) return true;
  if (batches.outer != 1 || other.outer * other.inner != batches.inner) return false;
  batches.outer = other.outer;
  batches.inner = other.inner;
  batches.outer_stride = other.inner * batches.inner_stride;
  return true;
}

struct Operand {
  Matrix matrix;
  Batches batches;
  std::int64_t free = 1, depth = 1;
};

std::string read_view(const ir::Node& node, std::size_t which, const Strided& view, Operand& out) {
  const auto& dot = node.as<ir::DotAttrs>();
  const Ints& batch = which == 0 ? dot.a_batch : dot.b_batch;
  const Ints& contract = which == 0 ? dot.a_contract : dot.b_contract;
  Ints free;
  for (std::int64_t axis = 0; axis < static_cast<std::int64_t>(view.axes.size()); ++axis)
    if (std::find(batch.begin(), batch.end(), axis) == batch.end() &&
        std::find(contract.begin(), contract.end(), axis) == contract.end())
      free.push_back(axis);
  const Pieces frees = joined(pieces_of(view, free)), depths = joined(pieces_of(view, contract));
  if (frees.size() > 1 || depths.size() > 1) return "the rows or columns of an operand have no single stride";
  if (!read_batches(joined(pieces_of(view, batch)), out.batches)) return "batches at more than two strides";
  out.free = frees.empty() ? 1 : frees[0].size;
  out.depth = depths.empty() ? 1 : depths[0].size;
  Matrix& matrix = out.matrix;
  matrix.offset = view.offset;
  // A row or column of one element lies wherever suits.
  std::int64_t& across = matrix.free_stride;
  std::int64_t& along = matrix.contract_stride;
  across = frees.empty() ? 0 : frees[0].stride;
  along = depths.empty() ? 0 : depths[0].stride;
  if (frees.empty()) across = !depths.empty() && along == 1 ? out.depth : 1;
  if (depths.empty()) along = !frees.empty() && across == 1 ? out.free : 1;
  if (across != 1 && along != 1) return "neither rows nor columns are dense";
  if (matrix.free_stride < 1 || matrix.contract_stride < 1) return "an operand repeats its elements";
  return {};
}

std::string read_operand(const lower::Region& region, std::size_t which, Operand& out) {
  const ir::Graph& graph = region.graph;
  const ir::Node& node = graph.node(region.anchor);
  const auto is_input = [&](std::int32_t i) { return graph.node(i).op == ir::Op::input; };
  const std::optional<Strided> view = lower::strided(graph, node.operands[which], is_input);
  if (!view || !is_input(view->source.node)) return "an operand is computed on the way";
  out.matrix.input = static_cast<std::size_t>(
      std::find(graph.inputs().begin(), graph.inputs().end(), view->source.node) - graph.inputs().begin());
  return read_view(node, which, *view, out);
}

}  // namespace

Pieces joined(const Pieces& pieces) {
  Pieces out;
  for (const Strided::Piece& piece : pieces) {
    if (piece.size == 1) continue;
    if (!out.empty() && out.back().stride == piece.size * piece.stride)
      out.back() = {out.back().size * piece.size, piece.stride};
    else
      out.push_back(piece);
  }
  return out;
}

bool is_matrix(const ir::Node& dot, std::size_t operand, const lower::Strided& view) {
  Operand read;
  return read_view(dot, operand, view, read).empty();
}

std::string read_product(const lower::Region& region, Product& product) {
  if (region.anchor < 0) return kNoProduct;
  const ir::Graph& graph = region.graph;
  const ir::Node& node = graph.node(region.anchor);
  Operand a, b;
  if (std::string reason = read_operand(region, 0, a); !reason.empty()) return reason;
  if (std::string reason = read_operand(region, 1, b); !reason.empty()) return reason;
  if (!split_like(a.batches, b.batches) && !split_like(b.batches, a.batches))
    return "the operands' batches are in different orders";
  product.operands = graph.type(node.operands[0]).dtype;
  product.result = node.types[0].dtype;
  product.outer = a.batches.outer;
  product.batch = a.batches.inner;
  product.rows = a.free;
  product.columns = b.free;
  product.depth = a.depth;
  product.a = a.matrix;
  product.b = b.matrix;
  product.a.batch_stride = a.batches.inner_stride;
  product.a.outer_stride = a.batches.outer_stride;
  product.b.batch_stride = b.batches.inner_stride;
  product.b.outer_stride = b.batches.outer_stride;
  if (product.rows == 0 || product.columns == 0 || product.depth == 0 || product.batch * product.outer == 0)
    return "there is nothing to multiply";
  constexpr std::int64_t kMostOuter = 64;
  if (product.outer > kMostOuter) return fmt::format("it would take {} calls", product.outer);
  return {};
}

}  // namespace systole::patterns
