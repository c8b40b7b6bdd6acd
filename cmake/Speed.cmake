# What keeps the build short: how much each folder is optimised, and headers that are compiled once for many files.

# Hot code is generated or in libraries. What remains of it is in base and eval (loops over elements), in io and data (of
# each sample) and in ir, runtime, tensor and some files of backend (what each op and each launch passes through). All
# else runs once for a program and is optimised so that compiling it takes little.
set(SYSTOLE_O3 base eval)
set(SYSTOLE_O2 ir runtime tensor io data)
set(SYSTOLE_EACH_LAUNCH "/backend/.*/(buffer|cpu|executor|library_call|memory|pinned_ring|queues|session)\\.cpp$|\
/backend/(arguments|source_call)\\.cpp$")

function(systole_optimize target folder)
  if(folder IN_LIST SYSTOLE_O3)
    set(level 3)
  elseif(folder IN_LIST SYSTOLE_O2)
    set(level 2)
  else()
    set(level 1)
  endif()
  target_compile_options(${target} PRIVATE $<$<CONFIG:Release>:-O${level}>)
  if(level GREATER 1 AND CMAKE_CXX_COMPILER_ID STREQUAL GNU AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
    target_compile_options(${target} PRIVATE -Wno-array-bounds -Wno-stringop-overflow)  # false, of sums of strings
  endif()
  get_target_property(sources ${target} SOURCES)
  list(FILTER sources INCLUDE REGEX "${SYSTOLE_EACH_LAUNCH}")
  if(sources)
    set_source_files_properties(${sources} PROPERTIES COMPILE_OPTIONS $<$<CONFIG:Release>:-O2>)
  endif()
endfunction()

# Half of an ordinary file's time is headers. One set serves the folders up to backend, one what stands on Tensors, one
# the tests. More headers in a set cost more than they save: templates that they instantiate are instantiated in every
# file. A file still includes what it uses: the preset fuzz and the test minimal compile without these.
set(SYSTOLE_STANDARD_HEADERS <algorithm> <array> <atomic> <bit> <charconv> <chrono> <cmath> <cstdint> <cstring>
  <functional> <limits> <map> <memory> <mutex> <numeric> <optional> <set> <span> <string> <string_view>
  <unordered_map> <utility> <variant> <vector> <fmt/format.h>)
set(SYSTOLE_TENSOR_FOLDERS tensor nn optim data profile train cli tests)

function(systole_precompile target folder)
  if(folder IN_LIST SYSTOLE_TENSOR_FOLDERS)
    set(from systole_headers_tensor)
  else()
    set(from systole_headers_core)
  endif()
  if(folder STREQUAL tests)
    set(from systole_headers_tests)
  endif()
  target_precompile_headers(${target} REUSE_FROM ${from})
  get_target_property(type ${target} TYPE)
  if(type STREQUAL EXECUTABLE)
    target_compile_options(${target} PRIVATE -fPIC)  # as the headers were, in the place of -fPIE
  endif()
endfunction()

function(systole_launch_precompiling target)
  set_property(TARGET ${target} PROPERTY
    CXX_COMPILER_LAUNCHER ${PROJECT_SOURCE_DIR}/cmake/precompile ${CMAKE_CXX_COMPILER_LAUNCHER})
endfunction()

file(WRITE ${PROJECT_BINARY_DIR}/headers.cpp.new "// Nothing: its target owns precompiled headers.\n")
file(COPY_FILE ${PROJECT_BINARY_DIR}/headers.cpp.new ${PROJECT_BINARY_DIR}/headers.cpp ONLY_IF_DIFFERENT)
set(sets core tensor)
if(SYSTOLE_TESTS)
  list(APPEND sets tests)
endif()
foreach(set IN LISTS sets)
  add_library(systole_headers_${set} OBJECT ${PROJECT_BINARY_DIR}/headers.cpp)
  target_link_libraries(systole_headers_${set} PRIVATE systole_settings)
  systole_launch_precompiling(systole_headers_${set})
endforeach()
target_precompile_headers(systole_headers_core PRIVATE ${SYSTOLE_STANDARD_HEADERS}
  <systole/base/error.h> <systole/ir/graph.h>)
target_precompile_headers(systole_headers_tensor PRIVATE ${SYSTOLE_STANDARD_HEADERS}
  <systole/base/error.h> <systole/ir/graph.h> <systole/tensor/tensor.h> <systole/tensor/math.h>
  <systole/tensor/shaping.h> <systole/tensor/creation.h>)
if(SYSTOLE_TESTS)
  target_link_libraries(systole_headers_tests PRIVATE GTest::gtest)
  target_precompile_headers(systole_headers_tests PRIVATE ${SYSTOLE_STANDARD_HEADERS}
    <systole/base/error.h> <systole/ir/graph.h> <systole/tensor/tensor.h> <systole/tensor/math.h>
    <systole/tensor/shaping.h> <systole/tensor/creation.h> <gtest/gtest.h>)
endif()

# What a test program is compiled like; it takes a third less than at -O3.
function(systole_compile_test target)
  target_compile_options(${target} PRIVATE $<$<CONFIG:Release>:-O1>)
  systole_precompile(${target} tests)
endfunction()
