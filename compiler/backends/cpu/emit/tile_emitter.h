#pragma once

#include <optional>

#include "compiler/backends/cpu/emit/matrix_sums.h"
#include "compiler/backends/cpu/emit/tile_prefetch.h"

namespace tessera::compiler::codegen {

struct BodyContext;

/// Results of a tile that has more sums than there are registers, written row by row along a loop.
struct TileRows {
  int loop = -1;
  llvm::function_ref<bool(const Point& vector)> takes;  ///< whether a vector of the tile is one of these results
  /// The sum that the kernel has accumulated for a vector; its row is `row` (an i64) plus the row of its point. The
  /// initial value is added to it.
  llvm::function_ref<mlir::Value(mlir::Value row, const Point& vector)> sum;
};

/// Emits the code of one register tile, in parts that micro-kernels combine: points, the statements at each of them,
/// sums in registers, stores. Values of the tile are in the order of points().
class TileEmitter {
 public:
  using Values = llvm::SmallVector<mlir::Value>;

  TileEmitter(mlir::OpBuilder& builder, const Nest& nest, const TilePlan& plan, const EmitContext& context,
              const Tile& tile);

  mlir::OpBuilder& builder() { return b_; }
  const Nest& nest() const { return nest_; }
  const TilePlan& plan() const { return plan_; }
  const Chip& chip() const { return *context_.chip; }
  const Tile& tile() const { return tile_; }
  TileMemory& memory() { return memory_; }
  /// Rows of the tile times vectors; a vector loop that is a reduction adds no points.
  const std::vector<Point>& points() const { return points_; }
  /// The index of an operand among the tile's slots.
  int slotOf(int statement, bool output, size_t index) const;

  /// All statements at all points, then all stores. For nests without a sum.
  void emitPoints();
  /// For copies: each point is stored before the next one is loaded, so that few values are live.
  void emitPointByPoint();
  /// How the unrolled steps of the innermost sum and the points of the tile are nested. kOutside: all points of a step
  /// before the next step. kWithin: all steps of a point before the next point. A window that slides along the points
  /// then reuses loaded vectors at the next point.
  enum class Steps { kOutside, kWithin };
  /// Sums in registers over the whole reduction or one block of it, then followers and stores. If lanes are partial
  /// sums, they are added up at the end.
  void emitSum(Steps steps);
  /// Followers and stores. `results`: the values that the kernel has computed for the first statement, one per point.
  void emitResults(llvm::ArrayRef<mlir::Value> results);
  /// Followers and stores of `rows`, in a loop over a few rows at a time.
  void emitRows(const TileRows& rows);
  /// Emits the rows in [from, to) (i64), `together` rows at a time; their number must be a multiple of `together`.
  void emitRows(const TileRows& rows, mlir::Value from, mlir::Value to, int64_t together);
  /// The number of rows whose values fit in registers together, at least 1.
  int64_t rowsTogether(const TileRows& rows) const;

 private:
  void keep(llvm::ArrayRef<mlir::Value> accumulators);
  void finish();
  void finish(llvm::ArrayRef<size_t> points, int lanes);
  int64_t sideBySide() const;
  bool storesTransposed(int lanes);
  void storeAll(int statement, size_t output, int lanes, llvm::ArrayRef<size_t> points);
  void emitBlock(int loop, const Values& neutral);
  void collectPoints();
  BodyContext bodyContext(int statement, const Point& point, int lanes);
  BodyContext plain(int lanes);
  mlir::Value constantI64(int64_t value);
  mlir::Value indexOf(int statement, int dim, const Point& point, int lanes);
  mlir::Value initial(size_t p, int statement, size_t output, int lanes);
  bool streamed(size_t output) const;
  mlir::Value neutral(size_t output);
  Values evaluate(int statement, size_t p, int lanes, llvm::ArrayRef<mlir::Value> old);
  mlir::Value input(int statement, size_t index, size_t p, int lanes);
  Values sum(const Values& accumulators);
  Values reduce(size_t level, Values accumulators);
  void prefetchForTile();
  mlir::Value firstStep();
  void stepWithinPoints(Values& accumulators);
  void emitSteps(Values& accumulators);
  void step(size_t level, Values& accumulators);
  mlir::Value combine(size_t output, mlir::Value x, mlir::Value y);
  void combineLanes();

  mlir::OpBuilder& b_;
  mlir::Location loc_;
  const Nest& nest_;
  const TilePlan& plan_;
  const EmitContext& context_;
  const Tile& tile_;
  TileMemory memory_;
  TilePrefetch fetch_;
  Steps steps_ = Steps::kOutside;
  bool use_fallback_ = true;  ///< steps are evaluated by ProductInstructionStep::fallback()
  /// if set: loaded second operands are collected here and the step is not evaluated
  llvm::SetVector<mlir::Value>* seconds_ = nullptr;
  std::optional<MatrixSums> matrices_;          ///< while an instruction on small matrices accumulates the sums
  Values iterations_;                           ///< per loop: i64, null = 0
  llvm::SmallVector<int64_t> reduction_sizes_;  ///< per loop: unrolled steps
  std::vector<Point> points_;
  std::vector<std::vector<Values>> registers_;  ///< [point][statement][output]
};

/// Emits one tile of a nest with its plan's kernel.
void emitTile(mlir::OpBuilder& builder, const Nest& nest, const TilePlan& plan, const EmitContext& context,
              const Tile& tile);

}  // namespace tessera::compiler::codegen
