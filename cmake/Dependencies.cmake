# The core needs fmt alone. Everything else is optional: what is missing is left out, and a line says so.

# Whether a package's library may be linked: one that is shared makes a program that cannot be moved.
function(systole_may_link target result)
  get_target_property(type ${target} TYPE)
  if(SYSTOLE_RELOCATABLE AND type STREQUAL SHARED_LIBRARY)
    set(${result} FALSE PARENT_SCOPE)
  else()
    set(${result} TRUE PARENT_SCOPE)
  endif()
endfunction()

find_package(fmt QUIET)
set(SYSTOLE_FMT fmt::fmt)
if(fmt_FOUND)
  systole_may_link(fmt::fmt may_link)
  if(NOT may_link)
    set(SYSTOLE_FMT fmt::fmt-header-only)
  endif()
  target_link_libraries(systole_settings INTERFACE ${SYSTOLE_FMT})
else()
  find_path(FMT_INCLUDE_DIR fmt/format.h REQUIRED)
  target_include_directories(systole_settings SYSTEM INTERFACE ${FMT_INCLUDE_DIR})
  target_compile_definitions(systole_settings INTERFACE FMT_HEADER_ONLY)
endif()

find_package(Threads REQUIRED)
target_link_libraries(systole_settings INTERFACE Threads::Threads)

# The threads of parallel_for: libgomp's, which other libraries share. The thread sanitizer does not know its locks, and
# clang has an OpenMP of its own; both get threads made for each call.
if(CMAKE_CXX_COMPILER_ID STREQUAL GNU AND NOT SYSTOLE_SANITIZE MATCHES thread)
  find_package(OpenMP QUIET COMPONENTS CXX)
endif()
if(OpenMP_CXX_FOUND)
  set_source_files_properties(${PROJECT_SOURCE_DIR}/src/base/parallel.cpp PROPERTIES
    COMPILE_OPTIONS ${OpenMP_CXX_FLAGS} SKIP_PRECOMPILE_HEADERS ON)  # which were made without
  target_link_libraries(systole_settings INTERFACE ${OpenMP_gomp_LIBRARY})
endif()

find_package(ZLIB QUIET)  # compressed .npz
if(ZLIB_FOUND)
  target_link_libraries(systole_settings INTERFACE ZLIB::ZLIB)
  target_compile_definitions(systole_settings INTERFACE SYSTOLE_HAVE_ZLIB)
else()
  message(NOTICE "zlib not found: compressed .npz and .gz files will be refused")
endif()

# scripts/setup brings the header of PJRT plugins in .deps.
set(SYSTOLE_PJRT_HEADER_DIR "" CACHE PATH "Folder of pjrt_c_api.h")
find_path(PJRT_INCLUDE_DIR pjrt_c_api.h NO_DEFAULT_PATH
  HINTS ${SYSTOLE_PJRT_HEADER_DIR} ${PROJECT_SOURCE_DIR}/.deps/xla_plugins/xla_cpu_pjrt/include)
if(NOT PJRT_INCLUDE_DIR)
  message(NOTICE "pjrt_c_api.h not found (scripts/setup, or SYSTOLE_PJRT_HEADER_DIR): pjrt and tpu devices are left out")
endif()

# Headers only: the loader is opened when first needed.
find_path(OPENCL_INCLUDE_DIR CL/cl.h)
if(NOT OPENCL_INCLUDE_DIR)
  message(NOTICE "CL/cl.h not found: opencl devices are left out")
endif()

# Files of other formats. Definitions go to the readers alone.
set(picture_definitions)
find_package(PNG QUIET)
if(PNG_FOUND)
  target_link_libraries(systole_settings INTERFACE PNG::PNG)
  list(APPEND picture_definitions SYSTOLE_HAVE_PNG)
else()
  message(NOTICE "libpng not found: pictures cannot be written, nor .png files read")
endif()
find_path(TURBOJPEG_INCLUDE_DIR turbojpeg.h)
find_library(TURBOJPEG_LIBRARY turbojpeg)
if(TURBOJPEG_INCLUDE_DIR AND TURBOJPEG_LIBRARY)
  target_link_libraries(systole_settings INTERFACE ${TURBOJPEG_LIBRARY})
  list(APPEND picture_definitions SYSTOLE_HAVE_JPEG)
else()
  message(NOTICE "libturbojpeg not found: .jpg files will be refused")
endif()
set_source_files_properties(${PROJECT_SOURCE_DIR}/src/io/png.cpp ${PROJECT_SOURCE_DIR}/src/io/picture.cpp
  PROPERTIES COMPILE_DEFINITIONS "${picture_definitions}")

find_package(LibLZMA QUIET)
if(LibLZMA_FOUND)
  target_link_libraries(systole_settings INTERFACE LibLZMA::LibLZMA)
  set_source_files_properties(${PROJECT_SOURCE_DIR}/src/io/unpack.cpp PROPERTIES COMPILE_DEFINITIONS SYSTOLE_HAVE_LZMA)
else()
  message(NOTICE "liblzma not found: .xz files will be refused")
endif()

find_path(CLI11_INCLUDE_DIR CLI/CLI.hpp)
find_path(NLOHMANN_JSON_INCLUDE_DIR nlohmann/json.hpp)
find_path(TOMLPLUSPLUS_INCLUDE_DIR toml++/toml.h)
if(NOT TOMLPLUSPLUS_INCLUDE_DIR)
  message(NOTICE "toml++ not found: systole train reads no TOML files, only options")
endif()
find_package(GTest QUIET)
if(SYSTOLE_TESTS AND NOT GTest_FOUND)
  message(NOTICE "GoogleTest not found: tests are left out")
  set(SYSTOLE_TESTS OFF)
endif()
find_package(benchmark QUIET)
if(benchmark_FOUND)
  systole_may_link(benchmark::benchmark benchmark_FOUND)
endif()
if(SYSTOLE_BENCH AND NOT benchmark_FOUND)
  message(NOTICE "Google Benchmark not found: benchmarks are left out")
  set(SYSTOLE_BENCH OFF)
endif()
