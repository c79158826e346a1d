#pragma once

#include "compiler/runtime/module_abi.h"
#include "compiler/runtime/status.h"

namespace tessera::compiler {

/// Returns INVALID_ARGUMENT unless `given` (fixed.size_bytes bytes of the caller) equals the value that was compiled
/// in. The message names the input and shows both values. Values compare bitwise: NaNs by their bits, and 0.0 differs
/// from -0.0.
RuntimeStatus checkFixedInput(const tessera_module_tensor& input, const tessera_module_fixed_input& fixed,
                              const void* given);

}  // namespace tessera::compiler
