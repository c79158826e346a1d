#pragma once

#include "compiler/interpreter/array.h"
#include "mlir/IR/Operation.h"

/// What each scalar operation of arith and math does to values and to their error estimates.
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

/// What a rule knows of the operation besides its operands.
struct RuleContext {
  Element type;                          ///< of the result
  Element from;                          ///< of the first operand
  int predicate = 0;                     ///< of a comparison
  bool accumulates = false;              ///< a sum that a reduction builds up: not rounded until the reduction is done
  bool same_operands = false;            ///< x op x
  double (*function)(double) = nullptr;  ///< of one real argument
  double (*function2)(double, double) = nullptr;  ///< of two
  /// How far values of `function` within `reach` of x may lie from the one at x, where both ends do not say; else 0.
  double (*between)(double x, double reach) = nullptr;
  double own_ulps = 0;  ///< how far a library's function may be off, in units of u |result|
};

using Rule = void (*)(const RuleContext& context, const Lanes* const* in, Lanes& out, int count);

/// The rule of an operation with one scalar result, and its context but for what depends on the operation's place.
/// Null for what has none.
Rule ruleOf(mlir::Operation* op, RuleContext& context);

/// Rounds a sum to its type, as storing it does.
Scalar rounded(Element element, Scalar value);

}  // namespace tessera::compiler::interpreter
