# `cmake --install`: library, headers, ops.def, the command, and the package files behind find_package(Systole). The
# installed tree names no path of the machine it was built on and may be moved. All of it is built with the target of
# the command, so `make demo` builds what is installed.

include(CMakePackageConfigHelpers)
set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/Systole)

install(TARGETS systole_library EXPORT SystoleTargets
  LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR}
  ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(DIRECTORY include/systole DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}
  FILES_MATCHING PATTERN "*.h" PATTERN "*.def")
if(TARGET systole_clang)
  install(TARGETS systole_clang LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
endif()
if(TARGET systole_command)
  install(TARGETS systole_command RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
endif()
# oneDNN, where the library looks for it.
if(EXISTS ${PROJECT_SOURCE_DIR}/.deps/lib/libdnnl.so.3)
  install(FILES ${PROJECT_SOURCE_DIR}/.deps/lib/libdnnl.so.3 DESTINATION ${CMAKE_INSTALL_LIBDIR}/systole/plugins/lib)
endif()
install(FILES LICENSE DESTINATION ${CMAKE_INSTALL_DOCDIR})

# A static library hands its dependencies on; a shared one keeps them to itself.
set(SYSTOLE_CONFIG_DEPENDENCIES "")
if(NOT BUILD_SHARED_LIBS)
  foreach(package IN ITEMS fmt Threads ZLIB PNG LibLZMA)
    if(${package}_FOUND)
      string(APPEND SYSTOLE_CONFIG_DEPENDENCIES "find_dependency(${package})\n")
    endif()
  endforeach()
  target_link_libraries(systole_library INTERFACE
    $<INSTALL_INTERFACE:$<LINK_ONLY:Threads::Threads>>
    $<$<BOOL:${OpenMP_CXX_FOUND}>:$<INSTALL_INTERFACE:$<LINK_ONLY:gomp>>>
    $<$<BOOL:${fmt_FOUND}>:$<INSTALL_INTERFACE:$<LINK_ONLY:${SYSTOLE_FMT}>>>
    $<$<BOOL:${ZLIB_FOUND}>:$<INSTALL_INTERFACE:$<LINK_ONLY:ZLIB::ZLIB>>>
    $<$<BOOL:${PNG_FOUND}>:$<INSTALL_INTERFACE:$<LINK_ONLY:PNG::PNG>>>
    $<$<BOOL:${LibLZMA_FOUND}>:$<INSTALL_INTERFACE:$<LINK_ONLY:LibLZMA::LibLZMA>>>
    $<$<BOOL:${TURBOJPEG_LIBRARY}>:$<INSTALL_INTERFACE:$<LINK_ONLY:turbojpeg>>>)
endif()

install(EXPORT SystoleTargets NAMESPACE Systole:: DESTINATION ${package_dir})
configure_package_config_file(cmake/SystoleConfig.cmake.in SystoleConfig.cmake INSTALL_DESTINATION ${package_dir})
write_basic_package_version_file(SystoleConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/SystoleConfig.cmake ${PROJECT_BINARY_DIR}/SystoleConfigVersion.cmake
  DESTINATION ${package_dir})
