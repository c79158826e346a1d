#pragma once

#include <span>
#include <string>

#include "compiler/runtime/module_abi.h"
#include "compiler/runtime/status.h"

namespace tessera::compiler {

/// What callers of the C interface know of a run. Shapes of rank -1 are not known.
struct VariantQuery {
  std::span<const tessera_shape> inputs;  ///< one per input of the module, or none
  std::span<const tessera_dimension> dimensions;
};

std::span<const tessera_module_variant> variantsOf(const tessera_module& module);

/// "batch=4 seq=128"; where no dimension has a name, the shapes of the inputs: "x=4x8, mask=4".
std::string describeVariant(const tessera_module& module, size_t variant);

/// The one variant that fits; of those that differ in how far a range goes only, the smallest that has room.
/// INVALID_ARGUMENT when none does, or several: lists what there is.
/// `module` has passed checkModule().
RuntimeStatus findVariant(const tessera_module& module, const VariantQuery& query, size_t* variant);

}  // namespace tessera::compiler
