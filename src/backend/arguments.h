#pragma once

// What every backend that runs a Program on one device checks before it does.

#include <functional>
#include <string_view>
#include <vector>

#include "compile/program.h"
#include "systole/runtime.h"

namespace systole::runtime {

// What is wrong with a buffer that the backend cannot use at all; nothing for a buffer of its own.
enum class BufferState { usable, donated, foreign };

// Throws for arguments that do not fit the Program's inputs.
void check_arguments(std::string_view backend, const lower::Program& program, const RunArguments& arguments,
                     const std::function<BufferState(const Buffer&)>& state);

// By output: the input whose memory it is, or -1.
std::vector<std::int32_t> shared_inputs(const lower::Program& program);

// Which inputs' memory a run may write into: those that are donated while no other argument is the same. A
// Session keeps one, so that only its first run allocates.
class Takeable {
 public:
  void look_at(const RunArguments& arguments);  // checked ones
  bool operator[](std::size_t input) const { return !is_takeable_.empty() && is_takeable_[input] != 0; }

 private:
  std::vector<char> is_takeable_;  // by input; empty: none
  std::vector<const Buffer*> sorted_;
};

}  // namespace systole::runtime
