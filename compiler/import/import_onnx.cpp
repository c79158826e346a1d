#include "compiler/import/graph_importer.h"
#include "compiler/import/import.h"
#include "compiler/ir/loop_op.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "onnx/onnx.pb.h"
#include "proto/support/status_macros.h"

namespace tessera::compiler {

absl::StatusOr<ImportedModel> importOnnx(mlir::MLIRContext& context, const std::string& path,
                                         const ImportOptions& options) {
  context.loadDialect<mlir::arith::ArithDialect, mlir::func::FuncDialect, mlir::linalg::LinalgDialect,
                      mlir::math::MathDialect, mlir::scf::SCFDialect, mlir::tensor::TensorDialect, LoopDialect>();
  TESSERA_ASSIGN_OR_RETURN(auto model, parseModelFile(path));
  GraphImporter importer(context, model, options);
  absl::StatusOr<ImportedModel> imported = importer.run();
  if (!imported.ok() && importer.hasDefaults()) {
    auto with_constants = GraphImporter(context, model, options, /*fix_defaults=*/true).run();
    if (with_constants.ok()) return with_constants;
  }
  if (!importer.inputToFix() || (imported.ok() && !options.fix_inputs_of_branches)) return imported;
  // Only runs with this value fit; other values are refused like those of a fixed input.
  ImportOptions fixed = options;
  if (!fixed.fixed_inputs.emplace(importer.inputToFix()->spec().name(), *importer.inputToFix()).second) return imported;
  absl::StatusOr<ImportedModel> again = importOnnx(context, path, fixed);
  return again.ok() ? std::move(again) : std::move(imported);
}

}  // namespace tessera::compiler
