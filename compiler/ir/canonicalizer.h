#pragma once

#include <memory>

#include "mlir/IR/MLIRContext.h"
#include "mlir/Pass/Pass.h"
#include "mlir/Rewrite/FrozenRewritePatternSet.h"

namespace tessera::compiler {

/// MLIR's canonicalizer without the patterns of it that change results (the list, and why, is in the source). Every
/// pipeline of the compiler, and every oracle that a pipeline is compared with, canonicalizes with this one.
std::unique_ptr<mlir::Pass> createCanonicalizer();

/// The same without a pass manager, for who canonicalizes again and again: its patterns take longer to make than to
/// apply to a small graph, and are made once for all dialects that the context has loaded.
class Canonicalizer {
 public:
  explicit Canonicalizer(mlir::MLIRContext& context);

  /// Brings what is below `root`, which is isolated from above, to canonical form. What has it is left as it is.
  /// `changed` is set when it had not. False: after ten rounds it was still changing, another run may go on.
  bool run(mlir::Operation* root, bool& changed);

 private:
  void makePatterns();

  mlir::MLIRContext& context_;
  size_t operations_ = 0;  ///< registered when the patterns were made
  mlir::FrozenRewritePatternSet patterns_;
};

}  // namespace tessera::compiler
