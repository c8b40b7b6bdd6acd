#pragma once

// What the fake driver's handles stand for, and what its class and its functions share.

#include <algorithm>
#include <atomic>
#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "fake_driver.h"

namespace systole::cuda {

using Work = std::function<void(Stream)>;

struct ContextObject {
  int gpu;
};
// Work of a capture's streams in the order in which it was put there. A stream joins by waiting for an event
// of the capture, and must be waited for by the first before it ends.
struct Captured {
  enum class Kind { work, record, wait };
  struct Node {
    Kind kind;
    std::size_t lane;  // the capture's how-many-th stream
    Work work;
    std::size_t event = 0;  // each record has a number
  };
  std::vector<Node> nodes;
  std::size_t lanes = 0, events = 0;
};
struct Capture : Captured {
  std::vector<Stream> streams;
  std::vector<std::map<std::size_t, std::size_t>> seen;  // by lane: how many nodes of each lane come before
  bool is_spoilt = false;

  std::size_t lane_of(Stream stream) const {
    return static_cast<std::size_t>(std::find(streams.begin(), streams.end(), stream) - streams.begin());
  }
  void join(Stream stream);
  void add(Node node) {
    ++seen[node.lane][node.lane];
    nodes.push_back(std::move(node));
  }
};
struct StreamObject {
  int id, gpu;
  std::map<int, std::uint64_t> clock;
  std::shared_ptr<Capture> capture = nullptr;
  bool ends_in_kernel = false;  // nothing else was put on it since, nor waited for
};
struct EventObject {
  int gpu;
  std::map<int, std::uint64_t> clock;
  std::shared_ptr<Capture> capture = nullptr;  // that it was recorded in
  std::size_t number = 0;
  std::map<std::size_t, std::size_t> seen = {};
  std::chrono::steady_clock::time_point time = {};  // when it was recorded, where kernels take time
};

struct FunctionObject {
  std::string name;
  int gpu;
  unsigned most_shared = 49152;
  FakeKernel* kernel = nullptr;  // of the module's code
};
struct ModuleObject {
  int gpu;
  std::vector<std::shared_ptr<FunctionObject>> functions;
  std::map<std::string, std::pair<Address, std::size_t>> variables;
  std::shared_ptr<FakeCode> code = nullptr;  // that the processor runs
};
struct GraphObject {
  Captured captured;
};
struct GraphExecObject {
  Captured captured;
};

namespace fakes {

inline constexpr Status kInvalidValue = 1, kInvalidDevice = 101, kInvalidContext = 201, kInvalidHandle = 400,
                        kNotSupported = 801, kCaptureUnsupported = 900, kCaptureInvalidated = 901,
                        kCaptureUnjoined = 904;

inline FakeDriver* the_fake = nullptr;
inline std::recursive_mutex mutex;
inline std::atomic<bool> is_hesitant = false;
inline thread_local Context current = nullptr;

inline void merge(std::map<int, std::uint64_t>& into, const std::map<int, std::uint64_t>& other) {
  for (const auto& [stream, count] : other) into[stream] = std::max(into[stream], count);
}

inline bool loses_context(Status status) { return status == kErrorIllegalAddress || status == 719; }

void fill(Driver& table);  // with the functions

}  // namespace fakes

}  // namespace systole::cuda
