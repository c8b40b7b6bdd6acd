#include "base/parallel.h"

#include <sched.h>

#include <algorithm>
#include <thread>
#include <vector>

#include "base/env.h"

#ifdef _OPENMP
#include <omp.h>
#endif

namespace systole {

namespace {

int available() {
  cpu_set_t set;
  if (sched_getaffinity(0, sizeof set, &set) == 0) return std::max(1, CPU_COUNT(&set));
  return std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
}

[[maybe_unused]] thread_local bool inside = false;

}  // namespace

int thread_count() {
  static const int count = [] {
    const std::uint64_t asked = env::whole_number("SYSTOLE_THREADS").value_or(0);
    return asked == 0 ? available() : static_cast<int>(std::min<std::uint64_t>(asked, 1024));
  }();
  return count;
}

void parallel_for(std::int64_t items, int threads, ParallelRun run, const void* context) {
  const std::int64_t parts = std::min<std::int64_t>(items, threads);
  if (items <= 0) return;
#ifdef _OPENMP
  if (parts <= 1 || omp_in_parallel() != 0) {
    run(context, 0, items);
    return;
  }
#pragma omp parallel num_threads(static_cast<int>(parts))
  {
    const std::int64_t n = omp_get_num_threads(), i = omp_get_thread_num();
    run(context, items * i / n, items * (i + 1) / n);
  }
#else
  if (parts <= 1 || inside) {
    run(context, 0, items);
    return;
  }
  std::vector<std::thread> others;
  for (std::int64_t i = 1; i < parts; ++i)
    others.emplace_back([=] {
      inside = true;
      run(context, items * i / parts, items * (i + 1) / parts);
    });
  run(context, 0, items / parts);
  for (std::thread& other : others) other.join();
#endif
}

}  // namespace systole
