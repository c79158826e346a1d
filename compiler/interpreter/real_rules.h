#pragma once

#include "compiler/interpreter/rules.h"

namespace tessera::compiler::interpreter {

/// Rules of operations with floating-point operands or results, by the operation's full name; null for others.
Rule realRule(llvm::StringRef name, RuleContext& context);
/// The same of those on integers alone.
Rule integerRule(llvm::StringRef name, RuleContext& context);

/// Keeps an estimate a number: without one where the value is no number that could be a little off.
inline double settled(double value, double error, double of_operands) {
  if (std::isfinite(value)) return error < kUndecidable ? error : kUndecidable;
  return of_operands < kUndecidable ? 0 : kUndecidable;
}

/// The estimate of a value that may be `other` instead: kDeviations of it reach that far.
inline double reaching(double distance) {
  return std::isfinite(distance) ? std::fabs(distance) / kDeviations : kUndecidable;
}

}  // namespace tessera::compiler::interpreter
