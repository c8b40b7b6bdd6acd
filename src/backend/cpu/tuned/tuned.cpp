#include "backend/cpu/tuned/tuned.h"

#include "backend/cpu/jit.h"
#include "backend/cpu/tuned/attention.h"
#include "backend/cpu/tuned/recurrence.h"
#include "backend/patterns/attention.h"
#include "systole/base/error.h"

namespace systole::cpu {

namespace {

constexpr std::string_view kPrefix = "systole.";

}  // namespace

bool is_tuned(const std::string& implementation) { return implementation.starts_with(kPrefix); }

Tuned tuned_kernels(const lower::Region& region, const std::string& kernel_name) {
  const ir::Node& anchor = region.graph.node(region.anchor);
  if (patterns::is_attention(anchor)) return make_attention(region, kernel_name);
  if (is_recurrence(anchor)) return make_recurrence(region, kernel_name);
  throw Error(ErrorKind::kInternal, "tuned_kernels", "no kernel is written for this composite");
}

std::vector<lower::Claim> tuned_offers(const lower::Region& region) {
  const ir::Node& anchor = region.graph.node(region.anchor);
  if (!patterns::is_attention(anchor) && !is_recurrence(anchor)) return {};
  if (!makes_kernels()) return {lower::Claim::declined("no compiler for kernels")};
  const Tuned made = tuned_kernels(region, "offered");
  if (!made.reason.empty()) return {lower::Claim::declined(made.reason)};
  return {{made.name, {}, 5, made.workspace_bytes}};
}

}  // namespace systole::cpu
