#pragma once

#include <optional>

#include "compiler/ir/extent_series.h"
#include "mlir/IR/Operation.h"

namespace tessera::compiler {

/// What `op` (of arith: a sum, difference, product, quotient, the lesser or the greater) is at most of operands that
/// follow different ranges; nothing where that is not seen. Counts of a product in which every range has its part,
/// as those of the pixels of an image, stay exact.
std::optional<Series> ofSeveral(mlir::Operation* op, const Series& a, const Series& b);

/// What is at least as great as either.
std::optional<Series> greaterOf(const Series& a, const Series& b);

/// The sum where range d has counts[d] elements, rounded up.
int64_t sumAt(const Series& series, const std::map<int, int64_t>& counts);

}  // namespace tessera::compiler
