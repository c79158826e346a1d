#pragma once

#include <vector>

#include "compiler/ir/imported_model.h"
#include "compiler/target/chip.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace tessera::compiler {

/// Removes window taps whose weights are all zeros for a block of output channels, if that takes less time by the
/// target's cost parameters. The channels become parts, each a convolution with the smallest window that contains its
/// taps, and the results are concatenated. The phases of a transposed convolution are such channels: with a kernel of 3
/// and a stride of 2 they have 1, 2, 2 and 4 taps of 4.
///
/// Parts end at whole vectors (or matrices) of channels, so that layouts can keep them in place. An infinite input no
/// longer becomes NaN by a multiplication with zero. `weights` is null for a module without them, as in tests. Returns
/// the number of convolutions with fewer products.
int pruneZeroTaps(mlir::func::FuncOp main, const Chip& chip, const std::vector<Weight>* weights);

}  // namespace tessera::compiler
