#pragma once

#include "compiler/codegen/region/region_geometry.h"
#include "compiler/codegen/tiling/tile_plan.h"
#include "compiler/codegen/tree/parsed_schedule.h"

namespace tessera::compiler::codegen {

/// One nest as it runs for one slice, or once for all slices that agree in the first `depth` slice numbers.
struct RegionNestRun {
  Nest nest;  ///< of the extents within one slice; Access::slice moves its operands from slice to slice
  TilePlan plan;
  int number = 0;  ///< of the nest in program order
  int depth = 0;
  bool last = false;  ///< in the last block of a slice only
  /// input that the nest copies to panels for nest `number`; -1: the step is nest `number` itself
  int operand = -1;
  bool shared = false;  ///< a copy that is planned by the main variant and repeated here
};

/// Strides of a buffer of the region in scratch, identified by the statement that writes it first.
struct ScratchStrides {
  int nest = 0, statement = 0, result = 0;
  llvm::SmallVector<int64_t> strides;  ///< elements, per coordinate, slowest first
};

/// Steps [first, end) of a variant that run a few rows at a time: all of them for these rows, then for the next rows.
struct Strip {
  size_t first = 0, end = 0;
  int64_t rows = 1;   ///< iterations of each step's outermost loop
  int64_t count = 1;  ///< strips of a slice
};

/// Steps [first, end) of a variant that run over the keys of a softmax in whole rows. They run over the first keys
/// only, in whole pieces up to the last one that some condition keeps.
struct DynamicKeyRange {
  size_t first = 0, end = 0;
  llvm::SmallVector<int> loops;  ///< per step: its loop over keys; -1: none
  int64_t keys = 0, piece = 1;
  Access conditions;   ///< of the first key
  int64_t stride = 1;  ///< elements from one key's condition to the next
};

/// Moves rows that the slice before has computed to the place where this slice's nests expect them, before any of these
/// nests runs. Moves go to lower addresses, or nowhere: an element is copied before it is overwritten.
struct HaloMove {
  mlir::Value root;
  mlir::Type element;
  int64_t from = 0, to = 0, length = 0;                           ///< elements
  llvm::SmallVector<std::pair<int64_t, int64_t>, 2> around = {};  ///< stride and extent of coordinates outside
};

/// Code for slices of one geometry: full slices, the last one, those that touch a padded border.
struct RegionVariant {
  llvm::SmallVector<int> group;  ///< per slice loop: which of Region::groups
  std::vector<RegionNestRun> steps;
  std::vector<Strip> strips;  ///< in the order of `steps`
  std::optional<DynamicKeyRange> counted = {};
  std::vector<HaloMove> moves = {};
};

/// A loop of the tree by which a region is cut: its name in the tree and its step; whether it runs in time, or its
/// points are distributed over cores.
struct RegionCut {
  std::string name;
  int64_t step = 1;
  bool in_time = false;
};

/// Nests that run slice by slice in one phase. Slices are numbered with the first slice loop slowest.
struct Region {
  llvm::SmallVector<int64_t> counts;  ///< slices along each slice loop
  int64_t blocks = 1;  ///< more than 1: the last slice loop counts blocks of a reduction within one slice
  /// slices along the last loop that follow each other (SliceLoop::part) as one point of the grid
  int64_t part = 1;
  /// slices compute only the keys that a mask keeps: each variant the first ones, or blocks of them
  bool masked = false;
  int mask_loop = -1;                        ///< the slice loop that determines which key blocks run; -1: all run
  llvm::SmallVector<Range> unmasked_blocks;  ///< per slice of `mask_loop`: the blocks that run
  llvm::SmallVector<llvm::SmallVector<SliceGroup>> groups;     ///< per slice loop: slices of equal geometry
  std::vector<RegionVariant> variants;                         ///< one per combination of groups, last loop fastest
  llvm::SmallVector<std::pair<mlir::Value, int64_t>> scratch;  ///< buffer, byte offset in the thread's scratch
  int64_t scratch_bytes = 0;
  int64_t move_bytes = 0;               ///< of a vector that moves kept rows
  std::vector<RegionCut> cuts;          ///< the slice loops, then "r0", then "keys"
  bool deferred_softmax = false;        ///< see SlicedNests
  int64_t key_piece = 0;                ///< piece of the mask that removes keys; 0: no mask
  std::vector<ScratchStrides> strides;  ///< of scratch buffers that are not dense boxes
  std::string description;              ///< "region of 5 nests, 96 slices of 1x64x64"

  int64_t slices() const {
    int64_t product = 1;
    for (int64_t count : counts) product *= count;
    return product / blocks;
  }
  /// Along the last slice loop: parts, or slices if slices are independent.
  int64_t parts() const { return (counts.back() + part - 1) / part; }
  /// Points of the grid.
  int64_t points() const { return slices() / (part > 1 ? counts.back() : 1) * (part > 1 ? parts() : 1); }
};

/// A copy of an operand into panels that does not depend on the slice: it runs in a phase before the region.
struct PackBefore {
  Nest nest;
  TilePlan plan;
  int number = 0, operand = 0;  ///< the nest and input whose panels these are
};

/// Cuts `nests` into slices of their result. Allocations that are not results become scratch of the size that one slice
/// needs. Operands that need panels are packed where they change: before the region, or in the first slice of those
/// that share them. Plans, layouts, strips and prefetches are chosen by analysis or, with `followed`, taken from the
/// tree. Errors: INVALID_ARGUMENT as inferNeeds, and when two slice loops walk one dimension or there are too many
/// kinds of slices; INVALID_SCHEDULE when the tree does not describe this region.
absl::StatusOr<Region> formRegion(mlir::OpBuilder& builder, const SlicedNests& nests, llvm::ArrayRef<SliceLoop> loops,
                                  const Chip& chip, std::vector<PackBefore>& before, const ParsedRegion* followed);

}  // namespace tessera::compiler::codegen
