#include "compiler/ir/workload.h"

#include "llvm/Support/raw_ostream.h"
#include "mlir/IR/Operation.h"
#include "proto/support/sha256.h"

namespace tessera::compiler {

CanonicalWorkload canonicalizeWorkload(mlir::func::FuncOp function) {
  mlir::Location unknown = mlir::UnknownLoc::get(function.getContext());
  function->walk([&](mlir::Operation* op) {
    op->setLoc(unknown);
    // Discardable attributes describe an operation's origin, not its computation.
    if (op != function.getOperation()) {
      const mlir::Attribute narrow = op->getDiscardableAttr(kNarrowPairs);
      op->setDiscardableAttrs(mlir::DictionaryAttr::get(op->getContext()));
      if (narrow) op->setDiscardableAttr(kNarrowPairs, narrow);
    }
    for (mlir::Region& region : op->getRegions()) {
      for (mlir::Block& block : region) {
        for (mlir::BlockArgument argument : block.getArguments()) argument.setLoc(unknown);
      }
    }
  });
  function.setAllArgAttrs(mlir::ArrayRef<mlir::DictionaryAttr>{});
  llvm::SmallVector<mlir::Attribute> over;
  // Which argument a result overwrites is part of the computation: it changes what a kernel may do.
  for (unsigned result = 0; result < function.getNumResults(); ++result)
    over.push_back(function.getResultAttr(result, kMayAlias));
  function.setAllResultAttrs(mlir::ArrayRef<mlir::DictionaryAttr>{});
  for (auto [result, argument] : llvm::enumerate(over))
    if (argument) function.setResultAttr(static_cast<unsigned>(result), kMayAlias, argument);
  // One name for all, because equal computations must print equal text.
  function.setName("w");
  function.setPublic();

  CanonicalWorkload workload;
  llvm::raw_string_ostream stream(workload.ir);
  mlir::OpPrintingFlags flags;
  flags.enableDebugInfo(false);
  function->print(stream, flags);
  stream << "\n";
  workload.hash = sha256Hex(workload.ir);
  workload.symbol = "w_" + workload.hash.substr(0, 16);
  return workload;
}

}  // namespace tessera::compiler
