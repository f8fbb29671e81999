# After a test program is built: writes OUT, which ctest includes, with a test for each case that PROGRAM lists.
# SECONDS: the most that a case may take. EMULATOR runs programs of another processor. OCLGRIND: whether opencl_races
# runs in Oclgrind, by a test of its own.
# Cases of slow_cases.txt get the labels `slow` and `slow-FAMILY`: `make test-kernels` runs them, not `make test`.
file(STRINGS "${CMAKE_CURRENT_LIST_DIR}/slow_cases.txt" slow_cases REGEX "^[^#]")
list(TRANSFORM slow_cases REPLACE "^[a-z]+ " "" OUTPUT_VARIABLE slow)
list(JOIN slow "|" slow)
execute_process(COMMAND ${EMULATOR} "${PROGRAM}" --list OUTPUT_VARIABLE listed RESULT_VARIABLE status)
if(NOT status EQUAL 0)
  message(FATAL_ERROR "${PROGRAM} --list ended with ${status}")
endif()
string(REGEX MATCHALL "[^\n]+" cases "${listed}")
set(text "")
set(emulated "")
foreach(word IN LISTS EMULATOR)
  string(APPEND emulated "\"${word}\" ")
endforeach()
foreach(case IN LISTS cases)
  if(OCLGRIND AND case MATCHES "^opencl_races[.]")
    continue()  # the values that it compares others compare on ordinary runtimes
  endif()
  set(properties TIMEOUT ${SECONDS} SKIP_RETURN_CODE 77)
  if(case MATCHES "^opencl_conv|${slow}")  # many kernels to build: begun first, they end with the others
    set(properties TIMEOUT 900 COST 1000 SKIP_RETURN_CODE 77)
  endif()
  list(JOIN properties " " properties)
  foreach(line IN LISTS slow_cases)
    string(REGEX REPLACE " .*" "" family "${line}")
    string(REGEX REPLACE "^[a-z]+ " "" pattern "${line}")
    if(case MATCHES "${pattern}")
      string(APPEND properties " LABELS \"slow;slow-${family}\"")
    endif()
  endforeach()
  string(APPEND text "add_test(\"${case}\" ${emulated}\"${PROGRAM}\" \"${case}\")\n"
                     "set_tests_properties(\"${case}\" PROPERTIES ${properties})\n")
endforeach()
file(WRITE "${OUT}" "${text}")
