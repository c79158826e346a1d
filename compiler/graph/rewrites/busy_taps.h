#pragma once

#include <vector>

#include "compiler/ir/imported_model.h"
#include "compiler/target/chip.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace tessera::compiler {

/// Leaves every block of a convolution's output channels the taps at which its weights are not all zeros, where that
/// takes less time by the target's prices: the channels become parts, each a convolution of its own with the smallest
/// window that holds its taps, behind one another. The phases of a transposed convolution are such channels: with a
/// kernel of 3 and a stride of 2 they have 1, 2, 2 and 4 taps of 4.
///
/// Parts end at whole vectors (or matrices) of channels, so that layouts keep them where they are. What is no longer
/// multiplied by zero makes no NaN of an infinite input. `weights`: null for a module without them, as in tests.
/// Returns the number of convolutions with fewer products.
int keepBusyTaps(mlir::func::FuncOp main, const Chip& chip, const std::vector<Weight>* weights);

}  // namespace tessera::compiler
