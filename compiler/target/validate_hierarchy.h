#pragma once

#include "compiler/target/problems.h"

namespace tessera::compiler {

/// Adds all faults of how units and memory levels refer to each other: names, parents, numbers, levels of units; and of
/// the rates of units. Fields that refer to nothing are checked by validateTarget().
void validateHierarchy(const v1::Target& target, Problems& problems);

}  // namespace tessera::compiler
