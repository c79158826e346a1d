// tessera-opt: the compiler's own steps and the upstream passes they stand on, one at a time, for lit tests and
// for looking at what a step did.
#include "compiler/codegen/passes.h"
#include "mlir/Dialect/Bufferization/Transforms/Passes.h"
#include "mlir/Dialect/Linalg/Passes.h"
#include "mlir/Dialect/MemRef/Transforms/Passes.h"
#include "mlir/Tools/mlir-opt/MlirOptMain.h"
#include "mlir/Transforms/Passes.h"

int main(int argc, char** argv) {
  mlir::DialectRegistry registry;
  tessera::compiler::codegen::registerCodegenDialects(registry);
  tessera::compiler::codegen::registerCodegenPasses();
  mlir::registerCanonicalizer();
  mlir::registerCSE();
  mlir::bufferization::registerBufferizationPasses();
  mlir::registerLinalgPasses();
  mlir::memref::registerMemRefPasses();
  return mlir::asMainReturnCode(mlir::MlirOptMain(argc, argv, "Tessera's compiler, step by step\n", registry));
}
