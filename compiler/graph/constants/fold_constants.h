#pragma once

#include <vector>

#include "compiler/graph/constants/constant_evaluator.h"
#include "compiler/graph/constants/folded_memory.h"
#include "compiler/ir/imported_model.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace tessera::compiler {

/// Evaluates everything that depends on weights and constants alone: transposes, packing, scales, casts.
/// Results become new weights, added as arguments of `main`; one-element and uniform results become
/// constants. With `weights == nullptr` (a module without weights, as in tests) all become constants.
/// With `derive`, a large result that exceeds its sources becomes a weight with a derivation and without bytes;
/// settleWeights() decides later whether to store or to prepare it.
/// Returns the number of operations that vanished.
int foldConstants(mlir::func::FuncOp main, std::vector<Weight>* weights, const FoldedMemory& memory = {},
                  bool derive = false);

/// Whether a weight of so many bytes, made of so many, is worth a step before the first run.
bool isWorthDeriving(int64_t bytes, int64_t source_bytes);

/// Bytes of the weights that are read.
int64_t weightsBytes(mlir::func::FuncOp main);

/// Frees the bytes of weights that nothing reads any more.
void forgetUnread(mlir::func::FuncOp main, std::vector<Weight>& weights);

/// Marks a uniform constant that constantsToWeights() makes a weight all the same.
inline constexpr char kStoredConstant[] = "tessera.stored_constant";

/// Moves constants that are not uniform into weights, so that layers which differ only in them share a workload.
void constantsToWeights(mlir::func::FuncOp main, std::vector<Weight>& weights);

/// What evaluates values of `main` that depend on its weights.
ConstantEvaluator knownWeights(mlir::func::FuncOp main, const std::vector<Weight>* weights);

/// Whether `value` is a weight, a constant, or a view of one: what foldConstants leaves of weight-only parts.
bool isKnownAtCompileTime(mlir::Value value);

}  // namespace tessera::compiler
