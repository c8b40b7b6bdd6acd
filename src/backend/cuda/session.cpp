#include "backend/cuda/session.h"

#include <algorithm>
#include <atomic>
#include <optional>
#include <utility>

#include "backend/arguments.h"
#include "backend/cuda/buffer.h"
#include "backend/cuda/cupti.h"
#include "backend/cuda/executor.h"
#include "runtime/timeline.h"
#include "systole/base/error.h"

namespace systole::cuda {

namespace {

using runtime::BufferRef;

constexpr const char* kName = "cuda";
// Captured for other addresses; then what moves gets a place of its own: at once where a graph is long, which
// is captured in tenths of a second, and little moves, which is copied in microseconds.
constexpr std::size_t kMostGraphs = 4;
constexpr std::int64_t kLong = 1000;  // steps
constexpr std::int64_t kLittleBytes = std::int64_t{16} << 20;
constexpr std::size_t kMostOutputs = 3;  // that are kept to be given again

DeviceBuffer& own(const BufferRef& buffer) { return static_cast<DeviceBuffer&>(*buffer); }

struct Captured {
  std::vector<Address> addresses;  // of inputs, then outputs
  std::shared_ptr<GraphExecObject> graph;
};

class CudaSession final : public runtime::Session {
 public:
  explicit CudaSession(std::shared_ptr<const Module> module)
      : module_(std::move(module)),
        device_(activated(*module_->device)),
        stream_(device_),
        lanes_(device_, module_->launches_early),
        executor_({device_, stream_.get(), &lanes_}, module_->compiled),
        arena_(device_, module_->program.arena_bytes, Type{DType::u8, {module_->program.arena_bytes}},
               stream_.get(), "temporaries of a program"),
        shared_(runtime::shared_inputs(module_->program)),
        given_out_(module_->program.outputs.size()) {}
  // Kernels and constants of the module, which may go with this, are in use until then.
  ~CudaSession() override {
    device_.settle(stream_.get());
    for (const auto& kept : given_out_)
      for (const auto& buffer : kept) buffer->set_kept(false);
  }
  CudaSession(const CudaSession&) = delete;
  CudaSession& operator=(const CudaSession&) = delete;

  std::vector<std::vector<BufferRef>> run(const runtime::RunArguments& arguments) override {
    check_them(arguments);
    device_.activate();
    try {
      return run_checked(arguments);
    } catch (const Error& error) {
      // What is on the stream may still use memory that is about to go; and a library that failed does not
      // say that a kernel took the context with it, as the driver does now.
      device_.settle(stream_.get());
      if (device_.is_lost() && error.kind() != ErrorKind::kContextLost) throw device_.lost_error();
      throw;
    } catch (...) {
      device_.settle(stream_.get());
      throw;
    }
  }

 private:
  std::vector<std::vector<BufferRef>> run_checked(const runtime::RunArguments& arguments) {
    const std::vector<BufferRef>& given = arguments.per_device[0];
    addresses_.clear();
    for (const BufferRef& buffer : given) {
      own(buffer).memory().before_reading(stream_.get());
      addresses_.push_back(own(buffer).memory().address());
    }
    takeable_.look_at(arguments);
    std::vector<std::vector<BufferRef>> results(1);
    for (std::size_t o = 0; o < shared_.size(); ++o) {
      results[0].push_back(output(o, arguments));
      Memory& memory = own(results[0].back()).memory();
      memory.before_writing(stream_.get());
      addresses_.push_back(memory.address());
    }
    launch(given.size(), [&] {  // from here on their old values may be gone
      for (const int i : arguments.donated) own(given[static_cast<std::size_t>(i)]).set_donated(true);
    });
    const auto moment = std::make_shared<const Moment>(device_, stream_.get());
    for (const BufferRef& buffer : given) own(buffer).memory().was_read(moment);
    for (const BufferRef& buffer : results[0]) own(buffer).memory().was_written(moment);
    for (const BufferRef& result : results[0]) own(result).set_donated(false);
    return results;
  }

  static const Device& activated(const Device& device) {
    device.activate();
    return device;
  }

  void check_them(const runtime::RunArguments& arguments) const {
    runtime::check_arguments(kName, module_->program, arguments, [&](const runtime::Buffer& buffer) {
      const auto* const mine = dynamic_cast<const DeviceBuffer*>(&buffer);
      if (mine == nullptr || mine->device().ordinal != device_.ordinal())
        return runtime::BufferState::foreign;
      return mine->is_donated() ? runtime::BufferState::donated : runtime::BufferState::usable;
    });
  }

  const Type& type_of(std::size_t output) const {
    return module_->program.buffers[static_cast<std::size_t>(module_->program.outputs[output])].type;
  }

  // Where output o goes: into its donated input, or memory that nobody holds any more.
  BufferRef output(std::size_t o, const runtime::RunArguments& arguments) {
    const auto input = static_cast<std::size_t>(shared_[o]);
    if (shared_[o] >= 0 && takeable_[input]) return arguments.per_device[0][input];
    std::vector<std::shared_ptr<DeviceBuffer>>& kept = given_out_[o];
    const auto free =
        std::find_if(kept.begin(), kept.end(), [](const auto& b) { return b.use_count() == 1; });
    std::shared_ptr<DeviceBuffer> buffer;
    if (free != kept.end()) {
      std::atomic_thread_fence(std::memory_order_acquire);  // after what its last holder did
      buffer = *free;
    } else {
      buffer = DeviceBuffer::make(device_, type_of(o), stream_.get());
      if (kept.size() < kMostOutputs) {
        kept.push_back(buffer);
      } else {
        std::shared_ptr<DeviceBuffer>& place = kept[turn_++ % kMostOutputs];
        place->set_kept(false);
        place = buffer;
      }
      buffer->set_kept(true);
    }
    // The program works in the input's memory: in a copy when it is not ours to change.
    if (shared_[o] >= 0) {
      const Memory& memory = buffer->memory();
      memory.before_writing(stream_.get());
      if (memory.bytes() > 0)
        check(driver().cuMemcpyDtoDAsync(memory.address(), addresses_[input],
                                         static_cast<std::size_t>(memory.bytes()), stream_.get()),
              "cuMemcpyDtoDAsync");
      addresses_[input] = memory.address();
    }
    return buffer;
  }

  template <class Consume>
  void launch(std::size_t inputs, const Consume& consume) {
    const std::uint64_t recording = cupti::recording_of(device_);
    if (!module_->is_one_launch || is_first_ || (timeline::is_on() && recording == 0)) {
      consume();
      walk(addresses_, inputs);
      is_first_ = false;  // libraries have prepared themselves
      return;
    }
    // In a recording nobody knows which steps the nodes of others are of; in its own, none is launched early.
    if (const std::uint64_t before = std::exchange(recording_, recording);
        before != recording && (recording != 0 || module_->launches_early))
      graphs_.clear();
    for (std::size_t i = 0; i < places_.size(); ++i)
      if (places_[i] && i < inputs) copy(addresses_[i], places_[i]->address(), places_[i]->bytes());
    const GraphExec graph = captured(with_places(inputs), inputs);
    consume();
    check(driver().cuGraphLaunch(graph, stream_.get()), "cuGraphLaunch");
    for (std::size_t i = inputs; i < places_.size(); ++i)
      if (const Memory* const from = places_[memory_of(i, inputs)].get())
        copy(from->address(), addresses_[i], from->bytes());
  }

  // Whose memory address i is: that of an output may be an input's.
  std::size_t memory_of(std::size_t i, std::size_t inputs) const {
    if (i < inputs || shared_[i - inputs] < 0) return i;
    return static_cast<std::size_t>(shared_[i - inputs]);
  }

  void copy(Address from, Address to, std::int64_t bytes) const {
    if (bytes > 0)
      check(driver().cuMemcpyDtoDAsync(to, from, static_cast<std::size_t>(bytes), stream_.get()),
            "cuMemcpyDtoDAsync");
  }

  // The addresses, with those that have a place of their own replaced.
  std::vector<Address> with_places(std::size_t inputs) const {
    std::vector<Address> all = addresses_;
    for (std::size_t i = 0; i < places_.size(); ++i)
      if (const Memory* const place = places_[memory_of(i, inputs)].get()) all[i] = place->address();
    return all;
  }

  void walk(std::span<const Address> addresses, std::size_t inputs) {
    executor_.run(addresses.subspan(0, inputs), addresses.subspan(inputs), arena_.address());
  }

  GraphExec captured(const std::vector<Address>& addresses, std::size_t inputs) {
    for (const Captured& known : graphs_)
      if (known.addresses == addresses) return known.graph.get();
    const bool is_copied =
        module_->steps > kLong && !graphs_.empty() && moved_bytes(inputs, addresses) <= kLittleBytes;
    if (graphs_.size() >= (is_copied ? 1 : kMostGraphs)) {
      give_places(inputs, addresses);
      return captured(copied_to_places(inputs), inputs);
    }
    const timeline::Span span("compile", "capture");
    // Not on the session's own stream: other threads may free memory there meanwhile.
    const Stream stream = lanes_.stream(0);
    check(driver().cuStreamBeginCapture(stream, kCaptureThreadLocal), "cuStreamBeginCapture");
    Graph graph = nullptr;
    lanes_.use(true);
    try {
      walk(addresses, inputs);
      lanes_.use(false);
    } catch (...) {
      lanes_.use(false);
      if (!device_.is_lost()) driver().cuStreamEndCapture(stream, &graph);
      if (graph != nullptr) driver().cuGraphDestroy(graph);
      throw;
    }
    check(driver().cuStreamEndCapture(stream, &graph), "cuStreamEndCapture");
    GraphExec made = nullptr;
    const Status status = driver().cuGraphInstantiate(&made, graph, 0);
    driver().cuGraphDestroy(graph);
    check(status, "cuGraphInstantiate");
    const auto destroy = [&device = device_](GraphExec g) {
      if (device.try_activate()) driver().cuGraphExecDestroy(g);
    };
    graphs_.push_back({addresses, {made, destroy}});
    return made;
  }

  // Whether array i, the first in its memory, had other addresses than now.
  bool moves(std::size_t i, std::size_t inputs, const std::vector<Address>& addresses) const {
    return memory_of(i, inputs) == i && std::any_of(graphs_.begin(), graphs_.end(), [&](const Captured& c) {
             return c.addresses[i] != addresses[i];
           });
  }
  const lower::BufferInfo& info_of(std::size_t i, std::size_t inputs) const {
    const lower::Program& program = module_->program;
    const lower::BufferId b = i < inputs ? program.inputs[i] : program.outputs[i - inputs];
    return program.buffers[static_cast<std::size_t>(b)];
  }
  std::int64_t moved_bytes(std::size_t inputs, const std::vector<Address>& addresses) const {
    std::int64_t bytes = 0;
    for (std::size_t i = 0; i < addresses.size(); ++i)
      if (moves(i, inputs, addresses)) bytes += info_of(i, inputs).bytes;
    return bytes;
  }

  // What had several addresses, `addresses` among them, gets one, from which and to which it is copied.
  void give_places(std::size_t inputs, const std::vector<Address>& addresses) {
    places_.resize(addresses_.size());
    for (std::size_t i = 0; i < places_.size(); ++i) {
      if (places_[i] || !moves(i, inputs, addresses)) continue;
      const lower::BufferInfo& info = info_of(i, inputs);
      places_[i] = std::make_unique<Memory>(device_, info.bytes, info.type, stream_.get());
    }
    check(driver().cuStreamSynchronize(stream_.get()), "cuStreamSynchronize");  // graphs may still run
    graphs_.clear();
  }

  std::vector<Address> copied_to_places(std::size_t inputs) {
    for (std::size_t i = 0; i < inputs; ++i)
      if (places_[i]) copy(addresses_[i], places_[i]->address(), places_[i]->bytes());
    return with_places(inputs);
  }

  const std::shared_ptr<const Module> module_;
  const Device& device_;
  const BorrowedStream stream_;
  Lanes lanes_;
  Executor executor_;
  const Memory arena_;
  const std::vector<std::int32_t> shared_;  // by output: the input whose memory it is, or -1
  std::vector<std::vector<std::shared_ptr<DeviceBuffer>>> given_out_;  // by output
  std::size_t turn_ = 0;
  runtime::Takeable takeable_;
  std::vector<Address> addresses_;
  std::vector<Captured> graphs_;
  std::vector<std::unique_ptr<Memory>> places_;  // by input, then output: of what has many addresses
  bool is_first_ = true;
  std::uint64_t recording_ = 0;  // of the timeline, that the graphs are captured in
};

}  // namespace

std::unique_ptr<runtime::Session> make_session(std::shared_ptr<const Module> module) {
  return std::make_unique<CudaSession>(std::move(module));
}

}  // namespace systole::cuda
