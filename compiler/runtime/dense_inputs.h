#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "compiler/runtime/module_abi.h"

namespace tessera::compiler {

/// Copies a dense row-major tensor of shape `extents` into a tensor laid out for `bounds` (each at least as large),
/// coordinate by coordinate.
void copyToBounds(void* to, const void* from, size_t element_bytes, std::span<const int64_t> bounds,
                  std::span<const int64_t> extents);

/// Copies of inputs with ranges that the caller passes in the size of the run. Kernels read them in the layout of the
/// greatest sizes, with zeros after the run's own elements. Not thread-safe: one run at a time.
class DenseInputs {
 public:
  DenseInputs(const tessera_module_variant& variant, int32_t num_inputs);

  /// Size of the memory for place(), which must be 64-byte aligned and zero at first; a run writes only as far as it
  /// has elements.
  int64_t bytes() const { return bytes_; }
  /// Copies `data`, of shape `extents`, to its address in `memory` and returns that address. Requires an input with
  /// ranges.
  void* place(uint8_t* memory, size_t input, const void* data, std::span<const int64_t> extents);

 private:
  struct Place {
    int64_t offset = 0;
    std::vector<int64_t> extents;  // of the current content; empty: zeros
  };
  const tessera_module_variant& variant_;
  std::vector<Place> places_;  // per input
  int64_t bytes_ = 0;
};

}  // namespace tessera::compiler
