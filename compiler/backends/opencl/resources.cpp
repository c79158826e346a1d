#include "compiler/backends/opencl/resources.h"

#include <algorithm>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "proto/support/status_macros.h"

namespace tessera::compiler::opencl {
namespace {

/// Longest part of a build log in an error; drivers print errors at its end.
constexpr size_t kShownLog = 4000;

std::string logOf(const Driver& driver, cl_program program, cl_device_id device) {
  size_t bytes = 0;
  if (driver.clGetProgramBuildInfo(program, device, CL_PROGRAM_BUILD_LOG, 0, nullptr, &bytes) != CL_SUCCESS) return "";
  std::string log(bytes, '\0');
  if (bytes == 0 ||
      driver.clGetProgramBuildInfo(program, device, CL_PROGRAM_BUILD_LOG, bytes, log.data(), nullptr) != CL_SUCCESS)
    return "";
  log.resize(bytes - 1);
  return log.size() > kShownLog ? absl::StrCat("...", log.substr(log.size() - kShownLog)) : log;
}

}  // namespace

absl::Status Context::check(cl_int code, const std::string& what) {
  if (code == CL_SUCCESS) return absl::OkStatus();
  const std::string message = absl::StrCat(what, ": ", errorText(code));
  if (code == CL_MEM_OBJECT_ALLOCATION_FAILURE || code == CL_OUT_OF_HOST_MEMORY || code == CL_OUT_OF_RESOURCES ||
      code == CL_INVALID_BUFFER_SIZE)
    return absl::ResourceExhaustedError(message);
  return absl::FailedPreconditionError(message);
}

absl::StatusOr<Context> Context::create() {
  Context context;
  TESSERA_ASSIGN_OR_RETURN(context.driver_, Driver::load());
  const Driver& driver = *context.driver_;
  TESSERA_ASSIGN_OR_RETURN(context.device_, firstDevice(driver));
  cl_int code = CL_SUCCESS;
  context.context_ = Handle(driver, driver.clCreateContext(nullptr, 1, &context.device_.id, nullptr, nullptr, &code));
  TESSERA_RETURN_IF_ERROR(check(code, absl::StrCat("OpenCL device ", context.device_.name, " does not start")));
  context.queue_ = Queue(driver, driver.clCreateCommandQueue(context.context_.get(), context.device_.id,
                                                             CL_QUEUE_PROFILING_ENABLE, &code));
  TESSERA_RETURN_IF_ERROR(check(code, absl::StrCat("OpenCL device ", context.device_.name, " has no queue")));
  return context;
}

absl::StatusOr<Memory> Context::allocate(int64_t bytes, const std::string& what, const void* from) const {
  // A buffer of 0 bytes is an error.
  constexpr int64_t kLeast = 16;
  if (bytes > device_.max_buffer_bytes)
    return absl::ResourceExhaustedError(absl::StrCat(what, " take ", bytes, " bytes; OpenCL device ", device_.name,
                                                     " has buffers of at most ", device_.max_buffer_bytes));
  cl_int code = CL_SUCCESS;
  const bool copies = from != nullptr && bytes > 0;
  cl_mem memory = driver_->clCreateBuffer(
      context_.get(), CL_MEM_READ_WRITE | (copies ? cl_mem_flags{CL_MEM_COPY_HOST_PTR} : cl_mem_flags{0}),
      static_cast<size_t>(copies ? bytes : std::max(bytes, kLeast)), copies ? const_cast<void*>(from) : nullptr, &code);
  TESSERA_RETURN_IF_ERROR(
      check(code, absl::StrCat("no memory on OpenCL device ", device_.name, " for ", what, " (", bytes, " bytes)")));
  return Memory(*driver_, memory);
}

absl::StatusOr<Program> Context::build(std::string_view source) const {
  if (source.find("cl_khr_fp64") != std::string_view::npos && !device_.has_double)
    return absl::FailedPreconditionError(
        absl::StrCat("the program computes in double precision, which OpenCL device ", device_.name, " does not have"));
  const char* text = source.data();
  const size_t bytes = source.size();
  cl_int code = CL_SUCCESS;
  Program program(*driver_, driver_->clCreateProgramWithSource(context_.get(), 1, &text, &bytes, &code));
  TESSERA_RETURN_IF_ERROR(check(code, "the OpenCL program is refused"));
  // No option that gives up exactness.
  std::string options = "-cl-std=CL1.2";
  if (device_.divides_exactly) options += " -cl-fp32-correctly-rounded-divide-sqrt";
  code = driver_->clBuildProgram(program.get(), 1, &device_.id, options.c_str(), nullptr, nullptr);
  if (code != CL_SUCCESS)
    return absl::FailedPreconditionError(absl::StrCat("OpenCL device ", device_.name, " (", device_.platform,
                                                      ") does not compile the program: ", errorText(code), "\n",
                                                      logOf(*driver_, program.get(), device_.id)));
  return program;
}

absl::StatusOr<Kernel> Context::kernel(const Program& program, const std::string& function) const {
  cl_int code = CL_SUCCESS;
  Kernel kernel(*driver_, driver_->clCreateKernel(program.get(), function.c_str(), &code));
  TESSERA_RETURN_IF_ERROR(check(code, absl::StrCat("kernel ", function)));
  return kernel;
}

absl::Status Context::setParameter(const Kernel& kernel, const std::string& function, cl_uint position,
                                   std::span<const std::byte> value) const {
  return check(driver_->clSetKernelArg(kernel.get(), position, value.size(), value.data()),
               absl::StrCat("parameter ", position, " of kernel ", function));
}

}  // namespace tessera::compiler::opencl
