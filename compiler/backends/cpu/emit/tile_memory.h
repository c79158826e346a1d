#pragma once

#include <map>
#include <tuple>

#include "compiler/backends/cpu/emit/tile.h"

namespace tessera::compiler::codegen {

/// The position of one accumulator in the tile.
struct Point {
  llvm::SmallVector<int64_t> at;  ///< per loop, relative to the tile's origin
  int active = 1;                 ///< lanes that exist; fewer at the edge
};

/// Loads and stores the operands of a tile: pointers that the reduction loops advance, vectors, broadcasts, masked
/// edges, squares that are transposed in registers. Caches loaded values until forget().
class TileMemory {
 public:
  TileMemory(mlir::OpBuilder& builder, const Nest& nest, const TilePlan& plan, const Tile& tile);

  /// The operand in `slot` at `point`, as `lanes` lanes.
  mlir::Value load(int slot, const Point& point, int lanes);
  void store(int slot, const Point& point, int lanes, mlir::Value value);
  /// The loop along which the points of the tile are contiguous in the output `slot` while lanes are strided: the
  /// vectors are transposed and stored along that loop. -1: there is none.
  int transposedStore(int slot, int lanes) const;
  /// Stores `values`, one per point. Points that differ in loop `along` only are transposed together.
  void storeTransposed(int slot, llvm::ArrayRef<Point> points, int along, llvm::ArrayRef<mlir::Value> values);
  /// Drops the cached loads. Call when memory may have changed, or when the code moves to a place that they do not
  /// dominate.
  void forget() { loads_.clear(); }

  /// Advances the pointers of all slots by `iteration` of a reduction loop.
  void enter(int loop, mlir::Value iteration);
  llvm::SmallVector<mlir::Value> pointers() const { return pointers_; }
  void restore(const llvm::SmallVector<mlir::Value>& pointers) { pointers_ = pointers; }

  /// Position of `loop` within the unrolled reduction steps.
  void setOffset(int loop, int64_t iterations) { offset_[loop] = iterations; }
  int64_t offset(int loop) const { return offset_[loop]; }

  const Access& access(int slot) const { return tile_.slots[slot].operand->access; }
  mlir::Value pointer(int slot) const { return pointers_[slot]; }
  /// Elements from the slot's pointer to the element that `point` reads.
  int64_t offsetAt(const Access& access, const Point& point) const;
  /// pointer + offset elements.
  mlir::Value at(mlir::Value pointer, mlir::Type element, int64_t offset);
  mlir::Value mask(int lanes, int active);

 private:
  mlir::Value address(mlir::Value pointer, mlir::Type element, int64_t offset);
  mlir::Value fromMemory(mlir::Value loaded, mlir::Type element);
  bool turn(int slot, const Point& point, int64_t stride);

  mlir::OpBuilder& b_;
  mlir::Location loc_;
  const Nest& nest_;
  const TilePlan& plan_;
  const Tile& tile_;
  llvm::SmallVector<mlir::Value> pointers_;  ///< per slot, advanced by the reduction loops entered
  llvm::SmallVector<int64_t> offset_;        ///< per loop
  std::map<std::tuple<int, int64_t, int>, mlir::Value> loads_;
};

}  // namespace tessera::compiler::codegen
