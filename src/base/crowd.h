#pragma once

// Whether other programs want the processors of this one. Threads that watch for work keep others from the
// processors then, are put off themselves, and those that meet them wait for milliseconds each time: on a
// crowded machine they must sleep soon, which on a free one would cost as much again as short work takes.

#include <cstdint>
#include <optional>
#include <string_view>

namespace systole::crowd {

// Says it from how long a thread waited for a processor. Crowded after a time of which more than a part was
// waiting; not any more after a quiet second, and after longer when it was so again right after the last one.
class Judge {
 public:
  // At `now`, in nanoseconds, the last `passed` of which `waited` were spent in the queue of a processor.
  bool judge(std::int64_t now, std::int64_t passed, std::int64_t waited);
  bool is_crowded() const { return is_crowded_; }

 private:
  bool is_crowded_ = false;
  std::int64_t since_ = 0;  // the last time that it was crowded, or the end of that
  std::int64_t hold_ = 0;   // how long it is to stay so
};

// Of "run waited slices" as the kernel writes it for a thread.
std::optional<std::int64_t> waited_in(std::string_view schedstat);

// Looks at this thread now and then, at most every 10 ms, and says how it is for the process.
bool is_here();

}  // namespace systole::crowd
