#include "compiler/graph/analysis/permutation.h"

#include "mlir/Dialect/Linalg/IR/Linalg.h"

namespace tessera::compiler {

llvm::SmallVector<int64_t> permutationOf(mlir::Operation* op) {
  auto generic = mlir::dyn_cast<mlir::linalg::GenericOp>(op);
  if (!generic || generic.getNumReductionLoops() != 0 || generic.getNumDpsInputs() != 1 ||
      generic->getNumResults() != 1 || !llvm::hasSingleElement(*generic.getBody())) {
    return {};
  }
  llvm::SmallVector<mlir::AffineMap> maps = generic.getIndexingMapsArray();
  if (!maps[0].isPermutation() || !maps[1].isIdentity()) return {};
  if (generic.getBody()->getTerminator()->getOperand(0) != generic.getBody()->getArgument(0)) return {};
  llvm::SmallVector<int64_t> permutation(maps[0].getNumDims());
  for (unsigned source = 0; source < maps[0].getNumResults(); ++source) {
    permutation[maps[0].getDimPosition(source)] = source;
  }
  return permutation;
}

}  // namespace tessera::compiler
