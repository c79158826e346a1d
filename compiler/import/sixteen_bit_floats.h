#pragma once

#include "compiler/import/operator.h"

namespace tessera::compiler {

/// Emits one node by its table entry. Operators that sum, that compute a formula of several steps, or that combine an
/// element with an attribute take f16 and bf16 operands in f32, and the result is rounded once at the end. In 16 bits a
/// sum of some hundred terms stops growing, each step rounds, and the attribute would be rounded before it is compared.
/// The conversions are elementwise operations, which graph rewrites move to the loads.
Results lowerOperator(const Operator& op, Node& node, Emitter& e);

}  // namespace tessera::compiler
