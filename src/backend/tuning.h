#pragma once

// Choosing among ways to do one thing by timing them on the device, when a program is compiled. What was
// chosen is remembered: in the process, and on disk under the device and the question. Of processes that ask
// at one time the first that writes its answer answers for all. The first way is the answer wherever nothing
// may be measured: with SYSTOLE_TUNE=0, where the same choice is wanted in every process, and when the device
// has no memory left for a trial.

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace systole::tuning {

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
  std::vector<double> times;              // by choice, as far as they were tried; infinite for what failed
};

// Seconds of a run. May stop early when it is far above `best`. What throws, or is infinite, is not chosen;
// when one is no number nothing can be told, now that the device is busy, and the first is settled.
using Measure = std::function<double(int choice, double best)>;

// What answers are kept under.
struct Device {
  std::string backend;      // "cuda", in logs and names of files
  std::string description;  // all of a device that an answer depends on
};

Answer tuned(const Device& device, const Question& question, const Measure& measure);

// What is remembered, without a trial.
std::optional<Answer> known_answer(const Device& device, const Question& question);

// The first, from now on and in every process, unless there is an answer already: for when no time is left to
// measure, so that a later process, which has it, does not answer otherwise.
Answer settled(const Device& device, const Question& question);

// The answers that this process has used, one a line, for another process to use the same: a run that is
// resumed, perhaps where the disk remembers nothing, or something else. What is set goes before what the disk
// says. Throws kParse naming `where` for text of another form.
std::string choices();
void set_choices(std::string_view text, std::string_view where);

}  // namespace systole::tuning
