#include "backend/cuda/cupti.h"

#include <cxxabi.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdlib>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "backend/cuda/device.h"
#include "base/lasting.h"
#include "base/log.h"

namespace systole::cuda::cupti {

std::atomic<bool> recording{false};

// One of the kernels that the call made stands for it: that of the first record that comes, by the number of
// its launch or node. In a graph it stands for the call again each time it runs, and so do copies of it, in
// every graph made from what was captured. Not by what is made first, since that may be a memset, and since
// CUPTI tells of a launch that is captured twice, as a launch and as a node.
struct Call {
  std::int64_t step = 0;
  std::uint64_t counted = 0;  // 0: none yet
};

namespace {

constexpr std::size_t kBufferBytes = std::size_t{4} << 20, kAlignment = 8;
constexpr std::array kKinds = {kKernels, kCopies, kMemsets, kPeerCopies};
constexpr std::array<std::pair<int, int>, 13> kCallbacks = {{{kOfResources, kNodeCreated},
                                                             {kOfResources, kNodeCloned},
                                                             {kOfDriver, kDriverMemset8},
                                                             {kOfDriver, kDriverMemset32},
                                                             {kOfDriver, kDriverCopy},
                                                             {kOfDriver, kDriverLaunch},
                                                             {kOfDriver, kDriverLaunchCooperative},
                                                             {kOfDriver, kDriverLaunchEx},
                                                             {kOfRuntime, kRuntimeCopy},
                                                             {kOfRuntime, kRuntimeMemset},
                                                             {kOfRuntime, kRuntimeLaunch},
                                                             {kOfRuntime, kRuntimeLaunchEx},
                                                             {kOfRuntime, kRuntimeLaunch13}}};

thread_local const std::shared_ptr<Call>* current_call = nullptr;  // of the step; null outside of steps

// A record, as the timeline wants it.
struct Work {
  std::uint32_t device, stream;
  std::int64_t begin, end;
  std::string name, details;
};

// "gemm<float>" of "_Z4gemmIfEvPT_"; a name that is none of C++ stays.
std::string readable(const char* name) {
  if (name == nullptr) return "kernel";
  if (std::string_view(name).substr(0, 2) != "_Z") return name;
  int status = 0;
  const std::unique_ptr<char, void (*)(void*)> words(abi::__cxa_demangle(name, nullptr, nullptr, &status),
                                                     std::free);
  if (status != 0 || !words) return name;
  std::string_view text = words.get();
  if (text.substr(0, 5) == "void ") text.remove_prefix(5);
  int depth = 0;
  for (std::size_t i = 0; i < text.size(); ++i) {
    depth += text[i] == '<' ? 1 : text[i] == '>' ? -1 : 0;
    if (text[i] == '(' && depth == 0 && i > 0 && text.substr(i, 11) != "(anonymous ")
      return std::string(text.substr(0, i));
  }
  return std::string(text);
}

std::string_view copy_name(int kind) {
  switch (kind) {
    case kHostToDevice: return timeline::kToDevice;
    case kDeviceToHost: return timeline::kToHost;
    case kDeviceToDevice: return timeline::kOnDevice;
    default: return "copy";
  }
}

// In per cent, of a device that is in use.
std::int64_t occupancy_of(const KernelRecord& record) {
  for (const auto& device : all_devices().usable)
    if (device->ordinal() == static_cast<int>(record.device))
      return std::llround(
          100 * device->occupancy(record.block_x * record.block_y * record.block_z, record.registers,
                                  std::int64_t{record.static_shared} + record.dynamic_shared));
  return 0;
}

// All that CUPTI's threads and ours share. `control_` is held while CUPTI is started and stopped, and never
// by a callback; `mutex_` is held for what callbacks look up, and never while CUPTI or the driver is called.
class Recorder {
 public:
  void start();
  void stop(bool at_exit);
  void wait_for_work();
  std::uint64_t number_of(const Device& device);
  void forget(const Device& device);
  void set_api(const Api* api);

  std::int64_t number(const std::string& label, const std::string& details);
  void made(std::uint32_t call);
  void node_made(Node node, Node original);
  void read(std::uint8_t* buffer, std::size_t valid);

 private:
  struct Named {
    std::string label, details;
  };
  // What a call made: by the number of its launch, or of the node that was captured.
  struct Made {
    std::shared_ptr<Call> call;
    std::uint64_t number = 0;
  };

  std::string begin(const Api& api);
  void end(const Api& api) const;
  std::string set_clock(const Api& api);
  void wait() const;
  Named step_of(std::uint32_t call, std::uint64_t node, bool* stands_for_call = nullptr);
  template <class Record>
  void add(std::vector<Work>& all, const Record& record, const std::string& what, std::string details,
           const Named& step) const;
  void show(std::vector<Work>& all);

  std::mutex control_;
  const Api* replacement_ = nullptr;
  std::atomic<const Api*> api_{nullptr};
  Subscriber subscriber_ = nullptr;
  bool refused_ = false, ended_ = false;
  pid_t process_ = 0;
  std::uint64_t count_ = 0;  // recordings so far
  std::set<const Device*> devices_;
  std::atomic<std::int64_t> to_our_clock_{0};

  std::mutex mutex_;
  std::map<std::pair<std::string, std::string>, std::int64_t> numbers_;
  std::vector<Named> steps_;  // by number; they stay, as threads hold numbers
  std::unordered_map<std::uint32_t, Made> by_call_;
  std::unordered_map<std::uint64_t, Made> by_node_;

  std::mutex rows_mutex_;
  std::map<std::pair<std::uint32_t, std::uint32_t>, std::vector<std::int64_t>> rows_;  // when each is free
};

// Never destroyed: threads of CUPTI's may call until the very end.
Recorder& recorder() {
  static Recorder& only = lasting<Recorder>();
  return only;
}

void on_call(void*, int domain, std::uint32_t id, const void* data) {
  try {
    if (domain == kOfResources) {
      const auto& node = *static_cast<const NodeData*>(static_cast<const ResourceData*>(data)->what);
      recorder().node_made(node.node, id == kNodeCloned ? node.original_node : nullptr);
    } else if (const auto& call = *static_cast<const CallData*>(data); call.site == kOnEntry) {
      recorder().made(call.call);
    }
  } catch (...) {  // without memory a name is missing; the call goes on
  }
}

void on_request(std::uint8_t** buffer, std::size_t* size, std::size_t* most_records) {
  *buffer = static_cast<std::uint8_t*>(std::aligned_alloc(kAlignment, kBufferBytes));
  *size = *buffer == nullptr ? 0 : kBufferBytes;
  *most_records = 0;  // as many as there is room for
}

void on_complete(Context, std::uint32_t, std::uint8_t* buffer, std::size_t, std::size_t valid) {
  const std::unique_ptr<std::uint8_t, void (*)(void*)> owner(buffer, std::free);
  try {
    if (valid > 0) recorder().read(buffer, valid);
  } catch (...) {  // without memory records are missing; the run goes on
  }
}

void before_timeline_stops() { recorder().stop(false); }
void before_exit() { recorder().stop(true); }
void before_collection_ends() { recorder().wait_for_work(); }

void Recorder::start() {
  const std::lock_guard lock(control_);
  if (recording || refused_ || ended_) return;
  std::string reason;
  const Api* const api = replacement_ != nullptr ? replacement_ : find_library(reason);
  if (api != nullptr) reason = begin(*api);
  if (!reason.empty()) {
    refused_ = true;
    log(LogLevel::warn,
        fmt::format("cuda: the timeline waits for every step, as CUPTI does not record: {}", reason));
    return;
  }
  process_ = ::getpid();
  ++count_;
  timeline::before_stop(before_timeline_stops);
  timeline::wait_by(before_collection_ends);
  // Now, so that it is called before what the driver and CUPTI have set up to be called.
  static const bool registered = std::atexit(before_exit) == 0;
  static_cast<void>(registered);
  recording = true;
}

// Why not; empty when CUPTI records.
std::string Recorder::begin(const Api& api) {
  const auto failure = [&](int status, std::string_view call) -> std::string {
    if (status == 0) return {};
    const char* words = nullptr;
    if (api.cuptiGetResultString(status, &words) != 0 || words == nullptr) words = "no reason";
    return fmt::format("{}: {} ({})", call, words, status);
  };
  api_ = &api;
  std::string reason = failure(api.cuptiSubscribe(&subscriber_, on_call, nullptr), "cuptiSubscribe");
  if (!reason.empty()) return reason;
  for (const auto& [domain, id] : kCallbacks)  // one that this CUPTI does not know is some names less
    api.cuptiEnableCallback(1, subscriber_, domain, static_cast<std::uint32_t>(id));
  reason =
      failure(api.cuptiActivityRegisterCallbacks(on_request, on_complete), "cuptiActivityRegisterCallbacks");
  if (reason.empty()) reason = set_clock(api);
  for (const int kind : kKinds)
    if (reason.empty()) reason = failure(api.cuptiActivityEnable(kind), "cuptiActivityEnable");
  if (!reason.empty()) end(api);
  return reason;
}

void Recorder::end(const Api& api) const {
  for (const int kind : kKinds) api.cuptiActivityDisable(kind);
  api.cuptiUnsubscribe(subscriber_);
}

// CUPTI's clock is asked between two looks at ours; the closest pair of a few counts.
std::string Recorder::set_clock(const Api& api) {
  std::int64_t closest = 0;
  for (int i = 0; i < 16; ++i) {
    std::uint64_t theirs = 0;
    const std::int64_t before = timeline::now();
    if (api.cuptiGetTimestamp(&theirs) != 0) return "cuptiGetTimestamp fails";
    const std::int64_t after = timeline::now();
    if (i > 0 && after - before >= closest) continue;
    closest = after - before;
    to_our_clock_ = before + closest / 2 - static_cast<std::int64_t>(theirs);
  }
  return {};
}

// For all work, as records are whole only then.
void Recorder::wait() const {
  std::string reason;
  const Driver* const cu = find_driver(reason);
  Context context = nullptr;
  if (cu == nullptr || cu->cuCtxGetCurrent(&context) != kSuccess) return;
  for (const Device* const device : devices_) device->settle_all();
  cu->cuCtxSetCurrent(context);
}

void Recorder::wait_for_work() {
  const std::lock_guard lock(control_);
  if (recording && process_ == ::getpid()) wait();
}

void Recorder::stop(bool at_exit) {
  const std::lock_guard lock(control_);
  ended_ = ended_ || at_exit;
  if (!recording || process_ != ::getpid()) return;
  const Api& api = *api_.load();
  wait();
  recording = false;
  api.cuptiActivityFlushAll(kFlushForced);
  std::size_t dropped = 0;
  if (api.cuptiActivityGetNumDroppedRecords(nullptr, 0, &dropped) == 0 && dropped > 0)
    log(LogLevel::warn, fmt::format("cuda: {} records are missing on the timeline", dropped));
  end(api);
  devices_.clear();
  {
    const std::lock_guard names(mutex_);
    by_call_.clear();
    by_node_.clear();
  }
  const std::lock_guard rows(rows_mutex_);
  rows_.clear();
}

std::uint64_t Recorder::number_of(const Device& device) {
  const std::lock_guard lock(control_);
  if (!recording) return 0;
  devices_.insert(&device);
  return count_;
}

void Recorder::forget(const Device& device) {
  const std::lock_guard lock(control_);
  devices_.erase(&device);
}

void Recorder::set_api(const Api* api) {
  stop(false);
  const std::lock_guard lock(control_);
  replacement_ = api;
  refused_ = false;
}

std::int64_t Recorder::number(const std::string& label, const std::string& details) {
  const std::lock_guard lock(mutex_);
  const auto [at, is_new] = numbers_.try_emplace({label, details}, static_cast<std::int64_t>(steps_.size()));
  if (is_new) steps_.push_back({label, details});
  return at->second;
}

void Recorder::made(std::uint32_t call) {
  if (current_call == nullptr) return;
  const std::lock_guard lock(mutex_);
  by_call_[call] = {*current_call, call};
}

// A node of a graph that is captured is of this thread's step; a copy, when the graph is made ready, of its
// original's.
void Recorder::node_made(Node node, Node original) {
  const Api& api = *api_.load();
  std::uint64_t id = 0, original_id = 0;
  if ((original == nullptr && current_call == nullptr) || api.cuptiGetGraphNodeId(node, &id) != 0 ||
      (original != nullptr && api.cuptiGetGraphNodeId(original, &original_id) != 0))
    return;
  const std::lock_guard lock(mutex_);
  if (original == nullptr)
    by_node_[id] = {*current_call, id};
  else if (const auto known = by_node_.find(original_id); known != by_node_.end())
    by_node_[id] = Made(known->second);
}

// `stands_for_call` is for a kernel, and tells whether it is the one of its call that counts.
Recorder::Named Recorder::step_of(std::uint32_t call, std::uint64_t node, bool* stands_for_call) {
  const std::lock_guard lock(mutex_);
  Made made;
  if (node != 0) {
    if (const auto known = by_node_.find(node); known != by_node_.end()) made = known->second;
  } else if (const auto known = by_call_.find(call); known != by_call_.end()) {
    made = std::move(known->second);
    by_call_.erase(known);
  }
  if (!made.call) return {};
  if (stands_for_call != nullptr) {
    if (made.call->counted == 0) made.call->counted = made.number;
    *stands_for_call = made.call->counted == made.number;
  }
  return steps_[static_cast<std::size_t>(made.call->step)];
}

template <class Record>
void Recorder::add(std::vector<Work>& all, const Record& record, const std::string& what, std::string details,
                   const Named& step) const {
  if (record.start == 0 || record.end < record.start) return;  // not timed, or not finished
  const std::int64_t moved = to_our_clock_;
  all.push_back({record.device, record.stream, static_cast<std::int64_t>(record.start) + moved,
                 static_cast<std::int64_t>(record.end) + moved, step.label.empty() ? what : step.label,
                 std::move(details)});
}

void Recorder::read(std::uint8_t* buffer, std::size_t valid) {
  const Api& api = *api_.load();
  std::vector<Work> all;
  const auto number = [](auto n) { return static_cast<std::int64_t>(n); };
  const auto add_move = [&](const auto& record, const std::string& what) {
    add(all, record, what, timeline::details({{"work", what}, {"bytes", number(record.bytes)}}),
        step_of(record.call, record.node));
  };
  for (Activity* at = nullptr; api.cuptiActivityGetNextRecord(buffer, valid, &at) == 0;) {
    const void* const bytes = at;
    switch (at->kind) {
      case kKernels: {
        const auto& record = *static_cast<const KernelRecord*>(bytes);
        const std::string name = readable(record.name);
        const std::string grid = fmt::format("{}x{}x{}", record.grid_x, record.grid_y, record.grid_z),
                          block = fmt::format("{}x{}x{}", record.block_x, record.block_y, record.block_z);
        bool stands_for_call = false;
        const Named step = step_of(record.call, record.node, &stands_for_call);
        std::string details =
            timeline::details({{"work", name},
                               {"first", number(stands_for_call)},
                               {"grid", grid},
                               {"block", block},
                               {"registers", number(record.registers)},
                               {"shared bytes", number(record.static_shared) + number(record.dynamic_shared)},
                               {"local bytes", number(record.local_per_thread)},
                               {"occupancy %", occupancy_of(record)}});
        if (!step.details.empty()) details.replace(details.size() - 1, 1, "," + step.details.substr(1));
        add(all, record, name, std::move(details), step);
        break;
      }
      case kCopies: {
        const auto& record = *static_cast<const CopyRecord*>(bytes);
        add_move(record, std::string(copy_name(record.copy_kind)));
        break;
      }
      case kPeerCopies: {
        const auto& record = *static_cast<const PeerCopyRecord*>(bytes);
        add_move(record, peer_copy_name(record.from_device, record.to_device));
        break;
      }
      case kMemsets: add_move(*static_cast<const MemsetRecord*>(bytes), "memset"); break;
      default: break;
    }
  }
  show(all);
}

// A row holds what follows each other: work of one stream that overlaps, as branches of a graph do, goes to
// further rows of it.
void Recorder::show(std::vector<Work>& all) {
  std::sort(all.begin(), all.end(), [](const Work& a, const Work& b) { return a.begin < b.begin; });
  const std::lock_guard lock(rows_mutex_);
  for (const Work& work : all) {
    std::vector<std::int64_t>& ends = rows_[{work.device, work.stream}];
    auto row = std::find_if(ends.begin(), ends.end(), [&](std::int64_t end) { return end <= work.begin; });
    if (row == ends.end()) row = ends.insert(row, 0);
    *row = work.end;
    std::string name = fmt::format("cuda:{} stream {}", work.device, work.stream);
    if (row != ends.begin()) name += fmt::format(" +{}", row - ends.begin());
    timeline::record_on(name, "gpu", work.name, work.begin, work.end, work.details);
  }
}

}  // namespace

void start_recording() {
  if (timeline::is_on() && !is_recording()) recorder().start();
}

std::uint64_t recording_of(const Device& device) {
  if (!timeline::is_on()) return 0;
  start_recording();
  return is_recording() ? recorder().number_of(device) : 0;
}

void forget(const Device& device) {
  if (is_recording()) recorder().forget(device);
}

std::string peer_copy_name(std::int64_t from, std::int64_t to) {
  return fmt::format("copy from cuda:{} to cuda:{}", from, to);
}

void Step::enter(const std::string& label, const std::string& details) {
  call_ = std::make_shared<Call>(Call{recorder().number(label, details)});
  outer_ = std::exchange(current_call, &call_);
}

void Step::leave() const { current_call = outer_; }

void set_api(const Api* api) { recorder().set_api(api); }

}  // namespace systole::cuda::cupti
