#pragma once

// Threads that watch a word in memory for their next work, for a while, and sleep then. Work of a few
// microseconds is shared in a third of the time that OpenMP's pool takes to begin and to end it. One caller
// at a time; the threads are made when first needed and stay until the process ends.

#include <cstdint>

namespace systole::team {

// All of it lies on the line that the threads watch: what it points to is fetched from the caller's cache
// when it has just been written, which takes as long again.
struct Work {
  void (*part)(const Work& work, std::int64_t i) = nullptr;
  std::int64_t parts = 0;
  // As the part likes.
  std::int64_t items = 0;
  void (*run)(const void* context, std::int64_t begin, std::int64_t end) = nullptr;
  const void* context = nullptr;
};

// Calls part(work, i) for 0 … parts-1, 0 on the caller's thread and each other on one of its own, unless
// that does not come: then on the caller's too. False, and nothing done, when another caller has the
// threads, when there are too few, and in the child of a fork, which has none. `most` is how many threads
// may ever be made, the caller's among them.
bool run(const Work& work, int most);

// Others want the processors: the threads stop watching and sleep until the next run.
void dismiss();

// Whether the threads sleep at once after each run, as on a crowded machine; else they watch for a while.
void set_shy(bool is_shy);

}  // namespace systole::team
