// Making a plan can compile a kernel, and what the heuristics take for the fastest often is not: plans of
// many convolutions are made by several threads, each with a handle of its own, then timed one after another
// on the device. Of what is known from an earlier process only the chosen one is made. Calls run on another
// handle, so that they never wait for this.

#include "backend/cuda/dnn.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <deque>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "backend/cuda/by_threads.h"
#include "backend/cuda/dnn_api.h"
#include "backend/cuda/dnn_convolution.h"
#include "backend/cuda/dnn_plan.h"
#include "backend/cuda/tuning.h"
#include "base/log.h"
#include "base/parallel.h"
#include "runtime/timeline.h"
#include "systole/base/error.h"

namespace systole::cuda {

using namespace patterns;

namespace {

using Clock = std::chrono::steady_clock;

constexpr std::size_t kMostAsked = 8;    // engines of one convolution
constexpr std::size_t kMostTimed = 4;    // of them that can do it
constexpr std::size_t kMostThreads = 8;  // that make plans

double seconds_since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

struct Planned {
  DnnConvolution problem;
  std::optional<dnn::Plan> plan;
  std::string reason;       // when there is none
  bool is_settled = false;  // else it is tried again when it is asked for
};

class ConvolutionCall final : public LibraryCall {
 public:
  ConvolutionCall(dnn::Shared& shared, const Planned& planned, const DnnConvolution& problem)
      : shared_(shared), planned_(planned), first_(problem.first), second_(problem.second) {
    for (const ConvolutionWork::Step& step : problem.work.steps)
      if (step.kind != ConvolutionWork::Kind::relu) read_.push_back(step.input);
  }

  void run(Stream stream, std::span<const Address> inputs, std::span<const Address> outputs,
           Address workspace) const override {
    std::vector<Address> arrays{inputs[first_], inputs[second_], outputs[0]};
    for (const std::size_t i : read_) arrays.push_back(inputs[i]);
    execute(shared_, stream, planned_.problem, *planned_.plan, arrays, workspace);
  }

 private:
  dnn::Shared& shared_;
  const Planned& planned_;  // kept as long as the process
  const std::size_t first_, second_;
  std::vector<std::size_t> read_;
};

// Of what cuDNN can do: the next try may go well, or none will.
bool says_nothing(const Error& error) {
  return error.kind() == ErrorKind::kOutOfMemory || error.kind() == ErrorKind::kContextLost;
}

// A convolution on its way to a plan.
struct Draft {
  Planned* planned = nullptr;
  dnn::Shared* handle = nullptr;  // that its plans are made and timed on
  Question question;
  std::vector<std::optional<dnn::Plan>> plans;  // by engine, in the order of the heuristics

  std::size_t made() const {
    return static_cast<std::size_t>(
        std::count_if(plans.begin(), plans.end(), [](const auto& plan) { return plan.has_value(); }));
  }

  void make(const Device& device, dnn::Shared& shared) {
    handle = &shared;
    const DnnConvolution& problem = planned->problem;
    try {
      const dnn::Engines engines = engines_of(handle->handle, problem);
      question = {.name = fmt::format("cudnn {}", problem.text()),
                  .details = fmt::format("cudnn {}", dnn::api().version()),
                  .choice = "engine",
                  .count = static_cast<int>(std::min(engines.count(), kMostAsked)),
                  .is_measured = !problem.is_deterministic};
      plans.resize(engines.count());
      if (const std::optional<Answer> known = known_answer(device, question))
        if (const auto choice = static_cast<std::size_t>(known->choice); make(engines, choice)) return;
      const std::size_t enough = problem.is_deterministic ? 1 : kMostTimed;
      for (std::size_t i = 0; i < engines.count() && (i < kMostAsked || made() == 0) && made() < enough; ++i)
        make(engines, i);
    } catch (const Error& error) {
      if (says_nothing(error)) throw;
      planned->reason = error.message();
    }
  }

 private:
  bool make(const dnn::Engines& engines, std::size_t i) {
    try {
      plans[i] = engines.plan(handle->handle, i);
      return true;
    } catch (const Error& error) {
      if (says_nothing(error)) throw;
      planned->reason = error.message();
      return false;
    }
  }
};

class Plans {
 public:
  explicit Plans(const Device& device) : device_(device) {}

  // Of all that are not settled yet.
  void make(const std::vector<DnnConvolution>& problems) {
    const std::lock_guard lock(mutex_);
    std::vector<Draft> drafts;
    std::set<const Planned*> drafted;
    for (const DnnConvolution& problem : problems) {
      Planned& planned = all_[problem.text()];
      if (planned.is_settled || !drafted.insert(&planned).second) continue;
      planned.problem = problem;
      planned.reason.clear();
      drafts.emplace_back().planned = &planned;
    }
    if (drafts.empty()) return;
    device_.activate();
    const Clock::time_point begin = Clock::now();
    {
      const timeline::Span span("compile", "cudnn plans");
      make_all(drafts);
    }
    const double making = seconds_since(begin);
    std::size_t made = 0;
    {
      const timeline::Span span("compile", "cudnn timing");
      for (Draft& draft : drafts) {
        made += draft.made();
        choose(draft);
        draft.planned->is_settled = true;
      }
    }
    if (log_enabled(LogLevel::info))
      log(LogLevel::info,
          fmt::format("cuda: cudnn made {} plans for {} convolutions in {:.2f} s, timed them in {:.2f} s",
                      made, drafts.size(), making, seconds_since(begin) - making));
  }

  const Planned& get(const DnnConvolution& problem) {
    make({problem});
    const std::lock_guard lock(mutex_);
    return all_.at(problem.text());
  }

 private:
  void make_all(std::vector<Draft>& drafts) {
    const std::size_t threads =
        handles(std::min({drafts.size(), kMostThreads, static_cast<std::size_t>(thread_count())}));
    by_threads(drafts.size(), threads, [&](std::size_t i, std::size_t thread) {
      device_.activate();
      const std::lock_guard lock(handles_[thread].mutex);
      drafts[i].make(device_, handles_[thread]);
    });
  }

  // So many, or as many as can be made; one at least.
  std::size_t handles(std::size_t wanted) {
    while (handles_.empty() || handles_.size() < wanted) {
      const int status = dnn::api().create(&handles_.emplace_back().handle);
      if (status == 0) continue;
      handles_.pop_back();
      if (!handles_.empty()) break;
      dnn::check(status, "cudnnCreate");
    }
    return std::min(wanted, handles_.size());
  }

  void choose(Draft& draft) const {
    Planned& planned = *draft.planned;
    if (draft.made() == 0) {
      if (planned.reason.empty()) planned.reason = "no engine for it";
      log(LogLevel::info, fmt::format("cuda: cudnn declines {}: {}", planned.problem.text(), planned.reason));
      return;
    }
    const auto first = std::find_if(draft.plans.begin(), draft.plans.end(),
                                    [](const auto& plan) { return plan.has_value(); });
    auto best = first;
    if (draft.made() > 1)
      best = draft.plans.begin() +
             best_of(device_, draft.question, [&](Stream stream) { return trial(draft, stream); }).choice;
    planned.plan = std::move(*best ? *best : *first);
  }

  Trial trial(const Draft& draft, Stream stream) const {
    std::vector<std::int64_t> bytes = array_bytes(draft.planned->problem);
    std::int64_t most = 0;
    for (const auto& plan : draft.plans)
      if (plan) most = std::max(most, plan->workspace);
    bytes.push_back(most);
    auto scratch = std::make_shared<const Scratch>(device_, stream, bytes);
    return [&draft, scratch](int choice, Stream on) {
      const std::optional<dnn::Plan>& plan = draft.plans[static_cast<std::size_t>(choice)];
      if (!plan) throw Error(ErrorKind::kUnsupported, "cudnn", "it is none of the first");
      const std::span<const Address> all(scratch->addresses());
      execute(*draft.handle, on, draft.planned->problem, *plan, all.first(all.size() - 1), all.back());
    };
  }

  const Device& device_;
  std::mutex mutex_;
  std::map<std::string, Planned> all_;  // places stay, here too:
  std::deque<dnn::Shared> handles_;
};

Plans& plans_of(const Device& device) {
  static std::mutex mutex;
  static auto* const all = new std::map<int, Plans>;  // never destroyed, as devices
  const std::lock_guard lock(mutex);
  return all->try_emplace(device.ordinal(), device).first->second;
}

std::string read(const lower::Region& region, const DnnWishes& wishes, DnnConvolution& out) {
  if (!dnn::absence().empty()) return dnn::absence();
  out.is_true_f32 = wishes.math == runtime::Math::f32;
  out.is_deterministic = wishes.is_deterministic;
  return read_dnn_convolution(region, out);
}

// Every convolution of the graph and of its sub-graphs.
void collect(const ir::Graph& graph, const DnnWishes& wishes,
             const std::function<bool(const lower::Region&)>& is_wanted, std::vector<DnnConvolution>& out) {
  for (const ir::Node& node : graph.nodes()) {
    for (const ir::GraphRef& sub : node.graphs) collect(*sub, wishes, is_wanted, out);
    if (node.op != ir::Op::convolution) continue;
    lower::Region alone;
    ir::Values operands;
    for (const ir::ValueId v : node.operands)
      operands.push_back(alone.graph.input(fmt::format("i{}", operands.size()), graph.type(v)));
    const ir::Value result = alone.graph.add(ir::Op::convolution, operands, node.attrs);
    alone.graph.output(result);
    alone.anchor = result.id().node;
    DnnConvolution problem;
    if (is_wanted(alone) && read(alone, wishes, problem).empty()) out.push_back(std::move(problem));
  }
}

}  // namespace

std::string dnn_absence() { return dnn::absence(); }

void dnn_prepare(const Device& device, const ir::Graph& graph, const DnnWishes& wishes,
                 const std::function<bool(const lower::Region&)>& is_wanted) {
  std::vector<DnnConvolution> problems;
  collect(graph, wishes, is_wanted, problems);
  if (!problems.empty()) plans_of(device).make(problems);
}

Question channels_question(const std::vector<DnnConvolution>& ways, std::size_t version) {
  return {.name = fmt::format("cudnn channels of {}", ways[0].convolution.text()),
          .details = fmt::format("cudnn {} {}", version, ways[0].text()),
          .choice = "way",
          .count = static_cast<int>(ways.size()),
          .is_measured = !ways[0].is_deterministic};
}

std::int64_t dnn_channels(const Device& device, const Convolution& convolution, const DnnWishes& wishes) {
  std::vector<DnnConvolution> ways;
  for (const std::int64_t channels : {convolution.channels, std::int64_t{4}, std::int64_t{8}}) {
    if (channels < convolution.channels) continue;
    DnnConvolution& way = ways.emplace_back();
    way.convolution = convolution;
    way.convolution.channels = channels;
    way.work.output = convolution.output;
    way.is_true_f32 = wishes.math == runtime::Math::f32;
    way.is_deterministic = wishes.is_deterministic;
  }
  const Question question = channels_question(ways, dnn::api().version());
  std::vector<const Planned*> planned;
  if (!known_answer(device, question)) {
    Plans& plans = plans_of(device);
    plans.make(ways);
    for (const DnnConvolution& way : ways) planned.push_back(&plans.get(way));
  }
  const Answer answer = best_of(device, question, [&](Stream stream) -> Trial {
    std::vector<std::int64_t> bytes = array_bytes(ways.back());  // the largest
    std::int64_t most = 0;
    for (const Planned* way : planned)
      if (way->plan) most = std::max(most, way->plan->workspace);
    bytes.push_back(most);
    auto scratch = std::make_shared<const Scratch>(device, stream, bytes);
    dnn::Shared& shared = dnn::handles(device).calls;  // other threads may run these plans
    return [planned, scratch, &shared](int choice, Stream on) {
      const Planned& way = *planned[static_cast<std::size_t>(choice)];
      if (!way.plan) throw Error(ErrorKind::kUnsupported, "cudnn", way.reason);
      const std::span<const Address> all(scratch->addresses());
      if (choice > 0)  // the image is written once more
        check(
            driver().cuMemsetD8Async(all[0], 0x3c, static_cast<std::size_t>(array_bytes(way.problem)[0]), on),
            "cuMemsetD8Async");
      execute(shared, on, way.problem, *way.plan, all.first(3), all.back());
    };
  });
  return ways[static_cast<std::size_t>(answer.choice)].convolution.channels;
}

lower::Claim dnn_offer(const Device& device, const lower::Region& region, const DnnWishes& wishes) {
  DnnConvolution problem;
  if (std::string reason = read(region, wishes, problem); !reason.empty())
    return lower::Claim::declined("cudnn: " + reason);
  const Planned& planned = plans_of(device).get(problem);
  if (!planned.plan) return lower::Claim::declined("cudnn: " + planned.reason);
  const char* const names[] = {"cudnn.convolution", "cudnn.input_grad", "cudnn.weight_grad"};
  std::string name = names[static_cast<int>(problem.convolution.kind)];
  for (const ConvolutionWork::Step& step : problem.work.steps)
    name += std::string("_") + std::string(systole::cuda::name(step.kind));
  return {std::move(name), {}, 10, planned.plan->workspace};
}

std::shared_ptr<const LibraryCall> dnn_call(const Device& device, const lower::Region& region,
                                            const DnnWishes& wishes) {
  DnnConvolution problem;
  if (std::string reason = read(region, wishes, problem); !reason.empty())
    throw Error(ErrorKind::kInternal, "cudnn", reason);
  const Planned& planned = plans_of(device).get(problem);
  if (!planned.plan) throw Error(ErrorKind::kInternal, "cudnn", planned.reason);
  return std::make_shared<ConvolutionCall>(dnn::handles(device).calls, planned, problem);
}

}  // namespace systole::cuda
