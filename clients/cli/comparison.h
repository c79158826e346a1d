#pragma once

#include <string>

#include "clients/cli/npy.h"

namespace tessera::client {

/// Difference of one output from its reference.
struct Difference {
  std::string name;
  double absolute = 0;   ///< largest absolute difference
  double largest = 0;    ///< largest finite magnitude of the reference, for floats
  double relative = 0;   ///< absolute difference divided by the reference's largest magnitude
  std::string why{};     ///< why the output fails; empty: it passes
  bool measured = true;  ///< false: the values cannot be compared, and the numbers are meaningless
  bool passed() const { return why.empty(); }
};

/// Compares an output with its reference: equal shapes and types; integers and booleans exactly; floats within
/// `tolerance` of the reference's largest magnitude, with NaNs and infinities at the same positions. A reference of
/// uint16 is read as the bits of bf16, a type that NumPy lacks.
Difference compare(const std::string& name, const Tensor& actual, const Tensor& reference, double tolerance);

}  // namespace tessera::client
