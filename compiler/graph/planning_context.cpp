#include "compiler/graph/planning_context.h"

#include "compiler/ir/loop_op.h"
#include "compiler/ir/object_pool.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"

namespace tessera::compiler {
namespace {

mlir::MLIRContext& loaded(mlir::MLIRContext& context) {
  context.loadDialect<mlir::arith::ArithDialect, mlir::func::FuncDialect, mlir::linalg::LinalgDialect,
                      mlir::math::MathDialect, mlir::scf::SCFDialect, mlir::tensor::TensorDialect, LoopDialect>();
  return context;
}

ObjectPool<PlanningContext>& madeAhead() {
  static auto* const kept = new ObjectPool<PlanningContext>(1);
  return *kept;
}

}  // namespace

PlanningContext::PlanningContext() : context(mlir::MLIRContext::Threading::DISABLED), canonicalizer(loaded(context)) {}

std::unique_ptr<PlanningContext> acquirePlanningContext() {
  std::unique_ptr<PlanningContext> ahead = madeAhead().take();
  return ahead ? std::move(ahead) : std::make_unique<PlanningContext>();
}

void preparePlanningContext() { madeAhead().put(std::make_unique<PlanningContext>()); }

}  // namespace tessera::compiler
