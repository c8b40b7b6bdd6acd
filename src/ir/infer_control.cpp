// Result types of control flow, collectives and kernel calls: what the sub-graphs, the mesh or the caller
// promise.

#include <fmt/format.h>
#include <algorithm>
#include <iterator>

#include "ir/infer.h"

namespace systole::ir {

namespace {

std::string show(const Types& types) {
  std::string text;
  for (const Type& t : types) text += (text.empty() ? "" : ", ") + t.to_string();
  return "(" + text + ")";
}

void check_signature(const Call& c, const Graph& g, const Types& wanted, const char* role) {
  Types got;
  for (std::size_t i = 0; i < g.inputs().size(); ++i) got.push_back(g.input_type(i));
  if (got != wanted)
    c.fail_shape(fmt::format("the inputs of the {} graph @{}", role, g.name()), show(wanted), show(got));
}

Types output_types(const Graph& g) {
  Types types;
  for (std::size_t i = 0; i < g.outputs().size(); ++i) types.push_back(g.output_type(i));
  return types;
}

// The second graph of a composite: from the operands, the results and a cotangent for each float result to a
// cotangent for each float operand.
void check_backward(const Call& c, const Graph& g, Types operands, const Types& results) {
  const auto floats = [](const Types& types) {
    Types out;
    std::copy_if(types.begin(), types.end(), std::back_inserter(out),
                 [](const Type& t) { return is_float(t.dtype); });
    return out;
  };
  const Types wanted = floats(operands), cotangents = floats(results);
  Types in = std::move(operands);
  in.insert(in.end(), results.begin(), results.end());
  in.insert(in.end(), cotangents.begin(), cotangents.end());
  check_signature(c, g, in, "backward");
  if (const Types got = output_types(g); got != wanted)
    c.fail_shape(
        fmt::format("the backward graph @{} must return a cotangent for each float operand", g.name()),
        show(wanted), show(got));
}

void check_count(const Call& c, std::int64_t count, std::size_t most, const char* what) {
  if (count < 0 || static_cast<std::uint64_t>(count) > most)
    c.fail_attr(what, fmt::format("0 to {}", most), std::to_string(count));
}

}  // namespace

Types infer_scan(const Call& c) {
  const auto& a = c.as<ScanAttrs>();
  c.check_graphs(1);
  if (a.length.is_static() && a.length.value() < 0) c.fail_attr("length", "0 or more", a.length.to_string());
  check_count(c, a.carries, c.in.size(), "carries");
  check_count(c, a.xs, c.in.size() - static_cast<std::size_t>(a.carries), "xs");
  const auto carries = static_cast<std::size_t>(a.carries),
             first_constant = carries + static_cast<std::size_t>(a.xs);
  Types body_in;
  for (std::size_t i = 0; i < c.in.size(); ++i) {
    Type t = c.in[i];
    if (i >= carries && i < first_constant) {
      if (t.shape.empty() || !(t.shape[0] == a.length))
        c.fail_shape(fmt::format("operand {} is cut along its first axis", i),
                     "first axis " + a.length.to_string(), t.to_string());
      t.shape = Shape(std::span<const Dim>(t.shape.begin() + 1, t.shape.end()));
    }
    body_in.push_back(std::move(t));
  }
  const Graph& body = *c.graphs[0];
  check_signature(c, body, body_in, "body");
  Types out = output_types(body);
  if (out.size() < carries)
    c.fail_shape("the body returns fewer values than there are carries", std::to_string(carries),
                 std::to_string(out.size()));
  for (std::size_t i = 0; i < out.size(); ++i) {
    if (i < carries) {
      if (!(out[i] == c.in[i]))
        c.fail_shape(fmt::format("carry {} changes its type in the body", i), c.in[i].to_string(),
                     out[i].to_string());
      continue;
    }
    Shape stacked{a.length};
    for (const Dim& d : out[i].shape) stacked.push_back(d);
    out[i].shape = stacked;
  }
  return out;
}

Types infer_while_loop(const Call& c) {
  const auto& a = c.as<WhileAttrs>();
  c.check_graphs(2);
  check_count(c, a.carries, c.in.size(), "carries");
  const Types in(c.in.begin(), c.in.end());
  const Types carry(c.in.begin(), c.in.begin() + a.carries);
  check_signature(c, *c.graphs[0], in, "condition");
  check_signature(c, *c.graphs[1], in, "body");
  if (output_types(*c.graphs[0]) != Types{Type{DType::boolean, {}}})
    c.fail_shape("the condition must return one bool[]");
  if (output_types(*c.graphs[1]) != carry) c.fail_shape("the body must return the carries' types");
  return carry;
}

Types infer_cond(const Call& c) {
  c.check_graphs(2);
  c.check_scalar(0, kBool);
  const Types in(c.in.begin() + 1, c.in.end());
  check_signature(c, *c.graphs[0], in, "then");
  check_signature(c, *c.graphs[1], in, "else");
  const Types out = output_types(*c.graphs[0]);
  if (out != output_types(*c.graphs[1])) c.fail_shape("the branches return different types");
  return out;
}

Types infer_composite(const Call& c) {
  if (c.graphs.size() != 2) c.check_graphs(1);
  if (c.as<CompositeAttrs>().name.empty()) c.fail_attr("a composite needs a name");
  Types in(c.in.begin(), c.in.end());
  check_signature(c, *c.graphs[0], in, "body");
  const Types out = output_types(*c.graphs[0]);
  if (c.graphs.size() == 2) check_backward(c, *c.graphs[1], std::move(in), out);
  return out;
}

namespace {

// `axis` of the operand divided by the group's size.
Type divided(const Call& c, std::int64_t axis, std::int64_t parts, const char* what) {
  c.check_axis(axis, c.in[0].shape.rank(), what);
  Type out = c.in[0];
  Dim& d = out.shape[static_cast<std::size_t>(axis)];
  if (d.offset() % parts != 0 || d.scale() % parts != 0)
    c.fail_shape(fmt::format("axis {} does not split evenly over the group", axis),
                 fmt::format("a multiple of {}", parts), d.to_string());
  d = floor_div(d, parts);
  return out;
}

}  // namespace

Types infer_all_reduce(const Call& c) {
  const auto& a = c.as<AllReduceAttrs>();
  c.check_kind(a.kind);
  c.group_size(a.mesh_axes);
  return {c.in[0]};
}

Types infer_all_gather(const Call& c) {
  const auto& a = c.as<AllGatherAttrs>();
  c.check_axis(a.axis, c.in[0].shape.rank(), "axis");
  Type out = c.in[0];
  Dim& d = out.shape[static_cast<std::size_t>(a.axis)];
  d = d * Dim(c.group_size(a.mesh_axes));
  return {out};
}

Types infer_reduce_scatter(const Call& c) {
  const auto& a = c.as<ReduceScatterAttrs>();
  c.check_kind(a.kind);
  return {divided(c, a.axis, c.group_size(a.mesh_axes), "axis")};
}

Types infer_all_to_all(const Call& c) {
  const auto& a = c.as<AllToAllAttrs>();
  const std::int64_t n = c.group_size(a.mesh_axes);
  Type out = divided(c, a.split_axis, n, "split_axis");
  c.check_axis(a.concat_axis, out.shape.rank(), "concat_axis");
  Dim& d = out.shape[static_cast<std::size_t>(a.concat_axis)];
  d = d * Dim(n);
  return {out};
}

Types infer_collective_permute(const Call& c) {
  const auto& a = c.as<PermuteAttrs>();
  const std::int64_t n = c.group_size(a.mesh_axes);
  c.check_length(a.targets.size(), a.sources.size(), "targets");
  for (const Ints* list : {&a.sources, &a.targets}) {
    std::vector<bool> seen(static_cast<std::size_t>(n));
    for (std::int64_t i : *list) {
      if (i < 0 || i >= n || seen[static_cast<std::size_t>(i)])
        c.fail_attr("sources and targets name group members, each at most once",
                    fmt::format("0 to {}", n - 1), std::to_string(i));
      seen[static_cast<std::size_t>(i)] = true;
    }
  }
  return {c.in[0]};
}

Types infer_device_index(const Call& c) {
  c.group_size(c.as<MeshAxesAttrs>().mesh_axes);
  return {{DType::u32, {}}};
}

Types infer_barrier(const Call& c) {
  c.check_graphs(0);
  return {c.in.begin(), c.in.end()};
}

Types infer_kernel_call(const Call& c) {
  const auto& a = c.as<KernelAttrs>();
  if (a.name.empty()) c.fail_attr("a kernel needs the name of its entry point");
  if (a.results.empty()) c.fail_attr("a kernel needs at least one result type");
  if (a.grid.size() > 3 || a.block.size() > 3 || a.shared_bytes < 0)
    c.fail_attr("grid and block have at most 3 entries, shared_bytes is 0 or more");
  for (const Ints* sizes : {&a.grid, &a.block})
    for (std::int64_t n : *sizes)
      if (n < 1 || n > 0x7fffffff) c.fail_attr("grid and block sizes", "1 to 2147483647", std::to_string(n));
  if (!c.graphs.empty()) {
    c.check_graphs(1);
    check_signature(c, *c.graphs[0], Types(c.in.begin(), c.in.end()), "body");
    if (output_types(*c.graphs[0]) != a.results) c.fail_shape("the body's results differ from the kernel's");
  }
  return a.results;
}

}  // namespace systole::ir
