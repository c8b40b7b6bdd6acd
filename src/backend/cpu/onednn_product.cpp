#include "backend/cpu/onednn_product.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "backend/cpu/cost.h"
#include "backend/patterns/on_result.h"

namespace systole::cpu {

using namespace patterns;
using dnnl::api;
using dnnl::DescriptionObject;
using dnnl::OwnedDescription;

namespace {

using List = std::vector<std::int64_t>;

// Batches, then the matrix; a batch at stride 0 is one for all.
OwnedDescription array(const Product& p, int type, std::int64_t outer, std::int64_t batch, List matrix,
                       List strides) {
  List dims, steps;
  if (p.outer > 1)
    dims.push_back(outer == 0 ? 1 : p.outer), steps.push_back(std::max(outer, List::value_type{1}));
  if (p.outer > 1 || p.batch > 1)
    dims.push_back(batch == 0 ? 1 : p.batch), steps.push_back(std::max(batch, List::value_type{1}));
  dims.insert(dims.end(), matrix.begin(), matrix.end());
  steps.insert(steps.end(), strides.begin(), strides.end());
  return dnnl::described(dims, type, steps);
}

}  // namespace

ProductArrays product_arrays(const Product& p, const ProductTypes& types) {
  const std::int64_t size = p.rows * p.columns;
  return {array(p, types.a, p.a.outer_stride, p.a.batch_stride, {p.rows, p.depth},
                {p.a.free_stride, p.a.contract_stride}),
          array(p, types.b, p.b.outer_stride, p.b.batch_stride, {p.depth, p.columns},
                {p.b.contract_stride, p.b.free_stride}),
          array(p, types.c, size * p.batch, size, {p.rows, p.columns}, {p.columns, 1})};
}

OwnedDescription row_of(const Product& p, int type) {
  return array(p, type, 0, 0, {1, p.columns}, {p.columns, 1});
}

std::int64_t multiplications(const Product& p) { return p.outer * p.batch * p.rows * p.columns * p.depth; }

std::string small_product(const Product& p) {
  constexpr std::int64_t kFewRows = 4, kLongestDepth = 4096;
  if (p.rows <= kFewRows && p.b.contract_stride == 1 && p.depth <= kLongestDepth)
    return "few rows: a generated kernel reads the other factor once";
  const std::int64_t count = multiplications(p);
  return count < kWorthACall ? fmt::format("small: {} multiplications", count) : "";
}

namespace {

// One row or column, a part of a wider matrix: version 3.6 reads it as if its numbers were neighbours.
bool is_apart(const Product& p) {
  return (p.rows == 1 && p.a.contract_stride != 1) || (p.columns == 1 && p.b.contract_stride != 1);
}

}  // namespace

Made make_onednn_product(const lower::Region& region) {
  Product p;
  OnResult work;
  const lower::Region bare = flat(region);
  if (std::string reason = read_product(bare, p); !reason.empty()) return refused(reason);
  if (std::string reason = read_on_result(bare, p, work); !reason.empty()) return refused(reason);
  if (p.operands != DType::f32 || p.result != DType::f32)
    return refused(fmt::format("products of {}", systole::name(p.operands)));
  if (work.scale != 1 || work.function != Pointwise::identity || work.before >= 0 || work.row_sum >= 0 ||
      work.operand_sum >= 0)
    return refused("other work on the result than additions");
  if (is_apart(p)) return refused("one row or column whose numbers lie apart: some versions have wrong sums");
  if (Forced::threads() == 0)
    if (std::string reason = small_product(p); !reason.empty()) return refused(reason);

  auto plan = std::make_shared<Plan>(multiplications(p));
  auto [a, b, c] = product_arrays(p, {dnnl::kF32, dnnl::kF32, dnnl::kF32});
  OwnedDescription bias = work.bias >= 0 ? row_of(p, dnnl::kF32) : nullptr;
  const dnnl::OwnedAttributes how = attributes();
  if (work.added >= 0) add_array(how.get(), c.get());
  // A right factor that lies across is packed either way; what packs it here may be kept.
  const bool packs = p.b.contract_stride == 1 && p.b.free_stride != 1 && p.outer * p.batch == 1;
  const OwnedDescription any = packs ? dnnl::described({p.depth, p.columns}, dnnl::kF32) : nullptr;
  dnnl::PrimitiveDescription made = nullptr;
  dnnl::check(api().matmul_primitive_desc_create(&made, dnnl::engine(), a.get(), packs ? any.get() : b.get(),
                                                 bias.get(), c.get(), how.get()),
              "dnnl_matmul_primitive_desc_create");
  const dnnl::OwnedPrimitiveDescription owned(made);
  Place right = input(p.b.input, p.b.offset * 4);
  if (packs) {
    const DescriptionObject* const wanted = api().primitive_desc_query_md(made, dnnl::kWeightsOf, 0);
    right = plan->packed(b.get(), right, wanted);
    b = copy_of(wanted);
  }

  std::vector<Use> uses;
  uses.push_back({dnnl::kSource, std::move(a), input(p.a.input, p.a.offset * 4)});
  uses.push_back({dnnl::kWeights, std::move(b), right});
  if (bias) uses.push_back({dnnl::kBias, std::move(bias), input(static_cast<std::size_t>(work.bias))});
  if (work.added >= 0)
    uses.push_back({post_op(0), copy_of(c.get()), input(static_cast<std::size_t>(work.added))});
  uses.push_back({dnnl::kResult, std::move(c), output(static_cast<std::size_t>(work.result))});
  plan->add(made, std::move(uses));
  return made_of(std::move(plan), "onednn.matmul" + work.text());
}

}  // namespace systole::cpu
