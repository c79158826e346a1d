#pragma once

#include "compiler/backends/cpu/math/real_expression.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

/// Branches for rare cases, taken when the condition holds in any lane.
namespace tessera::compiler::codegen {

/// Whether a condition, scalar or vector, holds in any lane.
inline mlir::Value anyLane(mlir::OpBuilder& b, mlir::Location loc, mlir::Value condition) {
  auto lanes = llvm::dyn_cast<mlir::VectorType>(condition.getType());
  if (!lanes) return condition;
  if (lanes.getRank() != 1)
    condition = mlir::vector::ShapeCastOp::create(
        b, loc, mlir::VectorType::get({lanes.getNumElements()}, b.getI1Type()), condition);
  return mlir::vector::ReductionOp::create(b, loc, mlir::vector::CombiningKind::OR, condition);
}

/// Returns `usual`, or in lanes where `condition` holds the results of `rare`. If it holds in no lane, nothing of
/// `rare` is executed.
template <size_t N, typename Rare>
std::array<Real, N> branchIfAnyLane(mlir::Value condition, std::array<Real, N> usual, Rare rare) {
  mlir::PatternRewriter& b = usual[0].in->rewriter;
  const mlir::Location loc = usual[0].in->loc;
  auto branch = mlir::scf::IfOp::create(
      b, loc, anyLane(b, loc, condition),
      [&](mlir::OpBuilder&, mlir::Location) {
        const std::array<Real, N> found = rare();
        llvm::SmallVector<mlir::Value> results;
        for (size_t i = 0; i < N; ++i) results.push_back(choose(condition, found[i], usual[i]).value);
        mlir::scf::YieldOp::create(b, loc, results);
      },
      [&](mlir::OpBuilder&, mlir::Location) {
        llvm::SmallVector<mlir::Value> results;
        for (const Real& real : usual) results.push_back(real.value);
        mlir::scf::YieldOp::create(b, loc, results);
      });
  for (size_t i = 0; i < N; ++i) usual[i].value = branch.getResult(i);
  return usual;
}

}  // namespace tessera::compiler::codegen
