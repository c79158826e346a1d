#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "compiler/codegen/tiling/tile_plan.h"
#include "tessera/v1/schedule.pb.h"

/// The plan of one nest as a leaf of the tile tree, and back. Both ways are exact: planOf(leafOf(plan)) emits what
/// `plan` emits, and a leaf that could be read in two ways, or says what code would not show, is refused.
namespace tessera::compiler::codegen {

/// A leaf and its path in the tree, "0.2.1".
struct Leaf {
  const v1::Tile* tile = nullptr;
  std::string path;
};

/// "i2", or "r2" where the loop sums.
std::string loopName(const Nest& nest, int loop);

/// `number`: of the nest in the order of phases.
v1::Tile leafOf(const Nest& nest, const TilePlan& plan, int number);

/// The leaf that copies input `operand` of nest `number` to panels; `copy` is the nest that does.
v1::Tile packLeafOf(const Nest& copy, const TilePlan& plan, int number, int operand);

/// Errors: INVALID_SCHEDULE with the leaf's path: a loop the nest does not have, a variant or a tile it cannot run, an
/// operand that cannot be packed so. Fetches of a region's next slices are the region's to resolve. A leaf with kernels
/// that copy keeps them in the tree.
absl::StatusOr<TilePlan> planOf(const Leaf& leaf, const Nest& nest, int number, const Chip& chip);

/// The same for the leaf of a copy to panels of `width` iterations: a tile of it is a panel, whole.
absl::StatusOr<TilePlan> packPlanOf(const Leaf& leaf, const Nest& copy, int number, int operand, int64_t width,
                                    const Chip& chip);

/// Of orders of the sums that code does not tell from each other one stands for all: loops that go round come before
/// those that the tile holds whole.
bool sumsAreSettled(const Nest& nest, const TilePlan& plan);
void settleSums(const Nest& nest, TilePlan& plan);

/// What is said of `plan` that no code follows from: as fetches nobody reads. Empty: nothing. Call with the accesses
/// that code is emitted for, panels put in.
std::string ineffective(const Nest& nest, const TilePlan& plan);

/// Takes back what ineffective() finds.
void dropIneffective(const Nest& nest, TilePlan& plan);

}  // namespace tessera::compiler::codegen
