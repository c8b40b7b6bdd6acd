// cuDNN as a library to be loaded that does nothing: every call succeeds, there is no engine for anything
// unless it is told to offer one, cudnnCreate fails as often as it was told to, and one function may be held:
// whoever calls it waits until it is let go.

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <string>
#include <string_view>

#include "backend/cuda/dnn_layers_api.h"

namespace {

constexpr int kInternalError = 4000;
int creations_to_fail = 0;
bool has_engine = false;
std::mutex mutex;  // of what follows
std::condition_variable changed;
std::string held;
int held_calls = 0;

int called(std::string_view function) {
  std::unique_lock lock(mutex);
  if (held != function) return 0;
  ++held_calls;
  changed.notify_all();
  changed.wait(lock, [&] { return held != function; });
  --held_calls;
  return 0;
}

}  // namespace

namespace systole::cuda::dnn {

extern "C" {

void fake_cudnn_fail_creations(int times) { creations_to_fail = times; }
void fake_cudnn_offer_engine(bool offers) { has_engine = offers; }
void fake_cudnn_hold(const char* function) {  // "" lets all go
  const std::lock_guard lock(mutex);
  held = function;
  changed.notify_all();
}
void fake_cudnn_wait_for_held() {
  std::unique_lock lock(mutex);
  changed.wait(lock, [] { return held_calls > 0; });
}

int cudnnCreate(Handle* handle) {
  if (creations_to_fail > 0) {
    --creations_to_fail;
    return kInternalError;
  }
  static int places[64] = {}, made = 0;
  *handle = reinterpret_cast<Handle>(&places[made++ % 64]);
  return 0;
}
int cudnnSetStream(Handle, Stream) { return 0; }
std::size_t cudnnGetVersion() { return 91600; }
const char* cudnnGetErrorString(int) { return "said by the fake"; }
void cudnnGetLastErrorString(char* words, std::size_t) { *words = '\0'; }
int cudnnBackendCreateDescriptor(int kind, Descriptor* made) {
  *made = reinterpret_cast<Descriptor>(static_cast<std::intptr_t>(kind) + 1);
  return 0;
}
int cudnnBackendDestroyDescriptor(Descriptor) { return 0; }
int cudnnBackendFinalize(Descriptor made) {
  return made == reinterpret_cast<Descriptor>(static_cast<std::intptr_t>(kPlan) + 1) ? called("plan") : 0;
}
int cudnnBackendSetAttribute(Descriptor, int, int, std::int64_t, const void*) { return 0; }
int cudnnBackendGetAttribute(Descriptor, int name, int, std::int64_t, std::int64_t* count, void*) {
  *count = name == kHeuristicResults && has_engine ? 1 : 0;
  return 0;
}
int cudnnBackendExecute(Handle, Descriptor, Descriptor) { return 0; }

#define SYSTOLE_FAKE_FUNCTION(name, parameters) \
  int name parameters { return called(#name); }
SYSTOLE_DNN_LAYER_FUNCTIONS(SYSTOLE_FAKE_FUNCTION)
#undef SYSTOLE_FAKE_FUNCTION
}

}  // namespace systole::cuda::dnn
