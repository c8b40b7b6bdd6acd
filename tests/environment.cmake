# Read by ctest: what every test's process has in its environment. Passes are verified in release builds too, and an
# allocation that fails is an error to be caught, under the sanitizers as without them.
set(ENV{SYSTOLE_VERIFY} 1)
set(ENV{ASAN_OPTIONS} allocator_may_return_null=1)
set(ENV{TSAN_OPTIONS} allocator_may_return_null=1)
set(ENV{UBSAN_OPTIONS} print_stacktrace=1)
# Compiled programs are kept in the build, not in the user's folder.
if(NOT DEFINED ENV{SYSTOLE_CACHE_DIR})
  set(ENV{SYSTOLE_CACHE_DIR} "${CMAKE_CURRENT_LIST_DIR}/../build/test-cache")
endif()
