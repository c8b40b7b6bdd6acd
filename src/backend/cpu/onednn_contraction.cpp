#include "backend/cpu/onednn_contraction.h"

#include <string_view>
#include <utility>

#include "backend/cpu/onednn_convolution.h"
#include "backend/cpu/onednn_product.h"
#include "systole/base/error.h"

namespace systole::cpu {

using namespace patterns;
using dnnl::api;
using dnnl::DescriptionObject;
using dnnl::OwnedDescription;
using dnnl::OwnedPrimitiveDescription;

namespace {

int type_of(DType dtype) {
  switch (dtype) {
    case DType::i8: return dnnl::kS8;
    case DType::u8: return dnnl::kU8;
    case DType::i32: return dnnl::kS32;
    default: return dnnl::kF32;
  }
}

int function_of(Scaling::Kind kind) {
  switch (kind) {
    case Scaling::Kind::mul: return dnnl::kMul;
    case Scaling::Kind::div: return dnnl::kDiv;
    case Scaling::Kind::add: return dnnl::kAdd;
    case Scaling::Kind::sub: return dnnl::kSub;
    case Scaling::Kind::max: return dnnl::kMax;
    default: return dnnl::kMin;
  }
}

// What no kernel of the library fits, a row of one product with a row added to it, is done by plain loops.
void refuse_reference(const dnnl::PrimitiveDescriptionObject* what) {
  const char* name = "";
  dnnl::check(api().primitive_desc_query(what, dnnl::kImplementationOf, 0, static_cast<void*>(&name)),
              "dnnl_primitive_desc_query");
  if (std::string_view(name).starts_with("ref"))
    throw Error(ErrorKind::kUnsupported, "oneDNN", "the library has plain loops for it alone");
}

}  // namespace

Contraction contraction_of(const Product& p, DType first) {
  const ProductTypes types{type_of(first), dnnl::kS8, dnnl::kS32};
  ProductArrays arrays = product_arrays(p, types);
  Contraction out;
  out.multiplications = multiplications(p);
  out.depth = p.depth;
  out.columns = p.columns;
  out.count = p.outer * p.batch * p.rows * p.columns;
  out.a = std::move(arrays.a);
  out.b = std::move(arrays.b);
  out.a_place = input(p.a.input, p.a.offset);
  out.b_place = input(p.b.input, p.b.offset);
  out.row = {1, p.columns};
  if (p.outer > 1 || p.batch > 1) out.row.insert(out.row.begin(), 1);
  if (p.outer > 1) out.row.insert(out.row.begin(), 1);
  out.result = [p, types](int type) { return product_arrays(p, {types.a, types.b, type}).c; };
  const auto a = std::make_shared<OwnedDescription>(copy_of(out.a.get()));
  // Of several right factors each is packed as it is read.
  const auto b = std::make_shared<OwnedDescription>(
      p.outer * p.batch > 1 ? copy_of(out.b.get()) : dnnl::described({p.depth, p.columns}, dnnl::kS8));
  out.primitive = [a, b](const DescriptionObject* c, const dnnl::AttributesObject* how) {
    dnnl::PrimitiveDescription made = nullptr;
    dnnl::check(
        api().matmul_primitive_desc_create(&made, dnnl::engine(), a->get(), b->get(), nullptr, c, how),
        "dnnl_matmul_primitive_desc_create");
    return OwnedPrimitiveDescription(made);
  };
  return out;
}

Contraction contraction_of(const Convolution& c, const KernelStrides& strides, std::size_t first,
                           std::size_t second) {
  const auto arrays = std::make_shared<ConvolutionArrays>(
      c, strides, ProductTypes{type_of(c.operands), dnnl::kS8, dnnl::kS32});
  Contraction out;
  out.multiplications = multiplications(c);
  out.depth = c.window[0] * c.window[1] * (c.channels / c.groups);
  out.columns = c.filters;
  out.count = c.batch * c.result[0] * c.result[1] * c.filters;
  out.a = copy_of(arrays->x.get());
  out.b = copy_of(arrays->w.get());
  out.a_place = input(first);
  out.b_place = input(second);
  out.row = {1, c.filters, 1, 1};
  out.result = [c, strides](int type) {
    return std::move(ConvolutionArrays(c, strides, {dnnl::kS8, dnnl::kS8, type}).y);
  };
  out.primitive = [arrays](const DescriptionObject* y, const dnnl::AttributesObject* how) {
    arrays->y = copy_of(y);
    return forward_convolution(*arrays, nullptr, how);
  };
  return out;
}

std::shared_ptr<const Plan> plan_of(const Contraction& c, const Scaling& scaling) {
  constexpr std::int64_t kTimesFaster = 4;  // than f32
  auto plan = std::make_shared<Plan>(c.multiplications / kTimesFaster);
  std::vector<Use> uses;
  const dnnl::OwnedPostOps ops = post_ops();
  for (std::size_t i = 0; i < scaling.steps.size(); ++i) {
    const Scaling::Step& step = scaling.steps[i];
    if (step.kind == Scaling::Kind::round) {
      dnnl::check(api().post_ops_append_eltwise(ops.get(), dnnl::kRound, 0, 0),
                  "dnnl_post_ops_append_eltwise");
      continue;
    }
    const std::vector<std::int64_t> one(c.row.size(), 1);
    OwnedDescription array =
        dnnl::described(step.is_row ? c.row : one, dnnl::kF32, std::vector<std::int64_t>(c.row.size(), 1));
    dnnl::check(api().post_ops_append_binary(ops.get(), function_of(step.kind), array.get()),
                "dnnl_post_ops_append_binary");
    uses.push_back(
        {post_op(static_cast<int>(i)), std::move(array),
         step.input < 0 ? plan->number(step.number) : input(static_cast<std::size_t>(step.input))});
  }
  const dnnl::OwnedAttributes how = attributes();
  dnnl::check(api().primitive_attr_set_post_ops(how.get(), ops.get()), "dnnl_primitive_attr_set_post_ops");
  OwnedDescription result = c.result(type_of(scaling.output));
  const OwnedPrimitiveDescription what = c.primitive(result.get(), how.get());
  refuse_reference(what.get());
  const DescriptionObject* const wanted = api().primitive_desc_query_md(what.get(), dnnl::kWeightsOf, 0);
  const bool is_ours = api().memory_desc_equal(wanted, c.b.get()) != 0;
  uses.push_back(
      {dnnl::kWeights, copy_of(wanted), is_ours ? c.b_place : plan->packed(c.b.get(), c.b_place, wanted)});
  uses.push_back({dnnl::kSource, copy_of(c.a.get()), c.a_place});
  uses.push_back({dnnl::kResult, std::move(result), output(0)});
  plan->add(what.get(), std::move(uses));
  return plan;
}

}  // namespace systole::cpu
