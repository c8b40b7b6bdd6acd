#pragma once

// What the thread sanitizer must know in programs that load XLA's plugin, which is not built for it. It does
// not see the plugin's locks: every array that two of its threads hand over would be a race, and their waits
// and the registration of compiled code, which are libstdc++'s and libgcc's, would open locks that nobody
// closed. Included once per program.

#if defined(__SANITIZE_THREAD__)
extern "C" __attribute__((visibility("default"))) const char* __tsan_default_suppressions() {
  return "called_from_lib:xla_cpu_pjrt.so\n"
         "race:xla_cpu_pjrt.so\n"
         "mutex:std::condition_variable::wait\n"
         "mutex:register_frame_info_bases\n"
         "deadlock:register_frame_info_bases\n";
}
#endif
