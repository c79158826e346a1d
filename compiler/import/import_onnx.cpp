#include "compiler/import/graph_importer.h"
#include "compiler/import/import.h"
#include "compiler/ir/loop_op.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "onnx/onnx.pb.h"

namespace tessera::compiler {

absl::StatusOr<ImportedModel> importOnnx(mlir::MLIRContext& context, const std::string& path,
                                         const ImportOptions& options) {
  context.loadDialect<mlir::arith::ArithDialect, mlir::func::FuncDialect, mlir::linalg::LinalgDialect,
                      mlir::math::MathDialect, mlir::scf::SCFDialect, mlir::tensor::TensorDialect, LoopDialect>();
  TESSERA_ASSIGN_OR_RETURN(auto model, parseModelFile(path));
  return GraphImporter(context, std::move(model), options).run();
}

}  // namespace tessera::compiler
