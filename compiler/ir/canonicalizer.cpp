#include "compiler/ir/canonicalizer.h"

#include <string>

#include "mlir/IR/PatternMatch.h"
#include "mlir/Transforms/GreedyPatternRewriteDriver.h"
#include "mlir/Transforms/Passes.h"

namespace tessera::compiler {
namespace {

llvm::ArrayRef<std::string> wrongPatterns() {
  static const std::string* const kWrong = new std::string[1]{
      // insert_slice(pad(x), fill) -> insert_slice(x, fill) adds the padding to the offsets without the strides: with
      // strides other than 1 every element lands in the wrong place (MLIR 22).
      "(anonymous namespace)::FoldInsertPadIntoFill"};
  return {kWrong, 1};
}

}  // namespace

std::unique_ptr<mlir::Pass> createCanonicalizer() {
  return mlir::createCanonicalizerPass(mlir::GreedyRewriteConfig(), wrongPatterns());
}

Canonicalizer::Canonicalizer(mlir::MLIRContext& context) : context_(context) { makePatterns(); }

// Collects patterns as MLIR's pass does.
void Canonicalizer::makePatterns() {
  mlir::RewritePatternSet patterns(&context_);
  for (mlir::Dialect* dialect : context_.getLoadedDialects()) dialect->getCanonicalizationPatterns(patterns);
  const auto operations = context_.getRegisteredOperations();
  for (const mlir::RegisteredOperationName& operation : operations)
    operation.getCanonicalizationPatterns(patterns, &context_);
  operations_ = operations.size();
  patterns_ = mlir::FrozenRewritePatternSet(std::move(patterns), wrongPatterns());
}

bool Canonicalizer::run(mlir::Operation* root, bool& changed) {
  // An importer may have loaded a dialect in the meantime.
  if (context_.getRegisteredOperations().size() != operations_) makePatterns();
  bool now = false;
  const bool converged =
      mlir::succeeded(mlir::applyPatternsGreedily(root, patterns_, mlir::GreedyRewriteConfig(), &now));
  changed |= now;
  return converged;
}

}  // namespace tessera::compiler
