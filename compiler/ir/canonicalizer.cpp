#include "compiler/ir/canonicalizer.h"

#include "mlir/Transforms/Passes.h"

namespace tessera::compiler {

std::unique_ptr<mlir::Pass> createCanonicalizer() {
  return mlir::createCanonicalizerPass(
      mlir::GreedyRewriteConfig(),
      // insert_slice(pad(x), fill) -> insert_slice(x, fill) adds the padding to the offsets without the strides: with
      // strides other than 1 every element lands in the wrong place (MLIR 22).
      {"(anonymous namespace)::FoldInsertPadIntoFill"});
}

}  // namespace tessera::compiler
