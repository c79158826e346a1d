#pragma once

#include "compiler/import/operator.h"

namespace tessera::compiler {

/// Emits one node by its table entry. Some operators convert f16 and bf16 operands to f32, compute in f32, and round
/// the result once:
/// - Operators that sum. A sum in 16 bits stops growing after some hundred terms.
/// - Operators that compute a formula of several steps. In 16 bits each step would round.
/// - Operators that combine an element with an attribute. In 16 bits the attribute would be rounded first.
/// The conversions are elementwise operations, which graph rewrites move to the loads.
Results lowerOperator(const Operator& op, Node& node, Emitter& e);

}  // namespace tessera::compiler
