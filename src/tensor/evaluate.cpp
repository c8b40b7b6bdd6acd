#include "tensor/evaluate.h"

#include <algorithm>
#include <list>
#include <unordered_map>
#include <utility>

#include <fmt/format.h>

#include "base/lasting.h"
#include "tensor/cut.h"
#include "tensor/devices.h"

namespace systole::recording {

namespace {

constexpr std::size_t kCachedPrograms = 1024;

std::uint64_t hash_of(std::span<const std::uint64_t> words) {
  std::uint64_t h = 0x9e3779b97f4a7c15;
  for (std::uint64_t w : words) h = (h ^ w) * 0xff51afd7ed558ccd, h ^= h >> 29;
  return h;
}

// Programs by structure, the least recently used dropped first. The sub-graphs whose addresses stand in a
// key live as long as the entry.
class Cache {
 public:
  std::shared_ptr<Program> find(const Words& key, std::uint64_t hash) {
    std::lock_guard lock(mutex_);
    std::shared_ptr<Program> found = look_up(key, hash);
    ++(found ? counts_.hits : counts_.misses);
    return found;
  }

  // Returns the program that is there from now on: another thread's, if it was faster.
  std::shared_ptr<Program> insert(Words key, std::uint64_t hash, std::shared_ptr<Program> program,
                                  std::vector<ir::GraphRef> graphs) {
    std::list<Entry> dropped;  // destroyed after the lock is released
    std::lock_guard lock(mutex_);
    if (std::shared_ptr<Program> known = look_up(key, hash)) return known;
    entries_.push_front({std::move(key), hash, program, std::move(graphs)});
    index_.emplace(hash, entries_.begin());
    if (entries_.size() <= kCachedPrograms) return program;
    const auto oldest = std::prev(entries_.end());
    const auto [first, last] = index_.equal_range(oldest->hash);
    index_.erase(std::find_if(first, last, [&](const auto& e) { return e.second == oldest; }));
    dropped.splice(dropped.begin(), entries_, oldest);
    return program;
  }

  CacheCounts counts() {
    std::lock_guard lock(mutex_);
    return counts_;
  }

 private:
  struct Entry {
    Words key;
    std::uint64_t hash;
    std::shared_ptr<Program> program;
    std::vector<ir::GraphRef> graphs;
  };

  std::shared_ptr<Program> look_up(const Words& key, std::uint64_t hash) {
    const auto [first, last] = index_.equal_range(hash);
    for (auto it = first; it != last; ++it)
      if (it->second->key == key) {
        entries_.splice(entries_.begin(), entries_, it->second);
        return it->second->program;
      }
    return nullptr;
  }

  std::mutex mutex_;
  std::list<Entry> entries_;
  std::unordered_multimap<std::uint64_t, std::list<Entry>::iterator> index_;
  CacheCounts counts_;
};

Cache& cache() {
  static Cache& instance = lasting<Cache>();
  return instance;
}

struct Argument {
  runtime::BufferRef buffer;  // null: the literal
  Literal literal;
};

// One evaluation: what to run, with what, and who gets the results.
struct Job {
  Words key;
  std::uint64_t hash = 0;
  std::uint8_t device = kAnyDevice;
  bool deterministic = false, checked = false;
  std::vector<Argument> arguments;
  struct Target {
    RecordRef record;
    std::int32_t output;  // of the first result
    std::int32_t count;   // 1, or all results of an op with several
  };
  std::vector<Target> targets;
  std::shared_ptr<Program> program;  // null: the graph of what follows is to be compiled
  std::vector<CutNode> nodes;
  std::vector<Type> input_types;
  std::vector<CutOutput> outputs;
  std::vector<ir::GraphRef> graphs;
};

bool several_results(const Record& record) {
  return record.kind.load(std::memory_order_relaxed) == Kind::op && record.extra &&
         record.extra->types.size() > 1;
}

// What evaluated records held, let go of outside the lock.
using Garbage = std::vector<std::pair<SmallVector<Record*, 3>, std::unique_ptr<Extra>>>;

void drop(Garbage& garbage) {
  for (const auto& [operands, extra] : garbage)
    for (Record* operand : operands) release(operand);
  garbage.clear();
}

// Puts the work behind the roots into a Job, under the records' lock.
class Cutter {
 public:
  Cutter(std::span<const Tensor> roots, std::string_view where, Garbage& garbage)
      : roots_(roots), where_(where), garbage_(garbage) {}

  Job run() {
    order_ = walk(roots_, [&](Record& record) { return leaf(record); });
    number_.resize(order_.size());
    same_.resize(order_.size());
    input_.assign(order_.size(), -1);
    table_.assign(2 * std::bit_ceil(order_.size() + 1), Slot{});
    for (std::size_t i = 0; i < order_.size(); ++i) add(i);
    choose_outputs();
    if (job_.device == kAnyDevice) job_.device = current_device_id();
    job_.deterministic = runtime::is_deterministic();
    job_.checked = checks_indices();
    job_.key.push_back(job_.device | std::uint64_t{job_.deterministic} << 8 |
                       std::uint64_t{job_.checked} << 9);
    job_.hash = hash_of(job_.key);
    job_.program = cache().find(job_.key, job_.hash);
    if (!job_.program) {
      for (std::size_t i = 0; i < order_.size(); ++i)
        if (input_[i] >= 0) job_.input_types.push_back(order_[i]->type);
      job_.nodes = cut_nodes(order_, input_, same_);
      for (const CutOutput& output : outputs_) {
        const auto at = static_cast<std::size_t>(output.position);
        job_.outputs.push_back({input_[at] >= 0 ? output.position : same_[at], output.result});
      }
      for (const Record* record : order_)
        if (record->extra)
          job_.graphs.insert(job_.graphs.end(), record->extra->graphs.begin(), record->extra->graphs.end());
    }
    return std::move(job_);
  }

 private:
  struct Slot {
    std::uint64_t hash = 0;
    std::int32_t position = -1;
    std::uint32_t begin = 0, end = 0;  // of its words in the key
  };
  enum Tag : std::uint64_t { kInput, kConstant, kOp, kResult, kOutput };

  // Results whose op has run take their buffer from it.
  bool leaf(Record& record) {
    switch (record.kind.load(std::memory_order_relaxed)) {
      case Kind::op: return false;
      case Kind::result: {
        Record* op = record.operands[0];
        if (op->kind.load(std::memory_order_relaxed) != Kind::value) return false;
        record.buffer = op->extra->buffers[record.index];
        garbage_.emplace_back(std::move(record.operands), nullptr);
        record.operands = {};
        record.kind.store(Kind::value, std::memory_order_release);
        return true;
      }
      case Kind::placeholder:
        throw Error(ErrorKind::kInvalidArgument, std::string(where_),
                    "there is no value yet: it depends on an input of a function that is being traced",
                    "a function that only computes; return what is to be read");
      case Kind::failed: std::rethrow_exception(record.extra->error);
      default: return true;
    }
  }

  void add(std::size_t i) {
    Record& record = *order_[i];
    Words& key = job_.key;
    const std::size_t begin = key.size();
    if (record.device != kAnyDevice) job_.device = record.device;
    same_[i] = static_cast<std::int32_t>(i);
    const Kind kind = record.kind.load(std::memory_order_relaxed);
    if (kind == Kind::value || kind == Kind::host) {
      input_[i] = static_cast<std::int32_t>(job_.arguments.size());
      job_.arguments.push_back(kind == Kind::value ? Argument{record.buffer, {}}
                                                   : Argument{{}, record.extra->literal});
      key.push_back(kInput);
      append(key, record.type);
      number_[i] = next_++;
      return;
    }
    if (kind == Kind::constant) {
      key.push_back(kConstant);
      append(key, record.extra->literal);
    } else if (kind == Kind::result) {
      key.push_back(kResult | std::uint64_t{record.index} << 8);
      key.push_back(number(record.operands[0]));
    } else {
      key.push_back(kOp | static_cast<std::uint64_t>(record.op) << 8 | record.operands.size() << 32);
      for (const Record* operand : record.operands) key.push_back(number(operand));
      if (record.extra) {
        append(key, record.extra->attrs);
        for (const ir::GraphRef& graph : record.extra->graphs)
          key.push_back(reinterpret_cast<std::uintptr_t>(graph.get()));
      }
      if (ir::info(record.op).op_class == ir::OpClass::opaque) {  // a barrier keeps equal work apart
        number_[i] = next_++;
        return;
      }
    }
    merge(i, begin);
  }

  // An equal record before this one takes its place.
  void merge(std::size_t i, std::size_t begin) {
    Words& key = job_.key;
    const std::span<const std::uint64_t> words(key.data() + begin, key.size() - begin);
    const std::uint64_t hash = hash_of(words);
    const std::size_t mask = table_.size() - 1;
    for (std::size_t at = hash & mask;; at = (at + 1) & mask) {
      Slot& slot = table_[at];
      if (slot.position < 0) {
        slot = {hash, static_cast<std::int32_t>(i), static_cast<std::uint32_t>(begin),
                static_cast<std::uint32_t>(key.size())};
        number_[i] = next_++;
        return;
      }
      if (slot.hash == hash && slot.end - slot.begin == words.size() &&
          std::equal(words.begin(), words.end(), key.begin() + slot.begin)) {
        same_[i] = slot.position;
        number_[i] = number_[static_cast<std::size_t>(slot.position)];
        key.resize(begin);
        return;
      }
    }
  }

  std::uint64_t number(const Record* record) const {
    return number_[static_cast<std::size_t>(record->position)];
  }

  // The roots, and what is held from outside this cut.
  void choose_outputs() {
    for (const Tensor& root : roots_) root.record()->uses = 0;
    for (std::size_t i = 0; i < order_.size(); ++i) {
      Record& record = *order_[i];
      if (!record.pending() || record.references.load(std::memory_order_relaxed) <= record.uses) continue;
      const auto count = several_results(record) ? static_cast<std::int32_t>(record.extra->types.size()) : 1;
      retain(&record);
      job_.targets.push_back({RecordRef(&record), static_cast<std::int32_t>(outputs_.size()), count});
      for (std::int32_t k = 0; k < count; ++k) outputs_.push_back({static_cast<std::int32_t>(i), k});
      job_.key.push_back(kOutput | static_cast<std::uint64_t>(count) << 8);
      job_.key.push_back(number_[i]);
    }
  }

  const std::span<const Tensor> roots_;
  const std::string_view where_;
  Garbage& garbage_;
  std::vector<Record*> order_;
  std::vector<std::uint64_t> number_;  // by position: the number of the distinct node
  std::vector<std::int32_t> same_, input_;
  std::vector<CutOutput> outputs_;
  std::vector<Slot> table_;
  std::uint64_t next_ = 0;
  Job job_;
};

void publish(const Job& job, std::span<const runtime::BufferRef> results) {
  Garbage garbage;
  {
    std::lock_guard lock(record_mutex());
    for (const Job::Target& target : job.targets) {
      Record& record = *target.record;
      if (!record.pending()) continue;  // another thread was faster
      auto extra = std::move(record.extra);
      if (target.count > 1) {
        record.extra = std::make_unique<Extra>();
        for (std::int32_t k = 0; k < target.count; ++k)
          record.extra->buffers.push_back(results[static_cast<std::size_t>(target.output + k)]);
      } else {
        record.buffer = results[static_cast<std::size_t>(target.output)];
      }
      garbage.emplace_back(std::move(record.operands), std::move(extra));
      record.operands = {};
      record.kind.store(Kind::value, std::memory_order_release);
    }
  }
  drop(garbage);
}

// Only what was asked for: what would merely have been computed along can be tried again.
void poison(std::span<const Tensor> roots, std::exception_ptr error) {
  Garbage garbage;
  {
    std::lock_guard lock(record_mutex());
    for (const Tensor& root : roots) {
      Record& record = *root.record();
      if (!record.pending()) continue;
      garbage.emplace_back(std::move(record.operands), std::move(record.extra));
      record.operands = {};
      record.extra = std::make_unique<Extra>();
      record.extra->error = error;
      record.kind.store(Kind::failed, std::memory_order_release);
    }
  }
  drop(garbage);
}

void run(Job& job, std::span<const Tensor> roots) {
  try {
    if (!job.program) {
      ir::Graph graph = build_graph(job.nodes, job.input_types, job.outputs);
      std::vector<IndexSite> sites;
      if (job.checked) {
        IndexChecked checked = with_index_counts(graph, {}, graph.outputs().size());
        graph = std::move(checked.graph);
        sites = std::move(checked.sites);
      }
      auto program = std::make_shared<Program>(std::move(graph), job.device,
                                               runtime::CompileOptions{.deterministic = job.deterministic});
      program->index_sites = std::move(sites);
      job.program = cache().insert(std::move(job.key), job.hash, std::move(program), std::move(job.graphs));
    }
    std::vector<runtime::BufferRef> arguments;
    arguments.reserve(job.arguments.size());
    const runtime::ResolvedDevice& place = device(job.device);
    for (Argument& argument : job.arguments)
      arguments.push_back(argument.buffer ? on_device(argument.buffer, job.device)
                                          : place.backend->upload(argument.literal, place.name.ordinal));
    job.arguments.clear();
    const std::vector<runtime::BufferRef> results = job.program->run(std::move(arguments), {});
    if (const std::vector<IndexSite>& sites = job.program->index_sites; !sites.empty())
      refuse_outside("SYSTOLE_CHECK", sites, results.back()->to_host());
    publish(job, results);
  } catch (const Error&) {
    poison(roots, std::current_exception());
    throw;
  }
}

bool ready(const Tensor& x, std::string_view where) {
  const Record& record = checked(x, where);
  switch (record.kind.load(std::memory_order_acquire)) {
    case Kind::value: return true;
    case Kind::failed: std::rethrow_exception(record.extra->error);
    default: return false;
  }
}

}  // namespace

std::mutex& record_mutex() {
  static std::mutex& mutex = lasting<std::mutex>();
  return mutex;
}

std::uint64_t next_visit() {
  static std::uint64_t visit = 0;
  return ++visit;
}

CacheCounts cache_counts() { return cache().counts(); }

void run_pending(std::span<const Tensor> tensors, std::string_view where) {
  std::vector<Tensor> roots;
  for (const Tensor& x : tensors) {
    if (ready(x, where)) continue;
    const Kind kind = x.record()->kind.load(std::memory_order_acquire);
    if (kind != Kind::constant && kind != Kind::host) roots.push_back(x);
  }
  while (!roots.empty()) {  // one run per device
    std::uint8_t place = kAnyDevice;
    std::vector<Tensor> together, others;
    for (Tensor& x : roots) {
      const std::uint8_t wanted = x.record()->device;
      if (place == kAnyDevice) place = wanted;
      (wanted == kAnyDevice || wanted == place ? together : others).push_back(std::move(x));
    }
    roots = std::move(others);
    Garbage garbage;
    Job job;
    {
      std::lock_guard lock(record_mutex());
      job = Cutter(together, where, garbage).run();
    }
    drop(garbage);
    run(job, together);
  }
}

std::int64_t pending_work(const Tensor& x, std::int64_t limit) {
  std::lock_guard lock(record_mutex());
  const std::uint64_t visit = next_visit();
  std::vector<const Record*> stack{x.record().get()};
  std::int64_t count = 0;
  while (!stack.empty() && count < limit) {
    const Record* record = stack.back();
    stack.pop_back();
    ++count;
    for (Record* operand : record->operands)
      if (operand->visit != visit && operand->pending()) {
        operand->visit = visit;
        stack.push_back(operand);
      }
  }
  return count;
}

runtime::BufferRef buffer_of(const Tensor& x) {
  const Record& record = *x.record();
  const Kind kind = record.kind.load(std::memory_order_acquire);
  if (kind == Kind::constant || kind == Kind::host) {
    const runtime::ResolvedDevice& place = device(current_device_id());
    return place.backend->upload(record.extra->literal, place.name.ordinal);
  }
  std::lock_guard lock(record_mutex());
  return record.buffer;
}

std::vector<runtime::BufferRef> buffers_of(std::span<const Tensor* const> values) {
  std::vector<runtime::BufferRef> buffers(values.size());
  {
    std::lock_guard lock(record_mutex());
    for (std::size_t i = 0; i < values.size(); ++i) buffers[i] = values[i]->record()->buffer;
  }
  for (std::size_t i = 0; i < values.size(); ++i)
    if (!buffers[i]) buffers[i] = buffer_of(*values[i]);
  return buffers;
}

runtime::BufferRef on_device(const runtime::BufferRef& buffer, std::uint8_t id) {
  const runtime::ResolvedDevice& place = device(id);
  if (buffer->device() == place.name) return buffer;
  return place.backend->copy_from(*buffer, place.name.ordinal);
}

Program::Program(const ir::Graph& graph, std::uint8_t id, const runtime::CompileOptions& options)
    : compiled_(compile(graph, recording::device(id).name.to_string(), options)), device_(id) {}

Program::Idle Program::take() {
  {
    std::lock_guard lock(mutex_);
    if (!idle_.empty()) {
      Idle idle = std::move(idle_.back());
      idle_.pop_back();
      return idle;
    }
  }
  return {compiled_.new_session(), {}, {}};
}

std::vector<runtime::BufferRef> Program::run(Idle idle, std::vector<runtime::BufferRef> arguments,
                                             std::vector<int> donated) {
  idle.call.per_device.resize(1);
  idle.call.per_device[0] = std::move(arguments);
  idle.call.donated = std::move(donated);
  idle.session->run_into(idle.call, idle.results);
  std::vector<runtime::BufferRef> results = std::exchange(idle.results[0], {});
  idle.call.per_device[0].clear();
  std::lock_guard lock(mutex_);
  idle_.push_back(std::move(idle));
  return results;
}

std::vector<runtime::BufferRef> Program::run(std::vector<runtime::BufferRef> arguments,
                                             std::vector<int> donated) {
  return run(take(), std::move(arguments), std::move(donated));
}

std::vector<runtime::BufferRef> Program::run_placed(std::vector<runtime::BufferRef> arguments,
                                                    std::vector<int> donated, const Moved& moved) {
  Idle idle = take();
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    runtime::BufferRef there = on_device(idle.session->placed(arguments[i], i), device_);
    if (there == arguments[i]) continue;
    moved(i, arguments[i], there);
    arguments[i] = std::move(there);
  }
  return run(std::move(idle), std::move(arguments), std::move(donated));
}

}  // namespace systole::recording
