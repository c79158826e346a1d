#pragma once

#include "compiler/backends/cpu/region/region_geometry.h"
#include "compiler/backends/cpu/tiling/tile_plan.h"

namespace tessera::compiler::codegen {

/// A nest of a region, cut to the slices of one variant.
struct RegionNest {
  Nest nest;
  int number = 0;  ///< in program order
  int depth = 0;   ///< see RegionNestRun
  bool last = false;
};

/// One nest as it runs for one slice, or once for all slices that agree in the first `depth` slice numbers.
struct RegionNestRun {
  Nest nest;  ///< of the extents within one slice; Access::slice moves its operands from slice to slice
  TilePlan plan;
  int number = 0;  ///< of the nest in program order
  int depth = 0;
  bool last = false;  ///< runs in the last block of a slice only
  /// input that the nest copies to panels for nest `number`; -1: the step is nest `number` itself
  int operand = -1;
  bool shared = false;  ///< a copy that is planned by the main variant and repeated here
};

/// Steps [first, end) of a variant that run a few rows at a time: all of them for these rows, then for the next rows.
struct Strip {
  size_t first = 0, end = 0;
  int64_t rows = 1;   ///< iterations of each step's outermost loop
  int64_t count = 1;  ///< strips of a slice
};

/// Steps [first, end) of a variant that run over the keys of a softmax in whole rows. At run time each slice finds the
/// last group of keys with a true condition, and the steps run over the keys up to the end of that group
/// (counted_keys.h).
struct DynamicKeyRange {
  size_t first = 0, end = 0;
  llvm::SmallVector<int> loops;          ///< per step: its loop over keys; -1: none
  int64_t keys = 0, keys_per_group = 1;  ///< all keys, and keys of one group
  Access conditions;                     ///< of the first key
  int64_t stride = 1;                    ///< elements from one key's condition to the next
};

/// Moves the rows of a buffer that this slice reuses from the previous one to the place where this slice's nests read
/// them. Runs before the nests of the slice. `to` is never above `from`, so that copying in ascending order reads each
/// element before it is overwritten.
struct HaloMove {
  mlir::Value root;
  mlir::Type element;
  int64_t from = 0, to = 0, length = 0;  ///< elements
  /// Stride and extent of each coordinate outside of the rows: one move for each combination of their indices.
  llvm::SmallVector<std::pair<int64_t, int64_t>, 2> around = {};
};

/// The code for all slices of one geometry, for instance full slices, a smaller last slice, or slices at a padded
/// border.
struct RegionVariant {
  llvm::SmallVector<int> group;  ///< per slice loop: index in Region::groups
  std::vector<RegionNestRun> steps;
  std::vector<Strip> strips;  ///< in the order of `steps`
  std::optional<DynamicKeyRange> counted = {};
  std::vector<HaloMove> moves = {};
};

/// Nests that run slice by slice in one phase. Slices are numbered with the first slice loop slowest.
struct Region {
  llvm::SmallVector<int64_t> counts;  ///< slices along each slice loop
  int64_t blocks = 1;  ///< more than 1: the last slice loop counts blocks of a reduction within one slice
  /// number of consecutive slices along the last loop that one grid point runs (SliceLoop::sequence_length)
  int64_t sequence_length = 1;
  /// a softmax over whole rows has a mask, and each variant computes only the range of keys that the mask keeps
  bool masked = false;
  int mask_loop = -1;                        ///< the slice loop that determines which key blocks run; -1: all run
  llvm::SmallVector<Range> unmasked_blocks;  ///< per slice of `mask_loop`: the blocks that run
  llvm::SmallVector<llvm::SmallVector<SliceGroup>> groups;     ///< per slice loop: slices of equal geometry
  std::vector<RegionVariant> variants;                         ///< one per combination of groups, last loop fastest
  llvm::SmallVector<std::pair<mlir::Value, int64_t>> scratch;  ///< buffer, byte offset in the thread's scratch
  int64_t scratch_bytes = 0;
  int64_t move_bytes = 0;      ///< bytes of the vectors by which kept rows are moved
  int64_t keys_per_group = 0;  ///< a mask removes whole groups of this many keys; 0: no mask
  std::string description;     ///< "region of 5 nests, 96 slices of 1x64x64"

  int64_t slices() const {
    int64_t product = 1;
    for (int64_t count : counts) product *= count;
    return product / blocks;
  }
  /// Sequences along the last slice loop; slices, if the slices are independent.
  int64_t sequences() const { return (counts.back() + sequence_length - 1) / sequence_length; }
  /// Points of the grid.
  int64_t points() const { return sequence_length > 1 ? slices() / counts.back() * sequences() : slices(); }
};

/// A copy of an operand to panels that is the same for all slices. It runs in a phase before the region.
struct PackBefore {
  Nest nest;
  TilePlan plan;
  int number = 0, operand = 0;  ///< the nest and input whose panels these are
};

}  // namespace tessera::compiler::codegen
