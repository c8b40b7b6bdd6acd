#include "backend/arguments.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>

#include "systole/base/error.h"

namespace systole::runtime {

void check_arguments(std::string_view backend, const lower::Program& program, const RunArguments& arguments,
                     const std::function<BufferState(const Buffer&)>& state) {
  const auto refuse = [&](ErrorKind kind, std::string message, std::string expected, std::string got) {
    throw Error(kind, std::string(backend), std::move(message), std::move(expected), std::move(got));
  };
  if (arguments.per_device.size() != 1)
    refuse(ErrorKind::kInvalidArgument, "wrong number of argument lists", "1",
           std::to_string(arguments.per_device.size()));
  const std::vector<BufferRef>& given = arguments.per_device[0];
  if (given.size() != program.inputs.size())
    refuse(ErrorKind::kInvalidArgument, "wrong number of arguments", std::to_string(program.inputs.size()),
           std::to_string(given.size()));
  for (std::size_t i = 0; i < given.size(); ++i) {
    const Buffer* const buffer = given[i].get();
    const auto what = [i] { return fmt::format("argument {}", i); };  // made for an error only
    const BufferState found = buffer == nullptr ? BufferState::foreign : state(*buffer);
    if (found == BufferState::foreign)
      refuse(ErrorKind::kInvalidArgument, what(), "a buffer of this device",
             buffer != nullptr ? buffer->device().to_string() : "none");
    const Type& wanted = program.buffers[static_cast<std::size_t>(program.inputs[i])].type;
    if (!(buffer->type() == wanted))
      refuse(buffer->type().dtype == wanted.dtype ? ErrorKind::kShape : ErrorKind::kDType, what(),
             wanted.to_string(), buffer->type().to_string());
    if (found == BufferState::donated)
      refuse(ErrorKind::kInvalidArgument, "a buffer is used after it was donated", {}, what());
  }
  for (const int i : arguments.donated)
    if (i < 0 || static_cast<std::size_t>(i) >= given.size())
      refuse(ErrorKind::kInvalidArgument, "donated argument out of range",
             fmt::format("an index below {}", given.size()), std::to_string(i));
}

std::vector<std::int32_t> shared_inputs(const lower::Program& program) {
  std::vector<std::int32_t> shared;
  for (const lower::BufferId b : program.outputs) {
    const lower::BufferInfo& memory = program.buffers[static_cast<std::size_t>(program.memory_of(b))];
    shared.push_back(memory.role == lower::BufferInfo::Role::input ? memory.position : -1);
  }
  return shared;
}

void Takeable::look_at(const RunArguments& arguments) {
  is_takeable_.clear();
  if (arguments.donated.empty()) return;
  const std::vector<BufferRef>& given = arguments.per_device[0];
  is_takeable_.resize(given.size());
  sorted_.clear();
  for (const BufferRef& buffer : given) sorted_.push_back(buffer.get());
  std::sort(sorted_.begin(), sorted_.end(), std::less<>());
  for (const int i : arguments.donated) {
    const auto input = static_cast<std::size_t>(i);
    const auto [first, last] =
        std::equal_range(sorted_.begin(), sorted_.end(), given[input].get(), std::less<>());
    is_takeable_[input] = last - first == 1 ? 1 : 0;
  }
}

}  // namespace systole::runtime
