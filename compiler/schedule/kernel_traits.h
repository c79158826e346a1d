#pragma once

#include <array>
#include <string_view>

#include "compiler/schedule/words.h"

namespace tessera::compiler {

/// The properties of a kernel (v1::Kernel.variant) that readers, searches and code generation need to know about its
/// leaves. A kernel is a row of this table and, if it runs nests, an entry of compiler/backends/cpu/kernel/registry; no
/// other code depends on a kernel's name.
struct KernelTraits {
  /// a nest; a copy of one operand of a nest to panels; operations that do not form a nest
  enum class Runs { kNest, kCopy, kOperations };
  /// the register tile: none, determined by the nest, chosen by the tree
  enum class Tile { kNone, kWholeBlock, kChosen };

  std::string_view name;
  Runs runs = Runs::kNest;
  Tile tile = Tile::kChosen;
  int weight = 1;  ///< a summary shows the leaf of the greatest weight
  /// Sums of a product that stay in registers while both operands are streamed, for whole vectors of results. Then the
  /// outermost sum may be cut into blocks, the number of sums is limited by the registers, and there is time to
  /// prefetch operands of a region's next slices.
  bool streams = false;
  bool fetches = false;             ///< may prefetch its next operands
  bool prefetches_vectors = false;  ///< may also prefetch the vectors of later steps
  bool interleaves = false;         ///< may order the points of a step by the depth of their operations
  int least_points = 1;             ///< in vectors of results in a tile
  int least_steps = 1;              ///< in iterations of the innermost sum in a tile
  bool unrolls_steps = true;        ///< emits the steps of a tile one by one; otherwise an instruction performs them
  std::string_view instead = {};    ///< another kernel that runs the same nests with the same tiles
  /// Kernels that run the same nests with vectors along another parallel loop, or along a reduction loop; empty: none.
  /// For a product the vector loop determines which operand is broadcast and which is packed, so it is not moved alone.
  std::string_view staying = {}, summing = {};
};

/// Largest number of block loops around the tiles of one dimension: one for each of three caches.
inline constexpr int kMaxBlockLevels = 3;

inline constexpr std::array<KernelTraits, 13> kKernels{{
    {.name = words::kScalar, .tile = KernelTraits::Tile::kNone},
    {.name = words::kElementwise, .staying = words::kElementwise},
    {.name = words::kTransposed, .staying = words::kElementwise},
    {.name = words::kReduction,
     .weight = 2,
     .fetches = true,
     .prefetches_vectors = true,
     .interleaves = true,
     .staying = words::kReduction,
     .summing = words::kHorizontal},
    {.name = words::kHorizontal,
     .weight = 2,
     .fetches = true,
     .prefetches_vectors = true,
     .interleaves = true,
     .staying = words::kReduction,
     .summing = words::kHorizontal},
    {.name = words::kOuterProduct,
     .weight = 3,
     .streams = true,
     .fetches = true,
     .prefetches_vectors = true,
     .interleaves = true,
     .instead = words::kSliding},
    {.name = words::kSliding,
     .weight = 3,
     .streams = true,
     .fetches = true,
     .least_points = 2,
     .least_steps = 2,
     .instead = words::kOuterProduct},
    {.name = words::kDot, .weight = 3, .fetches = true, .prefetches_vectors = true, .interleaves = true},
    {.name = words::kTiles, .weight = 3, .unrolls_steps = false},
    {.name = words::kTransform, .tile = KernelTraits::Tile::kWholeBlock, .weight = 2},
    {.name = words::kPack, .runs = KernelTraits::Runs::kCopy, .weight = 0},
    {.name = words::kSharedPack, .runs = KernelTraits::Runs::kCopy, .weight = 0},
    {.name = words::kSequential, .runs = KernelTraits::Runs::kOperations},
}};

/// Traits of the kernel of this name; default traits if there is none.
inline const KernelTraits& traitsOf(std::string_view name) {
  static constexpr KernelTraits kUnknown{};
  for (const KernelTraits& each : kKernels)
    if (each.name == name) return each;
  return kUnknown;
}

}  // namespace tessera::compiler
