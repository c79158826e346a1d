#pragma once

#include <cstdint>
#include <span>

#include "compiler/runtime/status.h"

namespace tessera::compiler {

/// Checks that the dynamic linker executes nothing of this ELF library while it loads it, and finds its tables at all:
/// segments that do not overlap, relocations that only put the image's own place into its data, and no initializers,
/// other libraries or functions that choose an address. `module` is where the symbol of module_abi.h lies, from the
/// image's place in memory. Fails with CORRUPT, or INCOMPATIBLE for another machine's code.
RuntimeStatus checkImage(std::span<const uint8_t> code, uint64_t* module);

}  // namespace tessera::compiler
