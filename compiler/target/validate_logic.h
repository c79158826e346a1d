#pragma once

#include "compiler/target/problems.h"
#include "tessera/v1/target.pb.h"

namespace tessera::compiler {

/// Checks Target.logic: family HLS has programmable logic, other families have none; counts and rates are in range, the
/// shell fits the device, and every operator is listed once.
void validateLogic(const v1::Target& target, Problems& problems);

}  // namespace tessera::compiler
