#pragma once

#include "absl/status/statusor.h"
#include "compiler/backends/hls/design.h"
#include "tessera/v1/schedule.pb.h"

/// Designs as tile trees (compiler/schedule/text.h) and back.
namespace tessera::compiler::hls {

/// One phase: a tile of the external memory with the steps' loops, its children in a pipeline (thesis, table 3.3), and
/// a leaf with the loops of one step. `nest` is the number of the design's nest.
///
///   ddr [k:Tp/32 p:Tp/14] Pipe
///     stage buffer operand 1 order bram strides 1,8 distance 16 ahead 1
///     on-chip [k:Tp/16 c:Tp/1 k:Sp(pe)/1] pipeline nest 0
v1::Tile treeOf(const Design& design, const Device& device, int nest);

/// The tiling that a tree states. INVALID_ARGUMENT naming the path of the tile ("0.0") if the tree is not the tree of
/// that tiling's design: no field is ignored.
absl::StatusOr<Tiling> tilingOf(const v1::Tile& tree, const Form& form, const Device& device, int nest,
                                const Resources& limits);

}  // namespace tessera::compiler::hls
