# Run by ctest with -D build_dir source_dir work_dir compiler has_command generator ninja installed_files; fails with a message at the first surprise.
cmake_minimum_required(VERSION 3.25)

function(run)
  execute_process(COMMAND ${ARGN} RESULT_VARIABLE status OUTPUT_VARIABLE output ERROR_VARIABLE output)
  if(NOT status EQUAL 0)
    list(JOIN ARGN " " command)
    message(FATAL_ERROR "${command}\nfailed with ${status}:\n${output}")
  endif()
  set(output "${output}" PARENT_SCOPE)
endfunction()

# Building the command builds all that is installed, so that `make demo` is enough for an install.
if(generator MATCHES Ninja AND has_command)
  run(${ninja} -C ${build_dir} -t inputs systole)
  foreach(part IN ITEMS ${installed_files})
    string(FIND "${output}" "${part}" found)
    if(found EQUAL -1)
      message(FATAL_ERROR "${part} is installed, but the target systole does not build it")
    endif()
  endforeach()
endif()

# What is installed is found by itself.
foreach(variable IN ITEMS SYSTOLE_ONEDNN SYSTOLE_PLUGIN_PATH LD_LIBRARY_PATH)
  unset(ENV{${variable}})
endforeach()

file(REMOVE_RECURSE ${work_dir})
run(${CMAKE_COMMAND} --install ${build_dir} --prefix ${work_dir}/first_place)
file(RENAME ${work_dir}/first_place ${work_dir}/moved)

file(GLOB_RECURSE package_files ${work_dir}/moved/*.cmake)
foreach(file IN LISTS package_files)
  file(READ ${file} text)
  foreach(path IN ITEMS ${source_dir} ${build_dir} first_place)
    string(FIND "${text}" "${path}" found)
    if(NOT found EQUAL -1)
      message(FATAL_ERROR "${file} names ${path}")
    endif()
  endforeach()
endforeach()

run(${CMAKE_COMMAND} -S ${CMAKE_CURRENT_LIST_DIR}/outside -B ${work_dir}/outside
  -D CMAKE_PREFIX_PATH=${work_dir}/moved -D CMAKE_CXX_COMPILER=${compiler} -D CMAKE_BUILD_TYPE=Release)
run(${CMAKE_COMMAND} --build ${work_dir}/outside)
run(${work_dir}/outside/outside)
if(NOT output MATCHES "y = 7 2\nproducts = 256 384\noneDNN: ")
  message(FATAL_ERROR "the outside program printed:\n${output}")
endif()

# A program that lies elsewhere uses the oneDNN that is installed beside the shared library. Without it, it says once
# what to do; unless the loader finds another.
file(GLOB_RECURSE shared ${work_dir}/moved/libsystole.so)
file(GLOB_RECURSE onednn ${work_dir}/moved/libdnnl.so.3)
if(shared AND onednn)
  if(NOT output MATCHES "oneDNN: ${onednn}\n")
    message(FATAL_ERROR "the outside program does not use ${onednn}:\n${output}")
  endif()
  file(RENAME ${onednn} ${work_dir}/hidden.so)
  run(${CMAKE_COMMAND} -E env SYSTOLE_LOG=warn ${work_dir}/outside/outside)
  string(REGEX MATCHALL "oneDNN is not found[^\n]*set SYSTOLE_ONEDNN" warnings "${output}")
  list(LENGTH warnings count)
  if(NOT output MATCHES "products = 256 384" OR (output MATCHES "oneDNN: none" AND NOT count EQUAL 1))
    message(FATAL_ERROR "without oneDNN the outside program printed, with ${count} warnings:\n${output}")
  endif()
  file(RENAME ${work_dir}/hidden.so ${onednn})
endif()

if(has_command)
  run(${work_dir}/moved/bin/systole devices)
  if(NOT output MATCHES "reference")
    message(FATAL_ERROR "the installed command does not list the reference device:\n${output}")
  endif()
endif()

# `make install PREFIX=…` builds what the command needs and installs the build folder. The tools of the build tree stand
# in for the release preset, which is built already.
find_program(make NAMES gmake make)
if(has_command AND make)
  file(WRITE ${work_dir}/bin/cmake "#!/bin/sh
echo \"$*\" >> '${work_dir}/cmake.log'
[ \"$1 $2\" = '--install build' ] || exit 0
shift 2
exec '${CMAKE_COMMAND}' --install '${build_dir}' \"$@\"
")
  file(CHMOD ${work_dir}/bin/cmake PERMISSIONS OWNER_READ OWNER_WRITE OWNER_EXECUTE)
  run(${CMAKE_COMMAND} -E env "PATH=${work_dir}/bin:$ENV{PATH}"
    ${make} --directory ${source_dir} --old-file setup install PREFIX=${work_dir}/by_make)
  file(READ ${work_dir}/cmake.log steps)
  if(NOT steps MATCHES "^--preset release[^\n]*\n--build --preset release --target systole_command\n--install build ")
    message(FATAL_ERROR "make install ran cmake with:\n${steps}")
  endif()
  foreach(part IN ITEMS bin/systole include/systole/systole.h)
    if(NOT EXISTS ${work_dir}/by_make/${part})
      message(FATAL_ERROR "make install left no ${part}")
    endif()
  endforeach()
  run(${work_dir}/by_make/bin/systole devices)
endif()

# A new project of the installed command builds against the installed library and trains.
if(has_command)
  run(${work_dir}/moved/bin/systole new ${work_dir}/project --template digits)
  run(${CMAKE_COMMAND} -S ${work_dir}/project -B ${work_dir}/project/build
    -D CMAKE_PREFIX_PATH=${work_dir}/moved -D CMAKE_CXX_COMPILER=${compiler} -D CMAKE_BUILD_TYPE=Release)
  run(${CMAKE_COMMAND} --build ${work_dir}/project/build)
  file(MAKE_DIRECTORY ${work_dir}/trained)
  run(${CMAKE_COMMAND} -E chdir ${work_dir}/trained ${work_dir}/project/build/train digits?train=64&test=32)
  if(NOT output MATCHES "test loss" OR NOT EXISTS ${work_dir}/trained/model.safetensors)
    message(FATAL_ERROR "the new project's program printed:\n${output}")
  endif()
endif()
