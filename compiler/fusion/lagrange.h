#pragma once

#include <optional>
#include <vector>

#include "compiler/fusion/structure.h"

/// Equations 3.14 to 3.18: the block sizes of least data movement for one order, in real numbers.
namespace tessera::compiler::fusion {

struct RealSolution {
  std::vector<double> tiles;        ///< per loop of the chain
  double volume_bytes = 0;          ///< DV with L / T in place of its ceiling
  std::vector<double> multipliers;  ///< per member: d log DV / d log capacity its memory bound is worth
  bool closed_form = false;
};

struct Bounds {
  std::vector<double> lower, upper;  ///< per loop
};
/// min_tile and extent; `whole` loops are fixed at their extent.
Bounds boundsOf(const Chain& chain);

/// Minimum of DV under MU <= capacity. In the logarithms of the block sizes DV and MU are sums of exponentials,
/// hence convex, and the point where the gradients balance (Lagrange) is the global minimum; it is approached with
/// Newton's method on a logarithmic barrier. The closed form is taken where it exists. Nothing when even the
/// smallest blocks exceed the capacity.
std::optional<RealSolution> minimizeVolume(const Structure& structure, double capacity_bytes, const Bounds& bounds);

/// Equation 3.18 for structures like the matrix product chain: DV = c / x + c / y + d and bounds
/// p x y + q (x + y) + s <= capacity, so x = y = (-q + sqrt(q^2 + p (capacity - s))) / p; everything else at its
/// lower bound. Nothing when the structure is another one or x leaves its bounds.
std::optional<RealSolution> closedForm(const Structure& structure, double capacity_bytes, const Bounds& bounds);

}  // namespace tessera::compiler::fusion
