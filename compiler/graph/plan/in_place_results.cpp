#include "compiler/graph/plan/in_place_results.h"

#include <algorithm>
#include <limits>

#include "absl/strings/str_cat.h"
#include "compiler/graph/analysis/element_type.h"
#include "compiler/graph/analysis/op_kind.h"
#include "compiler/graph/analysis/stage_attributes.h"

namespace tessera::compiler {
namespace {

using mlir::RankedTensorType;
using mlir::linalg::GenericOp;

/// Returns the only operation that reads its operands many times, if all others are elementwise.
GenericOp heavyOf(mlir::func::FuncOp function) {
  GenericOp heavy;
  for (mlir::Operation& op : function.getBody().front().without_terminator()) {
    const OpKind kind = kindOf(&op);
    if (kind == OpKind::kCloned || kind == OpKind::kView || kind == OpKind::kElementwise) continue;
    if (kind != OpKind::kHeavy || heavy || op.hasAttr(kStageOf)) return {};
    heavy = mlir::dyn_cast<GenericOp>(op);
    if (!heavy) return {};
  }
  return heavy;
}

int64_t stepsOf(GenericOp op) {
  int64_t steps = 1;
  for (auto [extent, kind] : llvm::zip_equal(op.getStaticLoopRanges(), op.getIteratorTypesArray()))
    if (kind == mlir::utils::IteratorType::reduction) steps *= extent;
  return steps;
}

/// Returns the least distance in bytes between elements of `operand` that successive steps of the sum read; 0 if the
/// operand does not vary along the sum.
int64_t stepBytes(GenericOp op, mlir::OpOperand* operand) {
  auto type = mlir::dyn_cast<RankedTensorType>(operand->get().getType());
  if (!type) return 0;
  const auto kinds = op.getIteratorTypesArray();
  const auto extents = op.getStaticLoopRanges();
  int64_t nearest = std::numeric_limits<int64_t>::max(), stride = bytesPerElement(type.getElementType());
  for (int64_t d = type.getRank() - 1; d >= 0; --d) {
    op.getMatchingIndexingMap(operand).getResult(d).walk([&](mlir::AffineExpr expression) {
      auto loop = mlir::dyn_cast<mlir::AffineDimExpr>(expression);
      if (loop && kinds[loop.getPosition()] == mlir::utils::IteratorType::reduction && extents[loop.getPosition()] > 1)
        nearest = std::min(nearest, stride);
    });
    stride *= type.getDimSize(d);
  }
  return nearest == std::numeric_limits<int64_t>::max() ? 0 : nearest;
}

/// Returns the innermost loop of the result; -1 if it has one element.
int innermostOf(GenericOp op) {
  const auto extents = op.getStaticLoopRanges();
  for (mlir::AffineExpr expression : llvm::reverse(op.getMatchingIndexingMap(op.getDpsInitOperand(0)).getResults())) {
    auto loop = mlir::dyn_cast<mlir::AffineDimExpr>(expression);
    if (loop && extents[loop.getPosition()] > 1) return static_cast<int>(loop.getPosition());
  }
  return -1;
}

}  // namespace

llvm::SmallVector<unsigned> overwritableArguments(mlir::func::FuncOp function) {
  llvm::SmallVector<unsigned> addends;
  mlir::Operation* end = function.getBody().front().getTerminator();
  if (end->getNumOperands() != 1 || !heavyOf(function)) return addends;
  auto last = end->getOperand(0).getDefiningOp<GenericOp>();
  if (!last || kindOf(last) != OpKind::kElementwise || last->getNumResults() != 1) return addends;
  const bool gathers =
      last.getRegion().walk([](mlir::tensor::ExtractOp) { return mlir::WalkResult::interrupt(); }).wasInterrupted();
  if (gathers) return addends;
  for (mlir::BlockArgument argument : function.getArguments()) {
    if (argument.getType() != last.getResult(0).getType() || argument.use_empty()) continue;
    if (llvm::all_of(argument.getUses(), [&](mlir::OpOperand& use) {
          return use.getOwner() == last && isIdentityAccess(last, &use) && last.isDpsInput(&use);
        }))
      addends.push_back(argument.getArgNumber());
  }
  return addends;
}

std::string whyNotInPlace(mlir::func::FuncOp function, const Chip& chip) {
  GenericOp heavy = heavyOf(function);
  const int64_t steps = stepsOf(heavy), longest = chip.costParameters().products().max_reduction_block();
  if (Chip::cutsSum(steps, longest))
    return absl::StrCat("sums of ", steps, " terms are cut into blocks of ", longest,
                        ", whose partial results wait in the result");
  const int vectors = innermostOf(heavy);
  for (mlir::OpOperand* input : heavy.getDpsInputOperands()) {
    if (vectors < 0 || !heavy.getMatchingIndexingMap(input).isFunctionOfDim(vectors)) continue;
    const int64_t apart = stepBytes(heavy, input);
    if (chip.areFarApart(apart, 0))
      return absl::StrCat("sums whose vectors lie ", apart,
                          " bytes apart are cut into blocks, whose partial results "
                          "wait in the result");
  }
  return "";
}

}  // namespace tessera::compiler
