#pragma once

#include <vector>

#include "compiler/graph/constants/constant_evaluator.h"
#include "compiler/ir/imported_model.h"
#include "compiler/target/chip.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"

namespace tessera::compiler {

/// Marks products of 8 bits (kNarrowPairs) whose constant operand seldom has two neighbours that an instruction for
/// pairs could saturate at, on chips that multiply so. Returns their number.
int markNarrowPairs(mlir::func::FuncOp main, const Chip& chip, const std::vector<Weight>& weights);

/// Whether the integers of 8 bits that `op` reads from its constant operand seldom have such neighbours, were they
/// interleaved by four along dimension `along`, and the other operand has the sign that the instruction takes.
bool hasNarrowPairs(mlir::linalg::GenericOp op, unsigned along, ConstantEvaluator& constants);

/// The share of runs of 64 elements, which the columns of a tile read together, that have such a pair.
double shareOfWidePairs(llvm::ArrayRef<int8_t> elements);

}  // namespace tessera::compiler
