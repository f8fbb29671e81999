#include "providers/opencl/objects.h"

namespace pl::opencl {

const char* error_name(cl_int code) {
    switch (code) {
#define PL_CASE(name) \
    case name:        \
        return #name;
        PL_CASE(CL_SUCCESS)
        PL_CASE(CL_DEVICE_NOT_FOUND)
        PL_CASE(CL_DEVICE_NOT_AVAILABLE)
        PL_CASE(CL_COMPILER_NOT_AVAILABLE)
        PL_CASE(CL_MEM_OBJECT_ALLOCATION_FAILURE)
        PL_CASE(CL_OUT_OF_RESOURCES)
        PL_CASE(CL_OUT_OF_HOST_MEMORY)
        PL_CASE(CL_PROFILING_INFO_NOT_AVAILABLE)
        PL_CASE(CL_MEM_COPY_OVERLAP)
        PL_CASE(CL_BUILD_PROGRAM_FAILURE)
        PL_CASE(CL_MAP_FAILURE)
        PL_CASE(CL_MISALIGNED_SUB_BUFFER_OFFSET)
        PL_CASE(CL_EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST)
        PL_CASE(CL_COMPILE_PROGRAM_FAILURE)
        PL_CASE(CL_LINKER_NOT_AVAILABLE)
        PL_CASE(CL_LINK_PROGRAM_FAILURE)
        PL_CASE(CL_INVALID_VALUE)
        PL_CASE(CL_INVALID_DEVICE_TYPE)
        PL_CASE(CL_INVALID_PLATFORM)
        PL_CASE(CL_INVALID_DEVICE)
        PL_CASE(CL_INVALID_CONTEXT)
        PL_CASE(CL_INVALID_QUEUE_PROPERTIES)
        PL_CASE(CL_INVALID_COMMAND_QUEUE)
        PL_CASE(CL_INVALID_HOST_PTR)
        PL_CASE(CL_INVALID_MEM_OBJECT)
        PL_CASE(CL_INVALID_BINARY)
        PL_CASE(CL_INVALID_BUILD_OPTIONS)
        PL_CASE(CL_INVALID_PROGRAM)
        PL_CASE(CL_INVALID_PROGRAM_EXECUTABLE)
        PL_CASE(CL_INVALID_KERNEL_NAME)
        PL_CASE(CL_INVALID_KERNEL_DEFINITION)
        PL_CASE(CL_INVALID_KERNEL)
        PL_CASE(CL_INVALID_ARG_INDEX)
        PL_CASE(CL_INVALID_ARG_VALUE)
        PL_CASE(CL_INVALID_ARG_SIZE)
        PL_CASE(CL_INVALID_KERNEL_ARGS)
        PL_CASE(CL_INVALID_WORK_DIMENSION)
        PL_CASE(CL_INVALID_WORK_GROUP_SIZE)
        PL_CASE(CL_INVALID_WORK_ITEM_SIZE)
        PL_CASE(CL_INVALID_GLOBAL_OFFSET)
        PL_CASE(CL_INVALID_EVENT_WAIT_LIST)
        PL_CASE(CL_INVALID_EVENT)
        PL_CASE(CL_INVALID_OPERATION)
        PL_CASE(CL_INVALID_BUFFER_SIZE)
        PL_CASE(CL_INVALID_GLOBAL_WORK_SIZE)
        PL_CASE(CL_INVALID_PROPERTY)
        PL_CASE(CL_INVALID_COMPILER_OPTIONS)
        PL_CASE(CL_INVALID_LINKER_OPTIONS)
        PL_CASE(CL_INVALID_DEVICE_PARTITION_COUNT)
#undef PL_CASE
        case -1001:
            return "CL_PLATFORM_NOT_FOUND_KHR";
        case -9999:
            return "NVIDIA's out-of-bounds access";
        default:
            return "unknown OpenCL error";
    }
}

bool is_allocation_failure(cl_int code) {
    return code == CL_MEM_OBJECT_ALLOCATION_FAILURE || code == CL_OUT_OF_HOST_MEMORY || code == CL_INVALID_BUFFER_SIZE;
}

void fail_cl(cl_int code, const std::string& what) {
    fail(is_allocation_failure(code) ? Code::out_of_memory : Code::device, what, ": ", error_name(code), " (", code,
         ")");
}

}  // namespace pl::opencl
