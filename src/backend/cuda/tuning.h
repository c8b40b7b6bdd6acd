#pragma once

// Choosing among ways to do one thing by timing them on the device, when a program is compiled. What was
// chosen is remembered: in the process, and on disk under the device, its driver and the question. The first
// way is the answer wherever nothing may be measured: with SYSTOLE_TUNE=0, where the same choice is wanted in
// every process, and when the device has no memory left for a trial.

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "backend/cuda/device.h"

namespace systole::cuda {

struct Question {
  std::string name;               // in logs: "cublasLt 16384x768x3072 bf16"
  std::string details;            // what else the answer depends on: strides, the library's version
  std::string choice = "choice";  // what one is called, in logs: "algorithm"
  int count = 0;                  // of choices
  bool is_measured = true;        // false: the first
  bool wants_time = false;        // measured even when there is one choice
  double most_seconds = 0.1;      // for all choices, and the time of 50 runs; what is left then is not tried
};

struct Answer {
  int choice = 0;
  double seconds = 0, first_seconds = 0;  // of the choice, of the first; 0: not measured
};

// Seconds of a run. May stop early when it is far above `best`. What throws, or is infinite, is not chosen.
using Measure = std::function<double(int choice, double best)>;
// `device` is all of a device that an answer depends on.
Answer tuned(const std::string& device, const Question& question, const Measure& measure);

// Does the work of a choice once, on the stream.
using Trial = std::function<void(int choice, Stream stream)>;
// `prepare` is asked only when something is to be measured; what it holds is freed after.
Answer best_of(const Device& device, const Question& question,
               const std::function<Trial(Stream stream)>& prepare);

// What is remembered, without a trial.
std::optional<Answer> known_answer(const Device& device, const Question& question);

// Arrays for trials. Every byte is `fill`: of floats of any size 0x3c makes small positive numbers.
class Scratch {
 public:
  Scratch(const Device& device, Stream stream, std::span<const std::int64_t> bytes,
          unsigned char fill = 0x3c);
  const std::vector<Address>& addresses() const { return addresses_; }

 private:
  std::vector<std::unique_ptr<Memory>> memory_;
  std::vector<Address> addresses_;
};

// Seconds in which the device's memory moves so many bytes, read and written; measured once.
double copy_seconds(const Device& device, std::int64_t bytes);

}  // namespace systole::cuda
