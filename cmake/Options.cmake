# What can be chosen, and the compiler settings every target of ours shares (target systole_settings).

option(BUILD_SHARED_LIBS "Build libsystole as a shared library" ON)
option(SYSTOLE_TESTS "Build the tests (needs GoogleTest)" ${PROJECT_IS_TOP_LEVEL})
option(SYSTOLE_BENCH "Build the benchmarks (needs Google Benchmark)" ${PROJECT_IS_TOP_LEVEL})
option(SYSTOLE_RELOCATABLE "Link programs so that they need no more than glibc, this one or a newer" OFF)
option(SYSTOLE_FUZZ "Build the libFuzzer targets (needs clang)" OFF)
set(SYSTOLE_SANITIZE "" CACHE STRING "Sanitizers, e.g. address,undefined or thread")

if(NOT CMAKE_BUILD_TYPE AND NOT CMAKE_CONFIGURATION_TYPES)
  set(CMAKE_BUILD_TYPE Release CACHE STRING "" FORCE)
endif()

# Archives alone are looked for; what has none is left out, or its headers suffice.
if(SYSTOLE_RELOCATABLE)
  set(BUILD_SHARED_LIBS OFF)
  set(CMAKE_FIND_LIBRARY_SUFFIXES .a)
  add_link_options(-static-libstdc++ -static-libgcc)
endif()

set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_CXX_VISIBILITY_PRESET hidden)
set(CMAKE_VISIBILITY_INLINES_HIDDEN ON)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)

# An installed tree may be moved: programs find the library beside them.
include(GNUInstallDirs)
set(CMAKE_INSTALL_RPATH "$ORIGIN/../${CMAKE_INSTALL_LIBDIR}")

add_library(systole_settings INTERFACE)
target_include_directories(systole_settings INTERFACE ${PROJECT_SOURCE_DIR}/include ${PROJECT_SOURCE_DIR}/src)
target_compile_options(systole_settings INTERFACE -Wall -Wextra -Wno-missing-field-initializers
  $<$<CXX_COMPILER_ID:GNU>:-Wno-restrict>)  # g++ 12 warns falsely of "text" + std::string
# g++ 12 makes cold parts of no length, and lld's table for exceptions finds those before the next function: what that one
# throws is caught by nobody.
target_compile_options(systole_settings INTERFACE $<$<CXX_COMPILER_ID:GNU>:-fno-reorder-blocks-and-partition>)
target_compile_definitions(systole_settings INTERFACE SYSTOLE_VERSION="${PROJECT_VERSION}" $<$<CONFIG:Debug>:SYSTOLE_DEBUG>)
if(SYSTOLE_SANITIZE)
  target_compile_options(systole_settings INTERFACE -fsanitize=${SYSTOLE_SANITIZE} -fno-sanitize-recover=all -fno-omit-frame-pointer)
  target_link_options(systole_settings INTERFACE -fsanitize=${SYSTOLE_SANITIZE})
endif()

find_program(CCACHE ccache)
if(CCACHE)
  # Clones and work trees share what was compiled, precompiled headers among it.
  set(CMAKE_CXX_COMPILER_LAUNCHER ${CMAKE_COMMAND} -E env CCACHE_BASEDIR=${PROJECT_SOURCE_DIR}
    CCACHE_SLOPPINESS=pch_defines,time_macros ${CCACHE})
endif()
# Not mold, whose version in Debian 12 never ends on some of the tests and makes others that do not start.
find_program(LLD ld.lld NO_DEFAULT_PATH PATHS /usr/lib/llvm-19/bin)
if(LLD)
  get_filename_component(lld_folder ${LLD} DIRECTORY)
  set(SYSTOLE_LINKER -B${lld_folder} -fuse-ld=lld)
  target_link_options(systole_settings INTERFACE ${SYSTOLE_LINKER})
endif()
