#include "providers/opencl/runtime/capabilities.h"

#include <cstdlib>

#include "providers/opencl/matrix_units/matrix_unit.h"
#include "providers/opencl/runtime/objects.h"

namespace pl::opencl {
namespace {

// From cl_nv_device_attribute_query; the constants are not in every header package.
constexpr cl_device_info kComputeCapabilityMajorNv = 0x4000;
constexpr cl_device_info kComputeCapabilityMinorNv = 0x4001;
constexpr cl_device_info kSubgroupSizesIntel = 0x4108;  // of cl_intel_required_subgroup_size

std::string text(const Api& cl, cl_device_id device, cl_device_info what) {
  size_t size = 0;
  if (cl.clGetDeviceInfo(device, what, 0, nullptr, &size) != CL_SUCCESS || size == 0) return {};
  std::string value(size, '\0');
  if (cl.clGetDeviceInfo(device, what, size, &value[0], nullptr) != CL_SUCCESS) return {};
  while (!value.empty() && (value.back() == '\0' || value.back() == ' ')) value.pop_back();
  return value;
}

// The value, or `fallback` where the device does not know the question.
template <class T>
T value(const Api& cl, cl_device_id device, cl_device_info what, T fallback = T()) {
  T result = fallback;
  if (cl.clGetDeviceInfo(device, what, sizeof result, &result, nullptr) != CL_SUCCESS) return fallback;
  return result;
}

}  // namespace

Capabilities read_capabilities(const Platform& platform, cl_device_id device) {
  const Api& cl = *platform.cl;
  Capabilities c;
  c.name = text(cl, device, CL_DEVICE_NAME);
  c.vendor = text(cl, device, CL_DEVICE_VENDOR);
  c.driver = text(cl, device, CL_DRIVER_VERSION);
  c.version = text(cl, device, CL_DEVICE_VERSION);
  c.platform = platform.name;
  c.platform_version = platform.version;
  c.extensions = " " + text(cl, device, CL_DEVICE_EXTENSIONS) + " ";
  cl_device_type type = value<cl_device_type>(cl, device, CL_DEVICE_TYPE);
  c.cpu = (type & CL_DEVICE_TYPE_CPU) != 0;
  c.gpu = (type & CL_DEVICE_TYPE_GPU) != 0;
  // Tests ask for what GPUs alone are given, where there is none.
  if (const char* as = std::getenv("PYLAYOUT_OPENCL_AS"); as && std::string(as) == "gpu") c.gpu = true, c.cpu = false;
  c.compute_units = value<cl_uint>(cl, device, CL_DEVICE_MAX_COMPUTE_UNITS, 1);
  c.clock_mhz = value<cl_uint>(cl, device, CL_DEVICE_MAX_CLOCK_FREQUENCY);
  c.max_work_group = value<size_t>(cl, device, CL_DEVICE_MAX_WORK_GROUP_SIZE, 1);
  size_t items[8] = {1, 1, 1};  // at least three dimensions; more are not used
  if (cl.clGetDeviceInfo(device, CL_DEVICE_MAX_WORK_ITEM_SIZES, sizeof items, items, nullptr) == CL_SUCCESS)
    for (int i = 0; i < 3; ++i) c.max_work_items[i] = items[i];
  c.local_memory = value<cl_ulong>(cl, device, CL_DEVICE_LOCAL_MEM_SIZE);
  c.dedicated_local_memory = value<cl_device_local_mem_type>(cl, device, CL_DEVICE_LOCAL_MEM_TYPE) == CL_LOCAL;
  c.global_memory = value<cl_ulong>(cl, device, CL_DEVICE_GLOBAL_MEM_SIZE);
  c.max_allocation = value<cl_ulong>(cl, device, CL_DEVICE_MAX_MEM_ALLOC_SIZE);
  c.max_parameters = value<size_t>(cl, device, CL_DEVICE_MAX_PARAMETER_SIZE, 1024);
  c.native_vector_float = int(value<cl_uint>(cl, device, CL_DEVICE_NATIVE_VECTOR_WIDTH_FLOAT, 1));
  c.fp16 = c.has_extension("cl_khr_fp16");
  c.fp64 = c.has_extension("cl_khr_fp64");
  c.unified_memory = value<cl_bool>(cl, device, CL_DEVICE_HOST_UNIFIED_MEMORY, CL_FALSE) != CL_FALSE;
  c.svm_system =
      cl.clSetKernelArgSVMPointer && (value<cl_device_svm_capabilities>(cl, device, CL_DEVICE_SVM_CAPABILITIES) &
                                      CL_DEVICE_SVM_FINE_GRAIN_SYSTEM) != 0;
  c.waiting_works = c.cpu && c.platform.find("Intel") == 0;  // PoCL's sleeps, and its workers are woken for each kernel
  c.intel_subgroups = c.has_extension("cl_intel_subgroups");
  c.subgroups = c.has_extension("cl_khr_subgroups") || c.intel_subgroups ||
                value<cl_uint>(cl, device, CL_DEVICE_MAX_NUM_SUB_GROUPS) > 0;
  c.nvidia = c.vendor.find("NVIDIA") != std::string::npos && c.has_extension("cl_nv_device_attribute_query");
  if (c.nvidia) {
    c.compute_capability = int(10 * value<cl_uint>(cl, device, kComputeCapabilityMajorNv) +
                               value<cl_uint>(cl, device, kComputeCapabilityMinorNv));
    c.fp16 = c.fp16 || c.compute_capability >= 53;
  }
  size_t sizes[16] = {}, bytes = 0;
  if (c.has_extension("cl_intel_required_subgroup_size") &&
      cl.clGetDeviceInfo(device, kSubgroupSizesIntel, sizeof sizes, sizes, &bytes) == CL_SUCCESS)
    for (size_t i = 0; i < bytes / sizeof sizes[0]; ++i)
      if (sizes[i] > 0 && (c.least_subgroup == 0 || int(sizes[i]) < c.least_subgroup)) c.least_subgroup = int(sizes[i]);
  return c;
}

std::map<std::string, std::string> Capabilities::properties() const {
  const auto yes_no = [](bool flag) { return std::string(flag ? "yes" : "no"); };
  std::map<std::string, std::string> result{
      {"name", name},
      {"vendor", vendor},
      {"driver", driver},
      {"version", version},
      {"platform", platform},
      {"platform_version", platform_version},
      {"type", cpu   ? "cpu"
               : gpu ? "gpu"
                     : "accelerator"},
      {"compute_units", std::to_string(compute_units)},
      {"max_work_group", std::to_string(max_work_group)},
      {"local_memory_bytes", std::to_string(local_memory)},
      {"dedicated_local_memory", yes_no(dedicated_local_memory)},
      {"memory_bytes", std::to_string(global_memory)},
      {"max_allocation_bytes", std::to_string(max_allocation)},
      {"vector_width_f32", std::to_string(native_vector_float)},
      {"fp16", yes_no(fp16)},
      {"fp64", yes_no(fp64)},
      {"subgroups", yes_no(subgroups)},
      {"unified_memory", yes_no(unified_memory)},
      {"inline_ptx", yes_no(nvidia)},
      {"matrix_units", matrix_unit(*this) ? matrix_unit(*this).name : "no"},
  };
  if (nvidia) result["compute_capability"] = concat(compute_capability / 10, ".", compute_capability % 10);
  return result;
}

}  // namespace pl::opencl
