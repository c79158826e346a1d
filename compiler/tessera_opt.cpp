// tessera-opt: runs single steps of the compiler on MLIR text, for lit tests and for people. Upstream's passes
// are all there to combine them with.
#include "compiler/backends/cpu/passes.h"
#include "compiler/graph/passes.h"
#include "compiler/ir/loop_op.h"
#include "mlir/InitAllDialects.h"
#include "mlir/InitAllExtensions.h"
#include "mlir/InitAllPasses.h"
#include "mlir/Tools/mlir-opt/MlirOptMain.h"

int main(int argc, char** argv) {
  mlir::DialectRegistry registry;
  mlir::registerAllDialects(registry);
  registry.insert<tessera::compiler::LoopDialect>();
  mlir::registerAllExtensions(registry);
  mlir::registerAllPasses();
  tessera::compiler::registerGraphPasses();
  tessera::compiler::codegen::registerCodegenPasses();
  return mlir::asMainReturnCode(mlir::MlirOptMain(argc, argv, "Tessera's passes\n", registry));
}
