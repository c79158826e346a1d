#pragma once

#include "compiler/import/emitter.h"

namespace tessera::compiler {

/// x (batch x heads x tokens x elements) with each token's pairs of elements turned: by the angles in row `positions`
/// (i64, batch x tokens) of the tables, positions x half. Positions beyond the tables are clamped. Pairs are neighbours
/// when `interleaved`, else one of each half; elements beyond 2 half stay. Requires 2 half <= elements.
Tensor rotated(Emitter& e, const Tensor& x, const Tensor& cosines, const Tensor& sines, const Tensor& positions,
               bool interleaved);

}  // namespace tessera::compiler
