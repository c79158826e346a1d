#pragma once

#include <vector>

#include "compiler/graph/choices.h"
#include "compiler/target/chip.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace tessera::compiler {

/// Splits sums (and maxima, minima, ...) with too few results to occupy the cores: the longest loop of the sum is cut
/// into parts, which all cores share, and their results are combined (split reductions; for products: split-K).
///
///   y[i] = sum over r of f(x[i, r])   becomes
///   p[s, i] = sum over q of f(x[i, s Q + q]),   y[i] = sum over s of p[s, i]
///
/// Steps beyond S Q are summed separately and combined last. Operations after the sum move after the combination. Taken
/// if the time that cores would be idle is more than twice the cost of the parts: two phases, partial results written
/// and read. Returns a decision "split" for every sum that leaves cores idle; its choice is the number of parts, or
/// "whole". The order of float additions changes. Not applied to ranges.
std::vector<v1::Decision> splitSums(mlir::func::FuncOp main, const Chip& chip, GraphChoices& choices);

/// Splits f32 sums that would add more than 16384 elements in sequence (fewer if each lane adds a part) in the same
/// way, whatever the cost, for precision: the mean of an image's 640,000 pixels had an error of 1e-4 of its magnitude,
/// which a following normalization amplifies to per cents. Returns the number of sums split. Not applied to ranges.
int splitLongSums(mlir::func::FuncOp main, const Chip& chip);

}  // namespace tessera::compiler
