#pragma once

#include <vector>

#include "compiler/graph/choices.h"
#include "compiler/target/chip.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace tessera::compiler {

/// Sums (and maxima, minima, ...) of so few results that most cores would have none: the longest loop of the sum is cut
/// into parts, which all cores share, and their results are joined (split reductions; of products: split-K).
///
///   y[i] = sum over r of f(x[i, r])   becomes   p[s, i] = sum over q of f(x[i, s Q + q]),   y[i] = sum over s of p[s,
///   i]
///
/// Steps that are left beyond S Q are summed on their own and joined last. What follows the sum follows the join. Taken
/// where the time of cores that would wait is priced at more than twice what the parts cost: two phases, partial
/// results written and read. A decision "split" for every sum that leaves cores without work; its choice is the number
/// of parts, or "whole". Sums of floats are in another order then. Not for dimensions that are ranges.
std::vector<v1::Decision> splitSums(mlir::func::FuncOp main, const Chip& chip, GraphChoices& choices);

/// Sums of f32 that would add more than 16384 elements one after another (fewer where each lane adds a part) are cut
/// the same way, whatever it costs: the mean of an image's 640,000 pixels was off by 1e-4 of its magnitude, which a
/// normalization behind it turns into percents. Returns how many. Not for dimensions that are ranges.
int splitLongSums(mlir::func::FuncOp main, const Chip& chip);

}  // namespace tessera::compiler
