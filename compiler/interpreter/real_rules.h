#pragma once

#include "compiler/interpreter/rules.h"

namespace tessera::compiler::interpreter {

/// The rule of an operation with floating-point operands or results, by the operation's full name; null for others.
Rule realRule(llvm::StringRef name, RuleContext& context);
/// The same for operations on integers only.
Rule integerRule(llvm::StringRef name, RuleContext& context);

/// Normalizes an estimate: for a NaN or infinite value it is 0, or unknown if that of the operands is.
inline double settled(double value, double error, double of_operands) {
  if (std::isfinite(value)) return error < kUnknownError ? error : kUnknownError;
  return of_operands < kUnknownError ? 0 : kUnknownError;
}

/// The estimate of a value that might be off by `distance`: kDeviations times the estimate equals the distance.
inline double reaching(double distance) {
  return std::isfinite(distance) ? std::fabs(distance) / kDeviations : kUnknownError;
}

}  // namespace tessera::compiler::interpreter
