// The backends of this build, one line each. The rank orders them for "auto": lower is preferred.

#include "backend/cpu/cpu.h"
#include "backend/cuda/cuda.h"
#include "backend/opencl/opencl.h"
#include "backend/reference/reference.h"
#ifdef SYSTOLE_HAVE_PJRT
#include "backend/pjrt/pjrt.h"
#endif
#include "runtime/registry.h"
#include "systole/runtime.h"

namespace systole::runtime {

void register_builtin_backends() {
  register_backend("cuda", 50, cuda::make_backend);
  register_backend("cpu", 100, cpu::make_backend);
  register_backend("reference", 150, make_reference_backend);
  register_backend("opencl", 300, opencl::make_backend);
#ifdef SYSTOLE_HAVE_PJRT
  pjrt::register_backends();  // one per plugin found
#endif
}

}  // namespace systole::runtime
