// Places in the arena: the largest buffers first, each at the lowest place that no buffer needed at the same
// time touches. That reuses memory that is still in a cache as well as a search for what was freed last:
// steps of T1 and T2 take as long with it, within 1 %. Where there is room none touch: steps that could run
// beside each other then do not wait for memory.

#include <algorithm>
#include <utility>
#include <vector>

#include "base/checked.h"
#include "compile/program.h"

namespace systole::lower {

namespace {

constexpr std::int64_t kAlignment = 256;  // what GPUs and vector units ask for at most

std::int64_t add(std::int64_t a, std::int64_t b) {
  return checked_add(a, b, "memory of the graph", "what it needs in all");
}

std::int64_t aligned(std::int64_t bytes) { return add(bytes, kAlignment - 1) / kAlignment * kAlignment; }

// Every sum of sizes that is made of a program, the peak among them, is at most this one.
void check_total(const Program& program) {
  std::int64_t all = 0;
  for (const BufferInfo& b : program.buffers)
    if (b.shares < 0) all = add(all, aligned(b.bytes));
}

}  // namespace

void plan_memory(Program& program, std::int64_t room) {
  check_total(program);
  std::vector<BufferInfo*> open;
  for (BufferInfo& b : program.buffers)
    if (b.role == BufferInfo::Role::temporary && b.shares < 0 && b.first >= 0) open.push_back(&b);
  std::stable_sort(open.begin(), open.end(),
                   [](const BufferInfo* a, const BufferInfo* b) { return a->bytes > b->bytes; });
  std::vector<BufferInfo*> placed;
  program.arena_bytes = 0;
  std::int64_t all = 0;
  for (const BufferInfo* b : open) all += aligned(b->bytes);
  const bool is_roomy = all <= room;
  for (BufferInfo* b : open) {
    std::vector<std::pair<std::int64_t, std::int64_t>> used;
    for (const BufferInfo* other : placed)
      if (is_roomy || (other->first <= b->last && b->first <= other->last))
        used.emplace_back(other->offset, other->offset + aligned(other->bytes));
    std::sort(used.begin(), used.end());
    std::int64_t at = 0;
    for (const auto& [begin, end] : used) {
      if (at + aligned(b->bytes) <= begin) break;
      at = std::max(at, end);
    }
    b->offset = at;
    program.arena_bytes = std::max(program.arena_bytes, at + b->bytes);
    placed.push_back(b);
  }
}

}  // namespace systole::lower
