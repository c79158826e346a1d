#pragma once

#include <optional>
#include <string>
#include <vector>

#include "compiler/backends/cpu/region/region.h"

namespace tessera::compiler::codegen {

/// The first result that is written to a buffer: result `result` of statement `statement` of nest `nest`.
struct BufferWriter {
  int nest = 0, statement = 0, result = 0;
};

/// Layout of a region's buffer in scratch.
struct ScratchLayout {
  bool whole = false;                  ///< like the buffer itself, because some access to it is not a box
  bool in_memory = false;              ///< false: the value only passes in registers and needs no memory
  llvm::SmallVector<int64_t> sizes;    ///< of the largest box that a slice touches, per coordinate
  llvm::SmallVector<int64_t> strides;  ///< elements, per coordinate
  int64_t elements = 0;
  std::optional<BufferWriter> writer;

  /// The strides that have an effect; that of a coordinate with a single place is 0.
  llvm::SmallVector<int64_t> effective(llvm::SmallVector<int64_t> of) const {
    for (auto [stride, size] : llvm::zip_equal(of, sizes))
      if (size == 1) stride = 0;
    return of;
  }
};

/// The strides of a box of `sizes` elements without padding.
llvm::SmallVector<int64_t> denseStrides(llvm::ArrayRef<int64_t> sizes);

/// Why slices that follow each other keep no rows.
struct UnkeptRows {
  std::string message, found, accepted;
};

/// Cuts nests into slices. The caller makes the choices between the calls: after layOut(), the layouts of the buffers;
/// after cut(), the steps of each variant (RegionPanels), strips and prefetches. finish() returns the region.
class RegionBuilder {
 public:
  /// `nests` and `chip` must outlive the builder. Errors: as RegionGeometry::infer.
  static absl::StatusOr<RegionBuilder> create(const SlicedNests& nests, llvm::ArrayRef<SliceLoop> loops,
                                              const Chip& chip);

  /// Why slices of a sequence (SliceLoop::sequence_length) keep no rows; nothing if they keep some, or if no loop has
  /// sequences.
  std::optional<UnkeptRows> unkeptRows() const;

  /// Finds the kinds of slices, which are the region's variants, and the buffers. Errors: INVALID_ARGUMENT when there
  /// are too many kinds.
  absl::Status layOut();

  /// Buffers in scratch, in the order of first use. At first each layout is a dense box.
  llvm::ArrayRef<mlir::Value> buffers() const { return scratch_; }
  const ScratchLayout& layoutOf(mlir::Value buffer) const { return layouts_.at(buffer); }
  void setStrides(mlir::Value buffer, llvm::SmallVector<int64_t> strides, int64_t elements);

  /// Cuts the nests to the slices of each variant, and returns them in the order of the variants. Call once the layouts
  /// are final.
  std::vector<std::vector<RegionNest>> cut();

  Region& region() { return region_; }

  /// Places buffers and `panels` in scratch. Call once steps and strips are final.
  void placeScratch(llvm::ArrayRef<mlir::Value> panels);

  /// The region with its report. Call last.
  Region finish();

 private:
  RegionBuilder(const SlicedNests& nests, llvm::ArrayRef<SliceLoop> loops, RegionGeometry geometry, const Chip& chip)
      : nests_(nests), loops_(loops), geometry_(std::move(geometry)), chip_(chip) {}

  bool next(llvm::SmallVector<int>& group) const;
  bool isScratch(mlir::Value root) const;
  bool isInMemory(mlir::Value root) const;
  void visitBuffers();
  void chooseDepths();
  void moveBy(Access& access, int64_t stride, const MovingRange& range, int v, llvm::ArrayRef<int> group) const;
  void place(Access& access, size_t n, llvm::ArrayRef<MovingRange> loops, llvm::ArrayRef<int> group) const;
  std::vector<HaloMove> movesOf(llvm::ArrayRef<int> group) const;
  std::vector<RegionNest> slice(llvm::ArrayRef<int> group) const;
  double keptShare() const;
  std::string describe(double kept) const;

  const SlicedNests& nests_;
  llvm::SmallVector<SliceLoop> loops_;
  RegionGeometry geometry_;
  const Chip& chip_;
  Region region_;
  llvm::SmallVector<mlir::Value> scratch_;
  llvm::DenseMap<mlir::Value, ScratchLayout> layouts_;
  llvm::SmallVector<int> depth_;  ///< per nest
};

}  // namespace tessera::compiler::codegen
