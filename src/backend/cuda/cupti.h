#pragma once

// What the GPU did, on the timeline: CUPTI's records of kernels, copies and memsets, each with the times at
// which the GPU began and ended it, in rows of their own ("cuda:0 stream 7"). Nothing waits for them, so a
// step stays one launch. A record has the name of the step that made its work: of the call for work that is
// launched, of the node for work of a graph, by callbacks of CUPTI on the thread that is in the step. Of the
// kernels that one call of a step makes one has "first" in its details, each time it runs: as often as a
// graph is launched, the steps captured in it were called.
//
// Without a timeline none of this is loaded. Where CUPTI is not to be had, one line of the log says why, and
// steps are waited for instead.

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>

#include "backend/cuda/cupti_api.h"
#include "runtime/timeline.h"

namespace systole::cuda {

class Device;

namespace cupti {

extern std::atomic<bool> recording;

// Begins to record if there is a timeline and CUPTI lets it. The context of a device must be there.
void start_recording();

// The number of the recording that work of the device goes into; 0 where there is none. Graphs captured
// before it began have no names.
std::uint64_t recording_of(const Device& device);

void forget(const Device& device);  // it goes, and is not waited for when the recording ends

// Whether the timeline of the GPU is CUPTI's.
inline bool is_recording() { return recording.load(std::memory_order_relaxed); }

// "copy from cuda:1 to cuda:0": as a record of it is named.
std::string peer_copy_name(std::int64_t from, std::int64_t to);

struct Call;  // of a step; it may make several kernels

// Work that this thread makes from here to the end of the block is of this step, and one call of it.
class Step {
 public:
  Step(const std::string& label, const std::string& details) {
    if (is_recording()) enter(label, details);
  }
  ~Step() {
    if (call_) leave();
  }
  Step(const Step&) = delete;
  Step& operator=(const Step&) = delete;

 private:
  void enter(const std::string& label, const std::string& details);
  void leave() const;
  std::shared_ptr<Call> call_;
  const std::shared_ptr<Call>* outer_ = nullptr;  // of the step outside
};

void set_api(const Api* api);  // in the library's place: one of a test's own; null: the library's again

}  // namespace cupti
}  // namespace systole::cuda
