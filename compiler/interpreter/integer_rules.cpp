#include <algorithm>
#include <map>

#include "compiler/interpreter/real_rules.h"
#include "mlir/Dialect/Arith/IR/Arith.h"

namespace tessera::compiler::interpreter {
namespace {

using Predicate = mlir::arith::CmpIPredicate;

// Unsigned arithmetic wraps; signed overflow would be undefined.
int64_t add(int64_t a, int64_t b) { return static_cast<int64_t>(static_cast<uint64_t>(a) + static_cast<uint64_t>(b)); }
int64_t subtract(int64_t a, int64_t b) {
  return static_cast<int64_t>(static_cast<uint64_t>(a) - static_cast<uint64_t>(b));
}
int64_t multiply(int64_t a, int64_t b) {
  return static_cast<int64_t>(static_cast<uint64_t>(a) * static_cast<uint64_t>(b));
}
// MLIR leaves division by zero, and of the smallest number by -1, undefined; the importer guards against both.
int64_t divide(int64_t a, int64_t b) { return b == 0 ? 0 : b == -1 ? subtract(0, a) : a / b; }
int64_t remainder(int64_t a, int64_t b) { return b == 0 || b == -1 ? 0 : a % b; }
int64_t floorDivide(int64_t a, int64_t b) {
  return divide(a, b) - (b != 0 && remainder(a, b) != 0 && (a < 0) != (b < 0) ? 1 : 0);
}
int64_t ceilDivide(int64_t a, int64_t b) {
  return divide(a, b) + (b != 0 && remainder(a, b) != 0 && (a < 0) == (b < 0) ? 1 : 0);
}
uint64_t asUnsigned(int64_t value) { return static_cast<uint64_t>(value); }
int64_t divideUnsigned(int64_t a, int64_t b) {
  return b == 0 ? 0 : static_cast<int64_t>(asUnsigned(a) / asUnsigned(b));
}
int64_t remainderUnsigned(int64_t a, int64_t b) {
  return b == 0 ? 0 : static_cast<int64_t>(asUnsigned(a) % asUnsigned(b));
}
int64_t shiftLeft(int64_t a, int64_t b) { return asUnsigned(b) > 63 ? 0 : static_cast<int64_t>(asUnsigned(a) << b); }
int64_t shiftRight(int64_t a, int64_t b) { return a >> std::min<uint64_t>(asUnsigned(b), 63); }
int64_t shiftRightUnsigned(int64_t a, int64_t b) {
  return asUnsigned(b) > 63 ? 0 : static_cast<int64_t>(asUnsigned(a) >> b);
}
int64_t larger(int64_t a, int64_t b) { return std::max(a, b); }
int64_t smaller(int64_t a, int64_t b) { return std::min(a, b); }
int64_t largerUnsigned(int64_t a, int64_t b) { return asUnsigned(a) > asUnsigned(b) ? a : b; }
int64_t smallerUnsigned(int64_t a, int64_t b) { return asUnsigned(a) < asUnsigned(b) ? a : b; }
int64_t bitAnd(int64_t a, int64_t b) { return a & b; }
int64_t bitOr(int64_t a, int64_t b) { return a | b; }
int64_t bitXor(int64_t a, int64_t b) { return a ^ b; }

/// How an operation propagates operand errors.
enum class Spread { kSum, kProduct, kLargest, kBits };

template <int64_t (*kApply)(int64_t, int64_t), Spread kSpread, bool kUnsigned = false>
void binary(const RuleContext& c, const Lanes* const* in, Lanes& out, int count) {
  for (int i = 0; i < count; ++i) {
    int64_t a = in[0]->integer[i], b = in[1]->integer[i];
    if (kUnsigned) {
      a = static_cast<int64_t>(zeroExtended(c.type.bits, a));
      b = static_cast<int64_t>(zeroExtended(c.type.bits, b));
    }
    out.integer[i] = wrapTo(c.type.bits, kApply(a, b));
    const double ea = in[0]->error[i], eb = in[1]->error[i];
    double error = 0;
    if (ea > 0 || eb > 0) {
      // The errors of an accumulator's terms are independent of each other.
      if (kSpread == Spread::kSum) error = c.accumulates ? std::hypot(ea, eb) : ea + eb;
      if (kSpread == Spread::kProduct) {
        error = std::fabs(static_cast<double>(a)) * eb + (std::fabs(static_cast<double>(b)) + eb * kDeviations) * ea;
      }
      if (kSpread == Spread::kLargest) error = std::max(ea, eb);
      // For one bit, 0 and x is 0, and 1 or x is 1, whatever x is; for wider operands the result is unknown.
      if (kSpread == Spread::kBits) {
        const bool decided = c.type.bits == 1 && ((kApply == bitAnd && ((ea == 0 && a == 0) || (eb == 0 && b == 0))) ||
                                                  (kApply == bitOr && ((ea == 0 && a != 0) || (eb == 0 && b != 0))));
        error = decided ? 0 : c.type.bits == 1 ? reaching(1) : kUnknownError;
        // Flipping the sign bit shifts every value by the same amount.
        if (kApply == bitXor && c.type.bits > 1 && eb == 0 && b == wrapTo(c.type.bits, int64_t{1} << (c.type.bits - 1)))
          error = ea;
      }
    }
    out.error[i] = std::min(error, kUnknownError);
  }
}

bool compares(Predicate predicate, int64_t a, int64_t b) {
  switch (predicate) {
    case Predicate::eq:
      return a == b;
    case Predicate::ne:
      return a != b;
    case Predicate::slt:
      return a < b;
    case Predicate::sle:
      return a <= b;
    case Predicate::sgt:
      return a > b;
    case Predicate::sge:
      return a >= b;
    case Predicate::ult:
      return asUnsigned(a) < asUnsigned(b);
    case Predicate::ule:
      return asUnsigned(a) <= asUnsigned(b);
    case Predicate::ugt:
      return asUnsigned(a) > asUnsigned(b);
    case Predicate::uge:
      return asUnsigned(a) >= asUnsigned(b);
  }
  return false;
}

void compareIntegers(const RuleContext& c, const Lanes* const* in, Lanes& out, int count) {
  const auto predicate = static_cast<Predicate>(c.predicate);
  for (int i = 0; i < count; ++i) {
    int64_t a = in[0]->integer[i], b = in[1]->integer[i];
    const double of = in[0]->error[i] + in[1]->error[i];
    double distance = std::fabs(static_cast<double>(a) - static_cast<double>(b));
    if (predicate >= Predicate::ult) {
      // The order also changes where one of the values passes from zero to the largest number or back, which are next
      // to each other in two's complement.
      distance = std::min({distance, std::fabs(static_cast<double>(a) + 0.5), std::fabs(static_cast<double>(b) + 0.5)});
      a = static_cast<int64_t>(zeroExtended(c.from.bits, a));
      b = static_cast<int64_t>(zeroExtended(c.from.bits, b));
    }
    out.integer[i] = compares(predicate, a, b);
    // If the operands may be on either side of each other, the other outcome is possible. A value compared with itself
    // has one outcome.
    out.error[i] = of > 0 && !c.same_operands && distance <= kDeviations * of ? reaching(1) : 0;
  }
}

void extendSigned(const RuleContext& c, const Lanes* const* in, Lanes& out, int count) {
  for (int i = 0; i < count; ++i) {
    // A set bit of i1 is carried as 1, and is -1 when sign-extended.
    out.integer[i] = c.from.bits == 1 ? -in[0]->integer[i] : in[0]->integer[i];
    out.integer[i] = wrapTo(c.type.bits, out.integer[i]);
    out.error[i] = in[0]->error[i];
  }
}

void extendUnsigned(const RuleContext& c, const Lanes* const* in, Lanes& out, int count) {
  for (int i = 0; i < count; ++i) {
    out.integer[i] = wrapTo(c.type.bits, static_cast<int64_t>(zeroExtended(c.from.bits, in[0]->integer[i])));
    out.error[i] = in[0]->error[i];
  }
}

void truncate(const RuleContext& c, const Lanes* const* in, Lanes& out, int count) {
  for (int i = 0; i < count; ++i) {
    out.integer[i] = wrapTo(c.type.bits, in[0]->integer[i]);
    out.error[i] = in[0]->error[i];
  }
}

void absolute(const RuleContext& c, const Lanes* const* in, Lanes& out, int count) {
  for (int i = 0; i < count; ++i) {
    const int64_t x = in[0]->integer[i];
    out.integer[i] = wrapTo(c.type.bits, x < 0 ? subtract(0, x) : x);
    out.error[i] = in[0]->error[i];
  }
}

}  // namespace

Rule integerRule(llvm::StringRef name, RuleContext&) {
  static const std::map<llvm::StringRef, Rule> kRules = {
      {"arith.addi", binary<add, Spread::kSum>},
      {"arith.subi", binary<subtract, Spread::kSum>},
      {"arith.muli", binary<multiply, Spread::kProduct>},
      {"arith.divsi", binary<divide, Spread::kBits>},
      {"arith.divui", binary<divideUnsigned, Spread::kBits, true>},
      {"arith.floordivsi", binary<floorDivide, Spread::kBits>},
      {"arith.ceildivsi", binary<ceilDivide, Spread::kBits>},
      {"arith.remsi", binary<remainder, Spread::kBits>},
      {"arith.remui", binary<remainderUnsigned, Spread::kBits, true>},
      {"arith.andi", binary<bitAnd, Spread::kBits>},
      {"arith.ori", binary<bitOr, Spread::kBits>},
      {"arith.xori", binary<bitXor, Spread::kBits>},
      {"arith.shli", binary<shiftLeft, Spread::kBits, true>},
      {"arith.shrsi", binary<shiftRight, Spread::kBits>},
      {"arith.shrui", binary<shiftRightUnsigned, Spread::kBits, true>},
      {"arith.maxsi", binary<larger, Spread::kLargest>},
      {"arith.minsi", binary<smaller, Spread::kLargest>},
      {"arith.maxui", binary<largerUnsigned, Spread::kLargest, true>},
      {"arith.minui", binary<smallerUnsigned, Spread::kLargest, true>},
      {"arith.cmpi", compareIntegers},
      {"arith.extsi", extendSigned},
      {"arith.extui", extendUnsigned},
      {"arith.trunci", truncate},
      {"arith.index_cast", extendSigned},
      {"arith.index_castui", extendUnsigned},
      {"math.absi", absolute},
  };
  auto it = kRules.find(name);
  return it == kRules.end() ? nullptr : it->second;
}

Rule ruleOf(mlir::Operation* op, RuleContext& context) {
  if (op->getNumResults() != 1 || op->getNumOperands() == 0 || op->getNumOperands() > 3) return nullptr;
  for (mlir::Value operand : op->getOperands())
    if (!isElement(operand.getType())) return nullptr;
  if (!isElement(op->getResult(0).getType())) return nullptr;
  context.type = elementOf(op->getResult(0).getType());
  context.from = elementOf(op->getOperand(0).getType());
  context.same_operands = op->getNumOperands() == 2 && op->getOperand(0) == op->getOperand(1);
  if (auto compare = llvm::dyn_cast<mlir::arith::CmpFOp>(op))
    context.predicate = static_cast<int>(compare.getPredicate());
  if (auto compare = llvm::dyn_cast<mlir::arith::CmpIOp>(op))
    context.predicate = static_cast<int>(compare.getPredicate());
  const llvm::StringRef name = op->getName().getStringRef();
  if (Rule rule = integerRule(name, context)) return rule;
  return realRule(name, context);
}

}  // namespace tessera::compiler::interpreter
