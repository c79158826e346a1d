#pragma once

#include "compiler/backends/cpu/nest.h"

namespace tessera::compiler::codegen {

/// The number of vectors that are live at once while the statements of `nest` are evaluated in sequence at one point of
/// the tile: loaded operands, values that later operations read, and results waiting for their stores at the end.
/// Constants do not count, since they are memory operands. More live vectors than registers cause spills, which would
/// undo the gain of fusion.
int liveVectors(const Nest& nest);

}  // namespace tessera::compiler::codegen
