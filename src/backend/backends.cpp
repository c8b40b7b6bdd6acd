// The backends of this build, one line each. The rank orders them for "auto": lower is preferred.

#include "backend/cpu/cpu.h"
#include "backend/cuda/cuda.h"
#include "backend/opencl/opencl.h"
#include "backend/reference/reference.h"
#ifdef SYSTOLE_HAVE_PJRT
#include "backend/pjrt/discovery.h"
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

std::string why_absent(std::string_view backend) {
  constexpr std::string_view kPlugin = "pjrt:";
  const bool named = backend.starts_with(kPlugin);
  if (!named && backend != "tpu") return {};
#ifdef SYSTOLE_HAVE_PJRT
  return pjrt::why_not_found(named ? backend.substr(kPlugin.size()) : backend);
#else
  return "this build takes no PJRT plugins, since pjrt_c_api.h was not there: run scripts/setup in Systole's "
         "source "
         "and build again";
#endif
}

}  // namespace systole::runtime
