#pragma once

#include <string>

#include "compiler/intrinsic/physical_mapping.h"

namespace tessera::compiler::intrinsic {

/// One mapping in readable form: the matrices X, Y and Z, the virtual and the physical form, addresses and tails.
std::string explain(const Nest& software, const v1::Intrinsic& intrinsic, const Matching& matching,
                    const PhysicalMapping& mapping);

}  // namespace tessera::compiler::intrinsic
