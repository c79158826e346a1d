#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <utility>

#include "absl/status/status.h"
#include "compiler/backends/opencl/resources.h"
#include "compiler/runtime/loop_control.h"

namespace tessera::compiler::opencl {

/// A part of a memory object.
struct DevicePlace {
  cl_mem memory = nullptr;
  int64_t offset = 0;
};

/// Gives the memory objects of a device disjoint ranges of addresses, so that the loops of a plan compute with
/// addresses as they do in the memory of a process. Nothing reads through such an address; place() says what it stands
/// for.
class DeviceMemory final : public LoopMemory {
 public:
  explicit DeviceMemory(Context context) : context_(std::move(context)) {}
  const Context& context() const { return context_; }

  /// The address of the first byte of a memory object of `bytes` bytes.
  uint8_t* add(cl_mem memory, int64_t bytes);
  /// `address` lies in a memory object, or at its end.
  DevicePlace place(const uint8_t* address) const;

  // Reads wait for the queue; the others are enqueued.
  int64_t number(const uint8_t* address) override;
  bool condition(const uint8_t* address) override;
  void store(uint8_t* address, int64_t value) override;
  void copy(uint8_t* to, const uint8_t* from, size_t bytes) override;

  /// The first error of these four since the last clearStatus(). A read that failed returns 0, which ends a loop.
  const absl::Status& status() const { return status_; }
  void clearStatus() { status_ = absl::OkStatus(); }

 private:
  /// Between objects, so that the end of one is not the begin of another.
  static constexpr uintptr_t kGap = 4096;

  void note(cl_int code, const char* what);

  const Context context_;
  std::map<uintptr_t, cl_mem> objects_;  // by first address
  uintptr_t next_ = kGap;
  absl::Status status_;
};

}  // namespace tessera::compiler::opencl
