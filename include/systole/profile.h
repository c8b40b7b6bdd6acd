#pragma once

// Where the time of a program goes on its device: what every step took, what it might have taken by the
// roofline measured on this machine, which library or kernel ran it and which did not want to, and when the
// device had nothing to do.
//
//   const Profile p = profile([&] { step(x, y); }, {.steps = 50});   // after a few that do not count
//   std::cout << p.table();                                          // most time lost comes first
//   p.save("profile");                  // profile/index.html, trace.json (ui.perfetto.dev), profile.json
//
// A part of a longer program is between a Profiler and its stop(); a training has a callback,
// training::profile_steps (train/callback.h); the command is `systole profile`. One profiler records at a
// time, and all threads of the process.
//
// Device times are CUPTI's on CUDA, so a compiled step stays one launch. On cpu and opencl every step is
// timed; on PJRT every run, and not what is in it. Copies are timed everywhere. What several devices did
// stands by device.

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "systole/base/dtype.h"
#include "systole/base/export.h"

namespace systole {

// What a device reaches at most with this library's own programs: an array copied, matrices multiplied.
struct SYSTOLE_API Roof {
  struct Product {
    DType dtype = DType::f32;
    bool tf32 = false;  // of f32: rounded to it
    double flops_per_second = 0;
  };
  std::string device{};             // "cuda:0"
  double bytes_per_second = 0;      // read and written; 0: not measured
  std::vector<Product> products{};  // by dtype of the operands

  bool defined() const { return bytes_per_second > 0; }
  double flops_per_second(DType dtype, bool tf32 = false) const;  // of the dtype, else of f32
  // Seconds for so much work at best; 0 when nothing is known.
  double least_seconds(double bytes, double flops, DType dtype, bool tf32 = false) const;

  // Takes one to three seconds; once per process and device. Products of f64 where they are asked for.
  static Roof measure(const std::string& device, bool f64 = false);
};

struct SYSTOLE_API Profile {
  // A kernel that was launched on a GPU; a step may need several.
  struct Launched {
    std::string name{}, grid{}, block{};  // "132x1x1"
    std::int64_t calls = 0;
    double seconds = 0;  // of all calls
    std::int64_t registers = 0, shared_bytes = 0, local_bytes = 0;
    double occupancy = 0;  // the share of a multiprocessor's threads that fit at once; 0: unknown
  };
  // A step of a compiled function, a kernel of the program's own, or copies of one kind.
  struct Row {
    std::string name{};  // "k3 sub+exp+reduce"
    std::string kind{};  // map, rows, contraction, library, special, copy, memset, run, …
    std::string ran{};   // "onednn.matmul", "generated", …
    std::string device{};
    DType dtype = DType::f32;
    bool tf32 = false;  // products of f32 may be rounded to it
    std::int64_t calls = 0;
    double seconds = 0;                   // on the device, of all calls
    std::int64_t bytes = 0, flops = 0;    // of one call, as the graph needs them
    double least_seconds = 0;             // of one call by the roof; 0: not known
    std::vector<std::string> declined{};  // implementations that did not take it, with their reasons
    std::vector<Launched> launched{};     // on a GPU

    double lost_seconds() const;  // more than the roof allows, of all calls
    double bytes_per_second() const;
    double flops_per_second() const;
    double share_of_roof() const;  // 1 at the roof; 0: not known
    bool memory_bound(const Roof& roof) const;
  };
  // When the device had nothing to do.
  struct Gap {
    double begin = 0, seconds = 0;
    std::string after{}, before{};  // what ran before and after it
    std::string during{};           // where the program was in the library: "capture", "run main"
    std::string device{};
  };
  // What lies on the timeline, with what is known of it; the trace has all of its details.
  struct Span {
    std::string row{};       // "cuda:0 stream 7", "main"
    std::string category{};  // gpu, step, run, copy, compile, user, …
    std::string name{};
    double begin = 0, seconds = 0;      // from the beginning of the profile
    std::string device{};               // that it is work of, or for
    std::string kind{};                 // as of a Row, of work alone
    std::string ran{};                  // the library, or "generated"
    std::string kernel{};               // that a GPU launched
    std::int64_t bytes = 0, flops = 0;  // as the graph needs them; of a copy what it moved
  };
  struct Level {
    double at = 0;
    std::int64_t bytes = 0;
  };
  struct Memory {
    std::string device{};
    std::int64_t peak_bytes = 0;
    std::vector<Level> levels{};  // after every change
  };

  // What a device did in all.
  struct Device {
    std::string device{};
    std::string source{};                       // of its times: "CUPTI", "timers", "runs"
    double seconds = 0;                         // of its work, all added up
    double busy_seconds = 0, idle_seconds = 0;  // their sum is the profile's `seconds`
    std::int64_t gap_count = 0;
    Roof roof{};
  };

  std::string title{};
  std::vector<Device> devices{};              // all that worked, the one that did most first
  std::string device{};                       // which that is; the next three and the roof are its too
  std::string source{};                       // of device times: "CUPTI", "timers", "runs"
  double busy_seconds = 0, idle_seconds = 0;  // their sum is `seconds`
  std::int64_t gap_count = 0;
  std::int64_t steps = 0;         // 0: not counted
  double seconds = 0;             // from start to stop
  double host_seconds = 0;        // in which a thread was in the library
  double plain_seconds = 0;       // as many such steps without a profiler, the median; 0: not measured
  std::int64_t lost_events = 0;   // that found no room; all else is of the time before
  double unrecorded_seconds = 0;  // from then on, with so many steps
  std::int64_t unrecorded_steps = 0;
  Roof roof{};
  std::vector<Row> rows{};  // by device, as `devices` has them; of each by time lost, most first
  std::vector<Gap> gaps{};  // by device; of each the longest hundred, longest first
  std::vector<Memory> memory{};
  struct Recording;
  std::shared_ptr<const Recording> recording{};  // every event

  std::vector<Span> spans() const;  // of all threads and streams, by begin

  double slowdown() const;  // 1.03: three per cent; 0: not measured

  std::string table(std::size_t most = 20) const;  // rows of each device; for a terminal of 120 columns
  std::string json() const;  // without spans; of memory's levels at most 20,000 a device, the highest
  static constexpr std::size_t kMostTraced = 500'000;
  // Of Perfetto and chrome://tracing: the first events, and levels of memory, up to `most` of each; what is
  // left out stands in its otherData.
  void save_trace(const std::filesystem::path& file, std::size_t most = kMostTraced) const;
  void save_page(const std::filesystem::path& file) const;  // HTML that needs nothing else
  void save(const std::filesystem::path& folder) const;     // index.html, trace.json, profile.json
};

struct ProfileOptions {
  std::string title{};
  bool roof = true;                      // measure it, for the device that did most and others that did much
  std::int64_t most_events = 4'000'000;  // the recording ends with the last; what is more is counted
};

// Records from its beginning to stop(). Throws kInvalidArgument while another one records.
class SYSTOLE_API Profiler {
 public:
  explicit Profiler(ProfileOptions options = {});
  ~Profiler();
  Profiler(Profiler&&) noexcept;
  Profiler& operator=(Profiler&&) noexcept;

  void step();     // one more is done; for figures per step
  void restart();  // forgets what was recorded so far: first steps are made ready for it anew
  // Waits for the devices that worked. What comes later is not recorded.
  [[nodiscard]] Profile stop();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

struct ProfileRunOptions {
  std::int64_t steps = 20, warm_up = 6;  // compilations and first times are not of a step's cost
  ProfileOptions profile{};
};
// What `f` leaves unevaluated does not run: it ends with eval() or reads a value, unless it calls what
// compile() gave. Runs `f` warm_up times; then, up to three times over, warm_up times again, as recording
// makes programs ready anew, `steps` times recorded, and as often without. Medians count.
[[nodiscard]] SYSTOLE_API Profile profile(const std::function<void()>& f,
                                          const ProfileRunOptions& options = {});

}  // namespace systole
