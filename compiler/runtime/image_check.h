#pragma once

#include <cstdint>
#include <span>

#include "compiler/runtime/status.h"

namespace tessera::compiler {

/// Checks that the dynamic linker executes no code of this ELF library while loading it: segments do not overlap,
/// relocations only add the load address to words of its data, and there are no initializers, other libraries or
/// functions that select an address (ifuncs). Sets `module` to the offset of the symbol of module_abi.h from the load
/// address. Fails with CORRUPT, or with INCOMPATIBLE for another machine's code.
RuntimeStatus checkImage(std::span<const uint8_t> code, uint64_t* module);

}  // namespace tessera::compiler
