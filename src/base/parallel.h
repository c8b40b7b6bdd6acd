#pragma once

// Work shared by the threads of the machine. The pool is OpenMP's, so that libraries that use it share the
// same threads; built for the thread sanitizer, which does not know OpenMP's locks, threads are made for each
// call.

#include <cstdint>

namespace systole {

int thread_count();  // SYSTOLE_THREADS, else as many as the process may use

// Calls run(context, begin, end) for parts that make up 0 … items-1, at most `threads` at a time. `run` must
// not throw. Inside such a call it runs on the caller's thread.
using ParallelRun = void (*)(const void* context, std::int64_t begin, std::int64_t end);
void parallel_for(std::int64_t items, int threads, ParallelRun run, const void* context);

}  // namespace systole
