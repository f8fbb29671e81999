# Finds oneDNN: PYLAYOUT_ONEDNN_PREFIX, else the onednn-devel-cpu-gomp package of the Python in use (in an isolated
# build: of the build's environment), else CMake's usual prefixes. Makes the target pylayout_onednn.
#
# The package's own CMake config is not used: CMake 4 refuses the policy version that it asks for.

include(python_prefix)

set(pl_onednn_header include/oneapi/dnnl/dnnl.h)
if(PYLAYOUT_ONEDNN_PREFIX)
  set(pl_onednn_prefixes "${PYLAYOUT_ONEDNN_PREFIX}")
  set(pl_onednn_only NO_DEFAULT_PATH)
else()
  pl_python_prefix(onednn-devel-cpu-gomp ${pl_onednn_header} pl_onednn_prefixes)
  set(pl_onednn_only "")
endif()
# Sought anew at each configuration: an isolated build's prefix is gone by the next one.
unset(OneDNN_INCLUDE_DIR CACHE)
unset(OneDNN_LIBRARY CACHE)
find_path(OneDNN_INCLUDE_DIR oneapi/dnnl/dnnl.h HINTS ${pl_onednn_prefixes} PATH_SUFFIXES include ${pl_onednn_only})
find_library(OneDNN_LIBRARY dnnl HINTS ${pl_onednn_prefixes} PATH_SUFFIXES lib lib64 ${pl_onednn_only})

if(OneDNN_INCLUDE_DIR)
  file(STRINGS "${OneDNN_INCLUDE_DIR}/oneapi/dnnl/dnnl_version.h" pl_onednn_lines
       REGEX "^#define DNNL_VERSION_(MAJOR|MINOR|PATCH) +[0-9]+")
  string(REGEX REPLACE "[^0-9;]" "" OneDNN_VERSION "${pl_onednn_lines}")
  string(REPLACE ";" "." OneDNN_VERSION "${OneDNN_VERSION}")
endif()
include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(OneDNN REQUIRED_VARS OneDNN_LIBRARY OneDNN_INCLUDE_DIR VERSION_VAR OneDNN_VERSION
  REASON_FAILURE_MESSAGE "pip install onednn-devel-cpu-gomp, or give -DPYLAYOUT_ONEDNN_PREFIX=")

if(OneDNN_FOUND AND NOT TARGET pylayout_onednn)
  get_filename_component(OneDNN_LIBRARY_DIR "${OneDNN_LIBRARY}" DIRECTORY)
  add_library(pylayout_onednn INTERFACE)
  target_include_directories(pylayout_onednn SYSTEM INTERFACE "${OneDNN_INCLUDE_DIR}")
  target_link_libraries(pylayout_onednn INTERFACE "${OneDNN_LIBRARY}")
endif()
