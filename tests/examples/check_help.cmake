# Every one of PROGRAMS answers --help with how it is called, and ends well.
foreach(program IN LISTS PROGRAMS)
  get_filename_component(name ${program} NAME_WE)
  execute_process(COMMAND ${program} --help OUTPUT_VARIABLE out ERROR_VARIABLE err RESULT_VARIABLE code)
  if(NOT code EQUAL 0 OR NOT out MATCHES "^usage: ${name}[ \n]" OR err)
    message(FATAL_ERROR "${name} --help: expected \"usage: ${name} …\" and exit code 0, got ${code}:\n${out}${err}")
  endif()
endforeach()
