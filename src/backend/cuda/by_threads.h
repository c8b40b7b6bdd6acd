#pragma once

// Items shared out to threads, each of which takes the next that nobody has taken. What fails is told after
// all are done; a thread that cannot be started is one less.

#include <atomic>
#include <cstddef>
#include <exception>
#include <system_error>
#include <thread>
#include <vector>

namespace systole::cuda {

// work(item, thread) for every item; this thread is number 0. Throws what the first item that failed threw.
template <class Thread = std::thread, class Work>
void by_threads(std::size_t items, std::size_t threads, const Work& work) {
  std::vector<std::exception_ptr> failures(items);
  std::atomic<std::size_t> next = 0;
  const auto take = [&](std::size_t thread) {
    for (std::size_t i = next++; i < items; i = next++) try {
        work(i, thread);
      } catch (...) {
        failures[i] = std::current_exception();
      }
  };
  std::vector<Thread> others;
  others.reserve(threads);
  for (std::size_t t = 1; t < threads; ++t) try {
      others.emplace_back(take, t);
    } catch (const std::system_error&) {
      break;
    }
  take(0);
  for (Thread& other : others) other.join();
  for (const std::exception_ptr& failure : failures)
    if (failure) std::rethrow_exception(failure);
}

}  // namespace systole::cuda
