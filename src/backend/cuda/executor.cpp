#include "backend/cuda/executor.h"

#include <algorithm>
#include <span>

#include "backend/cuda/cupti.h"
#include "eval/eval.h"
#include "runtime/timeline.h"
#include "systole/base/error.h"

namespace systole::cuda {

using lower::BufferId;
using lower::Step;
using lower::StepKind;

Machine::Machine(const Context& context, const Compiled& compiled)
    : device_(&context.device),
      lanes_(context.lanes),
      home_(context.stream),
      stream_(context.stream),
      compiled_(&compiled),
      way_(context.device, context.lanes, compiled.schedule) {
  std::size_t most = 0;
  for (const Step& step : compiled.program->steps) {
    most = std::max(most, step.inputs.size() + step.outputs.size() + 1);
    if (step.kind == StepKind::loop && !answer_)
      answer_ = std::make_shared<Memory>(*device_, 1, Type{DType::boolean, {}}, stream_);
  }
  addresses_.resize(most);
  parameters_.resize(most);
}

Machine::Place Machine::constant(BufferId b) const {
  const MemoryRef& memory = compiled_->constants[static_cast<std::size_t>(b)];
  memory->before_reading(stream_);
  return memory->address();
}

void Machine::enter(std::size_t step) {
  const Stream stream = way_.enter(step);
  stream_ = stream != nullptr ? stream : home_;
}

bool Machine::is_true(Place place) const {
  std::byte value{0};
  check(driver().cuMemcpyDtoHAsync(&value, place, 1, stream_), "cuMemcpyDtoHAsync");
  check(driver().cuStreamSynchronize(stream_), "cuStreamSynchronize");
  return value != std::byte{0};
}

void Machine::copy(Place from, Place to, std::size_t bytes) const {
  if (bytes == 0) return;
  check(driver().cuMemcpyDtoDAsync(to, from, bytes, stream_), "cuMemcpyDtoDAsync");
  end_with(false);
}

// In a graph a kernel is launched while the one before it still runs, and waits for its end by itself
// (S_BEGIN): what it takes to launch it is over by then. A recording has each by itself, for its time.
void Machine::launch(const Compiled::Launch& launch) {
  if (launch.groups == 0) return;
  if (stream_ != home_ && lanes_->is_early(stream_) && !cupti::is_recording()) {
    LaunchAttribute early{.id = kLaunchEarly, .is_allowed = 1};
    const LaunchConfig config{.grid = {launch.groups, 1, 1},
                              .block = {launch.threads, 1, 1},
                              .stream = stream_,
                              .attributes = &early,
                              .attribute_count = 1};
    check(driver().cuLaunchKernelEx(&config, launch.function, parameters_.data(), nullptr),
          "cuLaunchKernelEx");
  } else {
    check(driver().cuLaunchKernel(launch.function, launch.groups, 1, 1, launch.threads, 1, 1, 0, stream_,
                                  parameters_.data(), nullptr),
          "cuLaunchKernel");
  }
  end_with(true);
}

void Machine::run(std::size_t s, const runtime::Walker<Machine>& walker) {
  const Step& step = compiled_->program->steps[s];
  const Compiled::Call& call = compiled_->calls[s];
  if (call.launches.empty() && !call.library) {
    const cupti::Step named(call.label, call.details);
    return evaluate(step, walker);
  }
  std::size_t count = 0;
  for (const BufferId b : step.inputs) addresses_[count++] = walker.place(b);
  for (const BufferId b : step.outputs) addresses_[count++] = walker.place(b);
  addresses_[count] = walker.workspace(step);
  const cupti::Step named(call.label, call.details);
  if (call.library) {
    const std::span<const Address> all(addresses_);
    call.library->run(stream_, all.subspan(0, step.inputs.size()),
                      all.subspan(step.inputs.size(), step.outputs.size()), addresses_[count]);
    end_with(false);
  }
  for (std::size_t i = 0; i <= count; ++i) parameters_[i] = &addresses_[i];
  for (const Compiled::Launch& each : call.launches) launch(each);
  if (timeline::is_on() && !cupti::is_recording())
    check(driver().cuStreamSynchronize(stream_), "cuStreamSynchronize");  // the span is of the work
}

void Machine::evaluate(const Step& step, const runtime::Walker<Machine>& walker) const {
  const Driver& cu = driver();
  std::vector<Literal> arguments;
  for (const BufferId b : step.inputs) {
    Literal& value = arguments.emplace_back(walker.info(b).type);
    if (value.byte_size() > 0)
      check(cu.cuMemcpyDtoHAsync(value.mutable_bytes(), walker.place(b), value.byte_size(), stream_),
            "cuMemcpyDtoHAsync");
  }
  check(cu.cuStreamSynchronize(stream_), "cuStreamSynchronize");
  const std::vector<Literal> results = eval::evaluate(step.region.graph, arguments);
  for (std::size_t i = 0; i < results.size(); ++i)
    if (results[i].byte_size() > 0)
      check(cu.cuMemcpyHtoDAsync(walker.place(step.outputs[i]), results[i].bytes(), results[i].byte_size(),
                                 stream_),
            "cuMemcpyHtoDAsync");
  check(cu.cuStreamSynchronize(stream_), "cuStreamSynchronize");
}

}  // namespace systole::cuda
