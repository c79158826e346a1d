#pragma once

#include <string>

#include "clients/cli/npy.h"

namespace tessera::client {

/// How one output differs from its reference.
struct Difference {
  std::string name;
  double absolute = 0;   ///< largest absolute difference
  double largest = 0;    ///< the reference's largest finite magnitude, of floats
  double relative = 0;   ///< the difference, relative to the reference's largest magnitude
  std::string why{};     ///< why it does not pass; empty: it does
  bool measured = true;  ///< false: they cannot be compared, and the numbers say nothing
  bool passed() const { return why.empty(); }
};

/// Holds an output against its reference: shapes and types must be equal, integers and booleans exactly, floats within
/// `tolerance` of the reference's largest magnitude, NaNs and infinities in the same places. A reference of uint16 is
/// taken for bf16's bits, which NumPy lacks.
Difference compare(const std::string& name, const Tensor& actual, const Tensor& reference, double tolerance);

}  // namespace tessera::client
