#pragma once

#include <optional>
#include <vector>

#include "compiler/fusion/structure.h"

/// Equations 3.14 to 3.18 of the thesis (clients/docs/design/references.md): the block sizes of least data movement for
/// one order of the loops, in real numbers. DV is the data volume in bytes, MU the memory usage in bytes (movement.h).
namespace tessera::compiler::fusion {

struct RealSolution {
  std::vector<double> tiles;        ///< per loop of the chain
  double volume_bytes = 0;          ///< DV with loop extent / block size in place of the number of blocks, its ceiling
  std::vector<double> multipliers;  ///< per member: d log DV / d log capacity due to its memory bound
  bool closed_form = false;
};

struct Bounds {
  std::vector<double> lower, upper;  ///< per loop
};
/// Returns min_tile and extent of each loop; `whole` loops are fixed at their extent.
Bounds boundsOf(const Chain& chain);

/// Minimizes DV under MU <= capacity. In the logarithms of the block sizes DV and MU are sums of exponentials, hence
/// convex, so the point where the gradients balance (Lagrange) is the global minimum. Newton's method on a logarithmic
/// barrier approaches it; the closed form is used if it exists. Returns nothing if even the smallest blocks exceed the
/// capacity.
std::optional<RealSolution> minimizeVolume(const Structure& structure, double capacity_bytes, const Bounds& bounds);

/// Equation 3.18 for structures like the matrix product chain: DV = c / x + c / y + d and bounds p x y + q (x + y) + s
/// <= capacity, so x = y = (-q + sqrt(q^2 + p (capacity - s))) / p; all other sizes are at their lower bound. Returns
/// nothing for another structure, or if x leaves its bounds.
std::optional<RealSolution> closedForm(const Structure& structure, double capacity_bytes, const Bounds& bounds);

}  // namespace tessera::compiler::fusion
