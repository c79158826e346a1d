#pragma once

#include "mlir/IR/PatternMatch.h"

namespace tessera::compiler {

/// A rewrite pattern from a function that returns the replacement of the operation's only result, or null if it does
/// not apply. Adds the number of applications to `count`.
template <typename Op>
class CountedPattern : public mlir::OpRewritePattern<Op> {
 public:
  using Rule = mlir::Value (*)(Op op, mlir::PatternRewriter& rewriter);

  CountedPattern(mlir::MLIRContext* context, Rule rule, int& count)
      : mlir::OpRewritePattern<Op>(context), rule_(rule), count_(count) {}

  mlir::LogicalResult matchAndRewrite(Op op, mlir::PatternRewriter& rewriter) const override {
    mlir::Value replacement = rule_(op, rewriter);
    if (!replacement) return mlir::failure();
    rewriter.replaceOp(op, replacement);
    ++count_;
    return mlir::success();
  }

 private:
  Rule rule_;
  int& count_;
};

template <typename Op>
void addCounted(mlir::RewritePatternSet& patterns, int& count,
                std::initializer_list<typename CountedPattern<Op>::Rule> rules) {
  for (auto rule : rules) patterns.add<CountedPattern<Op>>(patterns.getContext(), rule, count);
}

}  // namespace tessera::compiler
