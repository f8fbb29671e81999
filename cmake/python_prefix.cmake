# pl_python_prefix(DISTRIBUTION SUFFIX RESULT): where the Python in use keeps a package's files (cmake/package_prefix.py).
function(pl_python_prefix distribution suffix result)
  set(${result} "" PARENT_SCOPE)
  if(Python_EXECUTABLE)
    execute_process(COMMAND "${Python_EXECUTABLE}" "${PROJECT_SOURCE_DIR}/cmake/package_prefix.py"
                    "${distribution}" "${suffix}" OUTPUT_VARIABLE prefix OUTPUT_STRIP_TRAILING_WHITESPACE)
    set(${result} "${prefix}" PARENT_SCOPE)
  endif()
endfunction()
