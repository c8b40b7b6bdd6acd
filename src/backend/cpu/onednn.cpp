#include "backend/cpu/onednn.h"

#include <fmt/format.h>

#include <atomic>

#include "backend/cpu/cost.h"
#include "backend/cpu/onednn_api.h"
#include "backend/cpu/onednn_convolution.h"
#include "backend/cpu/onednn_int8.h"
#include "backend/cpu/onednn_layers.h"
#include "backend/cpu/onednn_plan.h"
#include "backend/cpu/onednn_product.h"
#include "backend/patterns/layers.h"
#include "backend/patterns/on_result.h"
#include "base/log.h"
#include "base/parallel.h"
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

// Multiplications of what oneDNN would be asked for; 0: it would not be.
std::int64_t wanted_multiplications(const lower::Region& region) {
  const ir::Node& node = region.graph.node(region.anchor);
  if (node.op == ir::Op::convolution) {
    patterns::Convolution c;
    if (!patterns::read_convolution(region.graph, node, c).empty()) return 0;
    return c.operands == DType::f32 || is_int8(region) ? multiplications(c) : 0;
  }
  patterns::Product p;
  if (!patterns::is_product(node) || !patterns::read_product(patterns::flat(region), p).empty()) return 0;
  return p.operands == DType::f32 || is_int8(region) ? multiplications(p) : 0;
}

void warn_once(const lower::Region& region) {
  static std::atomic<bool> is_done{false};
  if (is_done.load(std::memory_order_relaxed) || wanted_multiplications(region) < kWorthACall) return;
  if (is_done.exchange(true, std::memory_order_relaxed)) return;
  log(LogLevel::warn,
      fmt::format(
          "cpu: products and convolutions run on generated kernels, which are several times slower than "
          "oneDNN where they are large: {}. {}",
          dnnl::absence(), onednn_repair()));
}

}  // namespace

std::string onednn_repair() {
  if (!lend_pool(1))
    return "Build Systole with a compiler that has OpenMP; SYSTOLE_ONEDNN=0 says that none is wanted";
  return "Run scripts/setup in Systole's source and install again, or set SYSTOLE_ONEDNN to the path of a "
         "libdnnl.so.3 (oneDNN 3 for the processor, with OpenMP; `pip install onednn-cpu-gomp` brings one); "
         "SYSTOLE_ONEDNN=0 says that none is wanted";
}

std::string onednn_absence() { return dnnl::absence(); }

std::string onednn_name() {
  const dnnl::VersionObject& version = *dnnl::api().version();
  return fmt::format("oneDNN {}.{}.{} ({})", version.major, version.minor, version.patch, dnnl::file());
}

std::vector<lower::Claim> onednn_offers(const lower::Region& region) {
  if (dnnl::is_off()) return {};
  if (!dnnl::absence().empty()) warn_once(region);
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
