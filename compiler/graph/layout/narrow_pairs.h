#pragma once

#include <vector>

#include "compiler/import/import.h"
#include "compiler/target/chip.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace tessera::compiler {

/// Marks products of 8 bits (kNarrowPairs) whose constant operand seldom has two neighbours that an instruction for
/// pairs could saturate at, on chips that multiply so. Returns their number.
int markNarrowPairs(mlir::func::FuncOp main, const Chip& chip, const std::vector<Weight>& weights);

/// The share of runs of 64 elements, which the columns of a tile read together, that have such a pair.
double shareOfWidePairs(llvm::ArrayRef<int8_t> elements);

}  // namespace tessera::compiler
