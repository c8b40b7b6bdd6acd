#include "fake_driver.h"

#include <fmt/format.h>
#include <sys/mman.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <stdexcept>
#include <utility>

#include "fake_objects.h"

namespace systole::cuda {

using namespace fakes;

namespace {

std::shared_ptr<std::byte> plain_memory(std::size_t bytes) {
  return {static_cast<std::byte*>(::operator new(bytes)), [](std::byte* p) { ::operator delete(p); }};
}

// The page behind it is nobody's.
std::shared_ptr<std::byte> guarded_memory(std::size_t bytes) {
  constexpr std::size_t kPage = 4096, kAligned = 16;
  const std::size_t pages = (bytes + kPage - 1) / kPage * kPage;
  void* const begin =
      ::mmap(nullptr, pages + kPage, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (begin == MAP_FAILED) throw std::bad_alloc();
  auto* const first = static_cast<std::byte*>(begin);
  ::mprotect(first + pages, kPage, PROT_NONE);
  return {first + pages - (bytes + kAligned - 1) / kAligned * kAligned,
          [first, pages](std::byte*) { ::munmap(first, pages + kPage); }};
}

}  // namespace

void Capture::join(Stream stream) {
  if (stream->capture != nullptr) return;
  streams.push_back(stream);
  seen.emplace_back();
  lanes = streams.size();
  stream->capture = streams[0] == stream ? nullptr : streams[0]->capture;
}

FakeDriver::FakeDriver(std::vector<FakeGpu> gpus)
    : gpus_(std::move(gpus)), lost_(gpus_.size()), used_(gpus_.size()) {
  fill(table_);
  the_fake = this;
  set_driver(&table_);
}

FakeDriver::~FakeDriver() {
  set_driver(nullptr);
  the_fake = nullptr;
}

void FakeDriver::set_hesitant(bool hesitant) { is_hesitant = hesitant; }

void FakeDriver::set_kernel(std::size_t parameters, std::function<void(FakeLaunch&)> work) {
  const std::lock_guard lock(mutex);
  parameters_ = parameters;
  kernel_ = std::move(work);
}

void FakeDriver::run_code(Loader loader, const FakeChecks& checks) {
  const std::lock_guard lock(mutex);
  loader_ = std::move(loader);
  checks_ = checks;
}

void FakeDriver::fail(int nth, Status status, std::string_view name, int times) {
  const std::lock_guard lock(mutex);
  failures_.push_back({std::string(name), nth, status, times});
  has_failed_ = false;
}

void FakeDriver::recover() {
  const std::lock_guard lock(mutex);
  failures_.clear();
}

std::vector<FakeCall> FakeDriver::calls() const {
  const std::lock_guard lock(mutex);
  return log_;
}

std::string FakeDriver::names() const {
  std::vector<std::string> all;
  for (const FakeCall& call : calls()) all.push_back(call.name);
  return fmt::format("{}", fmt::join(all, " "));
}

int FakeDriver::count(std::string_view name) const {
  const std::vector<FakeCall> all = calls();
  return static_cast<int>(
      std::count_if(all.begin(), all.end(), [&](const FakeCall& call) { return call.name == name; }));
}

void FakeDriver::clear_log() {
  const std::lock_guard lock(mutex);
  log_.clear();
}

std::string FakeDriver::leaks() const {
  const std::lock_guard lock(mutex);
  std::string text;
  for (const auto& [gpu, count] : contexts_)
    if (count != 0) text += fmt::format("context of cuda:{}; ", gpu);
  std::map<std::string, int> kinds;
  for (const auto& [object, kind] : objects_) ++kinds[kind.first];
  for (const auto& [kind, count] : kinds) text += fmt::format("{} {}; ", count, kind);
  for (const auto& [address, allocation] : memory_) text += fmt::format("{} bytes; ", allocation->size);
  return text;
}

std::string FakeDriver::violations() const {
  const std::lock_guard lock(mutex);
  return fmt::format("{}", fmt::join(violations_, "; "));
}

std::size_t FakeDriver::used_bytes(int gpu) const {
  const std::lock_guard lock(mutex);
  return used_[static_cast<std::size_t>(gpu)];
}

void* FakeDriver::variable(std::string_view symbol) const {
  const std::lock_guard lock(mutex);
  const auto found = variables_.find(symbol);
  return found == variables_.end() ? nullptr : reinterpret_cast<void*>(found->second);
}

Status FakeDriver::begin(const char* name, Stream stream, std::size_t bytes, bool destroys,
                         std::optional<int> of) {
  const int gpu = of ? *of : current != nullptr ? current->gpu : -1;
  Status status = gpu >= 0 && lost_[static_cast<std::size_t>(gpu)] ? kErrorIllegalAddress : kSuccess;
  if (!destroys)
    for (Failure& failure : failures_) {
      if (!failure.name.empty() && failure.name != name) continue;
      if (--failure.nth > 0 || failure.times == 0) continue;
      --failure.times;
      status = failure.status;
      has_failed_ = true;
      failed_call_ = name;
      if (gpu >= 0 && loses_context(status)) lost_[static_cast<std::size_t>(gpu)] = true;
    }
  if (std::string_view(name) != "cuCtxSetCurrent" && !loader_) log_.push_back({name, status, stream, bytes});
  return status;
}

void FakeDriver::complain(std::string what) {
  if (loader_) {
    fmt::print(stderr, "emulated GPU: {}\n", what);
    std::abort();
  }
  violations_.push_back(std::move(what));
}

Address FakeDriver::allocate(std::size_t bytes, int gpu) {
  auto made = std::make_unique<Allocation>();
  made->bytes = checks_.guards_memory ? guarded_memory(bytes) : plain_memory(bytes);
  std::memset(made->bytes.get(), 0xCD, bytes);
  made->gpu = gpu;
  made->size = bytes;
  const auto address = reinterpret_cast<Address>(made->bytes.get());
  memory_[address] = std::move(made);
  return address;
}

// A kernel that goes wrong takes its GPU with it.
void FakeDriver::run(FakeKernel& kernel, const std::string& name, const FakeLaunch::Sizes& sizes,
                     std::vector<std::vector<std::byte>> parameters, int gpu) {
  if (lost_[static_cast<std::size_t>(gpu)]) return;
  std::vector<void*> places;
  for (std::vector<std::byte>& parameter : parameters) places.push_back(parameter.data());
  // What it may write: variables and what tables of addresses lead to are no parameters.
  std::vector<Allocation*> arrays;
  if (checks_.compares_orders)
    for (const auto& [address, array] : memory_)
      if (array->gpu == gpu) arrays.push_back(array.get());
  const auto contents = [&] {
    std::vector<std::vector<std::byte>> all;
    for (const Allocation* array : arrays)
      all.emplace_back(array->bytes.get(), array->bytes.get() + array->size);
    return all;
  };
  const auto before = contents();
  std::string fault = kernel.run(sizes, checks_.seed, places.data());
  if (fault.empty() && checks_.compares_orders) {
    const auto once = contents();
    for (std::size_t i = 0; i < arrays.size(); ++i)
      std::copy(before[i].begin(), before[i].end(), arrays[i]->bytes.get());
    fault = kernel.run(sizes, checks_.seed + 1, places.data());
    for (std::size_t i = 0; i < arrays.size() && fault.empty(); ++i) {
      const auto [a, b] = std::mismatch(once[i].begin(), once[i].end(), arrays[i]->bytes.get());
      if (a != once[i].end())
        fault = fmt::format("other bits at byte {} of {} in another order of its threads",
                            a - once[i].begin(), once[i].size());
    }
  }
  if (fault.empty()) return;
  fmt::print(stderr, "emulated GPU: kernel {}: {}\n", name, fault);
  lost_[static_cast<std::size_t>(gpu)] = true;
}

Status FakeDriver::put(Stream stream, std::function<void(Stream)> work) {
  stream->ends_in_kernel = false;
  if (Capture* const capture = stream->capture.get(); capture != nullptr) {
    capture->add({Captured::Kind::work, capture->lane_of(stream), std::move(work)});
    return kSuccess;
  }
  merge(stream->clock, host_);
  ++stream->clock[stream->id];
  work(stream);
  return kSuccess;
}

bool FakeDriver::touch(Address address, std::size_t bytes, Stream stream, bool writes, bool frees) {
  auto after = memory_.upper_bound(address);
  if (after == memory_.begin() ||
      address + bytes > std::prev(after)->first + std::prev(after)->second->size) {
    complain("memory is used that is not allocated");
    return false;
  }
  Allocation& allocation = *std::prev(after)->second;
  if (frees) {
    merge(stream->clock, host_);
    ++stream->clock[stream->id];
  }
  const auto is_after = [&](int other, std::uint64_t count) { return stream->clock[other] >= count; };
  if (allocation.written.second > 0 && !is_after(allocation.written.first, allocation.written.second))
    complain(fmt::format("stream {} {} what stream {} may still write", stream->id,
                         frees    ? "frees"
                         : writes ? "writes"
                                  : "reads",
                         allocation.written.first));
  if (writes)
    for (const auto& [reader, count] : allocation.read)
      if (!is_after(reader, count))
        complain(fmt::format("stream {} {} what stream {} may still read", stream->id,
                             frees ? "frees" : "writes", reader));
  if (writes) {
    allocation.written = {stream->id, stream->clock[stream->id]};
    allocation.read.clear();
  } else {
    allocation.read[stream->id] = stream->clock[stream->id];
  }
  return true;
}

const float* FakeLaunch::read(std::size_t parameter, std::size_t count) {
  return memory(parameters_.at(parameter), count, false);
}

float* FakeLaunch::write(std::size_t parameter, std::size_t count) {
  return memory(parameters_.at(parameter), count, true);
}

const float* FakeLaunch::read_variable(std::string_view symbol, std::size_t count) {
  return memory(reinterpret_cast<Address>(the_fake->variable(symbol)), count, false);
}

float* FakeLaunch::memory(Address address, std::size_t count, bool writes) {
  if (!the_fake->touch(address, count * sizeof(float), stream_, writes))
    throw std::runtime_error("a kernel has memory that is not allocated");
  return reinterpret_cast<float*>(address);
}

}  // namespace systole::cuda
