#pragma once

#include <vector>

#include "compiler/graph/constants/constant_evaluator.h"
#include "compiler/ir/imported_model.h"
#include "compiler/target/chip.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"

namespace tessera::compiler {

/// Marks 8-bit products (kNarrowPairs) whose constant operand has few neighbouring pairs at which an instruction for
/// pairs could saturate, on chips with such an instruction. Returns their number.
int markNarrowPairs(mlir::func::FuncOp main, const Chip& chip, const std::vector<Weight>& weights);

/// Whether the 8-bit constant operand of `op`, interleaved by four along dimension `along`, has few such pairs, and the
/// other operand has the sign that the instruction requires.
bool hasNarrowPairs(mlir::linalg::GenericOp op, unsigned along, ConstantEvaluator& constants);

/// Returns the fraction of runs of 64 elements, which the columns of a tile read together, that contain such a pair.
double widePairFraction(llvm::ArrayRef<int8_t> elements);

}  // namespace tessera::compiler
