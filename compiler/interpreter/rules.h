#pragma once

#include "compiler/interpreter/array.h"
#include "mlir/IR/Operation.h"

/// The effect of each scalar operation of arith and math on values and on their error estimates.
namespace tessera::compiler::interpreter {

/// One SSA value of a body at up to kLanes points of its loops.
struct Lanes {
  static constexpr int kLanes = 128;
  double real[kLanes];
  int64_t integer[kLanes];
  double error[kLanes];

  Scalar get(int lane) const { return {real[lane], integer[lane], error[lane]}; }
  void set(int lane, const Scalar& value) {
    real[lane] = value.real;
    integer[lane] = value.integer;
    error[lane] = value.error;
  }
};

/// Properties of the operation that a rule reads in addition to its operands.
struct RuleContext {
  Element type;       ///< of the result
  Element from;       ///< of the first operand
  int predicate = 0;  ///< of a comparison
  /// the accumulator of a reduction: not rounded until the reduction is complete
  bool accumulates = false;
  bool same_operands = false;                     ///< x op x
  double (*function)(double) = nullptr;           ///< of one real argument
  double (*function2)(double, double) = nullptr;  ///< of two
  /// The largest distance between the values of `function` on [x - reach, x + reach] and its value at x, if it exceeds
  /// the distances at both ends of the interval; otherwise 0.
  double (*between)(double x, double reach) = nullptr;
  double own_ulps = 0;  ///< error of a library function, in units of u |result|
};

using Rule = void (*)(const RuleContext& context, const Lanes* const* in, Lanes& out, int count);

/// The rule of an operation with one scalar result, and its context except for the fields that depend on the
/// operation's position. Null if there is no rule.
Rule ruleOf(mlir::Operation* op, RuleContext& context);

/// Rounds a sum to its type, as a store does.
Scalar rounded(Element element, Scalar value);

}  // namespace tessera::compiler::interpreter
