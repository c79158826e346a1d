#include "compiler/backends/cpu/math/math_expansion.h"

#include "compiler/backends/cpu/math/math_double.h"
#include "compiler/backends/cpu/math/math_single.h"
#include "compiler/backends/cpu/math/powers.h"
#include "compiler/backends/cpu/math/remainder.h"
#include "compiler/backends/cpu/math/rescaling.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Arith/Transforms/Passes.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/Math/Transforms/Passes.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/IR/PatternMatch.h"
#include "mlir/Transforms/GreedyPatternRewriteDriver.h"

namespace tessera::compiler::codegen {
namespace {

namespace LLVM = mlir::LLVM;
namespace arith = mlir::arith;
namespace math = mlir::math;
using mlir::PatternRewriter;
using mlir::Value;

/// Whether a math operation's LLVM form is an instruction rather than a call.
bool isInstruction(llvm::StringRef name) {
  name.consume_front("math.");
  static constexpr llvm::StringLiteral kInstructions[] = {"absf", "absi",  "ceil", "copysign", "ctlz",      "ctpop",
                                                          "cttz", "floor", "fma",  "sqrt",     "roundeven", "trunc"};
  return llvm::is_contained(kInstructions, name);
}

mlir::Type withElement(mlir::Type type, mlir::Type element) {
  if (auto vector = llvm::dyn_cast<mlir::VectorType>(type)) return vector.clone(element);
  return element;
}

Value splat(PatternRewriter& rewriter, mlir::Location loc, mlir::Type type, double value) {
  auto element = rewriter.getFloatAttr(mlir::getElementTypeOrSelf(type), value);
  if (auto vector = llvm::dyn_cast<mlir::VectorType>(type))
    return arith::ConstantOp::create(rewriter, loc, mlir::DenseElementsAttr::get(vector, mlir::Attribute(element)));
  return arith::ConstantOp::create(rewriter, loc, element);
}

/// Arithmetic whose bf16 result a library would round: few chips have an instruction for it, and then for truncation
/// only.
bool isRoundedArithmetic(mlir::Operation* op) {
  return llvm::isa<arith::AddFOp, arith::SubFOp, arith::MulFOp, arith::DivFOp, arith::RemFOp, arith::MaximumFOp,
                   arith::MinimumFOp, arith::MaxNumFOp, arith::MinNumFOp, arith::NegFOp, arith::SIToFPOp,
                   arith::UIToFPOp>(op);
}

/// f(f16) and f(bf16) computed as f(f32). In both types this includes rounding and square roots, for which LLVM uses
/// doubles and a library. In bf16 it includes arithmetic as well.
struct FunctionInSinglePrecision : mlir::RewritePattern {
  explicit FunctionInSinglePrecision(mlir::MLIRContext* context)
      : RewritePattern(MatchAnyOpTypeTag(), /*benefit=*/2, context) {}

  mlir::LogicalResult matchAndRewrite(mlir::Operation* op, PatternRewriter& rewriter) const override {
    if (op->getNumResults() != 1) return mlir::failure();
    const mlir::Type element = mlir::getElementTypeOrSelf(op->getResult(0).getType());
    const bool function = op->getName().getDialectNamespace() == "math";
    if (!element.isBF16() && !(element.isF16() && function)) return mlir::failure();
    if (!function && !isRoundedArithmetic(op)) return mlir::failure();
    const mlir::Location loc = op->getLoc();
    mlir::OperationState state(loc, op->getName());
    for (Value operand : op->getOperands()) {
      const mlir::Type single = withElement(operand.getType(), rewriter.getF32Type());
      if (mlir::getElementTypeOrSelf(operand.getType()) == element)
        operand = arith::ExtFOp::create(rewriter, loc, single, operand);
      state.operands.push_back(operand);
    }
    state.types.push_back(withElement(op->getResult(0).getType(), rewriter.getF32Type()));
    state.attributes = op->getDiscardableAttrDictionary().getValue();
    state.propertiesAttr = op->getPropertiesAsAttribute();
    Value result = rewriter.create(state)->getResult(0);
    rewriter.replaceOpWithNewOp<arith::TruncFOp>(op, op->getResult(0).getType(), result);
    return mlir::success();
  }
};

/// An operation that reads bf16 and produces another type reads f32 instead: LLVM would build the operand in bf16 lane
/// by lane, with a library call each, even if it is one number for all lanes.
struct ReadInSinglePrecision : mlir::RewritePattern {
  explicit ReadInSinglePrecision(mlir::MLIRContext* context)
      : RewritePattern(MatchAnyOpTypeTag(), /*benefit=*/2, context) {}

  mlir::LogicalResult matchAndRewrite(mlir::Operation* op, PatternRewriter& rewriter) const override {
    const bool widens = llvm::isa<arith::ExtFOp>(op) && mlir::getElementTypeOrSelf(op->getResult(0).getType()).isF64();
    if (!widens && !llvm::isa<arith::CmpFOp, arith::FPToSIOp, arith::FPToUIOp>(op)) return mlir::failure();
    if (!mlir::getElementTypeOrSelf(op->getOperand(0).getType()).isBF16()) return mlir::failure();
    rewriter.modifyOpInPlace(op, [&] {
      for (mlir::OpOperand& operand : op->getOpOperands()) {
        const mlir::Type single = withElement(operand.get().getType(), rewriter.getF32Type());
        operand.set(arith::ExtFOp::create(rewriter, op->getLoc(), single, operand.get()));
      }
    });
    return mlir::success();
  }
};

/// Moves of bf16 as moves of i16. LLVM moves the lanes of a type that the chip lacks one by one, each through f32 and a
/// library; this includes masked loads and stores.
struct MoveAsIntegers : mlir::RewritePattern {
  explicit MoveAsIntegers(mlir::MLIRContext* context) : RewritePattern(MatchAnyOpTypeTag(), /*benefit=*/2, context) {}

  mlir::LogicalResult matchAndRewrite(mlir::Operation* op, PatternRewriter& rewriter) const override {
    if (!llvm::isa<mlir::vector::ShuffleOp, mlir::vector::ExtractOp, mlir::vector::InsertOp, mlir::vector::BroadcastOp,
                   mlir::vector::FromElementsOp, arith::SelectOp, LLVM::LoadOp, LLVM::StoreOp, LLVM::MaskedLoadOp,
                   LLVM::MaskedStoreOp>(op))
      return mlir::failure();
    auto isBrain = [](mlir::Type type) { return mlir::getElementTypeOrSelf(type).isBF16(); };
    const mlir::Type type = op->getNumResults() == 1 ? op->getResult(0).getType() : mlir::Type();
    if (!llvm::any_of(op->getOperandTypes(), isBrain) && !(type && isBrain(type))) return mlir::failure();
    mlir::OperationState state(op->getLoc(), op->getName());
    for (Value operand : op->getOperands()) {
      if (isBrain(operand.getType()))
        operand = arith::BitcastOp::create(rewriter, op->getLoc(),
                                           withElement(operand.getType(), rewriter.getI16Type()), operand);
      state.operands.push_back(operand);
    }
    if (type) state.types.push_back(withElement(type, rewriter.getI16Type()));
    state.attributes = op->getDiscardableAttrDictionary().getValue();
    state.propertiesAttr = op->getPropertiesAsAttribute();
    mlir::Operation* moved = rewriter.create(state);
    if (type) {
      rewriter.replaceOpWithNewOp<arith::BitcastOp>(op, type, moved->getResult(0));
    } else {
      rewriter.eraseOp(op);
    }
    return mlir::success();
  }
};

/// log10(x) = log(x) / log(10).
struct Log10 : mlir::OpRewritePattern<math::Log10Op> {
  using OpRewritePattern::OpRewritePattern;
  mlir::LogicalResult matchAndRewrite(math::Log10Op op, PatternRewriter& rewriter) const override {
    Value log = math::LogOp::create(rewriter, op.getLoc(), op.getOperand());
    rewriter.replaceOpWithNewOp<arith::MulFOp>(op, log,
                                               splat(rewriter, op.getLoc(), op.getType(), 0.43429448190325182765));
    return mlir::success();
  }
};

/// The larger of two numbers when neither is a NaN, or when the result for a NaN does not matter: one instruction.
struct MaximumOfNumbers : mlir::OpRewritePattern<arith::MaximumFOp> {
  explicit MaximumOfNumbers(mlir::MLIRContext* context) : OpRewritePattern(context, /*benefit=*/2) {}
  mlir::LogicalResult matchAndRewrite(arith::MaximumFOp op, PatternRewriter& rewriter) const override {
    // A comparison and a selection differ from the maximum for NaN and for zeros of different signs.
    if (!bitEnumContainsAll(op.getFastmath(), arith::FastMathFlags::nnan | arith::FastMathFlags::nsz))
      return mlir::failure();
    Value larger = arith::CmpFOp::create(rewriter, op.getLoc(), arith::CmpFPredicate::OGT, op.getLhs(), op.getRhs());
    rewriter.replaceOpWithNewOp<arith::SelectOp>(op, larger, op.getLhs(), op.getRhs());
    return mlir::success();
  }
};

/// Chips have no instruction for f64 -> f16 and f64 -> bf16, but they have one from f32. Inexact values are rounded to
/// odd in the first step, so that the final rounding to a type with at least two bits less gives the same result as a
/// single rounding (Boldo and Melquiond, "When double rounding is odd", 2005).
struct TruncateInTwoSteps : mlir::OpRewritePattern<arith::TruncFOp> {
  using OpRewritePattern::OpRewritePattern;
  mlir::LogicalResult matchAndRewrite(arith::TruncFOp op, PatternRewriter& rewriter) const override {
    const mlir::Type from = op.getIn().getType();
    if (!mlir::getElementTypeOrSelf(from).isF64() || mlir::getElementTypeOrSelf(op.getType()).isF32())
      return mlir::failure();
    const mlir::Location loc = op.getLoc();
    const mlir::Type f32 = withElement(from, rewriter.getF32Type()), i32 = withElement(from, rewriter.getI32Type());
    Value x = op.getIn();
    Value single = arith::TruncFOp::create(rewriter, loc, f32, x);
    // Rounding to odd: an inexact result is cut towards zero, and its last bit is set. The first step has rounded to
    // nearest, so results that are larger in magnitude than x go back by one.
    Value back = arith::ExtFOp::create(rewriter, loc, from, single);
    Value inexact = arith::CmpFOp::create(rewriter, loc, arith::CmpFPredicate::ONE, back, x);
    Value away =
        arith::CmpFOp::create(rewriter, loc, arith::CmpFPredicate::OGT, math::AbsFOp::create(rewriter, loc, back),
                              math::AbsFOp::create(rewriter, loc, x));
    Value bits = arith::BitcastOp::create(rewriter, loc, i32, single);
    Value towards_zero = arith::SubIOp::create(rewriter, loc, bits, arith::ExtUIOp::create(rewriter, loc, i32, away));
    mlir::TypedAttr one = rewriter.getI32IntegerAttr(1);
    if (auto vector = llvm::dyn_cast<mlir::VectorType>(i32))
      one = mlir::DenseElementsAttr::get(vector, mlir::Attribute(one));
    Value odd = arith::OrIOp::create(rewriter, loc, towards_zero, arith::ConstantOp::create(rewriter, loc, one));
    Value chosen = arith::SelectOp::create(rewriter, loc, inexact, odd, bits);
    rewriter.replaceOpWithNewOp<arith::TruncFOp>(op, op.getType(),
                                                 arith::BitcastOp::create(rewriter, loc, f32, chosen));
    return mlir::success();
  }
};

}  // namespace

mlir::LogicalResult expandMath(mlir::ModuleOp module, bool fuses_multiply_add) {
  mlir::MLIRContext* context = module.getContext();
  mlir::RewritePatternSet patterns(context);
  populateDoubleMathPatterns(patterns);
  populateSingleMathPatterns(patterns);
  populateSaturationPatterns(patterns);
  if (fuses_multiply_add) populateConstantDivisionPatterns(patterns);
  patterns.add<FunctionInSinglePrecision, ReadInSinglePrecision, MoveAsIntegers, Log10, MaximumOfNumbers,
               TruncateInTwoSteps>(context);
  populatePowerPatterns(patterns);
  populateRemainderPatterns(patterns);
  llvm::SmallVector<mlir::StringRef> expanded{"ctlz", "tan",   "atanh", "asinh", "acosh",
                                              "exp2", "fpowi", "ipowi", "round", "rsqrt"};
  math::populateExpansionPatterns(patterns, expanded);
  auto not_instruction = [](llvm::StringRef name) { return !isInstruction(name); };
  mlir::populateMathPolynomialApproximationPatterns(patterns, not_instruction);
  arith::populateArithExpandOpsPatterns(patterns);
  arith::populateExpandBFloat16Patterns(patterns);
  return mlir::applyPatternsGreedily(module, std::move(patterns));
}

}  // namespace tessera::compiler::codegen
