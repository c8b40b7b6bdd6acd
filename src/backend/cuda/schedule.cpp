#include "backend/cuda/schedule.h"

#include <algorithm>

namespace systole::cuda {

namespace {

using lower::BufferId;
using lower::BufferInfo;
using lower::Program;
using lower::Step;

constexpr std::int32_t kMostLanes = 4;

// Memory that a step touches: a part of the arena, or an array of its own.
struct Span {
  BufferId array = -1;  // -1: the arena
  std::int64_t begin = 0, end = 0;
};
struct Touched {
  std::vector<Span> read, written;
};

bool overlap(const std::vector<Span>& a, const std::vector<Span>& b) {
  return std::any_of(a.begin(), a.end(), [&](const Span& x) {
    return std::any_of(b.begin(), b.end(), [&](const Span& y) {
      return x.array == y.array && x.begin < y.end && y.begin < x.end;
    });
  });
}

Span span_of(const Program& program, BufferId b) {
  const BufferId memory = program.memory_of(b);
  const BufferInfo& info = program.buffers[static_cast<std::size_t>(memory)];
  if (info.role == BufferInfo::Role::temporary) return {-1, info.offset, info.offset + info.bytes};
  return {memory, 0, std::max<std::int64_t>(info.bytes, 1)};
}

Touched touched_by(const Program& program, const Step& step) {
  Touched touched;
  for (const BufferId b : step.inputs) touched.read.push_back(span_of(program, b));
  for (const BufferId b : step.outputs) touched.written.push_back(span_of(program, b));
  if (step.workspace >= 0) touched.written.push_back(span_of(program, step.workspace));
  return touched;
}

bool depends(const Touched& later, const Touched& earlier) {
  return overlap(later.read, earlier.written) || overlap(later.written, earlier.written) ||
         overlap(later.written, earlier.read);
}

// By step of a scan's body: whether it and all it needs read only what no turn writes, for others of the
// turn.
std::vector<bool> early_steps(const Program& program, const std::vector<Touched>& touched,
                              std::int32_t carries) {
  const std::size_t count = program.steps.size();
  const auto role = [&](BufferId b) {
    return program.buffers[static_cast<std::size_t>(program.memory_of(b))].role;
  };
  const auto is_given = [&](BufferId b) {
    const BufferInfo& memory = program.buffers[static_cast<std::size_t>(program.memory_of(b))];
    return memory.role == BufferInfo::Role::constant || memory.role == BufferInfo::Role::temporary ||
           (memory.role == BufferInfo::Role::input && memory.position >= carries);
  };
  std::vector<bool> early(count, false);
  for (std::size_t s = 0; s < count; ++s) {
    const Step& step = program.steps[s];
    early[s] = step.programs.empty() && std::all_of(step.inputs.begin(), step.inputs.end(), is_given) &&
               std::all_of(step.outputs.begin(), step.outputs.end(),
                           [&](BufferId b) { return role(b) == BufferInfo::Role::temporary; });
    for (std::size_t d = 0; d < s && early[s]; ++d) early[s] = early[d] || !depends(touched[s], touched[d]);
  }
  // Who is read by a step that is not early is done when the turn is.
  std::vector<bool> is_read(count, false);
  for (std::size_t s = count; s-- > 0;)
    for (std::size_t r = s + 1; r < count && !is_read[s]; ++r)
      is_read[s] = (!early[r] || is_read[r]) && overlap(touched[r].read, touched[s].written);
  for (std::size_t s = 0; s < count; ++s) early[s] = early[s] && is_read[s];
  // What needs one that is not early after all is not either.
  for (std::size_t s = 0; s < count; ++s)
    for (std::size_t d = 0; d < s && early[s]; ++d) early[s] = early[d] || !depends(touched[s], touched[d]);
  return early;
}

}  // namespace

Schedule make_schedule(const Program& program, std::optional<std::int32_t> carries) {
  const std::size_t count = program.steps.size();
  Schedule schedule;
  schedule.lane.assign(count, 0);
  schedule.waits.resize(count);
  schedule.is_awaited.assign(count, false);
  schedule.turn_before.resize(count);
  std::vector<Touched> touched;
  for (const Step& step : program.steps) touched.push_back(touched_by(program, step));
  const std::vector<bool> early =
      carries ? early_steps(program, touched, *carries) : std::vector<bool>(count, false);
  constexpr std::int32_t kEarly = -1;  // lane, until their number is known
  std::int32_t last_early = -1;
  std::vector<std::vector<bool>> before(count);  // by step: those that are done when it begins
  std::vector<std::int32_t> last{-1};            // by lane
  for (std::size_t s = 0; s < count; ++s) {
    before[s].assign(s, false);
    const auto add = [&](std::size_t d) {
      before[s][d] = true;
      for (std::size_t i = 0; i < d; ++i)
        if (before[d][i]) before[s][i] = true;
    };
    std::vector<std::size_t> needed;
    for (std::size_t d = s; d-- > 0;)
      if (!before[s][d] && depends(touched[s], touched[d])) {
        needed.push_back(d);
        add(d);
      }
    if (early[s]) {
      if (last_early >= 0) add(static_cast<std::size_t>(last_early));
      last_early = static_cast<std::int32_t>(s);
      schedule.lane[s] = kEarly;
      schedule.has_early = true;
      continue;
    }
    // The lane of the latest that it needs; one that is done by then; a new one.
    std::int32_t lane = -1;
    if (!program.steps[s].programs.empty()) lane = 0;
    for (const std::size_t d : needed)
      if (lane < 0 && !early[d] &&
          last[static_cast<std::size_t>(schedule.lane[d])] == static_cast<std::int32_t>(d))
        lane = schedule.lane[d];
    for (std::size_t l = 0; l < last.size() && lane < 0; ++l)
      if (last[l] < 0 || before[s][static_cast<std::size_t>(last[l])]) lane = static_cast<std::int32_t>(l);
    if (lane < 0 && static_cast<std::int32_t>(last.size()) < kMostLanes) {
      lane = static_cast<std::int32_t>(last.size());
      last.push_back(-1);
    }
    if (lane < 0) lane = static_cast<std::int32_t>(std::min_element(last.begin(), last.end()) - last.begin());
    std::int32_t& tail = last[static_cast<std::size_t>(lane)];
    if (tail >= 0 && !before[s][static_cast<std::size_t>(tail)]) add(static_cast<std::size_t>(tail));
    tail = static_cast<std::int32_t>(s);
    schedule.lane[s] = lane;
    for (const std::size_t d : needed)
      if (schedule.lane[d] != lane) {
        schedule.waits[s].push_back(static_cast<std::int32_t>(d));
        schedule.is_awaited[d] = true;
      }
  }
  schedule.lanes = static_cast<std::int32_t>(last.size());
  for (std::size_t s = 0; s < count; ++s) {
    if (!early[s]) continue;
    schedule.lane[s] = schedule.lanes;
    // Those of the turn before, but for the ones that are done when others are.
    std::vector<std::int32_t>& waits = schedule.turn_before[s];
    for (std::size_t d = count; d-- > 0;) {
      const bool is_done = std::any_of(waits.begin(), waits.end(), [&](std::int32_t later) {
        return before[static_cast<std::size_t>(later)][d];
      });
      if (early[d] || is_done || !depends(touched[s], touched[d])) continue;
      waits.push_back(static_cast<std::int32_t>(d));
      schedule.is_awaited[d] = true;
    }
  }
  return schedule;
}

Lanes::~Lanes() {
  if (!device_.try_activate()) return;
  for (const Stream stream : streams_) driver().cuStreamDestroy(stream);
}

Stream Lanes::stream(std::int32_t lane) {
  while (static_cast<std::size_t>(lane) >= streams_.size()) {
    Stream stream = nullptr;
    check(driver().cuStreamCreate(&stream, kStreamNonBlocking), "cuStreamCreate");
    streams_.push_back(stream);
    ends_in_kernel_.push_back(false);
  }
  return streams_[static_cast<std::size_t>(lane)];
}

Lanewalk::Lanewalk(const Device& device, Lanes* lanes, const Schedule& schedule)
    : device_(&device),
      lanes_(lanes),
      schedule_(&schedule),
      events_(schedule.lane.size() + 1 + kMostLanes, nullptr) {}

Lanewalk::~Lanewalk() {
  for (const Event event : events_)
    if (event != nullptr) device_->give_event(event);
}

Lanewalk::Lanewalk(Lanewalk&& other) noexcept
    : device_(other.device_),
      lanes_(other.lanes_),
      schedule_(other.schedule_),
      events_(std::move(other.events_)),
      entered_(std::move(other.entered_)),
      is_first_(other.is_first_) {
  other.events_.clear();
}

Event Lanewalk::event(std::size_t i) {
  if (events_[i] == nullptr) events_[i] = device_->take_event();
  return events_[i];
}

void Lanewalk::begin() {
  if (!is_on()) return;
  entered_.assign(static_cast<std::size_t>(schedule_->lanes), false);
  check(driver().cuEventRecord(event(schedule_->lane.size()), lanes_->stream(0)), "cuEventRecord");
}

Stream Lanewalk::enter(std::size_t step) {
  if (lanes_ == nullptr || !lanes_->are_used()) return nullptr;
  if (!is_on()) return lanes_->stream(0);
  const std::int32_t lane = schedule_->lane[step];
  const Stream stream = lanes_->stream(lane);
  const auto wait = [&](Event event) {
    check(driver().cuStreamWaitEvent(stream, event, 0), "cuStreamWaitEvent");
    lanes_->set_end(stream, false);
  };
  if (lane == schedule_->lanes) {  // an early step's
    if (is_first_) {
      wait(event(schedule_->lane.size()));
    } else {
      for (const std::int32_t other : schedule_->turn_before[step])
        wait(event(static_cast<std::size_t>(other)));
    }
    return stream;
  }
  if (lane > 0 && !entered_[static_cast<std::size_t>(lane)]) wait(event(schedule_->lane.size()));
  entered_[static_cast<std::size_t>(lane)] = true;
  for (const std::int32_t other : schedule_->waits[step]) wait(event(static_cast<std::size_t>(other)));
  return stream;
}

void Lanewalk::leave(std::size_t step) {
  if (!is_on() || !schedule_->is_awaited[step]) return;
  check(driver().cuEventRecord(event(step), lanes_->stream(schedule_->lane[step])), "cuEventRecord");
}

void Lanewalk::end() {
  if (!is_on()) return;
  for (std::int32_t lane = 1; lane < schedule_->lanes; ++lane) {
    if (!entered_[static_cast<std::size_t>(lane)]) continue;
    const Event done = event(schedule_->lane.size() + 1 + static_cast<std::size_t>(lane));
    check(driver().cuEventRecord(done, lanes_->stream(lane)), "cuEventRecord");
    check(driver().cuStreamWaitEvent(lanes_->stream(0), done, 0), "cuStreamWaitEvent");
    lanes_->set_end(lanes_->stream(0), false);
  }
}

}  // namespace systole::cuda
