#include "compiler/backends/cpu/math/rescaling.h"

#include <cmath>
#include <limits>
#include <optional>

#include "compiler/backends/cpu/math/real_expression.h"
#include "mlir/IR/Matchers.h"

namespace tessera::compiler::codegen {
namespace {

namespace arith = mlir::arith;
namespace math = mlir::math;
using llvm::APFloat;
using mlir::PatternRewriter;
using mlir::Value;

/// The constant that `value` has in all lanes.
std::optional<double> constantOf(Value value) {
  APFloat number(0.0);
  if (!mlir::matchPattern(value, mlir::m_ConstantFloat(&number))) return std::nullopt;
  bool lossy = false;
  number.convert(APFloat::IEEEdouble(), APFloat::rmNearestTiesToEven, &lossy);
  return number.convertToDouble();
}

std::optional<int64_t> integerOf(Value value, bool is_unsigned) {
  llvm::APInt number;
  if (!mlir::matchPattern(value, mlir::m_ConstantInt(&number)) || number.getBitWidth() > 32) return std::nullopt;
  return is_unsigned ? static_cast<int64_t>(number.getZExtValue()) : number.getSExtValue();
}

struct ConstantDivision : mlir::OpRewritePattern<arith::DivFOp> {
  using OpRewritePattern::OpRewritePattern;

  mlir::LogicalResult matchAndRewrite(arith::DivFOp op, PatternRewriter& rewriter) const override {
    const auto divisor = constantOf(op.getRhs());
    if (!divisor || !mlir::getElementTypeOrSelf(op.getType()).isF32()) return mlir::failure();
    // Divisor and reciprocal must be far from the ends of the range. LLVM replaces divisions by powers of two by exact
    // multiplications.
    constexpr double kLarge = 0x1p100;
    int exponent = 0;
    if (!(*divisor > 1 / kLarge && *divisor < kLarge) || std::frexp(*divisor, &exponent) == 0.5) return mlir::failure();
    const Reals in{rewriter, op.getLoc(), op.getType()};
    const Real x{&in, op.getLhs()}, by{&in, op.getRhs()};
    const auto fused = [&](Real a, Real b, Real c) {
      return Real{&in, math::FmaOp::create(rewriter, in.loc, a.value, b.value, c.value)};
    };
    // Computed in double and rounded twice, with the result of a single rounding: a double has more than twice the bits
    // of a float plus two.
    const Real reciprocal = x.constant(static_cast<float>(1 / *divisor));
    const Real first = x * reciprocal;
    // The remainder with the opposite sign, so that the correction of a zero has the sign of the quotient.
    const Real excess = fused(first, by, -x);
    const Real quotient = fused(-excess, reciprocal, first);
    // For an infinite quotient the remainder is a NaN, which must not reach the result.
    rewriter.replaceOp(op, choose(first.abs() < std::numeric_limits<double>::infinity(), quotient, first).value);
    return mlir::success();
  }
};

/// roundeven(real) + more.
struct Rounded {
  Value real;
  int64_t more = 0;
};

std::optional<Rounded> roundedOf(Value x) {
  constexpr double kLargest = 0x1p16;  // largest constant added, for an integer of as many bits
  Rounded rounded;
  if (auto sum = x.getDefiningOp<arith::AddFOp>()) {
    const auto more = constantOf(sum.getRhs());
    if (!more || std::fabs(*more) > kLargest || *more != std::nearbyint(*more)) return std::nullopt;
    rounded.more = static_cast<int64_t>(*more);
    x = sum.getLhs();
  }
  auto even = x.getDefiningOp<math::RoundEvenOp>();
  if (!even) return std::nullopt;
  rounded.real = even.getOperand();
  return rounded;
}

/// Adding a number to this one, whose last binary digit has the value one, rounds the number to an integer of up to
/// `digits` binary digits.
double roundingConstant(int digits) { return 1.5 * std::ldexp(1.0, digits - 1); }

/// select(x <= below, lowest, select(x >= above, highest, convert(x where it is in range, else 0))).
struct Saturation : mlir::OpRewritePattern<arith::SelectOp> {
  using OpRewritePattern::OpRewritePattern;

  mlir::LogicalResult matchAndRewrite(arith::SelectOp op, PatternRewriter& rewriter) const override {
    auto below = op.getCondition().getDefiningOp<arith::CmpFOp>();
    auto inner = op.getFalseValue().getDefiningOp<arith::SelectOp>();
    auto above = inner ? inner.getCondition().getDefiningOp<arith::CmpFOp>() : arith::CmpFOp();
    mlir::Operation* conversion = inner ? inner.getFalseValue().getDefiningOp() : nullptr;
    if (!below || !above || !mlir::isa_and_nonnull<arith::FPToSIOp, arith::FPToUIOp>(conversion))
      return mlir::failure();
    const bool is_unsigned = mlir::isa<arith::FPToUIOp>(conversion);
    Value x = below.getLhs();
    if (above.getLhs() != x || below.getPredicate() != arith::CmpFPredicate::OLE ||
        above.getPredicate() != arith::CmpFPredicate::OGE || !isInRange(conversion->getOperand(0), x, below, above))
      return mlir::failure();
    const auto lowest = integerOf(op.getTrueValue(), is_unsigned),
               highest = integerOf(inner.getTrueValue(), is_unsigned);
    const auto from = constantOf(below.getRhs()), to = constantOf(above.getRhs());
    if (!lowest || !highest || !from || !to || *to != static_cast<double>(*highest) + 1) return mlir::failure();
    if (*from != static_cast<double>(*lowest) && !(is_unsigned && *lowest == 0 && *from == -1)) return mlir::failure();
    const mlir::Type element = mlir::getElementTypeOrSelf(x.getType());
    const auto exact = [&](int64_t bound) {
      return element.isF64() || (element.isF32() && static_cast<double>(static_cast<float>(bound)) == bound);
    };
    // Clamping happens in the real type, so it must hold both bounds.
    if (!exact(*lowest) || !exact(*highest)) return mlir::failure();

    const Reals in{rewriter, op.getLoc(), x.getType()};
    const int digits = element.isF32() ? std::numeric_limits<float>::digits : std::numeric_limits<double>::digits;
    const auto rounded = roundedOf(x);
    const int64_t more = rounded ? rounded->more : 0;
    Real real{&in, rounded ? rounded->real : x};
    if (*lowest != 0) real = choose(real.isNan(), real.constant(static_cast<double>(-more)), real);
    // Comparisons that are false for a NaN select the bound: here zero is the lowest bound.
    const auto cut = [more](Real value, arith::CmpFPredicate keeps, int64_t bound) {
      const Real number = value.constant(static_cast<double>(bound - more));
      return choose(value.compare(keeps, number), value, number);
    };
    const Real cut_off = cut(cut(real, arith::CmpFPredicate::OGT, *lowest), arith::CmpFPredicate::OLT, *highest);
    Value safe = cut_off.value;
    if (rounded) {
      // Clamping at integers and rounding to integers commute. Adding the number to a constant so large that its last
      // bit has the value one, and which is even, rounds it to even and leaves it in the low bits, negative numbers in
      // two's complement.
      const Real sum = cut_off + roundingConstant(digits);
      const Bits bits{&in, arith::BitcastOp::create(rewriter, in.loc, in.withElement(in.integer()), sum.value)};
      rewriter.replaceOpWithNewOp<arith::TruncIOp>(op, op.getType(), more == 0 ? bits.value : (bits + more).value);
    } else if (is_unsigned) {
      rewriter.replaceOpWithNewOp<arith::FPToUIOp>(op, op.getType(), safe);
    } else {
      rewriter.replaceOpWithNewOp<arith::FPToSIOp>(op, op.getType(), safe);
    }
    return mlir::success();
  }

 private:
  /// Whether `safe` is zero where x is beyond either bound or NaN, and equals x elsewhere.
  static bool isInRange(Value safe, Value x, arith::CmpFOp below, arith::CmpFOp above) {
    auto select = safe.getDefiningOp<arith::SelectOp>();
    if (!select || select.getFalseValue() != x || !mlir::matchPattern(select.getTrueValue(), mlir::m_AnyZeroFloat()))
      return false;
    bool has_below = false, has_above = false, has_nan = false;
    llvm::SmallVector<Value> any = {select.getCondition()};
    while (!any.empty()) {
      Value condition = any.pop_back_val();
      if (auto both = condition.getDefiningOp<arith::OrIOp>()) {
        any.append({both.getLhs(), both.getRhs()});
      } else if (condition == below.getResult()) {
        has_below = true;
      } else if (condition == above.getResult()) {
        has_above = true;
      } else {
        auto nan = condition.getDefiningOp<arith::CmpFOp>();
        if (!nan || nan.getLhs() != x || nan.getRhs() != x ||
            (nan.getPredicate() != arith::CmpFPredicate::UNE && nan.getPredicate() != arith::CmpFPredicate::UNO))
          return false;
        has_nan = true;
      }
    }
    return has_below && has_above && has_nan;
  }
};

/// The operand of x + c, and c; any other value is x itself with c = 0.
std::pair<Value, int64_t> withoutConstant(Value x) {
  if (auto sum = x.getDefiningOp<arith::AddIOp>())
    if (const auto more = integerOf(sum.getRhs(), false)) return {sum.getLhs(), *more};
  if (auto difference = x.getDefiningOp<arith::SubIOp>())
    if (const auto less = integerOf(difference.getRhs(), false)) return {difference.getLhs(), -*less};
  return {x, 0};
}

/// Converts the result of Saturation, widened, back to a real: uses the integer before truncation, whose upper bits are
/// all zero.
struct RealAgain : mlir::OpRewritePattern<arith::SIToFPOp> {
  using OpRewritePattern::OpRewritePattern;

  mlir::LogicalResult matchAndRewrite(arith::SIToFPOp op, PatternRewriter& rewriter) const override {
    if (!mlir::getElementTypeOrSelf(op.getType()).isF32()) return mlir::failure();
    const auto [wide, behind] = withoutConstant(op.getIn());
    const auto extension_unsigned = wide.getDefiningOp<arith::ExtUIOp>();
    const auto extension_signed = wide.getDefiningOp<arith::ExtSIOp>();
    if ((!extension_unsigned && !extension_signed) || !mlir::getElementTypeOrSelf(wide.getType()).isInteger(32))
      return mlir::failure();
    auto narrow = wide.getDefiningOp()->getOperand(0).getDefiningOp<arith::TruncIOp>();
    if (!narrow) return mlir::failure();
    const auto [bits, before] = withoutConstant(narrow.getIn());
    auto cast = bits.getDefiningOp<arith::BitcastOp>();
    auto sum = cast ? cast.getIn().getDefiningOp<arith::AddFOp>() : arith::AddFOp();
    const double constant = roundingConstant(std::numeric_limits<float>::digits);
    if (!sum || sum.getType() != op.getType() || constantOf(sum.getRhs()) != constant) return mlir::failure();
    const auto bounds = boundsOf(sum.getLhs());
    const int width = static_cast<int>(mlir::getElementTypeOrSelf(narrow.getType()).getIntOrFloatBitWidth());
    const double lowest = extension_signed ? -std::ldexp(1.0, width - 1) : 0,
                 highest = std::ldexp(1.0, extension_signed ? width - 1 : width) - 1;
    constexpr double kMost = 0x1p20;  // range of the integers, and of their sums, that single precision holds exactly
    if (!bounds || width > 16 || std::fabs(static_cast<double>(behind)) > kMost ||
        bounds->first + static_cast<double>(before) < lowest || bounds->second + static_cast<double>(before) > highest)
      return mlir::failure();
    const Reals in{rewriter, op.getLoc(), op.getType()};
    // Exact: both operands are integers, and so is the difference.
    const Real whole = Real{&in, sum.getResult()} - constant;
    rewriter.replaceOp(op, before + behind == 0 ? whole.value : (whole + static_cast<double>(before + behind)).value);
    return mlir::success();
  }

 private:
  /// The bounds of select(y < highest, y, highest), where y is select(x > lowest, x, lowest).
  static std::optional<std::pair<double, double>> boundsOf(Value value) {
    const auto boundOf = [](Value cut, arith::CmpFPredicate keeps) -> std::optional<std::pair<Value, double>> {
      auto select = cut.getDefiningOp<arith::SelectOp>();
      auto compare = select ? select.getCondition().getDefiningOp<arith::CmpFOp>() : arith::CmpFOp();
      if (!compare || compare.getPredicate() != keeps || compare.getLhs() != select.getTrueValue() ||
          compare.getRhs() != select.getFalseValue())
        return std::nullopt;
      const auto bound = constantOf(select.getFalseValue());
      if (!bound) return std::nullopt;
      return std::pair(select.getTrueValue(), *bound);
    };
    const auto above = boundOf(value, arith::CmpFPredicate::OLT);
    const auto below = above ? boundOf(above->first, arith::CmpFPredicate::OGT) : std::nullopt;
    if (!below) return std::nullopt;
    return std::pair(below->second, above->second);
  }
};

}  // namespace

void populateConstantDivisionPatterns(mlir::RewritePatternSet& patterns) {
  patterns.add<ConstantDivision>(patterns.getContext());
}

void populateSaturationPatterns(mlir::RewritePatternSet& patterns) {
  patterns.add<Saturation, RealAgain>(patterns.getContext());
}

}  // namespace tessera::compiler::codegen
