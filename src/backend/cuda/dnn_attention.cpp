// cuDNN knows attention by the form of its graph: products, pointwise work and reductions in exactly this
// order, whatever lies between them virtual. Two arrays of the gradient are in memory all the same, in the
// workspace: the row sums of grad·o, and dq in f32, to which many blocks add. Without the latter the sums
// have one order, at the price of storing the scores' gradients.

#include "backend/cuda/dnn_attention.h"

#include <fmt/format.h>

#include <limits>
#include <map>
#include <mutex>
#include <optional>
#include <vector>

#include "backend/cuda/dnn_api.h"
#include "backend/cuda/dnn_graph.h"
#include "backend/cuda/dnn_plan.h"
#include "base/log.h"
#include "systole/base/error.h"

namespace systole::cuda {

using namespace patterns;

namespace {

using dnn::Array;
using dnn::Builder;
using dnn::dense;
using dnn::Number;
using dnn::turned;
using Four = Attention::Four;

constexpr std::int64_t kMostWorkspace = std::int64_t{1} << 30;
constexpr std::size_t kInfinityFrom = 91000;  // before it a masked score is the lowest number

// Names of the arrays in a plan; those of numbers and of what is virtual come behind them.
enum Name : std::int64_t {
  kQ = 1,
  kK,
  kV,
  kO,
  kLse,
  kGradO,
  kGradQ,
  kGradK,
  kGradV,
  kSums,
  kWideGradQ,
  kNext
};

class Graphs {
 public:
  Graphs(const Attention& attention, bool is_deterministic)
      : a_(attention), is_deterministic_(is_deterministic), type_(dnn::type_number(attention.dtype)) {}

  Builder forward() {
    const Array q = operand(kQ, 0, of_q()), kt = turned_operand(kK, 1, of_k()), v = operand(kV, 2, of_v());
    const Array scores = masked(scaled(product(q, kt)));
    const Array most = b_.reduce(dnn::kReduceMax, scores);
    const Array shares = b_.pointwise(dnn::kExp, b_.pointwise(dnn::kSub, scores, most));
    const Array total = b_.reduce(dnn::kReduceAdd, shares);
    const Array log = b_.pointwise(dnn::kLog, total);
    b_.pointwise(dnn::kAdd, most, stored(kLse, dnn::kFloat, of_row()), {.b = &log});
    const Array weights = b_.pointwise(dnn::kDiv, shares, {.b = &total}, type_);
    b_.multiply(weights, v, stored(kO, type_, of_o()));
    return std::move(b_);
  }

  Builder gradient() {
    const Array q = operand(kQ, 0, of_q()), kt = turned_operand(kK, 1, of_k()),
                vt = turned_operand(kV, 2, of_v()), o = operand(kO, 3, of_o()),
                lse = stored(kLse, dnn::kFloat, of_row()), grad = operand(kGradO, 5, of_o());
    const Array sums = stored(kSums, dnn::kFloat, of_row());
    const Array one = b_.number(1.0F);  // in place of dropout's scale
    b_.pointwise(dnn::kMul, b_.reduce(dnn::kReduceAdd, b_.pointwise(dnn::kMul, grad, o)), sums, {.b = &one});

    const Array scores = masked(b_.pointwise(dnn::kSub, scaled(product(q, kt)), lse));
    const Array weights = b_.pointwise(dnn::kExp, scores);
    b_.multiply(b_.transpose(weights, type_), grad, stored(kGradV, type_, of_v()));

    const Array inner = b_.pointwise(dnn::kSub, product(grad, vt), sums);
    const Array score_grad = scaled(b_.pointwise(dnn::kMul, inner, weights));
    b_.multiply(b_.transpose(score_grad, type_), q, stored(kGradK, type_, of_k()));

    const Array k = b_.transpose(kt, type_), grad_q = stored(kGradQ, type_, of_q());
    if (is_deterministic_) {
      b_.multiply(score_grad, k, grad_q);
    } else {
      const Array wide = stored(kWideGradQ, dnn::kFloat, of_q());
      b_.multiply(score_grad, k, wide);
      b_.pointwise(dnn::kIdentity, wide, grad_q, {});
    }
    return std::move(b_);
  }

 private:
  Four of_q() const { return {a_.batch, a_.heads, a_.queries, a_.depth}; }
  Four of_k() const { return {a_.batch, a_.heads, a_.keys, a_.depth}; }
  Four of_v() const { return {a_.batch, a_.heads, a_.keys, a_.width}; }
  Four of_o() const { return {a_.batch, a_.heads, a_.queries, a_.width}; }
  Four of_row() const { return {a_.batch, a_.heads, a_.queries, 1}; }

  Array operand(Name name, std::size_t i, const Four& dims) {
    return b_.stored(name, type_, dims, a_.arrays[i].strides);
  }
  Array turned_operand(Name name, std::size_t i, const Four& dims) {
    return b_.stored(name, type_, turned(dims), turned(a_.arrays[i].strides));
  }
  Array stored(Name name, int type, const Four& dims) { return b_.stored(name, type, dims, dense(dims)); }

  Array product(const Array& a, const Array& b) {
    const Four dims{a_.batch, a_.heads, a_.queries, a_.keys};
    const Array c = b_.virtual_one(dnn::kFloat, dims, dense(dims));
    b_.multiply(a, b, c);
    return c;
  }

  Array scaled(const Array& x) {
    if (!scale_) scale_ = b_.number(static_cast<float>(a_.scale));
    return b_.pointwise(dnn::kMul, x, *scale_);
  }

  // Query i sees keys up to i + (keys - queries).
  Array masked(const Array& scores) {
    if (!a_.causal) return scores;
    const auto place = [&](std::int64_t axis) {
      return b_.pointwise(dnn::kIndex, scores, {.axis = axis}, dnn::kInt32);
    };
    Array last_seen = place(2);
    const Array key = place(3);
    if (a_.queries != a_.keys) {
      const Array keys = b_.number(static_cast<std::int32_t>(a_.keys)),
                  queries = b_.number(static_cast<std::int32_t>(a_.queries));
      last_seen = b_.pointwise(dnn::kAdd, last_seen, {.b = &keys, .compute = dnn::kInt32}, dnn::kInt32);
      last_seen = b_.pointwise(dnn::kSub, last_seen, {.b = &queries, .compute = dnn::kInt32}, dnn::kInt32);
    }
    const Array seen =
        b_.pointwise(dnn::kIsGreaterOrEqual, last_seen, {.b = &key, .compute = dnn::kBoolean}, dnn::kBoolean);
    using Limits = std::numeric_limits<float>;
    const Array hidden =
        b_.number(dnn::api().version() < kInfinityFrom ? Limits::lowest() : -Limits::infinity());
    return b_.pointwise(dnn::kSelect, scores, {.b = &hidden, .which = &seen});
  }

  const Attention& a_;
  const bool is_deterministic_;
  const int type_;
  Builder b_{kNext};
  std::optional<Array> scale_;
};

// A plan of cuDNN's; where operands begin is told by the call.
struct Planned {
  std::optional<dnn::Plan> plan;
  std::vector<Number> numbers;
  bool has_wide_gradient = false;
  std::string reason;  // when there is no plan
};

std::int64_t sums_bytes(const Attention& a) { return dnn::in_workspace(4 * a.batch * a.heads * a.queries); }
std::int64_t wide_bytes(const Attention& a) {
  return dnn::in_workspace(4 * a.batch * a.heads * a.queries * a.depth);
}

// cuDNN's own comes first, then what a gradient keeps in memory.
std::int64_t workspace_bytes(const Attention& a, const Planned& planned) {
  return dnn::in_workspace(planned.plan->workspace) + (a.is_gradient ? sums_bytes(a) : 0) +
         (planned.has_wide_gradient ? wide_bytes(a) : 0);
}

class AttentionCall final : public LibraryCall {
 public:
  AttentionCall(dnn::Shared& shared, const Planned& planned, const Attention& attention)
      : shared_(shared), planned_(planned), a_(attention) {}

  void run(Stream stream, std::span<const Address> inputs, std::span<const Address> outputs,
           Address workspace) const override {
    constexpr Name kOperands[] = {kQ, kK, kV, kO, kLse, kGradO};
    constexpr Name kForward[] = {kO, kLse}, kGradient[] = {kGradQ, kGradK, kGradV};
    std::vector<std::int64_t> names;
    std::vector<void*> pointers;
    const auto give = [&](std::int64_t name, Address address) {
      names.push_back(name);
      pointers.push_back(reinterpret_cast<void*>(address));
    };
    for (std::size_t i = 0; i < a_.arrays.size(); ++i) {
      const std::int64_t size = kOperands[i] == kLse ? 4 : 2;
      give(kOperands[i], inputs[a_.arrays[i].input] + static_cast<Address>(size * a_.arrays[i].offset));
    }
    for (std::size_t i = 0; i < outputs.size(); ++i)
      give(a_.is_gradient ? kGradient[i] : kForward[i], outputs[i]);
    const Address behind = workspace + static_cast<Address>(dnn::in_workspace(planned_.plan->workspace));
    if (a_.is_gradient) give(kSums, behind);
    if (planned_.has_wide_gradient) give(kWideGradQ, behind + static_cast<Address>(sums_bytes(a_)));
    for (const Number& number : planned_.numbers) {
      names.push_back(number.name);
      pointers.push_back(const_cast<float*>(&number.real));  // only read
    }
    dnn::execute(shared_, stream, *planned_.plan, names, pointers, reinterpret_cast<void*>(workspace));
  }

 private:
  dnn::Shared& shared_;
  const Planned& planned_;  // kept as long as the process
  const Attention a_;
};

// Plans are made once for what is equal.
const Planned& planned(const Device& device, const Attention& attention, const DnnWishes& wishes) {
  static std::mutex mutex;
  static auto* const all = new std::map<std::string, Planned>;
  const bool is_deterministic = attention.is_gradient && wishes.is_deterministic;
  const std::string key =
      fmt::format("{} {}{}", device.ordinal(), attention.text(), is_deterministic ? " deterministic" : "");
  const std::lock_guard lock(mutex);
  const auto [found, is_new] = all->try_emplace(key);
  Planned& made = found->second;
  if (!is_new) return made;
  made.has_wide_gradient = attention.is_gradient && !is_deterministic;
  try {
    device.activate();
    dnn::Shared& making = dnn::handles(device).making;
    const std::lock_guard handle_lock(making.mutex);
    Graphs graphs(attention, is_deterministic);
    Builder builder = attention.is_gradient ? graphs.gradient() : graphs.forward();
    made.numbers = builder.numbers();
    made.plan = builder.finish(making.handle, {.most_workspace = kMostWorkspace});
  } catch (const Error& error) {
    made.reason = error.message();
    log(LogLevel::info, fmt::format("cuda: cudnn declines {}: {}", attention.text(), error.message()));
  }
  return made;
}

std::string read(const Device& device, const lower::Region& region, Attention& attention) {
  if (!dnn::absence().empty()) return dnn::absence();
  if (std::string reason = read_attention(region, attention); !reason.empty()) return reason;
  return dnn_attention_refusal(attention, dnn::api().version(), device.capability());
}

}  // namespace

std::string dnn_attention_refusal(const Attention& attention, std::size_t version, int capability) {
  constexpr std::size_t kFirst = 90600;  // before it dq must be zeroed by hand
  constexpr std::size_t kFlawedBegin = 91000, kFlawedEnd = 91002;
  constexpr std::size_t kAnyLength = 91501;  // before it a gradient counts keys that are not there
  if (capability < 80) return "the GPU is too old: sm_80 and newer";
  if (version < kFirst) return "cuDNN is too old: 9.6 and newer";
  if (version >= kFlawedBegin && version < kFlawedEnd)
    return "attention is flawed in cuDNN 9.10.0 and 9.10.1";
  if (!attention.is_gradient) return {};
  if (attention.keys % 128 != 0 && version < kAnyLength)
    return fmt::format("{} keys are not taken: multiples of 128 before cuDNN 9.15.1", attention.keys);
  if (attention.queries == 1 && attention.keys == 1) return "a single query of a single key is not taken";
  return {};
}

lower::Claim dnn_attention_offer(const Device& device, const lower::Region& region, const DnnWishes& wishes) {
  Attention attention;
  if (std::string reason = read(device, region, attention); !reason.empty())
    return lower::Claim::declined("cudnn.attention: " + reason);
  const Planned& found = planned(device, attention, wishes);
  if (!found.plan) return lower::Claim::declined("cudnn.attention: " + found.reason);
  return {attention.is_gradient ? "cudnn.attention_grad" : "cudnn.attention",
          {},
          10,
          workspace_bytes(attention, found)};
}

std::shared_ptr<const LibraryCall> dnn_attention_call(const Device& device, const lower::Region& region,
                                                      const DnnWishes& wishes) {
  Attention attention;
  if (std::string reason = read(device, region, attention); !reason.empty())
    throw Error(ErrorKind::kInternal, "cudnn.attention", reason);
  return std::make_shared<const AttentionCall>(dnn::handles(device).calls, planned(device, attention, wishes),
                                               attention);
}

}  // namespace systole::cuda
