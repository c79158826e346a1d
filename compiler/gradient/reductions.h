#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "compiler/gradient/adjoints.h"
#include "compiler/gradient/statement_writer.h"

namespace tessera::compiler::gradient {

/// Returns the gradient of a statement's value in one iteration, given the gradient dO of its result:
///
/// - a sum or no reduction: dO[i].
/// - a maximum or minimum: dO[i] / N[i] where the value equals O[i]; N counts the equal values, which share the
/// gradient.
/// - a product: dO[i] * R[i, k], where R is the product of the values of all other iterations; no division by a value
///   that may be 0.
///
/// N and R are appended as statements. `gradient` names dO.
absl::StatusOr<Adjoint> seedOf(const expression::Statement& statement, const std::vector<expression::Loop>& loops,
                               const std::string& gradient, StatementWriter& writer);

}  // namespace tessera::compiler::gradient
