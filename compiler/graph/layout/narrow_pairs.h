#pragma once

#include <vector>

#include "compiler/graph/constants/constant_evaluator.h"
#include "compiler/ir/imported_model.h"
#include "compiler/target/chip.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"

namespace tessera::compiler {

/// A pair is two neighbouring elements of the constant operand of an 8-bit product, which an instruction such as
/// vpmaddubsw multiplies and adds in 16 bits with saturation. A pair is narrow if the sum cannot saturate, because the
/// two elements add up to at most PairProduct::kMaxExactSum in magnitude; otherwise it is wide and needs a slower
/// evaluation.
///
/// Marks 8-bit products (kNarrowPairs) with few wide pairs, on chips with such an instruction. Returns the number of
/// products marked.
int markNarrowPairs(mlir::func::FuncOp main, const Chip& chip, const std::vector<Weight>& weights);

/// Whether the 8-bit constant operand of `op`, interleaved by four along dimension `along`, has few wide pairs, and the
/// other operand has the sign that the instruction requires.
bool hasNarrowPairs(mlir::linalg::GenericOp op, unsigned along, ConstantEvaluator& constants);

/// Returns the fraction of runs of 64 elements, which the columns of a tile read together, that contain a wide pair.
double widePairFraction(llvm::ArrayRef<int8_t> elements);

}  // namespace tessera::compiler
