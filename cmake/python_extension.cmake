# pylayout/_core.abi3.so: the C ABI for Python, through cffi in API mode. It is built for the limited API of CPython
# 3.10, so that one file serves that version and every later one.
execute_process(
  COMMAND "${Python_EXECUTABLE}" -c "import sysconfig; print(sysconfig.get_path('include'))"
  OUTPUT_VARIABLE pl_python_include OUTPUT_STRIP_TRAILING_WHITESPACE)
if(NOT EXISTS "${pl_python_include}/Python.h")
  message(FATAL_ERROR "${pl_python_include}/Python.h does not exist: the headers of ${Python_EXECUTABLE} are missing "
                      "(Debian: apt-get install python3-dev). -DPYLAYOUT_PYTHON=OFF builds the C library alone.")
endif()
execute_process(COMMAND "${Python_EXECUTABLE}" -c "import cffi" RESULT_VARIABLE pl_no_cffi ERROR_QUIET)
if(pl_no_cffi)
  message(FATAL_ERROR "${Python_EXECUTABLE} has no cffi: pip install cffi. "
                      "-DPYLAYOUT_PYTHON=OFF builds the C library alone.")
endif()

set(pl_core_c "${PROJECT_BINARY_DIR}/_core.c")
set(pl_callbacks "${PROJECT_SOURCE_DIR}/pylayout/_callbacks.cdef" "${PROJECT_SOURCE_DIR}/pylayout/_helpers.c")
add_custom_command(
  OUTPUT "${pl_core_c}"
  COMMAND "${Python_EXECUTABLE}" "${PROJECT_SOURCE_DIR}/cmake/make_core.py" "${PROJECT_SOURCE_DIR}/src/pylayout.h"
          "${pl_core_c}" ${pl_callbacks}
  DEPENDS "${PROJECT_SOURCE_DIR}/cmake/make_core.py" "${PROJECT_SOURCE_DIR}/src/pylayout.h" ${pl_callbacks}
  COMMENT "Generating the Python extension from pylayout.h" VERBATIM)

add_library(pylayout_core MODULE "${pl_core_c}" "${PROJECT_SOURCE_DIR}/pylayout/_torch_tensors.cpp")
target_include_directories(pylayout_core PRIVATE "${PROJECT_SOURCE_DIR}/pylayout")
target_include_directories(pylayout_core SYSTEM PRIVATE "${pl_python_include}")
target_compile_definitions(pylayout_core PRIVATE Py_LIMITED_API=0x030A0000)
target_link_libraries(pylayout_core PRIVATE pylayout)
set_target_properties(pylayout_core PROPERTIES PREFIX "" OUTPUT_NAME _core SUFFIX .abi3.so
                      C_VISIBILITY_PRESET default BUILD_RPATH "$ORIGIN" BUILD_RPATH_USE_ORIGIN ON)
if(PYLAYOUT_INPLACE)
  set_target_properties(pylayout_core PROPERTIES LIBRARY_OUTPUT_DIRECTORY "${PROJECT_SOURCE_DIR}/pylayout")
endif()
