#pragma once

#define CL_TARGET_OPENCL_VERSION 120
#include <CL/cl.h>

#include <string>

#include "absl/status/statusor.h"
#include "tessera/v1/target.pb.h"

namespace tessera::compiler::opencl {

/// The functions of libOpenCL that this program calls. The library is loaded by name when it is first asked for, so
/// that programs run on machines without it.
struct Driver {
#define TESSERA_OPENCL_FUNCTIONS(X) \
  X(clGetPlatformIDs)               \
  X(clGetPlatformInfo)              \
  X(clGetDeviceIDs)                 \
  X(clGetDeviceInfo)                \
  X(clCreateContext)                \
  X(clReleaseContext)               \
  X(clCreateCommandQueue)           \
  X(clReleaseCommandQueue)          \
  X(clCreateBuffer)                 \
  X(clReleaseMemObject)             \
  X(clCreateProgramWithSource)      \
  X(clBuildProgram)                 \
  X(clGetProgramBuildInfo)          \
  X(clReleaseProgram)               \
  X(clCreateKernel)                 \
  X(clReleaseKernel)                \
  X(clSetKernelArg)                 \
  X(clEnqueueNDRangeKernel)         \
  X(clEnqueueWriteBuffer)           \
  X(clEnqueueReadBuffer)            \
  X(clEnqueueCopyBuffer)            \
  X(clEnqueueFillBuffer)            \
  X(clGetEventProfilingInfo)        \
  X(clReleaseEvent)                 \
  X(clFinish)
#define TESSERA_OPENCL_MEMBER(name) decltype(&::name) name = nullptr;  // NOLINT(bugprone-macro-parentheses)
  TESSERA_OPENCL_FUNCTIONS(TESSERA_OPENCL_MEMBER)
#undef TESSERA_OPENCL_MEMBER

  /// UNAVAILABLE without the library, naming what to install; FAILED_PRECONDITION naming a function that it lacks. The
  /// library stays loaded.
  static absl::StatusOr<const Driver*> load();
};

/// "CL_OUT_OF_RESOURCES (-5)".
std::string errorText(cl_int code);

/// A device of the machine, as it describes itself.
struct Device {
  cl_device_id id = nullptr;
  std::string name, platform, version;
  int64_t max_group_items = 0;  ///< work-items of a work-group
  int64_t local_bytes = 0;      ///< local memory of a work-group
  int64_t global_bytes = 0;
  int64_t max_buffer_bytes = 0;
  int64_t line_bytes = 0;  ///< of the cache of global memory; 0: none
  int32_t compute_units = 1;
  int32_t vector_lanes = 1;      ///< f32 elements of the vectors that it prefers
  int32_t megahertz = 0;         ///< 0: not known
  bool has_double = false;       ///< 64-bit floating point
  bool divides_exactly = false;  ///< f32 divisions and square roots can be rounded correctly
};

/// The first device: of the first platform that has a GPU, or else of the first that has any. UNAVAILABLE without a
/// platform or without a device, naming what to install.
absl::StatusOr<Device> firstDevice(const Driver& driver);

/// The same with the library loaded.
absl::StatusOr<Device> firstDevice();

/// The device as a description that passes validateTarget(), named after it. Figures that OpenCL does not state, which
/// are those of speed, are those of the built-in target "opencl".
v1::Target describedDevice(const Device& device);

}  // namespace tessera::compiler::opencl
