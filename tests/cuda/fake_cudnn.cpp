// cuDNN as a library to be loaded that does nothing: every call succeeds, there is no engine for anything,
// and cudnnCreate fails as often as it was told to.

#include <cstddef>
#include <cstdint>

#include "backend/cuda/dnn_layers_api.h"

namespace {

constexpr int kInternalError = 4000;
int creations_to_fail = 0;

}  // namespace

namespace systole::cuda::dnn {

extern "C" {

void fake_cudnn_fail_creations(int times) { creations_to_fail = times; }

int cudnnCreate(Handle* handle) {
  if (creations_to_fail > 0) {
    --creations_to_fail;
    return kInternalError;
  }
  static int place = 0;
  *handle = reinterpret_cast<Handle>(&place);
  return 0;
}
int cudnnSetStream(Handle, Stream) { return 0; }
std::size_t cudnnGetVersion() { return 91000; }
const char* cudnnGetErrorString(int) { return "said by the fake"; }
void cudnnGetLastErrorString(char* words, std::size_t) { *words = '\0'; }
int cudnnBackendCreateDescriptor(int, Descriptor*) { return 0; }
int cudnnBackendDestroyDescriptor(Descriptor) { return 0; }
int cudnnBackendFinalize(Descriptor) { return 0; }
int cudnnBackendSetAttribute(Descriptor, int, int, std::int64_t, const void*) { return 0; }
int cudnnBackendGetAttribute(Descriptor, int, int, std::int64_t, std::int64_t* count, void*) {
  *count = 0;
  return 0;
}
int cudnnBackendExecute(Handle, Descriptor, Descriptor) { return 0; }

#define SYSTOLE_FAKE_FUNCTION(name, parameters) \
  int name parameters { return 0; }
SYSTOLE_DNN_LAYER_FUNCTIONS(SYSTOLE_FAKE_FUNCTION)
#undef SYSTOLE_FAKE_FUNCTION
}

}  // namespace systole::cuda::dnn
