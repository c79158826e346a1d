#include "compiler/graph/workbench.h"

#include "compiler/ir/loop_op.h"
#include "compiler/ir/spares.h"
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

Spares<GraphWorkbench>& madeAhead() {
  static auto* const kept = new Spares<GraphWorkbench>(1);
  return *kept;
}

}  // namespace

GraphWorkbench::GraphWorkbench() : context(mlir::MLIRContext::Threading::DISABLED), canonicalizer(loaded(context)) {}

std::unique_ptr<GraphWorkbench> graphWorkbench() {
  std::unique_ptr<GraphWorkbench> ahead = madeAhead().take();
  return ahead ? std::move(ahead) : std::make_unique<GraphWorkbench>();
}

void prepareGraphWorkbench() { madeAhead().put(std::make_unique<GraphWorkbench>()); }

}  // namespace tessera::compiler
