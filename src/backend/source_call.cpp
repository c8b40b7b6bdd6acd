#include "backend/source_call.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <optional>
#include <string_view>

#include "runtime/source_text.h"
#include "systole/base/error.h"
#include "systole/ir/composite.h"
#include "systole/ir/rewriter.h"

namespace systole::runtime {

namespace {

const std::string& source_of(const ir::KernelAttrs& attrs, codegen::Dialect dialect) {
  switch (dialect) {
    case codegen::Dialect::c: return attrs.c;
    case codegen::Dialect::cuda: return attrs.cuda;
    case codegen::Dialect::opencl: return attrs.opencl;
  }
  __builtin_unreachable();
}

Size3 size_of_list(const Ints& sizes) {
  const auto at = [&](std::size_t i) { return i < sizes.size() ? sizes[i] : std::int64_t{1}; };
  return {at(0), at(1), at(2)};
}

// How many threads have work, if the source says so: #define S_ITEMS 100.
std::int64_t items_of(const Typedefs& defines) {
  const auto found = defines.find("S_ITEMS");
  if (found == defines.end()) return 0;
  std::int64_t items = 0;
  const char* const end = found->second.data() + found->second.size();
  return std::from_chars(found->second.data(), end, items).ptr == end ? items : 0;
}

// Of grid and block, what is not said is such that there is a thread for each element of result 0. A block
// that the kernel is compiled for needs no saying.
Launch launch_of(const ir::KernelAttrs& attrs, const Typedefs& defines, const std::optional<Size3>& fixed) {
  constexpr std::int64_t kBlock = 256;
  const std::int64_t count = attrs.results[0].shape.count();
  const auto share = [&](const Size3& of) {
    std::int64_t parts = 1;
    for (const std::int64_t n : {of.x, of.y, of.z})
      if (__builtin_mul_overflow(parts, n, &parts)) return std::int64_t{1};  // more than there are elements
    return count / parts + (count % parts != 0);
  };
  Launch launch{.grid = size_of_list(attrs.grid),
                .block = attrs.block.empty() ? fixed.value_or(Size3(kBlock)) : size_of_list(attrs.block),
                .shared_bytes = static_cast<std::size_t>(attrs.shared_bytes)};
  // Without a thread, zeroed results are what they begin as.
  if (defines.contains("S_ZEROED") && defines.contains("S_EMPTY")) {
    launch.grid = 0;
    return launch;
  }
  if (!attrs.grid.empty() && !attrs.block.empty()) {
    launch.items = items_of(defines);
    return launch;
  }
  if (attrs.grid.empty())
    launch.grid = share(launch.block);
  else if (!fixed)
    launch.block = std::max<std::int64_t>(share(launch.grid), 1);
  if (count == 0) {
    if (std::any_of(attrs.results.begin(), attrs.results.end(),
                    [](const Type& type) { return type.shape.count() > 0; }))
      throw Error(ErrorKind::kInvalidArgument, fmt::format("kernel_call {}", attrs.name),
                  "result 0 is empty and another is not, so nothing says how many threads there are",
                  "a grid and a block, or the larger result first");
    launch.grid = 0;
  }
  launch.items = count;
  return launch;
}

void check(const std::string& where, const SourceParameter& parameter, const Type& type, bool is_result) {
  const auto refuse = [&](ErrorKind kind, std::string expected) {
    throw Error(kind, where, fmt::format("parameter {}", parameter.to_string()), std::move(expected),
                parameter.type);
  };
  if (parameter.kind && parameter.kind != SourceParameter::Kind::array)
    refuse(ErrorKind::kInvalidArgument, fmt::format("a pointer to {}", type.to_string()));
  if (!parameter.takes(type.dtype))
    refuse(ErrorKind::kDType, fmt::format("a pointer to {}", name(type.dtype)));
  if (!is_result && parameter.is_written)
    refuse(ErrorKind::kInvalidArgument, "a pointer to const: operands are not written to");
}

// Whether its body is to be run.
bool lacks_source(const ir::Node& node, codegen::Dialect dialect) {
  return node.op == ir::Op::kernel_call && !node.graphs.empty() &&
         source_of(node.as<ir::KernelAttrs>(), dialect).empty();
}

bool lacks_source(const ir::Graph& graph, codegen::Dialect dialect) {
  return std::any_of(graph.nodes().begin(), graph.nodes().end(), [&](const ir::Node& node) {
    return lacks_source(node, dialect) ||
           std::any_of(node.graphs.begin(), node.graphs.end(),
                       [&](const ir::GraphRef& inner) { return lacks_source(*inner, dialect); });
  });
}

}  // namespace

std::shared_ptr<const SourceCall> source_call(const lower::Step& step, codegen::Dialect dialect,
                                              const SourceBuild& build) {
  const ir::Graph& graph = step.region.graph;
  if (step.region.anchor < 0 || graph.node(step.region.anchor).op != ir::Op::kernel_call) return nullptr;
  const ir::Node& node = graph.node(step.region.anchor);
  const auto& attrs = node.as<ir::KernelAttrs>();
  const std::string where = fmt::format("kernel_call {}", attrs.name);
  if (source_of(attrs, dialect).empty()) {
    if (!node.graphs.empty()) return nullptr;
    throw Error(ErrorKind::kUnsupported, where,
                "it has no source in this device's language and no body graph");
  }
  auto call = std::make_shared<SourceCall>();
  const std::string& source = source_of(attrs, dialect);
  const Typedefs defines = source_defines(source);
  const bool is_portable = is_portable_text(source) && !defines.contains("S_OWN_LANGUAGE");
  const SourceOptions options{.defines = {{"S_COUNT", std::to_string(attrs.results[0].shape.count())}}};
  try {
    const std::shared_ptr<const SourceProgram> program = build({source, attrs.name, is_portable}, options);
    call->kernel = kernel_named("its source", *program, attrs.name);
  } catch (const Error& error) {
    throw error.within(where);
  }
  call->launch = launch_of(attrs, defines, call->kernel->block());
  call->zeroes = defines.contains("S_ZEROED");
  if (dialect == codegen::Dialect::c) call->launch.shared_bytes = 0;  // the other sources' memory
  check_launch(where, call->launch);
  for (const ir::ValueId v : node.operands) {
    const auto& inputs = graph.inputs();
    call->slots.push_back({.is_result = false,
                           .position = static_cast<std::int32_t>(
                               std::find(inputs.begin(), inputs.end(), v.node) - inputs.begin()),
                           .bytes = static_cast<std::size_t>(graph.type(v).bytes())});
  }
  for (std::size_t k = 0; k < node.types.size(); ++k) {
    SourceCall::Slot slot{.is_result = true, .bytes = static_cast<std::size_t>(node.types[k].bytes())};
    for (std::size_t o = 0; o < graph.outputs().size(); ++o)
      if (const ir::ValueId v = graph.outputs()[o].value;
          v.node == step.region.anchor && static_cast<std::size_t>(v.index) == k)
        slot.position = static_cast<std::int32_t>(o);
    call->slots.push_back(slot);
  }

  const std::vector<SourceParameter>& parameters = call->kernel->parameters();
  const bool is_open = call->launch.shared_bytes > 0 && parameters.size() == call->slots.size() + 1 &&
                       parameters.back().kind == SourceParameter::Kind::local;
  if (!is_open && parameters.size() != call->slots.size())
    throw Error(ErrorKind::kInvalidArgument, where, "parameters are the operands, then the results",
                std::to_string(call->slots.size()), std::to_string(parameters.size()));
  for (std::size_t i = 0; i < call->slots.size(); ++i) {
    const bool is_result = call->slots[i].is_result;
    check(where, parameters[i],
          is_result ? node.types[i - node.operands.size()] : graph.type(node.operands[i]), is_result);
  }
  return call;
}

ir::Graph with_bodies(const ir::Graph& graph, codegen::Dialect dialect) {
  if (!lacks_source(graph, dialect)) return graph;
  const auto rule = [&](const ir::Rewrite& r) -> std::optional<ir::Values> {
    if (!lacks_source(r.node, dialect)) return std::nullopt;
    return ir::inline_graph(r.graph, *r.node.graphs[0], r.operands);
  };
  return ir::rewrite(graph, rule);
}

}  // namespace systole::runtime
