#pragma once

// Work shared by the threads of the machine: by a team of our own, and where a library uses OpenMP's pool,
// libgomp, by that one, so that not twice as many threads wait for work. Neither outlives a fork, and a child
// would wait for them for ever: there threads are made for each call. Builds for the thread sanitizer, which
// does not know libgomp's locks, are without it.

#include <cstdint>

namespace systole {

// The most threads that one call uses: SYSTOLE_THREADS, else as many as the process may use by its affinity
// and the quotas of its control groups (processors.h). Read once.
int thread_count();

// Whether others want the processors, so that threads sleep where they would watch for work (crowd.h). Set by
// what the calls above find; here for tests.
void set_crowded(bool is_crowded);

// Calls run(context, begin, end) for parts that make up 0 … items-1, each index in exactly one, at most
// `threads` at a time. Several callers at one time share the machine's threads. `run` must not throw. Inside
// such a call, it runs on the caller's thread alone.
using ParallelRun = void (*)(const void* context, std::int64_t begin, std::int64_t end);
void parallel_for(std::int64_t items, int threads, ParallelRun run, const void* context);

// Before this thread calls a library that uses OpenMP's pool itself: at most so many threads for it, as
// parallel_for would take, its own alone where the pool is lost or busy with this thread. False where there
// is no pool.
bool lend_pool(int threads);

}  // namespace systole
