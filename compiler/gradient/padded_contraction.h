#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "compiler/gradient/contraction.h"

namespace tessera::compiler::gradient {

/// Appends the contraction without conditions: every subscript is a sum of loops with positive factors, as vector code
/// needs it, and zeros around a tensor stand for a guard. If the result's subscripts are divided (strides), each phase
/// of the stride is an index of its own, and a last statement puts the phases together. Returns false, and appends
/// nothing, if the contraction has no such form or would read far more than the guarded one.
absl::StatusOr<bool> writePadded(const Contraction& contraction, const std::string& name, StatementWriter& writer);

}  // namespace tessera::compiler::gradient
