#pragma once

#include "compiler/import/operator.h"

namespace tessera::compiler {

/// Emits one node by its entry. Operators that sum, whose formula has several steps, or that compare with or multiply
/// by an attribute, take f16 and bf16 operands in f32 and are rounded once at the end: in its own type a sum of some
/// hundred halves stands still, each step would round, and so would the attribute before anything is compared with it.
/// The conversions are elementwise operations, which graph rewrites move to where operands are loaded.
Results lowerOperator(const Operator& op, Node& node, Emitter& e);

}  // namespace tessera::compiler
