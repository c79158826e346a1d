#include "compiler/graph/rewrites/absorb_transposes.h"

#include "compiler/graph/analysis/channel_block.h"
#include "compiler/graph/analysis/multiply_accumulate.h"
#include "compiler/graph/analysis/permutation.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Linalg/Transforms/Transforms.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/Transforms/GreedyPatternRewriteDriver.h"

namespace tessera::compiler {
namespace {

using mlir::AffineMap;
using mlir::Value;
using mlir::linalg::GenericOp;

bool keepsInnermost(llvm::ArrayRef<int64_t> permutation) {
  return permutation.back() == static_cast<int64_t>(permutation.size()) - 1;
}

/// Whether `product` can read an operand in any order without loss: code generation packs a matrix product's operands.
/// A convolution reads neighbours, and its layout is assigned together with its operands'.
bool readsAnyOrder(GenericOp product) {
  return llvm::all_of(product.getIndexingMapsArray(), [](AffineMap map) { return map.isProjectedPermutation(); });
}

/// product(transpose(x)) -> product(x), read through the permuted map.
bool absorbOperand(GenericOp product, unsigned operand) {
  mlir::Operation* producer = product.getDpsInputs()[operand].getDefiningOp();
  llvm::SmallVector<int64_t> permutation = producer ? permutationOf(producer) : llvm::SmallVector<int64_t>();
  if (permutation.empty() || !(keepsInnermost(permutation) || readsAnyOrder(product))) return false;
  llvm::SmallVector<AffineMap> maps = product.getIndexingMapsArray();
  llvm::SmallVector<mlir::AffineExpr> results(permutation.size());
  for (auto [position, source] : llvm::enumerate(permutation)) results[source] = maps[operand].getResult(position);
  maps[operand] = AffineMap::get(maps[operand].getNumDims(), 0, results, product.getContext());
  mlir::Builder builder(product.getContext());
  product.setIndexingMapsAttr(builder.getAffineMapArrayAttr(maps));
  product->setOperand(operand, producer->getOperand(0));
  if (producer->use_empty()) producer->erase();
  return true;
}

/// transpose(product) -> product that writes through the permuted map.
bool absorbResult(GenericOp product) {
  if (!product->hasOneUse()) return false;
  mlir::Operation* reader = *product->user_begin();
  llvm::SmallVector<int64_t> permutation = permutationOf(reader);
  if (permutation.empty() || !keepsInnermost(permutation)) return false;
  mlir::OpBuilder builder(product);
  auto type = mlir::cast<mlir::RankedTensorType>(reader->getResult(0).getType());
  Value init = refill(builder, product.getDpsInits()[0], type.getShape());
  if (!init) return false;
  llvm::SmallVector<AffineMap> maps = product.getIndexingMapsArray();
  llvm::SmallVector<mlir::AffineExpr> results;
  for (int64_t source : permutation) results.push_back(maps[2].getResult(source));
  maps[2] = AffineMap::get(maps[2].getNumDims(), 0, results, product.getContext());
  auto written = GenericOp::create(builder, product.getLoc(), mlir::TypeRange{type}, product.getDpsInputs(),
                                   mlir::ValueRange{init}, maps, product.getIteratorTypesArray());
  written.getRegion().takeBody(product.getRegion());
  reader->getResult(0).replaceAllUsesWith(written.getResult(0));
  reader->erase();
  product->erase();
  return true;
}

/// Whether `operand` of a product merges dimensions (batch and heads, say) of a transpose.
bool mergesTransposed(mlir::OpOperand* operand) {
  auto product = mlir::dyn_cast<GenericOp>(operand->getOwner());
  auto merge = operand->get().getDefiningOp<mlir::tensor::CollapseShapeOp>();
  if (!product || !merge || product.isDpsInit(operand) || !isProduct(product)) return false;
  mlir::Operation* producer = merge.getSrc().getDefiningOp();
  llvm::SmallVector<int64_t> permutation = producer ? permutationOf(producer) : llvm::SmallVector<int64_t>();
  return !permutation.empty() && (keepsInnermost(permutation) || readsAnyOrder(product)) &&
         merge.getReassociationIndices().back().size() == 1;
}

/// Gives products the loops before the merge, so that the transpose is next to them.
void splitMergedLoops(mlir::func::FuncOp main) {
  mlir::RewritePatternSet patterns(main.getContext());
  mlir::linalg::populateFoldReshapeOpsByExpansionPatterns(patterns, mergesTransposed);
  mlir::tensor::ExpandShapeOp::getCanonicalizationPatterns(patterns, main.getContext());
  mlir::tensor::CollapseShapeOp::getCanonicalizationPatterns(patterns, main.getContext());
  (void)mlir::applyPatternsGreedily(main, std::move(patterns));
}

}  // namespace

int absorbTransposes(mlir::func::FuncOp main) {
  splitMergedLoops(main);
  llvm::SmallVector<GenericOp> products;
  for (GenericOp op : main.getBody().front().getOps<GenericOp>()) {
    if (isProduct(op)) products.push_back(op);
  }
  int count = 0;
  for (GenericOp product : products) {
    count += absorbOperand(product, 0) + absorbOperand(product, 1);
    count += absorbResult(product);
  }
  return count;
}

}  // namespace tessera::compiler
