#pragma once

#include <span>
#include <string>

#include "compiler/runtime/module_abi.h"
#include "compiler/runtime/status.h"

namespace tessera::compiler {

/// The part of a run's shapes that a caller of the C interface knows. Shapes of rank -1 are unknown.
struct VariantQuery {
  std::span<const tessera_shape> inputs;  ///< one per input of the module, or none
  std::span<const tessera_dimension> dimensions;
};

std::span<const tessera_module_variant> variantsOf(const tessera_module& module);

/// Index of the first input that is the size of a range: these are the last inputs, in the order of the dimensions.
size_t firstCount(const tessera_module& module, const tessera_module_variant& variant);

/// "batch=4 seq=128"; without named dimensions, the shapes of the inputs: "x=4x8, mask=4".
std::string describeVariant(const tessera_module& module, size_t variant);

/// Finds the matching variant; among variants that differ in the sizes of ranges only, the smallest that is large
/// enough. Fails with INVALID_ARGUMENT, listing all variants, when none or several match. `module` must have passed
/// checkModule().
RuntimeStatus findVariant(const tessera_module& module, const VariantQuery& query, size_t* variant);

}  // namespace tessera::compiler
