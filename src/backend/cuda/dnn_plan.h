#pragma once

// What all work through cuDNN's graphs shares: the handles of a device, the choice of a plan, its execution.

#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <numeric>
#include <span>
#include <vector>

#include "backend/cuda/device.h"
#include "backend/cuda/dnn_api.h"
#include "systole/base/dtype.h"

namespace systole::cuda::dnn {

int type_number(DType dtype);  // cuDNN's; -1 for what it has not

// A handle of cuDNN's, used by one thread at a time. A plan runs on any handle of its device, so there are
// two kinds: compilations make and try plans on handles of their own, which they may hold for seconds, and
// calls share one that is held for a launch only.
struct Shared {
  std::mutex mutex;
  Handle handle = nullptr;
};
struct Handles {
  Shared calls;   // what is ready runs here; this lock also keeps a plan from running in two threads at once
  Shared making;  // attention and layers are made and tried here; convolutions have several more
};
Handles& handles(const Device& device);

// What may be declared of an array of so many bytes: arrays begin at multiples of the largest that cuDNN asks
// for, and a scan's slices follow each other without gaps.
constexpr std::int64_t array_alignment(std::int64_t bytes) { return std::gcd(bytes, std::int64_t{16}); }
// Parts of a workspace begin at multiples of 256.
constexpr std::int64_t in_workspace(std::int64_t bytes) { return (bytes + 255) / 256 * 256; }

struct Plan {
  std::shared_ptr<const std::vector<Object>> common;  // that other plans are made of too
  std::shared_ptr<const Object> config;               // likewise
  std::vector<Object> parts;                          // that it is made of, and itself, last
  std::int64_t workspace = 0;
  const Object& object() const { return parts.back(); }
};

// Makes a graph of the finished operations, and of the plans that the heuristics propose for it takes the
// first whose engine is accepted and that needs no more workspace than allowed. `parts` are what the
// operations are made of, themselves included. Throws kUnsupported when there is none.
struct PlanWishes {
  std::int64_t most_workspace = std::int64_t{256} << 20;
  std::function<bool(const std::vector<int>& notes)>
      accepts;  // an engine by its numerical notes; all if empty
};
Plan make_plan(Handle handle, std::vector<Object> parts, const std::vector<std::size_t>& operations,
               const PlanWishes& wishes);

// The engines that the heuristics propose for the operations and that are accepted, the one that they take
// for the fastest first; the same list for the same cuDNN, device and operations. Throws kUnsupported when
// there is none.
class Engines {
 public:
  Engines(Handle handle, std::vector<Object> parts, const std::vector<std::size_t>& operations,
          PlanWishes wishes);
  std::size_t count() const { return configs_.size(); }
  // Throws kUnsupported when the engine cannot do it after all. The handle may be another thread's.
  Plan plan(Handle handle, std::size_t engine) const;

 private:
  const PlanWishes wishes_;
  std::shared_ptr<const std::vector<Object>> parts_;  // the graph last
  std::vector<std::shared_ptr<const Object>> configs_;
};

// Arrays by their names in the plan. What is passed by value is in the host's memory.
void execute(Shared& shared, Stream stream, const Plan& plan, std::span<const std::int64_t> names,
             std::span<void* const> pointers, void* workspace);

}  // namespace systole::cuda::dnn
