#pragma once

// Choosing among ways to do one thing on a GPU by timing them there (backend/tuning.h); answers are kept
// under the device and its driver.

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "backend/cuda/device.h"
#include "backend/tuning.h"

namespace systole::cuda {

using tuning::Answer;
using tuning::Measure;
using tuning::Question;

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
