#include "compiler/backends/opencl/driver.h"

#include <dlfcn.h>

#include <algorithm>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "compiler/target/target.h"
#include "proto/support/status_macros.h"

namespace tessera::compiler::opencl {
namespace {

absl::StatusOr<Driver> loadDriver() {
  void* library = nullptr;
  for (const char* name : {"libOpenCL.so.1", "libOpenCL.so"}) {
    library = dlopen(name, RTLD_NOW | RTLD_LOCAL);
    if (library != nullptr) break;
  }
  if (library == nullptr)
    return absl::UnavailableError(
        "no OpenCL library is installed (libOpenCL.so.1); install an OpenCL loader and the driver of a device, on "
        "Debian: ocl-icd-libopencl1 and pocl-opencl-icd");
  Driver driver;
#define TESSERA_OPENCL_LOAD(name)                                               \
  driver.name = reinterpret_cast<decltype(driver.name)>(dlsym(library, #name)); \
  if (driver.name == nullptr) return absl::FailedPreconditionError("the OpenCL library has no function " #name);
  TESSERA_OPENCL_FUNCTIONS(TESSERA_OPENCL_LOAD)
#undef TESSERA_OPENCL_LOAD
  return driver;
}

std::string textOf(const Driver& driver, cl_device_id device, cl_device_info what) {
  size_t bytes = 0;
  if (driver.clGetDeviceInfo(device, what, 0, nullptr, &bytes) != CL_SUCCESS || bytes == 0) return "";
  std::string text(bytes, '\0');
  if (driver.clGetDeviceInfo(device, what, bytes, text.data(), nullptr) != CL_SUCCESS) return "";
  text.resize(bytes - 1);  // the final zero
  return text;
}

template <typename Value>
Value valueOf(const Driver& driver, cl_device_id device, cl_device_info what) {
  Value value{};
  (void)driver.clGetDeviceInfo(device, what, sizeof value, &value, nullptr);
  return value;
}

Device describe(const Driver& driver, cl_platform_id platform, cl_device_id id) {
  Device device;
  device.id = id;
  device.name = textOf(driver, id, CL_DEVICE_NAME);
  device.version = textOf(driver, id, CL_DEVICE_VERSION);
  size_t bytes = 0;
  if (driver.clGetPlatformInfo(platform, CL_PLATFORM_NAME, 0, nullptr, &bytes) == CL_SUCCESS && bytes > 0) {
    device.platform.resize(bytes);
    (void)driver.clGetPlatformInfo(platform, CL_PLATFORM_NAME, bytes, device.platform.data(), nullptr);
    device.platform.resize(bytes - 1);
  }
  device.max_group_items = static_cast<int64_t>(valueOf<size_t>(driver, id, CL_DEVICE_MAX_WORK_GROUP_SIZE));
  device.local_bytes = static_cast<int64_t>(valueOf<cl_ulong>(driver, id, CL_DEVICE_LOCAL_MEM_SIZE));
  device.global_bytes = static_cast<int64_t>(valueOf<cl_ulong>(driver, id, CL_DEVICE_GLOBAL_MEM_SIZE));
  device.max_buffer_bytes = static_cast<int64_t>(valueOf<cl_ulong>(driver, id, CL_DEVICE_MAX_MEM_ALLOC_SIZE));
  device.line_bytes = valueOf<cl_uint>(driver, id, CL_DEVICE_GLOBAL_MEM_CACHELINE_SIZE);
  device.compute_units = static_cast<int32_t>(valueOf<cl_uint>(driver, id, CL_DEVICE_MAX_COMPUTE_UNITS));
  device.vector_lanes = static_cast<int32_t>(valueOf<cl_uint>(driver, id, CL_DEVICE_NATIVE_VECTOR_WIDTH_FLOAT));
  device.megahertz = static_cast<int32_t>(valueOf<cl_uint>(driver, id, CL_DEVICE_MAX_CLOCK_FREQUENCY));
  device.has_double = absl::StrContains(textOf(driver, id, CL_DEVICE_EXTENSIONS), "cl_khr_fp64") ||
                      valueOf<cl_device_fp_config>(driver, id, CL_DEVICE_DOUBLE_FP_CONFIG) != 0;
  device.divides_exactly =
      (valueOf<cl_device_fp_config>(driver, id, CL_DEVICE_SINGLE_FP_CONFIG) & CL_FP_CORRECTLY_ROUNDED_DIVIDE_SQRT) != 0;
  return device;
}

}  // namespace

absl::StatusOr<const Driver*> Driver::load() {
  static const absl::StatusOr<Driver> driver = loadDriver();
  if (!driver.ok()) return driver.status();
  return &*driver;
}

std::string errorText(cl_int code) {
  struct Name {
    cl_int code;
    const char* name;
  };
#define TESSERA_OPENCL_ERROR(name) \
  {                                \
    name, #name                    \
  }
  constexpr Name kNames[] = {
      TESSERA_OPENCL_ERROR(CL_DEVICE_NOT_FOUND),         TESSERA_OPENCL_ERROR(CL_DEVICE_NOT_AVAILABLE),
      TESSERA_OPENCL_ERROR(CL_COMPILER_NOT_AVAILABLE),   TESSERA_OPENCL_ERROR(CL_MEM_OBJECT_ALLOCATION_FAILURE),
      TESSERA_OPENCL_ERROR(CL_OUT_OF_RESOURCES),         TESSERA_OPENCL_ERROR(CL_OUT_OF_HOST_MEMORY),
      TESSERA_OPENCL_ERROR(CL_BUILD_PROGRAM_FAILURE),    TESSERA_OPENCL_ERROR(CL_INVALID_VALUE),
      TESSERA_OPENCL_ERROR(CL_INVALID_BUFFER_SIZE),      TESSERA_OPENCL_ERROR(CL_INVALID_BUILD_OPTIONS),
      TESSERA_OPENCL_ERROR(CL_INVALID_KERNEL_NAME),      TESSERA_OPENCL_ERROR(CL_INVALID_KERNEL_ARGS),
      TESSERA_OPENCL_ERROR(CL_INVALID_WORK_GROUP_SIZE),  TESSERA_OPENCL_ERROR(CL_INVALID_WORK_ITEM_SIZE),
      TESSERA_OPENCL_ERROR(CL_INVALID_GLOBAL_WORK_SIZE),
  };
#undef TESSERA_OPENCL_ERROR
  for (const Name& each : kNames)
    if (each.code == code) return absl::StrCat(each.name, " (", code, ")");
  return absl::StrCat("OpenCL error ", code);
}

absl::StatusOr<Device> firstDevice(const Driver& driver) {
  cl_uint count = 0;
  std::vector<cl_platform_id> platforms;
  if (driver.clGetPlatformIDs(0, nullptr, &count) == CL_SUCCESS && count > 0) {
    platforms.resize(count);
    if (driver.clGetPlatformIDs(count, platforms.data(), nullptr) != CL_SUCCESS) platforms.clear();
  }
  if (platforms.empty())
    return absl::UnavailableError(
        "no OpenCL platform is installed; install the driver of a device, on Debian pocl-opencl-icd for processors");
  for (const cl_device_type type : {cl_device_type{CL_DEVICE_TYPE_GPU}, cl_device_type{CL_DEVICE_TYPE_ALL}}) {
    for (cl_platform_id platform : platforms) {
      cl_device_id id = nullptr;
      if (driver.clGetDeviceIDs(platform, type, 1, &id, nullptr) == CL_SUCCESS && id != nullptr)
        return describe(driver, platform, id);
    }
  }
  return absl::UnavailableError(absl::StrCat("no OpenCL device is available; ", platforms.size(),
                                             " platforms were asked. `clinfo` shows what each of them finds"));
}

absl::StatusOr<Device> firstDevice() {
  TESSERA_ASSIGN_OR_RETURN(const Driver* const driver, Driver::load());
  return firstDevice(*driver);
}

v1::Target describedDevice(const Device& device) {
  v1::Target target = *findBuiltinTarget("opencl");
  std::string name;
  for (const char c : device.name) {
    const bool word = absl::ascii_isalnum(c);
    if (word || (!name.empty() && name.back() != '-')) name += word ? absl::ascii_tolower(c) : '-';
  }
  constexpr size_t kLongestName = 63;
  name.resize(std::min(name.size(), kLongestName));
  if (!name.empty()) target.set_name(name);
  target.set_summary(absl::StrCat(device.name, " (", device.platform, "), ", device.version));
  if (device.local_bytes > 0) target.mutable_memory(0)->set_capacity_bytes(device.local_bytes);
  v1::MemoryLevel& global = *target.mutable_memory(1);
  if (device.line_bytes >= 8 && (device.line_bytes & (device.line_bytes - 1)) == 0)
    global.set_line_bytes(static_cast<int32_t>(device.line_bytes));
  v1::ComputeUnit& unit = *target.mutable_units(0);
  // The largest number of threads that a description accepts.
  constexpr int64_t kMostItems = 1024;
  if (device.max_group_items > 0) unit.set_threads(static_cast<int32_t>(std::min(device.max_group_items, kMostItems)));
  unit.set_count(std::max(1, device.compute_units));
  global.set_shared_by(unit.count());
  unit.set_lanes(std::clamp(device.vector_lanes, 1, 16));
  if (device.megahertz > 0) unit.set_frequency_ghz(device.megahertz / 1000.0);
  return target;
}

}  // namespace tessera::compiler::opencl
