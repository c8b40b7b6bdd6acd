#pragma once

// A driver without a GPU, in the place of the machine's: memory is the host's, so that what is copied really
// arrives, and work is done when it is asked for or, while a stream is captured, when its graph is launched.
// It keeps a log of calls, fails when told to, and watches what a GPU does not tell: objects that are never
// destroyed, and memory that two streams touch without an order between them. An order is known by vector
// clocks: every stream counts its work, and an event, a wait or a synchronization carries the counts along.
// Machine code that the processor runs (emulated/) makes it a GPU that computes.

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "backend/cuda/driver.h"

namespace systole::cuda {

struct FakeGpu {
  std::string name = "Fake GPU";
  int major = 9, minor = 0;
  std::size_t bytes = std::size_t{1} << 30;
  bool has_pools = true;
  bool reads_peers = true;
};

struct FakeCall {
  std::string name;
  Status status = kSuccess;
  Stream stream = nullptr;
  std::size_t bytes = 0;
};

// A kernel's work as a test gives it: what it reads and writes by its parameters' numbers.
class FakeLaunch {
 public:
  const std::string& kernel() const { return kernel_; }
  struct Sizes {
    unsigned grid[3], block[3], shared;
  };
  const Sizes& sizes() const { return sizes_; }
  template <class T>
  T number(std::size_t parameter) const {
    T value;
    std::memcpy(&value, &parameters_.at(parameter), sizeof value);
    return value;
  }
  const float* read(std::size_t parameter, std::size_t count);
  float* write(std::size_t parameter, std::size_t count);
  const float* read_variable(std::string_view symbol, std::size_t count);

 private:
  friend struct FakeFunctions;
  FakeLaunch(std::string kernel, const Sizes& sizes, std::vector<Address> parameters, Stream stream)
      : kernel_(std::move(kernel)), sizes_(sizes), parameters_(std::move(parameters)), stream_(stream) {}
  float* memory(Address address, std::size_t count, bool writes);

  const std::string kernel_;
  const Sizes sizes_;
  const std::vector<Address> parameters_;
  const Stream stream_;
};

// Machine code for the processor.
class FakeKernel {
 public:
  virtual ~FakeKernel() = default;
  virtual const std::vector<std::size_t>& sizes() const = 0;  // of the parameters
  virtual unsigned most_threads() const = 0;                  // of a block
  // In an order of its threads; empty, or what went wrong.
  virtual std::string run(const FakeLaunch::Sizes& sizes, std::uint64_t order, void** parameters) = 0;
};
class FakeCode {
 public:
  struct Variable {
    std::string symbol;
    void* place;
    std::size_t bytes;
  };
  virtual ~FakeCode() = default;
  virtual FakeKernel* kernel(std::string_view symbol) = 0;  // null: there is none
  virtual const std::vector<Variable>& variables() const = 0;
};
struct FakeChecks {
  std::uint64_t seed = 0;        // of an order of threads, groups and a graph's nodes; 0: as they come
  bool compares_orders = false;  // every kernel runs in two, and must give the same bits
  bool guards_memory = false;    // an array ends where no memory is
};

class FakeDriver {
 public:
  explicit FakeDriver(std::vector<FakeGpu> gpus = {FakeGpu{}});  // the driver from now on; one at a time
  ~FakeDriver();                                                 // there is none again
  FakeDriver(const FakeDriver&) = delete;
  FakeDriver& operator=(const FakeDriver&) = delete;

  int version = 13000;
  Status init_status = kSuccess;
  const Driver& table() const { return table_; }

  // Whether a call takes a moment before it does anything, in which other threads' calls may come.
  static void set_hesitant(bool hesitant);

  // What kernels do: the first `parameters` are looked at.
  void set_kernel(std::size_t parameters, std::function<void(FakeLaunch&)> work);
  // Instead, modules are loaded by this, and their kernels run. There is no log then, and what is found
  // wrong ends the process.
  using Loader = std::function<std::shared_ptr<FakeCode>(std::string_view file)>;
  void run_code(Loader loader, const FakeChecks& checks);

  // The nth call from now (1: the next) fails, or the nth of that name, and `times` in all from there on.
  // Calls that destroy are neither counted nor failed. A fault that takes a context with it fails all calls
  // of that GPU from then on.
  void fail(int nth, Status status, std::string_view name = {}, int times = 1);
  void recover();  // no failures any more, for GPUs that were not lost
  bool has_failed() const { return has_failed_; }

  std::vector<FakeCall> calls() const;     // since clear_log(), but for those that set the context
  std::string names() const;               // of those, with spaces between
  int count(std::string_view name) const;  // of those
  std::string failed_call() const { return failed_call_; }
  void clear_log();

  std::string leaks() const;       // what was made and not destroyed, "" for nothing
  std::string violations() const;  // of the order between streams, and of the driver's rules
  std::size_t used_bytes(int gpu = 0) const;
  // The memory of a variable of the modules that are loaded, by its symbol; null when there is none.
  void* variable(std::string_view symbol) const;

 private:
  friend class FakeLaunch;
  friend struct FakeFunctions;
  using Clock = std::map<int, std::uint64_t>;  // by stream
  struct Allocation {
    std::shared_ptr<std::byte> bytes;
    int gpu = 0;
    std::size_t size = 0;
    std::pair<int, std::uint64_t> written;  // stream and its count
    Clock read;
  };
  struct Failure {
    std::string name;
    int nth;
    Status status;
    int times;
  };

  // Logs a call, of the current GPU unless it names one, and says whether it fails.
  Status begin(const char* name, Stream stream = nullptr, std::size_t bytes = 0, bool destroys = false,
               std::optional<int> gpu = {});
  Status begin_of(int gpu, const char* name, bool destroys = false) {
    return begin(name, nullptr, 0, destroys, gpu);
  }
  // Notes a use of memory, and complains of it when it has to; false when the memory is not there.
  bool touch(Address address, std::size_t bytes, Stream stream, bool writes, bool frees = false);
  void complain(std::string what);
  template <class T>
  T* keep(const char* kind, T object) {
    const auto kept = std::make_shared<T>(std::move(object));
    objects_[kept.get()] = {kind, kept};
    return kept.get();
  }
  Status put(Stream stream, std::function<void(Stream)> work);  // done now, or captured
  Address allocate(std::size_t bytes, int gpu);
  void run(FakeKernel& kernel, const std::string& name, const FakeLaunch::Sizes& sizes,
           std::vector<std::vector<std::byte>> parameters, int gpu);

  Driver table_;
  std::vector<FakeGpu> gpus_;
  std::vector<bool> lost_;
  std::vector<std::size_t> used_;
  std::vector<FakeCall> log_;
  std::vector<Failure> failures_;
  bool has_failed_ = false;
  std::string failed_call_;
  std::vector<std::string> violations_;
  std::map<Address, std::unique_ptr<Allocation>> memory_;
  std::map<void*, std::pair<std::string, std::shared_ptr<void>>> objects_;  // with their kinds
  std::map<std::string, Address, std::less<>> variables_;  // of the module that was loaded last
  std::map<int, int> contexts_;                            // how often retained, by GPU
  std::vector<Stream> streams_;
  int next_stream_ = 0;
  Clock host_;
  std::size_t parameters_ = 0;
  std::function<void(FakeLaunch&)> kernel_;
  Loader loader_;
  FakeChecks checks_;
};

}  // namespace systole::cuda
