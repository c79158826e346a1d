#pragma once

#include "compiler/backends/cpu/region/region_slices.h"

namespace tessera::compiler::codegen {

/// A range that moves with the slice number s: it starts at lo + step * (s - first), where `first` is the first slice
/// of the group, and has `size` elements.
struct MovingRange {
  int64_t lo = 0, size = 0;
  int64_t step = 0;
};

/// Slices of equal geometry: `count` slices, the first is `lo` and the last is `hi` - 1. Slices between them may belong
/// to other groups. If slices keep rows, either all slices of a group are the first of a sequence or none is.
struct SliceGroup {
  int64_t lo = 0, hi = 0;
  int64_t count = 0;
  bool begins = false;

  int64_t size() const { return count; }
};

/// How each nest and each buffer of a region is cut by the slices; constant within a group of slices. Immutable after
/// infer().
class RegionGeometry {
 public:
  /// Errors: as inferNeeds; INVALID_ARGUMENT when two slice loops walk one dimension of a nest or a buffer.
  static absl::StatusOr<RegionGeometry> infer(const SlicedNests& nests, llvm::ArrayRef<SliceLoop> loops);

  int sliceLoops() const { return static_cast<int>(needs_.size()); }
  int64_t count(int v) const { return static_cast<int64_t>(needs_[v].size()); }
  /// Groups of slices of equal geometry along slice loop `v`. Groups whose slices begin a sequence come first.
  llvm::ArrayRef<SliceGroup> groups(int v) const { return groups_[v]; }
  /// Slices of one sequence along the last slice loop (SliceLoop::sequence_length).
  int64_t sequenceLength() const { return sequence_length_; }

  /// The slice loop that cuts loop `loop` of nest `n`; -1: none.
  int cutBy(size_t n, int loop) const { return loop_cut_[n][loop]; }
  /// The slice loop that cuts coordinate `c` of buffer `root`; -1: none.
  int boxCutBy(mlir::Value root, int c) const { return box_cut_.at(root)[c]; }

  /// The iterations of `loop` that nest `n` runs in the slices of `group` (one group number per slice loop).
  MovingRange loop(size_t n, int loop, llvm::ArrayRef<int> group) const;
  /// The range of coordinate `c` of buffer `root` that these slices touch.
  MovingRange box(mlir::Value root, int c, llvm::ArrayRef<int> group) const;
  /// The range of coordinate `c` of `root` that the scratch buffer holds. It equals box(), except along the rows of a
  /// buffer with kept rows: there it has the size of the largest box and ends where the box ends.
  MovingRange scratchRange(mlir::Value root, int c, llvm::ArrayRef<int> group) const;
  /// The rows of `root` that the slices of `group` reuse from the previous slice.
  std::optional<ReusedRows> kept(mlir::Value root, llvm::ArrayRef<int> group) const;
  /// Whether slices keep any rows of `root`.
  bool keeps(mlir::Value root) const;
  /// Whether nest `n` has no work in the slices of `group`.
  bool empty(size_t n, llvm::ArrayRef<int> group) const;
  /// The largest size of coordinate `c` of the box of `root` that a slice touches.
  int64_t largestBox(mlir::Value root, int c) const;
  /// For a mask over blocks of keys: the slice loop that determines which blocks run (-1: all blocks run in every
  /// slice), and the blocks that run in each slice of that loop.
  int maskLoopOf() const { return mask_loop_; }
  llvm::ArrayRef<Range> unmaskedBlocks() const { return kept_blocks_; }
  /// Whether some loop of nest `n` is cut by slice loop `v`, or the nest runs in some of its slices only.
  bool dependsOn(size_t n, int v) const;

 private:
  /// The slice after the first one of `group` of slice loop `v`.
  int64_t secondSlice(int v, int group) const;
  MovingRange moving(int v, int group, llvm::function_ref<Range(const Needs&)> range) const;
  void setUnmaskedBlocks(const SlicedNests& nests);

  std::vector<std::vector<Needs>> needs_;  ///< [slice loop][slice]
  std::vector<llvm::SmallVector<SliceGroup>> groups_;
  std::vector<llvm::SmallVector<int>> loop_cut_;
  llvm::DenseMap<mlir::Value, llvm::SmallVector<int>> box_cut_;
  int64_t sequence_length_ = 1;
  int mask_loop_ = -1;
  llvm::SmallVector<Range> kept_blocks_;
};

}  // namespace tessera::compiler::codegen
