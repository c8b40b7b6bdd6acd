#include "backend/cpu/cost.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstring>
#include <fstream>
#include <memory>
#include <mutex>
#include <set>
#include <utility>
#include <vector>

#include "backend/cpu/jit.h"
#include "backend/cpu/memory.h"
#include "backend/cpu/onednn_convolution.h"
#include "backend/cpu/onednn_product.h"
#include "backend/patterns/on_result.h"
#include "backend/tuning.h"
#include "base/crowd.h"
#include "base/lasting.h"
#include "base/log.h"
#include "base/parallel.h"
#include "codegen/kernel.h"
#include "compile/links.h"
#include "systole/base/error.h"

namespace systole::cpu {

namespace {

constexpr double kWorthAThread = 8'000;  // nanoseconds: less is done before a thread has what it works on

// Multiplications between which neither is plain: library or kernel, one thread or all, and for convolutions
// of few channels, which libraries do badly.
constexpr std::int64_t kSmall = 5'000, kLarge = 1'000'000;
constexpr std::int64_t kForOne = 100'000, kForAll = 8'000'000;
constexpr std::int64_t kFewChannels = 16, kLargeConvolution = 64'000'000;

constexpr double kBudget = 0.1;  // seconds of a program's compilation; half as much again without kernels
constexpr double kHopeless = 3;  // times the best

thread_local int forced = 0;
thread_local bool is_measuring = true;
thread_local double seconds_left = kBudget;

struct Choice {
  bool is_generated = false;
  int threads = 1;
};

struct Facts {
  std::string name, details;
  std::vector<Choice> choices;  // the first is the rules'; none: not of this kind
};

std::string text_of(const patterns::Matrix& m) {
  return fmt::format("{} {} {} {}", m.free_stride, m.contract_stride, m.batch_stride, m.outer_stride);
}

void add_threads(std::int64_t count, Facts& facts) {
  if (count < kForOne || count > kForAll || thread_count() == 1) return;
  const Choice rule = facts.choices[0];
  for (const int threads : {1, thread_count()})
    if (rule.is_generated || rule.threads != threads) facts.choices.push_back({false, threads});
}

Facts product_facts(const lower::Region& region) {
  patterns::Product p;
  if (!patterns::read_product(patterns::flat(region), p).empty()) return {};
  if (p.operands != DType::f32 || p.result != DType::f32) return {};
  const std::int64_t count = multiplications(p);
  Facts facts;
  const std::int64_t batches = p.outer * p.batch;
  facts.name = fmt::format("product {}{}x{}x{}", batches > 1 ? fmt::format("{} of ", batches) : "", p.rows,
                           p.columns, p.depth);
  facts.details = fmt::format("{} {}; {}", p.outer, text_of(p.a), text_of(p.b));
  const bool is_generated = !small_product(p).empty();
  facts.choices.push_back({is_generated, library_threads(count)});
  const bool reads_once = is_generated && p.rows == 1 && count >= kWorthACall;
  if (reads_once) return facts;
  add_threads(count, facts);
  if (count >= kSmall && count <= kLarge) {
    if (!is_generated)
      facts.choices.push_back({true, 1});
    else if (facts.choices.size() == 1)
      facts.choices.push_back({false, 1});
  }
  return facts;
}

Facts convolution_facts(const lower::Region& region) {
  patterns::Convolution c;
  if (!patterns::read_convolution(region.graph, region.graph.node(region.anchor), c).empty()) return {};
  if (c.operands != DType::f32 || c.output != DType::f32) return {};
  const std::int64_t count = multiplications(c);
  Facts facts{"convolution " + c.text(), {}, {{false, library_threads(count)}}};
  add_threads(count, facts);
  const bool has_few = c.channels / c.groups < kFewChannels && count <= kLargeConvolution;
  if (has_few || count <= kLarge) facts.choices.push_back({true, 1});
  return facts;
}

std::string processor() {
  std::ifstream file("/proc/cpuinfo");
  std::string text, line;
  while (std::getline(file, line) && !line.empty())
    for (const char* const key :
         {"vendor_id", "cpu family", "model", "stepping", "CPU implementer", "CPU part"})
      if (line.starts_with(key)) text += line + "; ";
  return text;
}

const tuning::Device& this_device() {
  static const tuning::Device& only = lasting<tuning::Device>(
      tuning::Device{"cpu", [] {
                       const dnnl::VersionObject& version = *dnnl::api().version();
                       return fmt::format("{}{}, {} threads, oneDNN {}.{}.{}", processor(), instruction_set(),
                                          thread_count(), version.major, version.minor, version.patch);
                     }()});
  return only;
}

std::string told(const Choice& choice) {
  if (choice.is_generated) return "generated";
  return choice.threads == 1 ? "oneDNN on 1 thread" : fmt::format("oneDNN on {} threads", choice.threads);
}

// Arrays of the region's types, and the ways to work on them.
class Trial {
 public:
  Trial(const lower::Region& region, const std::function<Made()>& make) : region_(region), make_(make) {
    const ir::Graph& graph = region.graph;
    for (std::size_t i = 0; i < graph.inputs().size(); ++i) inputs_.push_back(array(graph.input_type(i)));
    for (std::size_t i = 0; i < graph.outputs().size(); ++i) outputs_.push_back(array(graph.output_type(i)));
    is_same_.resize(inputs_.size());
  }

  // NaN: others have the processors, and times are theirs.
  double measure(const Choice& choice, double best) {
    if (choice.is_generated) return generated(best);
    const double time = library(choice.threads, best);
    (choice.threads == 1 ? alone_ : together_) = time;
    return is_busy() ? std::nan("") : time;
  }

 private:
  std::byte* array(const Type& type) {
    memory_.push_back(allocate(type.bytes()));
    constexpr int kSmallNumbers = 0x3c;  // in every byte
    if (memory_.back())
      std::memset(memory_.back().get(), kSmallNumbers, static_cast<std::size_t>(type.bytes()));
    return memory_.back().get();
  }

  double library(int threads, double best) {
    const Forced scope(threads);
    const Made made = make_();
    if (!made.call) throw Error(ErrorKind::kUnsupported, "oneDNN", made.reason);
    const std::unique_ptr<LibraryRun> run = made.call->new_run();
    const std::shared_ptr<std::byte> workspace = allocate(made.workspace);
    return seconds([&] { run->run({inputs_, outputs_, workspace.get(), is_same_}); }, best);
  }

  double generated(double best) {
    lower::Step step;
    step.kind = lower::StepKind::kernel;
    step.group = lower::GroupKind::contraction;
    step.region = region_;
    step.overwritten.assign(inputs_.size(), -1);
    const std::vector<codegen::Kernel> kernels = codegen::make_kernels(step, "k", codegen::Dialect::c);
    if (kernels.size() != 1) throw Error(ErrorKind::kUnsupported, "cpu", "not one kernel");
    const std::shared_ptr<const Library> compiled =
        compile_kernels(codegen::source_file(kernels, codegen::Dialect::c));
    if (!compiled) throw Error(ErrorKind::kUnsupported, "cpu", "no kernels");
    struct Run {
      KernelFunction function;
      std::vector<void*> arguments;
    } run{compiled->find("k"), {}};
    run.arguments.insert(run.arguments.end(), inputs_.begin(), inputs_.end());
    run.arguments.insert(run.arguments.end(), outputs_.begin(), outputs_.end());
    run.arguments.push_back(nullptr);
    const int threads = std::min(threads_for_kernel(estimated_nanoseconds(region_)), thread_count());
    const ParallelRun part = [](const void* context, std::int64_t begin, std::int64_t end) {
      const Run& work = *static_cast<const Run*>(context);
      work.function(work.arguments.data(), begin, end);
    };
    return seconds([&] { parallel_for(kernels[0].items, threads, part, &run); }, best);
  }

  // The least of some: what else the machine does only adds.
  template <class Work>
  static double seconds(const Work& work, double best) {
    using Clock = std::chrono::steady_clock;
    const auto timed = [&](int runs) {
      const auto begin = Clock::now();
      for (int i = 0; i < runs; ++i) work();
      return std::chrono::duration<double>(Clock::now() - begin).count() / runs;
    };
    work();
    constexpr double kLength = 0.4e-3, kNoise = 20e-6;
    double least = timed(1);
    if (least > kHopeless * best + kNoise) return least;
    const int runs = std::clamp(static_cast<int>(kLength / std::max(least, 1e-7)), 1, 200);
    for (int i = 0; i < 5; ++i) least = std::min(least, timed(runs));
    return least;
  }

  // Whether threads waited for processors that others use: handing work over takes less.
  bool is_busy() const {
    constexpr double kHandingOver = 30e-6;
    if (together_ > 0 && alone_ == 0 && crowd::is_here()) return true;
    return alone_ > 0 && together_ > alone_ + kHandingOver;
  }

  const lower::Region& region_;
  const std::function<Made()>& make_;
  double alone_ = 0, together_ = 0;  // seconds on one thread and on all; 0: not measured
  std::vector<std::shared_ptr<std::byte>> memory_;
  std::vector<std::byte*> inputs_, outputs_;
  std::vector<unsigned char> is_same_;
};

void tell(const Facts& facts, const Decision& decision, const Choice& choice) {
  if (!log_enabled(LogLevel::info)) return;
  static std::mutex mutex;
  static auto& once = lasting<std::set<std::string>>();
  const std::lock_guard lock(mutex);
  if (once.insert(facts.name + facts.details).second)
    log(LogLevel::info, fmt::format("cpu: {}: {}: {}", facts.name, told(choice), decision.times));
}

tuning::Answer answer_of(const lower::Region& region, const Facts& facts, const std::function<Made()>& make) {
  const tuning::Question question{.name = facts.name,
                                  .details = facts.details,
                                  .choice = "way",
                                  .count = static_cast<int>(facts.choices.size()),
                                  .is_measured = is_measuring};
  if (std::optional<tuning::Answer> known = tuning::known_answer(this_device(), question)) return *known;
  {
    const Forced scope(1);
    if (!make().call) return {};  // not with this work on the result: there is nothing to choose
  }
  const bool compiles = std::any_of(facts.choices.begin(), facts.choices.end(),
                                    [](const Choice& choice) { return choice.is_generated; });
  if (seconds_left <= (compiles ? 0 : -kBudget / 2)) return tuning::settled(this_device(), question);
  const auto begin = std::chrono::steady_clock::now();
  std::optional<Trial> trial;
  const tuning::Answer answer = tuning::tuned(this_device(), question, [&](int choice, double best) {
    if (!trial) trial.emplace(region, make);
    return trial->measure(facts.choices[static_cast<std::size_t>(choice)], best);
  });
  seconds_left -= std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  return answer;
}

}  // namespace

Decision decide(const lower::Region& region, const std::function<Made()>& make) {
  const bool is_convolution = region.graph.node(region.anchor).op == ir::Op::convolution;
  const Facts facts = is_convolution ? convolution_facts(region) : product_facts(region);
  if (facts.choices.size() < 2 || Forced::threads() != 0 || !makes_kernels()) return {};
  const tuning::Answer answer = answer_of(region, facts, make);
  if (answer.seconds == 0) return {};
  const Choice& choice = facts.choices[static_cast<std::size_t>(answer.choice)];
  Decision decision{choice.is_generated, true, choice.threads, {}};
  for (std::size_t i = 0; i < answer.times.size(); ++i)
    decision.times += fmt::format(
        "{}{} {}", i > 0 ? ", " : "", told(facts.choices[i]),
        std::isinf(answer.times[i]) ? std::string("fails") : fmt::format("{:.1f} µs", answer.times[i] * 1e6));
  tell(facts, decision, choice);
  return decision;
}

Forced::Forced(int threads) : outer_(std::exchange(forced, threads)) {}
Forced::~Forced() { forced = outer_; }
int Forced::threads() { return forced; }

Measuring::Measuring(bool is_on) : was_on_(std::exchange(is_measuring, is_on)) { seconds_left = kBudget; }
Measuring::~Measuring() { is_measuring = was_on_; }

double estimated_nanoseconds(const lower::Region& region) {
  constexpr double kOperation = 0.03, kByte = 0.05;
  const ir::Graph& graph = region.graph;
  double operations = 0, bytes = 0;
  for (const ir::Node& node : graph.nodes()) {
    if (node.op == ir::Op::input || node.op == ir::Op::constant) continue;
    double count = static_cast<double>(node.types[0].shape.count());
    if (node.op == ir::Op::reduce) count = static_cast<double>(graph.type(node.operands[0]).shape.count());
    double each = std::max(1, lower::element_cost(node));
    if (node.op == ir::Op::dot_general) {
      for (const std::int64_t axis : node.as<ir::DotAttrs>().a_contract)
        each *=
            static_cast<double>(graph.type(node.operands[0]).shape[static_cast<std::size_t>(axis)].value());
    } else if (node.op == ir::Op::convolution) {
      each = static_cast<double>(graph.type(node.operands[1]).shape.count());
    }
    operations += count * each;
  }
  for (std::size_t i = 0; i < graph.inputs().size(); ++i)
    bytes += static_cast<double>(graph.input_type(i).bytes());
  for (std::size_t i = 0; i < graph.outputs().size(); ++i)
    bytes += static_cast<double>(graph.output_type(i).bytes());
  return operations * kOperation + bytes * kByte;
}

int threads_for_kernel(double nanoseconds) {
  return static_cast<int>(std::clamp(nanoseconds / kWorthAThread, 1.0, 1024.0));
}

}  // namespace systole::cpu
