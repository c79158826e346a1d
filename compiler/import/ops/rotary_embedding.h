#pragma once

#include "compiler/import/emitter.h"

namespace tessera::compiler {

/// Rotates each token's pairs of elements in x (batch x heads x tokens x elements) by the angles in row `positions`
/// (i64, batch x tokens) of the tables, positions x half. Positions beyond the tables are clamped. Pairs are neighbours
/// if `interleaved`, else one element of each half. Elements at or after 2 half are unchanged. Requires 2 half <=
/// elements.
Tensor applyRotaryEmbedding(Emitter& e, const Tensor& x, const Tensor& cosines, const Tensor& sines,
                            const Tensor& positions, bool interleaved);

}  // namespace tessera::compiler
