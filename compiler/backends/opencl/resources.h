#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "compiler/backends/opencl/driver.h"

/// OpenCL objects that are released with their owner.
namespace tessera::compiler::opencl {

template <typename Handle, auto kRelease>
class Owned {
 public:
  Owned() = default;
  Owned(const Driver& driver, Handle handle) : driver_(&driver), handle_(handle) {}
  Owned(Owned&& other) noexcept
      : driver_(std::exchange(other.driver_, nullptr)), handle_(std::exchange(other.handle_, nullptr)) {}
  Owned& operator=(Owned&& other) noexcept {
    std::swap(driver_, other.driver_);
    std::swap(handle_, other.handle_);
    return *this;
  }
  Owned(const Owned&) = delete;
  Owned& operator=(const Owned&) = delete;
  ~Owned() {
    if (handle_ != nullptr) (driver_->*kRelease)(handle_);
  }
  Handle get() const { return handle_; }

 private:
  const Driver* driver_ = nullptr;
  Handle handle_ = nullptr;
};

using Memory = Owned<cl_mem, &Driver::clReleaseMemObject>;
using Program = Owned<cl_program, &Driver::clReleaseProgram>;
using Kernel = Owned<cl_kernel, &Driver::clReleaseKernel>;
using Event = Owned<cl_event, &Driver::clReleaseEvent>;

/// A device with a context and an in-order queue.
class Context {
 public:
  /// Errors: UNAVAILABLE (Driver::load(), firstDevice()); FAILED_PRECONDITION naming the device that does not start.
  static absl::StatusOr<Context> create();
  Context() = default;

  const Driver& driver() const { return *driver_; }
  const Device& device() const { return device_; }
  cl_command_queue queue() const { return queue_.get(); }

  /// Uninitialized memory, or a copy of `bytes` bytes at `from`. RESOURCE_EXHAUSTED naming `what` if it does not fit.
  absl::StatusOr<Memory> allocate(int64_t bytes, const std::string& what, const void* from = nullptr) const;

  /// Compiles a program. FAILED_PRECONDITION with the device's name and the build log.
  absl::StatusOr<Program> build(std::string_view source) const;

  /// FAILED_PRECONDITION naming the function.
  absl::StatusOr<Kernel> kernel(const Program& program, const std::string& function) const;

  /// Sets parameter number `position` of a kernel to `value`. FAILED_PRECONDITION naming both.
  absl::Status setParameter(const Kernel& kernel, const std::string& function, cl_uint position,
                            std::span<const std::byte> value) const;

  /// OK, or an error with `what` and the code's name.
  static absl::Status check(cl_int code, const std::string& what);

 private:
  using Queue = Owned<cl_command_queue, &Driver::clReleaseCommandQueue>;
  using Handle = Owned<cl_context, &Driver::clReleaseContext>;

  const Driver* driver_ = nullptr;
  Device device_;
  Handle context_;
  Queue queue_;
};

}  // namespace tessera::compiler::opencl
