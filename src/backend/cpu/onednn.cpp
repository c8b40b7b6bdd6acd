#include "backend/cpu/onednn.h"

#include "backend/cpu/cost.h"
#include "backend/cpu/onednn_api.h"
#include "backend/cpu/onednn_convolution.h"
#include "backend/cpu/onednn_int8.h"
#include "backend/cpu/onednn_layers.h"
#include "backend/cpu/onednn_product.h"
#include "backend/patterns/layers.h"
#include "systole/base/error.h"

namespace systole::cpu {

namespace {

Made make_f32(const lower::Region& region) {
  return region.graph.node(region.anchor).op == ir::Op::convolution ? make_onednn_convolution(region)
                                                                    : make_onednn_product(region);
}

// `times` gets those of the ways where they were measured; null: it is claimed already.
Made make(const lower::Region& region, std::string* times) {
  if (std::string reason = onednn_absence(); !reason.empty()) return refused(reason);
  try {
    if (patterns::is_layer(region.graph.node(region.anchor))) return make_onednn_layer(region);
    if (is_int8(region)) return make_onednn_int8(region);
    const Decision decision = decide(region, [&] { return make_f32(region); });
    if (!decision.is_measured) return make_f32(region);
    if (decision.is_generated && times != nullptr) return refused("slower: " + decision.times);
    if (times != nullptr) *times = decision.times;
    const Forced scope(decision.threads);
    return make_f32(region);
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::kUnsupported) throw;
    return refused(error.message());
  }
}

}  // namespace

std::string onednn_absence() { return dnnl::absence(); }

std::vector<lower::Claim> onednn_offers(const lower::Region& region) {
  if (dnnl::is_off()) return {};
  std::string times;
  const Made made = make(region, &times);
  if (!made.call) return {lower::Claim::declined("oneDNN: " + made.reason)};
  std::vector<lower::Claim> claims;
  if (!times.empty()) claims.push_back(lower::Claim::declined("timed: " + times));
  claims.push_back({made.name, {}, 10, made.workspace});
  return claims;
}

std::shared_ptr<const LibraryCall> onednn_call(const lower::Region& region) {
  Made made = make(region, nullptr);
  if (!made.call) throw Error(ErrorKind::kInternal, "oneDNN", made.reason);
  return made.call;
}

}  // namespace systole::cpu
