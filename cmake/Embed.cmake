# A file of the tree as text within the library.
#
#   embed_text(page src/profile/page.html systole::profiling::kPage profile/page.h)
#   target_sources(systole_profile PRIVATE ${page})
#
# makes in the build folder, again whenever the file changes, a source that defines the std::string_view SYMBOL, which
# HEADER declares `extern`. Single characters, as some compilers limit a literal's length and any delimiter of a raw
# one might stand in the file.

if(CMAKE_SCRIPT_MODE_FILE)
  file(READ "${FILE}" text HEX)
  string(REPEAT "." 40 line)
  string(REGEX REPLACE "(${line})" "\\1\n" text "${text}")
  string(REGEX REPLACE "([0-9a-f][0-9a-f])" "'\\\\x\\1'," text "${text}")
  file(WRITE "${OUT}" "#include \"${HEADER}\"\n\nstatic const char text[] = {\n${text}'\\0'};\n
const std::string_view ${SYMBOL}{text, sizeof(text) - 1};\n")
  return()
endif()

set(SYSTOLE_EMBED_SCRIPT ${CMAKE_CURRENT_LIST_FILE})

function(embed_text OUT_VAR FILE SYMBOL HEADER)
  cmake_path(ABSOLUTE_PATH FILE BASE_DIRECTORY ${CMAKE_CURRENT_SOURCE_DIR} NORMALIZE)
  cmake_path(GET FILE FILENAME name)
  set(out ${CMAKE_CURRENT_BINARY_DIR}/embedded/${name}.cpp)
  add_custom_command(OUTPUT ${out} VERBATIM COMMENT "Embedding ${name}"
    COMMAND ${CMAKE_COMMAND} -DFILE=${FILE} -DOUT=${out} -DSYMBOL=${SYMBOL} -DHEADER=${HEADER} -P ${SYSTOLE_EMBED_SCRIPT}
    DEPENDS ${FILE} ${SYSTOLE_EMBED_SCRIPT})
  set(${OUT_VAR} ${out} PARENT_SCOPE)
endfunction()
