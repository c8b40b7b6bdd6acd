#pragma once

// Which steps of a Program may run beside each other on a GPU. Steps go to lanes, which are streams; a step
// waits for those of other lanes whose memory it touches, as far as its own lane does not order them already.
// A captured graph then has a Program's own dependencies instead of the order it was written in.
//
// Steps of a scan's body that need nothing of the turn before, such as making a batch ready, run beside the
// end of that turn: they have a lane of their own, in which they wait only for those whose memory they write.

#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "backend/cuda/device.h"
#include "compile/program.h"

namespace systole::cuda {

struct Schedule {
  std::vector<std::int32_t> lane;                // by step; 0 for loops and branches, which have lanes inside
  std::vector<std::vector<std::int32_t>> waits;  // by step: those of other lanes that it waits for
  std::vector<bool> is_awaited;                  // by step
  std::int32_t lanes = 1;                        // that begin with the Program and end with it
  bool has_early = false;                        // then the lane after these is that of the early steps
  std::vector<std::vector<std::int32_t>> turn_before;  // by early step: what it waits for there
};
// `carries`: of a scan, whose body this is.
Schedule make_schedule(const lower::Program& program, std::optional<std::int32_t> carries = {});

// The streams on which a session captures its steps, one for each lane, made when they are first used. Nobody
// else has them: what others would put on a stream that captures fails, or is captured.
class Lanes {
 public:
  Lanes(const Device& device, bool launches_early) : device_(device), launches_early_(launches_early) {}
  ~Lanes();
  Lanes(const Lanes&) = delete;
  Lanes& operator=(const Lanes&) = delete;

  Stream stream(std::int32_t lane);
  bool are_used() const { return used_; }
  void use(bool used) {
    used_ = used;
    std::fill(ends_in_kernel_.begin(), ends_in_kernel_.end(), false);
  }
  // Whether a kernel may be launched before the last on the stream ends: that is a kernel too, and nothing
  // was waited for since.
  bool is_early(Stream stream) const { return launches_early_ && ends_in_kernel_[place(stream)]; }
  void set_end(Stream stream, bool is_kernel) { ends_in_kernel_[place(stream)] = is_kernel; }

 private:
  std::size_t place(Stream stream) const {
    return static_cast<std::size_t>(std::find(streams_.begin(), streams_.end(), stream) - streams_.begin());
  }

  const Device& device_;
  const bool launches_early_;
  std::vector<Stream> streams_;
  std::vector<bool> ends_in_kernel_;  // by stream
  bool used_ = false;  // only while a graph is captured: one launch has no host between its steps
};

// A Program's way through the lanes.
class Lanewalk {
 public:
  Lanewalk(const Device& device, Lanes* lanes, const Schedule& schedule);
  ~Lanewalk();
  Lanewalk(Lanewalk&& other) noexcept;
  Lanewalk& operator=(Lanewalk&&) = delete;

  void set_turn(std::int64_t turn) { is_first_ = turn == 0; }  // of a scan, that begins next
  void begin();
  Stream enter(
      std::size_t step);  // where it goes, null when nothing is captured; what it waits for is awaited
  void leave(std::size_t step);
  void end();

 private:
  bool is_on() const {
    return lanes_ != nullptr && lanes_->are_used() && (schedule_->lanes > 1 || schedule_->has_early);
  }
  Event event(std::size_t i);  // of a step, then of the beginning, then of the lanes

  const Device* device_;
  Lanes* lanes_;
  const Schedule* schedule_;
  std::vector<Event> events_;
  std::vector<bool> entered_;  // by lane
  bool is_first_ = true;
};

}  // namespace systole::cuda
