#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "compiler/backends/cpu/tiling/tile_plan.h"
#include "tessera/v1/schedule.pb.h"

/// Conversion between the plan of one nest and a leaf of the tile tree. Both directions are exact: planOf(leafOf(plan))
/// emits the same code as `plan`, and a leaf that is ambiguous or holds settings without effect on the code is refused.
namespace tessera::compiler::codegen {

/// A leaf and its path in the tree, "0.2.1".
struct Leaf {
  const v1::Tile* tile = nullptr;
  std::string path;
};

/// "i2", or "r2" for a reduction loop.
std::string loopName(const Nest& nest, int loop);

/// `number`: of the nest in the order of phases.
v1::Tile leafOf(const Nest& nest, const TilePlan& plan, int number);

/// The leaf that copies input `operand` of nest `number` to panels; `copy` is the copying nest.
v1::Tile packLeafOf(const Nest& copy, const TilePlan& plan, int number, int operand);

/// Errors: INVALID_SCHEDULE with the leaf's path, for a loop that the nest does not have, a kernel or a tile that the
/// nest cannot run, or an operand that cannot be packed in this way. Prefetches of a region's next slices are left to
/// the region. Leaves nested in the leaf (copy kernels) are not read.
absl::StatusOr<TilePlan> planOf(const Leaf& leaf, const Nest& nest, int number, const Chip& chip);

/// The same for the leaf of a copy to panels of `width` iterations: its tile is one whole panel.
absl::StatusOr<TilePlan> packPlanOf(const Leaf& leaf, const Nest& copy, int number, int operand, int64_t width,
                                    const Chip& chip);

/// Several orders of the reduction loops give the same code; one of them is canonical: loops with several iterations
/// come before those that the tile covers entirely.
bool hasCanonicalReductionOrder(const Nest& nest, const TilePlan& plan);
void canonicalizeReductionOrder(const Nest& nest, TilePlan& plan);

/// The settings of `plan` that have no effect on the code, such as prefetches of an operand that the kernel does not
/// read. Empty: there are none. Call with the accesses for which code is emitted, after packing.
std::string redundantSettings(const Nest& nest, const TilePlan& plan);

/// Removes the settings that redundantSettings() reports.
void dropRedundantSettings(const Nest& nest, TilePlan& plan);

}  // namespace tessera::compiler::codegen
