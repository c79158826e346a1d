#pragma once

#include "compiler/runtime/module_abi.h"
#include "compiler/runtime/status.h"

namespace tessera::compiler {

/// INVALID_ARGUMENT unless `given`, fixed.size_bytes of the caller's, are the bytes that were compiled in. The
/// sentence names the input and shows both values. NaNs compare by their bits, and 0.0 is not -0.0.
RuntimeStatus checkFixedInput(const tessera_module_tensor& input, const tessera_module_fixed_input& fixed,
                              const void* given);

}  // namespace tessera::compiler
