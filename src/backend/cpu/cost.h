#pragma once

// Who does a product or a convolution in f32: oneDNN, on one thread or on all, or a generated kernel. Rules
// say it where it is plain. Near their thresholds the ways are timed, on arrays of the program's sizes, once
// per shape: answers are kept on disk under the processor, its instruction set, the number of threads and the
// library's version, and results stay equal from run to run.
//
// The generated way is compiled to be timed, with nothing on its result or with what the program has there.
// A model of it would have to know what the C compiler makes of every shape, and be wrong just where it is
// close. Compiling takes some 30 ms, so a program has a time to spend on questions; what comes after is as
// the rules say, for good.

#include <cstdint>
#include <functional>
#include <string>

#include "backend/cpu/onednn_plan.h"
#include "compile/target.h"

namespace systole::cpu {

struct Decision {
  bool is_generated = false, is_measured = false;
  int threads = 1;    // of oneDNN
  std::string times;  // "oneDNN 12.1 µs, generated 15.4 µs"
};

// By the rules unless it was, or now is, measured. `make` is oneDNN's way.
Decision decide(const lower::Region& region, const std::function<Made()>& make);

// While one lives, oneDNN's plans of this thread are made for so many threads, whatever the rules say.
class Forced {
 public:
  explicit Forced(int threads);
  ~Forced();
  Forced(const Forced&) = delete;
  Forced& operator=(const Forced&) = delete;
  static int threads();  // 0: by the rules

 private:
  const int outer_;
};

// A program is compiled by this thread: whether its questions may be measured, and they have their time anew.
class Measuring {
 public:
  explicit Measuring(bool is_on);
  ~Measuring();
  Measuring(const Measuring&) = delete;
  Measuring& operator=(const Measuring&) = delete;

 private:
  const bool was_on_;
};

// Nanoseconds of a generated kernel on one thread, roughly: instructions, and bytes as the memory gives them.
double estimated_nanoseconds(const lower::Region& region);
// How many threads are worth waking for so many.
int threads_for_kernel(double nanoseconds);

}  // namespace systole::cpu
