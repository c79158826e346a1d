#pragma once

#include <memory>

#include "mlir/IR/MLIRContext.h"
#include "mlir/Pass/Pass.h"
#include "mlir/Rewrite/FrozenRewritePatternSet.h"

namespace tessera::compiler {

/// Returns MLIR's canonicalizer without its patterns that change results; the source lists them with the reasons. All
/// pipelines of the compiler, and all oracles that a pipeline is compared with, use this one.
std::unique_ptr<mlir::Pass> createCanonicalizer();

/// The same without a pass manager, for repeated use on small graphs: constructing the patterns takes longer than
/// applying them, so they are made once for all dialects that the context has loaded.
class Canonicalizer {
 public:
  explicit Canonicalizer(mlir::MLIRContext& context);

  /// Canonicalizes the operations below `root`, which must be isolated from above. Operations in canonical form are not
  /// touched. Sets `changed` if any operation changed. Returns false if the graph was still changing after ten rounds;
  /// another run may continue.
  bool run(mlir::Operation* root, bool& changed);

 private:
  void makePatterns();

  mlir::MLIRContext& context_;
  size_t operations_ = 0;  ///< registered operations when the patterns were made
  mlir::FrozenRewritePatternSet patterns_;
};

}  // namespace tessera::compiler
