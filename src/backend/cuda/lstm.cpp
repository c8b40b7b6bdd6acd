#include "backend/cuda/lstm.h"

#include <fmt/format.h>

#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "backend/cuda/lstm_text.h"
#include "backend/cuda/nvrtc.h"
#include "backend/cuda/preferences.h"
#include "base/log.h"
#include "runtime/disk_cache.h"
#include "systole/base/error.h"

namespace systole::cuda {

using patterns::LstmLoop;

namespace {

constexpr const char* kName = "systole_lstm";

// Above it, eight clusters of eight rows at a time take longer than cuDNN with a launch for each step.
constexpr std::int64_t kMostBatch = 256;

std::string code_of(const Device& device, const LstmLoop& loop) {
  const std::string source = lstm_loop_text(loop, kName);
  runtime::CacheKey key("cuda");
  key.add("lstm").add(source).add(device.architecture()).add(nvrtc_version());
  const std::optional<runtime::DiskCache> cache = runtime::disk_cache();
  if (cache)
    if (std::optional<std::string> known = cache->find(key)) return *std::move(known);
  std::string code = machine_code(source, {.architecture = device.architecture(), .file_name = "lstm.cu"});
  if (cache) cache->store(key, code);
  return code;
}

// Equal loops share a kernel; null when the compiler refuses it, an old one or one of no GPU. Never unloaded,
// as devices.
Function kernel_of(const Device& device, const LstmLoop& loop) {
  static std::mutex mutex;
  static auto* const all = new std::map<std::string, Function>;
  const std::lock_guard lock(mutex);
  const std::string key = fmt::format("{} {} {} {} {} {}", device.ordinal(), loop.length, loop.batch,
                                      loop.hidden, loop.is_grad, loop.keeps);
  if (const auto found = all->find(key); found != all->end()) return found->second;
  Function function = nullptr;
  try {
    device.activate();
    const std::string code = code_of(device, loop);
    LoadedModule module = nullptr;
    check(driver().cuModuleLoadData(&module, code.data()), "cuModuleLoadData");
    check(driver().cuModuleGetFunction(&function, module, kName), "cuModuleGetFunction");
  } catch (const Error& error) {
    if (error.kind() == ErrorKind::kContextLost || error.kind() == ErrorKind::kOutOfMemory) throw;
    log(LogLevel::info, fmt::format("cuda: no {}: {}", kLstm, error.message()));
    function = nullptr;
  }
  return all->emplace(key, function).first->second;
}

class LstmCall final : public LibraryCall {
 public:
  LstmCall(Function function, LstmLoop loop) : function_(function), loop_(std::move(loop)) {}

  void run(Stream stream, std::span<const Address> inputs, std::span<const Address> outputs,
           Address /*workspace*/) const override {
    std::vector<Address> addresses;
    for (const std::size_t i : loop_.operands) addresses.push_back(inputs[i]);
    addresses.insert(addresses.end(), outputs.begin(), outputs.end());
    std::vector<void*> parameters;
    for (Address& address : addresses) parameters.push_back(&address);
    check(driver().cuLaunchKernel(function_, static_cast<unsigned>(lstm_blocks(loop_)), 1, 1, kLstmThreads, 1,
                                  1, 0, stream, parameters.data(), nullptr),
          "cuLaunchKernel");
  }

 private:
  const Function function_;
  const LstmLoop loop_;
};

}  // namespace

bool suits_lstm(const Device& device, const LstmLoop& loop, runtime::Math math) {
  constexpr int kClusters = 90;  // compute capability
  return math == runtime::Math::tf32 && device.capability() >= kClusters && preferred(kLstm).is_taken &&
         loop.hidden % kLstmUnits == 0 && loop.hidden <= kLstmMostHidden && loop.batch <= kMostBatch &&
         kernel_of(device, loop) != nullptr;
}

lower::Claim lstm_offer(const Device& device, const lower::Region& region, runtime::Math math) {
  LstmLoop loop;
  if (std::string reason = patterns::read_lstm_loop(region, loop); !reason.empty())
    return lower::Claim::declined(fmt::format("{}: {}", kLstm, reason));
  if (!suits_lstm(device, loop, math))
    return lower::Claim::declined(fmt::format("{}: not of these sizes", kLstm));
  return {kLstm, {}, 10, 0};
}

std::shared_ptr<const LibraryCall> lstm_call(const Device& device, const lower::Region& region) {
  LstmLoop loop;
  if (const std::string reason = patterns::read_lstm_loop(region, loop); !reason.empty())
    throw Error(ErrorKind::kInternal, kLstm, reason);
  return std::make_shared<LstmCall>(kernel_of(device, loop), std::move(loop));
}

}  // namespace systole::cuda
