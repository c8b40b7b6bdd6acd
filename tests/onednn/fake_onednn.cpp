// oneDNN 3.6.0 as a library to be loaded that can do nothing: every call fails with the status that
// FAKE_ONEDNN_STATUS says, else as unimplemented.

#include <cstddef>
#include <cstdlib>

#include "backend/cpu/onednn_api.h"

namespace {

int status() {
  const char* const given = std::getenv("FAKE_ONEDNN_STATUS");
  return given != nullptr ? std::atoi(given) : systole::cpu::dnnl::kUnimplemented;
}

}  // namespace

extern "C" {

const systole::cpu::dnnl::VersionObject* dnnl_version() {
  static const systole::cpu::dnnl::VersionObject version{3, 6, 0, "none", systole::cpu::dnnl::kOpenMp, 0};
  return &version;
}
int dnnl_get_effective_cpu_isa() { return 0; }
std::size_t dnnl_memory_desc_get_size() { return 0; }
const void* dnnl_primitive_desc_query_md() { return nullptr; }

// Whatever is handed over is not looked at.
#define SYSTOLE_FAKE(name) \
  int dnnl_##name() { return status(); }
SYSTOLE_FAKE(engine_create)
SYSTOLE_FAKE(stream_create)
SYSTOLE_FAKE(stream_destroy)
SYSTOLE_FAKE(memory_desc_create_with_strides)
SYSTOLE_FAKE(memory_desc_create_with_tag)
SYSTOLE_FAKE(memory_desc_clone)
SYSTOLE_FAKE(memory_desc_destroy)
SYSTOLE_FAKE(memory_desc_equal)
SYSTOLE_FAKE(memory_create)
SYSTOLE_FAKE(memory_set_data_handle)
SYSTOLE_FAKE(memory_destroy)
SYSTOLE_FAKE(primitive_attr_create)
SYSTOLE_FAKE(primitive_attr_destroy)
SYSTOLE_FAKE(primitive_attr_set_scratchpad_mode)
SYSTOLE_FAKE(primitive_attr_set_post_ops)
SYSTOLE_FAKE(post_ops_create)
SYSTOLE_FAKE(post_ops_destroy)
SYSTOLE_FAKE(post_ops_append_binary)
SYSTOLE_FAKE(post_ops_append_eltwise)
SYSTOLE_FAKE(primitive_desc_query)
SYSTOLE_FAKE(primitive_desc_destroy)
SYSTOLE_FAKE(primitive_create)
SYSTOLE_FAKE(primitive_execute)
SYSTOLE_FAKE(primitive_destroy)
SYSTOLE_FAKE(reorder_primitive_desc_create)
SYSTOLE_FAKE(sum_primitive_desc_create)
SYSTOLE_FAKE(matmul_primitive_desc_create)
SYSTOLE_FAKE(convolution_forward_primitive_desc_create)
SYSTOLE_FAKE(convolution_backward_data_primitive_desc_create)
SYSTOLE_FAKE(convolution_backward_weights_primitive_desc_create)
SYSTOLE_FAKE(pooling_forward_primitive_desc_create)
#undef SYSTOLE_FAKE
}
