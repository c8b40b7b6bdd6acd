#pragma once

// From pending records to numbers. The work behind the roots is cut out as a graph, equal work merged, and
// looked up by structure; a structure is compiled once. Everything in the cut that somebody else still holds
// is computed along with the roots, so that nothing runs twice.

#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <string_view>
#include <vector>

#include "systole/runtime.h"
#include "systole/tensor/tensor.h"
#include "tensor/index_check.h"
#include "tensor/record.h"

namespace systole::recording {

// Makes every tensor a value; `where` is the reader's name for errors. Throws kInvalidArgument when one
// depends on the input of a trace, and what the run threw when it failed.
void run_pending(std::span<const Tensor> tensors, std::string_view where);

std::int64_t pending_work(const Tensor& x, std::int64_t limit);  // records behind x that are to be run

runtime::BufferRef buffer_of(const Tensor& x);  // of an evaluated one
std::vector<runtime::BufferRef> buffers_of(std::span<const Tensor* const> values);
runtime::BufferRef on_device(const runtime::BufferRef& buffer, std::uint8_t device);

// Records reachable from `roots` without passing a leaf, operands first. Leaves are part of it.
// The caller holds record_mutex(), which guards the scratch fields of records and their change to evaluated.
std::mutex& record_mutex();
template <class IsLeaf>
std::vector<Record*> walk(std::span<const Tensor> roots, IsLeaf&& is_leaf);

std::uint64_t next_visit();

// A compiled graph with the sessions that are not in use.
class Program {
 public:
  Program(const ir::Graph& graph, std::uint8_t device, const runtime::CompileOptions& options);
  std::vector<runtime::BufferRef> run(std::vector<runtime::BufferRef> arguments, std::vector<int> donated);
  // Of a program over several devices: every argument is put where it is wanted first, and `moved` told.
  using Moved = std::function<void(std::size_t, const runtime::BufferRef&, const runtime::BufferRef&)>;
  std::vector<runtime::BufferRef> run_placed(std::vector<runtime::BufferRef> arguments,
                                             std::vector<int> donated, const Moved& moved);
  std::uint8_t device() const { return device_; }
  bool holds(const runtime::Buffer& buffer) const { return buffer.device() == compiled_.device(); }
  // Not empty: the last result is their report. Set before the program is shared.
  std::vector<IndexSite> index_sites;

 private:
  // A session, with lists that a call fills.
  struct Idle {
    std::unique_ptr<runtime::Session> session;
    runtime::RunArguments call;
    std::vector<std::vector<runtime::BufferRef>> results;
  };
  Idle take();
  std::vector<runtime::BufferRef> run(Idle idle, std::vector<runtime::BufferRef> arguments,
                                      std::vector<int> donated);

  const CompiledGraph compiled_;
  const std::uint8_t device_;
  std::mutex mutex_;
  std::vector<Idle> idle_;
};

struct CacheCounts {  // for tests
  std::int64_t hits = 0, misses = 0;
};
CacheCounts cache_counts();

template <class IsLeaf>
std::vector<Record*> walk(std::span<const Tensor> roots, IsLeaf&& is_leaf) {
  const std::uint64_t visit = next_visit();
  std::vector<Record*> order;
  struct Step {
    Record* record;
    std::size_t next;
  };
  std::vector<Step> stack;
  const auto enter = [&](Record* record) {
    if (record->visit == visit) return;
    record->visit = visit;
    record->uses = 0;
    stack.push_back({record, is_leaf(*record) ? record->operands.size() : 0});
  };
  for (const Tensor& root : roots) {
    enter(root.record().get());
    while (!stack.empty()) {
      Step& step = stack.back();
      if (step.next < step.record->operands.size()) {
        Record* operand = step.record->operands[step.next++];
        enter(operand);
        ++operand->uses;
      } else {
        step.record->position = static_cast<std::int32_t>(order.size());
        order.push_back(step.record);
        stack.pop_back();
      }
    }
  }
  return order;
}

}  // namespace systole::recording
