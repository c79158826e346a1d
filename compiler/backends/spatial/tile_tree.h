#pragma once

#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "compiler/backends/spatial/nest_form.h"
#include "compiler/backends/spatial/program.h"
#include "compiler/schedule/chip_words.h"
#include "compiler/schedule/fault.h"
#include "tessera/v1/schedule.pb.h"
#include "tessera/v1/target.pb.h"

/// Programs and tile trees (v1::Tile): the tree of a program, and the program that a tree describes. Reading decides
/// nothing: it takes the mapping and the tiling from the tree, lowers them without changes, and refuses a tree that is
/// not the tree of the resulting program.
namespace tessera::compiler::simulator {

/// INVALID_SCHEDULE for a tree whose tiles a memory of the chip cannot hold.
absl::Status unusable(const std::string& path, const absl::Status& reason);

/// OK if the trees are equal, otherwise INVALID_SCHEDULE with the path of the first tile that differs and the line
/// expected there.
absl::Status sameTree(const v1::Tile& found, const v1::Tile& expected, const std::string& path);

/// One tile per memory level, outermost first, with its loops over blocks in the program's order; loops that the units
/// share name the unit. The leaf calls the instruction. With an epilogue, the tile outside of the reduction loops has
/// two children that share each of its iterations (SHAR): the rest of the chain, and the leaf of nest `follower` at the
/// level that holds the results meanwhile.
v1::Tile treeOf(const Program& program, int nest, int follower = -1);

/// The tree of a fill that has no code.
v1::Tile initialTree(int nest);

/// The leaf of a nest on a vector unit.
v1::Tile vectorLeaf(const std::string& level, const std::string& unit, int lanes, int nest);

/// The kernel of the first leaf. Trees of described chips are chains, except for a follower's leaf.
const v1::Kernel& leafKernel(const v1::Tile& tree);

/// The leaf of the nest that follows the first leaf's, with its path; null without one.
struct FollowerLeaf {
  const v1::Tile* tile = nullptr;
  std::string path;
};
FollowerLeaf followerLeaf(const v1::Tile& tree, std::string path);

/// The program of the tree at `path`, with the given epilogue if the tree has a follower. Fails with INVALID_SCHEDULE
/// naming the path of the tile at fault.
absl::StatusOr<Program> programOf(const v1::Tile& tree, const ProductNest& product, int nest, const std::string& path,
                                  const std::optional<Epilogue>& epilogue, int follower, const v1::Target& target);

}  // namespace tessera::compiler::simulator
