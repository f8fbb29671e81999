# Finds the Khronos headers: PYLAYOUT_OPENCL_INCLUDE, else the system's (opencl-headers), else those in the
# nvidia-cuda-opencl Python package. Makes the target pylayout_opencl_headers. Nothing is linked: the library opens
# the OpenCL loader at run time, and works without one.
include(python_prefix)
if(PYLAYOUT_OPENCL_INCLUDE)
  set(OpenCLHeaders_INCLUDE_DIR "${PYLAYOUT_OPENCL_INCLUDE}")
else()
  unset(OpenCLHeaders_INCLUDE_DIR CACHE)
  find_path(OpenCLHeaders_INCLUDE_DIR CL/cl.h)
  if(NOT OpenCLHeaders_INCLUDE_DIR)
    pl_python_prefix(nvidia-cuda-opencl include/CL/cl.h pl_nvidia_prefix)
    if(pl_nvidia_prefix)
      set(OpenCLHeaders_INCLUDE_DIR "${pl_nvidia_prefix}/include")
    endif()
  endif()
endif()
include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(OpenCLHeaders REQUIRED_VARS OpenCLHeaders_INCLUDE_DIR
  REASON_FAILURE_MESSAGE "apt-get install opencl-headers, pip install nvidia-cuda-opencl, or give -DPYLAYOUT_OPENCL_INCLUDE=")
if(OpenCLHeaders_FOUND AND NOT TARGET pylayout_opencl_headers)
  add_library(pylayout_opencl_headers INTERFACE)
  target_include_directories(pylayout_opencl_headers SYSTEM INTERFACE "${OpenCLHeaders_INCLUDE_DIR}")
endif()
