#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "compiler/runtime/module_abi.h"

namespace tessera::compiler {

/// Copies a dense row-major tensor of `extents` to the front of one that is laid out for `bounds`, each of them at
/// least as large, coordinate by coordinate.
void spreadDense(void* to, const void* from, size_t element_bytes, std::span<const int64_t> bounds,
                 std::span<const int64_t> extents);

/// Inputs of ranges that a caller gives as large as the run is: kept where they lie as kernels read them, for the
/// greatest sizes, with zeros behind their own elements. For one run at a time.
class DenseInputs {
 public:
  DenseInputs(const tessera_module_variant& variant, int32_t num_inputs);

  /// Of memory that begins at a multiple of 64 and is zero at first; written to as far as runs have elements.
  int64_t bytes() const { return bytes_; }
  /// Puts `data`, of `extents`, into its place in `memory`, which is returned. Requires an input with ranges.
  void* place(uint8_t* memory, size_t input, const void* data, std::span<const int64_t> extents);

 private:
  struct Place {
    int64_t offset = 0;
    std::vector<int64_t> extents;  // of what lies there; of nothing zeros
  };
  const tessera_module_variant& variant_;
  std::vector<Place> places_;  // per input
  int64_t bytes_ = 0;
};

}  // namespace tessera::compiler
