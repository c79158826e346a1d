#pragma once

#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "compiler/backends/cpu/region/buffer_coordinates.h"

/// Backward inference of a region (TLF): the iterations of each nest and the part of each buffer that one slice of the
/// region's result needs.
namespace tessera::compiler::codegen {

/// Half-open; empty when hi <= lo.
struct Range {
  int64_t lo = 0, hi = 0;
  int64_t size() const { return hi > lo ? hi - lo : 0; }
  bool operator==(const Range&) const = default;
};

/// A loop over slices: cuts one coordinate of the region's result into ranges of `tile`. Coordinate -1: cuts the
/// reduction loops `reductions` (nest, loop), all of extent `extent`, into blocks that run one after another in each
/// slice; without reductions, nothing is cut.
struct SliceLoop {
  int coordinate = 0;
  int64_t tile = 1;
  int64_t extent = 1;
  llvm::SmallVector<std::pair<size_t, int>> reductions = {};
  /// Number of slices that one thread runs one after another. Rows of intermediate buffers that the next of these
  /// slices needs as well are kept instead of recomputed. 1: every slice computes all rows that it needs.
  int64_t sequence_length = 1;
};

/// The mask of a softmax between products that compares positions (masked_keys.h).
struct PositionMask {
  /// Output `output` of statement `statement` of nest `nest` is the scores; `key` is the nest's loop over keys.
  size_t nest = 0;
  int statement = 0, output = 0, key = -1;
  llvm::SmallVector<std::pair<size_t, int>> sums;  ///< all loops over keys that sum scores or powers: nest, loop
  int64_t keys_per_group = 1;                      ///< the mask keeps or removes groups of this many keys
  bool blocks = false;  ///< the softmax runs in blocks of keys (the last slice loop), and a group is a block
};

/// The buffers of a softmax between two products (attention): scores, and powers exp(score - maximum).
struct SoftmaxScores {
  mlir::Value scores, powers;
  int64_t stride = 0;  ///< elements from one key to the next
  int64_t keys = 0;
};

/// When a nest runs if the slices of a region are cut into blocks of a reduction. kByNeed: in the blocks that need its
/// results.
enum class When { kByNeed, kFirstBlock, kEveryBlock, kLastBlock };

/// Nests in program order with the coordinates of the buffers they touch. A slice keeps program order, so a nest sees
/// the values that earlier nests have computed for the same slice.
struct SlicedNests {
  std::vector<Nest> nests;
  llvm::DenseMap<mlir::Value, Coordinates> coordinates;
  std::vector<When> when;                        ///< per nest; empty: all by need
  mlir::Value result;                            ///< the buffer that is cut into slices
  llvm::SmallVector<mlir::Value> other_results;  ///< buffers read after the region, cut in the same dimensions
  bool deferred_softmax = false;                 ///< a softmax has been rewritten (softmax_nests.h)
  std::optional<PositionMask> mask = {};         ///< slices skip the keys that it removes from all of their rows
  /// a softmax over whole rows, whose keys may be removed by conditions in memory
  std::optional<SoftmaxScores> softmax = {};
  When whenOf(size_t nest) const { return when.empty() ? When::kByNeed : when[nest]; }
  bool isResult(mlir::Value root) const { return root == result || llvm::is_contained(other_results, root); }
};

/// Rows of a buffer that a slice reuses from the previous slice.
struct ReusedRows {
  int coordinate = 0;
  int64_t rows = 0;
  int64_t by = 0;  ///< rows by which the end of the box advances from the previous slice
  bool operator==(const ReusedRows&) const = default;
};

/// The iterations and elements that one slice of one slice loop needs, if no other slice loop cuts anything.
struct Needs {
  std::vector<llvm::SmallVector<Range>> loops;                  ///< [nest][loop]; a nest not needed has empty loops
  llvm::DenseMap<mlir::Value, llvm::SmallVector<Range>> boxes;  ///< [buffer][coordinate] read or written
  /// the leading rows of the box that are kept; nests compute the rest
  llvm::DenseMap<mlir::Value, ReusedRows> kept;
  bool operator==(const Needs&) const = default;
};

/// The needs of every slice along one slice loop. Rows of a buffer are kept only if no nest reads them before they are
/// final. Errors: INVALID_ARGUMENT naming the nest and the dimension that cannot be cut: a reduction over it, writes
/// that are not a box or leave gaps, or result slices that would overlap.
absl::StatusOr<std::vector<Needs>> inferNeeds(const SlicedNests& region, const SliceLoop& slice);

/// "operation 3 of 7 (contraction)", for messages.
std::string describeNest(const SlicedNests& region, size_t nest);

/// INVALID_ARGUMENT about the chain tiling of a schedule.
absl::Status refuseChain(const std::string& message, const std::string& found, const std::string& accepted);

}  // namespace tessera::compiler::codegen
