#pragma once

#include <vector>

#include "compiler/graph/constants/constant_evaluator.h"
#include "compiler/graph/constants/folded_memory.h"
#include "compiler/ir/imported_model.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace tessera::compiler {

/// Evaluates everything that depends on weights and constants alone: transposes, packing, scales, casts. Results become
/// new weights, appended to the arguments of `main`; one-element and uniform results become constants. If `weights` is
/// null (a module without weights, as in tests), all results become constants. With `derive`, a large result that
/// exceeds its sources becomes a weight with a derivation and without bytes; selectPreparedWeights() decides later
/// whether to store or to prepare it. Returns the number of operations removed.
int foldConstants(mlir::func::FuncOp main, std::vector<Weight>* weights, const FoldedWeightStorage& memory = {},
                  bool derive = false);

/// Whether a weight of `bytes`, derived from `source_bytes`, is worth a preparation step before the first run.
bool isWorthDeriving(int64_t bytes, int64_t source_bytes);

/// Returns the bytes of the weights that `main` reads.
int64_t weightsBytes(mlir::func::FuncOp main);

/// Frees the bytes of weights without readers.
void freeUnreadWeights(mlir::func::FuncOp main, std::vector<Weight>& weights);

/// Attribute of a uniform constant that constantsToWeights() turns into a weight nevertheless.
inline constexpr char kStoredConstant[] = "tessera.stored_constant";

/// Moves non-uniform constants into weights, so that layers which differ in them only share a workload.
void constantsToWeights(mlir::func::FuncOp main, std::vector<Weight>& weights);

/// Returns an evaluator for values of `main` that depend on its weights.
ConstantEvaluator knownWeights(mlir::func::FuncOp main, const std::vector<Weight>* weights);

/// Whether `value` is a weight, a constant, or a view of one. foldConstants() reduces weight-only expressions to these.
bool isKnownAtCompileTime(mlir::Value value);

}  // namespace tessera::compiler
