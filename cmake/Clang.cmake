# The compiler of kernels as a module of its own, libsystole_clang.so, which the library loads when a kernel is not in
# the cache. Only it is linked with LLVM. It and the library must be of one build; SYSTOLE_CLANG_BUILD says which.

set(SYSTOLE_CLANG_SOURCES src/backend/cpu/clang_module.h src/backend/cpu/clang_module.cpp)
find_program(LLVM_CONFIG NAMES llvm-config-19)
if(LLVM_CONFIG AND NOT SYSTOLE_RELOCATABLE)  # LLVM is linked shared
  execute_process(COMMAND ${LLVM_CONFIG} --version --includedir --libdir OUTPUT_VARIABLE answer OUTPUT_STRIP_TRAILING_WHITESPACE)
  string(REPLACE "\n" ";" answer "${answer}")
  list(GET answer 0 llvm_version)
  list(GET answer 1 llvm_include)
  list(GET answer 2 llvm_libraries)
  find_path(CLANG_INCLUDE_DIR clang/Driver/Driver.h NO_DEFAULT_PATH HINTS ${llvm_include})
  find_path(LLD_INCLUDE_DIR lld/Common/Driver.h NO_DEFAULT_PATH HINTS ${llvm_include})
  find_library(LLVM_LIBRARY libLLVM.so.19.1 NO_DEFAULT_PATH HINTS ${llvm_libraries})
  find_library(CLANG_LIBRARY libclang-cpp.so.19.1 NO_DEFAULT_PATH HINTS ${llvm_libraries})
  find_library(LLD_ELF_LIBRARY lldELF NO_DEFAULT_PATH HINTS ${llvm_libraries})
  find_library(LLD_COMMON_LIBRARY lldCommon NO_DEFAULT_PATH HINTS ${llvm_libraries})
  find_library(ZSTD_LIBRARY zstd)  # lld uses it
endif()

set(SYSTOLE_CLANG_BUILD none)
if(CLANG_INCLUDE_DIR AND LLD_INCLUDE_DIR AND LLVM_LIBRARY AND CLANG_LIBRARY AND LLD_ELF_LIBRARY AND LLD_COMMON_LIBRARY
    AND ZSTD_LIBRARY AND ZLIB_FOUND)
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${SYSTOLE_CLANG_SOURCES})
  set(hashes ${llvm_version})
  foreach(source IN LISTS SYSTOLE_CLANG_SOURCES)
    file(SHA256 ${PROJECT_SOURCE_DIR}/${source} hash)
    string(APPEND hashes ${hash})
  endforeach()
  string(SHA256 hash "${hashes}")
  string(SUBSTRING ${hash} 0 16 hash)
  set(SYSTOLE_CLANG_BUILD "${PROJECT_VERSION} clang ${llvm_version} ${hash}")

  # LLVM is built without type information and without sanitizers; so is what derives from its classes.
  add_library(systole_clang MODULE ${SYSTOLE_CLANG_SOURCES})
  set_target_properties(systole_clang PROPERTIES PREFIX lib LIBRARY_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR})
  target_compile_definitions(systole_clang PRIVATE SYSTOLE_CLANG_BUILD="${SYSTOLE_CLANG_BUILD}")
  target_compile_options(systole_clang PRIVATE -Wall -Wextra -fno-rtti -fno-exceptions)
  target_include_directories(systole_clang PRIVATE include src)
  target_include_directories(systole_clang SYSTEM PRIVATE ${CLANG_INCLUDE_DIR})
  target_link_libraries(systole_clang PRIVATE ${LLD_ELF_LIBRARY} ${LLD_COMMON_LIBRARY} ${CLANG_LIBRARY} ${LLVM_LIBRARY}
    ${ZSTD_LIBRARY} ZLIB::ZLIB Threads::Threads m)
  target_link_options(systole_clang PRIVATE -Wl,--exclude-libs,ALL -Wl,--no-undefined ${SYSTOLE_LINKER})
else()
  message(NOTICE "clang and lld 19 as libraries not found: kernels are compiled by a command, such as gcc")
endif()
set_source_files_properties(src/backend/cpu/jit_compilers.cpp PROPERTIES
  COMPILE_DEFINITIONS "SYSTOLE_CLANG_BUILD=\"${SYSTOLE_CLANG_BUILD}\";SYSTOLE_LIBDIR=\"${CMAKE_INSTALL_LIBDIR}\"")
set_source_files_properties(src/backend/packages.cpp PROPERTIES
  COMPILE_DEFINITIONS "SYSTOLE_LIBDIR=\"${CMAKE_INSTALL_LIBDIR}\"")
