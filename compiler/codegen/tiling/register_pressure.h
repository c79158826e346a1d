#pragma once

#include "compiler/codegen/nest.h"

namespace tessera::compiler::codegen {

/// How many vectors are alive at once while the statements of `nest` are evaluated one after another at one point
/// of the tile: what operands load, what bodies compute and later operations read, and results that wait for their
/// stores at the end. Constants do not count: they are memory operands. More than the register file holds means
/// spills, which is what fusion was to save.
int liveVectors(const Nest& nest);

}  // namespace tessera::compiler::codegen
