#pragma once

#include <optional>

#include "compiler/ir/extent_functions.h"
#include "mlir/IR/Operation.h"

namespace tessera::compiler {

/// Returns an upper bound of `op` (an arith sum, difference, product, quotient, minimum or maximum) on operands that
/// depend on different ranges; nothing if none is found. Products with one factor per range, such as the number of
/// pixels of an image, stay exact.
std::optional<ExtentFunction> boundOverRanges(mlir::Operation* op, const ExtentFunction& a, const ExtentFunction& b);

/// Returns a series that is at least as great as both.
std::optional<ExtentFunction> upperBoundOf(const ExtentFunction& a, const ExtentFunction& b);

/// Evaluates the sum at the sizes `counts` of the ranges, rounded up.
int64_t sumAt(const ExtentFunction& series, const std::map<int, int64_t>& counts);

}  // namespace tessera::compiler
