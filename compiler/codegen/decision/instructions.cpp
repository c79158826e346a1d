#include "compiler/codegen/decision/instructions.h"

#include "compiler/codegen/kernel/nest_instruction.h"

namespace tessera::compiler::codegen {

void chooseInstructions(mlir::func::FuncOp func, PhaseList& list, const Chip& chip) {
  mlir::OpBuilder builder(func.getContext());
  builder.setInsertionPointToStart(&func.getBody().front());
  for (Phase& phase : list.phases) {
    if (!phase.plans.empty()) continue;  // a phase that fills panels of a region
    for (Nest& nest : phase.nests)
      if (std::vector<Nest> forms = instructionVariants(builder, nest, chip); !forms.empty())
        nest = std::move(forms[0]);
  }
}

absl::Status applyInstructions(mlir::func::FuncOp func, PhaseList& list, const Chip& chip, const ParsedSchedule& tree) {
  mlir::OpBuilder builder(func.getContext());
  builder.setInsertionPointToStart(&func.getBody().front());
  for (auto [phase, followed] : llvm::zip_equal(list.phases, tree.phases)) {
    if (followed.sequential) continue;
    for (auto [nest, leaf] : llvm::zip_equal(phase.nests, followed.leaves))
      if (absl::Status status = rewriteNestFor(builder, nest, chip, leaf.tile->kernel().instruction(), leaf.path);
          !status.ok())
        return status;
  }
  return absl::OkStatus();
}

}  // namespace tessera::compiler::codegen
