#pragma once

#include <array>
#include <string_view>

#include "compiler/schedule/words.h"

namespace tessera::compiler {

/// What a tree may say of a leaf whose kernel (v1::Kernel.variant) this is: for all who read, change and follow trees.
/// A kernel is a row here and, where it runs nests, an entry of compiler/codegen/kernel/registry; nobody else asks for
/// one by its name.
struct KernelTraits {
  enum class Runs { kNest, kCopy, kOperations };  ///< a nest; one operand of a nest to panels; what no nest is made of
  enum class Tile { kNone, kWholeBlock, kChosen };  ///< the register tile: none, as the nest says, as the tree says

  std::string_view name;
  Runs runs = Runs::kNest;
  Tile tile = Tile::kChosen;
  int weight = 1;  ///< in summaries the leaf of most weight stands for all
  /// Sums of a product that stay in registers while both operands pass by, for whole vectors of results: the outermost
  /// sum may be cut into blocks, the sums are as many as there are registers, and there is time to prefetch what the
  /// next slices of a region touch.
  bool streams = false;
  bool fetches = false;           ///< may prefetch what it needs next
  bool fetches_vectors = false;   ///< also for the vectors of later steps
  bool interleaves = false;       ///< may evaluate the points of a step by the depth of their operations
  int least_points = 1;           ///< vectors of results in a tile
  int least_steps = 1;            ///< of the innermost sum in a tile
  bool writes_out = true;         ///< the steps of a tile one by one; else they are an instruction's
  std::string_view instead = {};  ///< runs the same nests with the same tiles
  /// Run the same nests with vectors along another loop that stays, and along one that sums; empty: none does. Of a
  /// product that loop says which operand is broadcast and which lies in panels: it is not moved by itself.
  std::string_view staying = {}, summing = {};
};

/// Loops in blocks around those over the tiles, of one dimension: one for each cache of three.
inline constexpr int kMostBlockLevels = 3;

inline constexpr std::array<KernelTraits, 13> kKernels{{
    {.name = words::kScalar, .tile = KernelTraits::Tile::kNone},
    {.name = words::kElementwise, .staying = words::kElementwise},
    {.name = words::kTransposed, .staying = words::kElementwise},
    {.name = words::kReduction,
     .weight = 2,
     .fetches = true,
     .fetches_vectors = true,
     .interleaves = true,
     .staying = words::kReduction,
     .summing = words::kHorizontal},
    {.name = words::kHorizontal,
     .weight = 2,
     .fetches = true,
     .fetches_vectors = true,
     .interleaves = true,
     .staying = words::kReduction,
     .summing = words::kHorizontal},
    {.name = words::kOuterProduct,
     .weight = 3,
     .streams = true,
     .fetches = true,
     .fetches_vectors = true,
     .interleaves = true,
     .instead = words::kSliding},
    {.name = words::kSliding,
     .weight = 3,
     .streams = true,
     .fetches = true,
     .least_points = 2,
     .least_steps = 2,
     .instead = words::kOuterProduct},
    {.name = words::kDot, .weight = 3, .fetches = true, .fetches_vectors = true, .interleaves = true},
    {.name = words::kTiles, .weight = 3, .writes_out = false},
    {.name = words::kTransform, .tile = KernelTraits::Tile::kWholeBlock, .weight = 2},
    {.name = words::kPack, .runs = KernelTraits::Runs::kCopy, .weight = 0},
    {.name = words::kSharedPack, .runs = KernelTraits::Runs::kCopy, .weight = 0},
    {.name = words::kSequential, .runs = KernelTraits::Runs::kOperations},
}};

/// Of the kernel of this name; one that may do nothing special where there is none.
inline const KernelTraits& traitsOf(std::string_view name) {
  static constexpr KernelTraits kUnknown{};
  for (const KernelTraits& each : kKernels)
    if (each.name == name) return each;
  return kUnknown;
}

}  // namespace tessera::compiler
