// Products on an instruction that multiplies whole tiles (two-dimensional registers). The shapes of the registers are
// set before the first tile, and again at an edge with smaller tiles. Sums leave their registers through the thread's
// stack.
#include <algorithm>
#include <array>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "compiler/backends/cpu/emit/tile_emitter.h"
#include "compiler/backends/cpu/instruction/tile_instruction.h"
#include "compiler/backends/cpu/kernel/kernels.h"
#include "compiler/backends/cpu/kernel/macro_tile.h"
#include "compiler/backends/cpu/tiling/body_analysis.h"
#include "compiler/backends/cpu/tiling/contraction_plan.h"
#include "compiler/backends/cpu/tiling/loop_order.h"
#include "compiler/backends/cpu/tiling/tile_cost.h"
#include "compiler/target/tile_product.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/SCF/IR/SCF.h"

namespace tessera::compiler::codegen {
namespace {

namespace LLVM = mlir::LLVM;
namespace arith = mlir::arith;
using mlir::OpBuilder;
using mlir::Value;

// Assignment of tile registers: four for sums, one each for rows and columns, and two that hold more columns, or the
// rows and columns of the last steps of a sum that does not consist of whole tiles.
constexpr int kRows = 4, kColumns = 5, kLastRows = 6, kLastColumns = 7;
constexpr std::array<int, kColumnTiles> kAllColumns = {kColumns, 6, 7};
constexpr double kThroughStack = 2;  // instructions per vector of sums: a row stored, a vector loaded

/// Emits instructions on tile registers.
class TileCode {
 public:
  explicit TileCode(OpBuilder& builder) : b_(builder), loc_(builder.getUnknownLoc()) {}

  /// Emits the instruction of an intrinsic ("llvm.x86.tileloadd64") on the tile registers `tiles`. Emitted as assembly,
  /// because LLVM tracks numbered tile registers within one block only, and would allocate registers to loads that hold
  /// sums for a later block.
  void emit(llvm::StringRef intrinsic, llvm::ArrayRef<int> tiles, Value address = {}, int64_t stride = 0,
            bool store = false) {
    llvm::StringRef mnemonic = intrinsic.substr(llvm::StringRef("llvm.x86.").size());
    // The assembler's mnemonic: llvm.x86.tileloadd64 is tileloadd.
    mnemonic.consume_back("64");
    std::string text = mnemonic.str() + " ";
    const std::string memory = !address ? "" : stride == 0 ? "($0)" : "($0,$1,1)";
    std::vector<std::string> operands;
    if (!store && address) operands.push_back(memory);
    // AT&T syntax lists sources first, the destination last.
    for (int tile : llvm::reverse(tiles)) operands.push_back(absl::StrCat("%tmm", tile));
    if (store) operands.push_back(memory);
    absl::StrAppend(&text, absl::StrJoin(operands, ", "));
    llvm::SmallVector<Value, 2> values;
    if (address) values.push_back(address);
    if (stride != 0) values.push_back(index(stride));
    // Loads and stores of tiles must not be moved across other memory accesses.
    std::string constraints = "~{memory}";
    for (size_t i = 0; i < values.size(); ++i) constraints = "r," + constraints;
    LLVM::InlineAsmOp::create(b_, loc_, mlir::TypeRange(), mlir::ValueRange(values), text, constraints,
                              /*has_side_effects=*/true, /*is_align_stack=*/false, LLVM::TailCallKind::None,
                              LLVM::AsmDialectAttr::get(b_.getContext(), LLVM::AsmDialect::AD_ATT), mlir::ArrayAttr());
  }
  Value index(int64_t value) { return arith::ConstantIntOp::create(b_, loc_, value, 64); }

  /// Stack memory of the enclosing function.
  Value stack(int64_t bytes) {
    OpBuilder::InsertionGuard guard(b_);
    auto func = b_.getInsertionBlock()->getParent()->getParentOfType<mlir::func::FuncOp>();
    // In the entry block, so that a loop does not grow the stack.
    b_.setInsertionPointToStart(&func.getBody().front());
    Value count = LLVM::ConstantOp::create(b_, loc_, b_.getI64Type(), b_.getI64IntegerAttr(bytes));
    return LLVM::AllocaOp::create(b_, loc_, LLVM::LLVMPointerType::get(b_.getContext()), b_.getI8Type(), count,
                                  /*alignment=*/64);
  }
  Value at(Value pointer, mlir::Type element, int64_t offset) {
    return LLVM::GEPOp::create(b_, loc_, pointer.getType(), element, pointer,
                               llvm::ArrayRef<LLVM::GEPArg>{static_cast<int32_t>(offset)});
  }

  /// Sets the shapes of all tile registers and clears them. The 64 bytes of palette 1: its number, the row to restart
  /// with, the bytes of a row of each tile (16 bits each, from byte 16) and its rows (8 bits each, from byte 48).
  void configure(const MacroTile& shape) {
    std::array<uint8_t, 64> bytes{};
    bytes[0] = 1;
    auto set = [&](int tile, int64_t rows, int64_t columns) {
      const auto row_bytes = static_cast<uint16_t>(columns * 4);
      std::memcpy(&bytes[16 + 2 * tile], &row_bytes, sizeof(row_bytes));
      bytes[48 + tile] = static_cast<uint8_t>(rows);
    };
    for (int tile = 0; tile < kSums; ++tile) set(tile, shape.rows, shape.columns);
    set(kRows, shape.rows, shape.depth);
    for (int tile : kAllColumns) set(tile, shape.depth, shape.columns);
    if (shape.last > 0) {
      set(kLastRows, shape.rows, shape.last);
      set(kLastColumns, shape.last, shape.columns);
    }
    Value place = stack(static_cast<int64_t>(bytes.size()));
    for (size_t word = 0; word < bytes.size() / 8; ++word) {
      int64_t value;
      std::memcpy(&value, &bytes[8 * word], sizeof(value));
      LLVM::StoreOp::create(b_, loc_, index(value), at(place, b_.getI64Type(), static_cast<int64_t>(word)), 8);
    }
    emit("llvm.x86.ldtilecfg", {}, place);
  }

 private:
  OpBuilder& b_;
  mlir::Location loc_;
};

/// Emits one macro-tile of results: clear, accumulate, store.
class MacroTileCode {
 public:
  MacroTileCode(TileEmitter& tile, const MacroTileLoops& loops, const MacroTile& shape)
      : tile_(tile),
        b_(tile.builder()),
        code_(b_),
        loops_(loops),
        shape_(shape),
        product_(*productOf(tile.nest())),
        rows_(sideOf(loops.row, loops.outer_row, shape.row_tiles, shape.rows)),
        columns_(sideOf(loops.column, loops.outer_column, shape.all_columns, shape.columns)) {}

  /// Emits code that runs interleaved with the accumulation. Called after each step of whole tiles with the number of
  /// steps before it (null: none).
  using Beside = llvm::function_ref<void(Value step)>;
  /// Accumulates all sums of column pass `pass` in tile registers.
  void sumUp(int64_t pass, Beside beside) {
    first_ = pass * shape_.column_tiles;
    columns_in_pass_ = std::min(shape_.column_tiles, shape_.all_columns - first_);
    for (int64_t i = 0; i < shape_.row_tiles; ++i)
      for (int64_t j = 0; j < columns_in_pass_; ++j) code_.emit("llvm.x86.tilezero", {sum(i, j)});
    reduce(0, {}, beside);
  }
  /// Number of steps that whole tiles take along the sum.
  int64_t steps() const {
    int64_t steps = 1;
    for (int loop : tile_.plan().reductions)
      steps *= loop == loops_.depth ? tile_.nest().extents[loop] / shape_.depth : tile_.nest().extents[loop];
    return steps;
  }

  /// Stores the sums of this column pass to `buffer`, in rows of `stride` elements.
  void store(Value buffer, int64_t stride) {
    for (int64_t i = 0; i < shape_.row_tiles; ++i)
      for (int64_t j = 0; j < columns_in_pass_; ++j) {
        const int64_t offset = rows_.numberOf(rows_.of(i)) * stride + columns_.numberOf(columns_.of(first_ + j)) -
                               columns_.numberOf(columns_.of(first_));
        code_.emit(product_.store, {sum(i, j)}, code_.at(buffer, b_.getI32Type(), offset), stride * 4, true);
      }
  }

  /// The column pass that computes a vector, and the vector's position in that pass's buffer.
  int64_t columnPassOf(const Point& vector) const {
    return (outerOf(loops_.outer_column, vector) * columns_.within + vector.at[loops_.column] / shape_.columns) /
           shape_.column_tiles;
  }
  int64_t placeOf(const Point& vector, int64_t stride) const {
    const int64_t row = rows_.numberOf({outerOf(loops_.outer_row, vector), vector.at[loops_.row]});
    const int64_t column = columns_.numberOf({outerOf(loops_.outer_column, vector), vector.at[loops_.column]});
    return row * stride + column - columns_.numberOf(columns_.of(columnPassOf(vector) * shape_.column_tiles));
  }

 private:
  /// How tiles follow each other along rows or columns.
  struct Side {
    int inner, outer;
    int64_t within;         ///< tiles along the inner loop
    int64_t of_tile, size;  ///< iterations of the inner loop in a tile, and in the macro-tile

    struct Place {
      int64_t outer, inner;
    };
    /// Where a tile begins. The last one ends with the macro-tile, so it may overlap the one before it.
    Place of(int64_t tile) const { return {tile / within, std::min(tile % within * of_tile, size - of_tile)}; }
    /// Its number among the rows or columns of the macro-tile.
    int64_t numberOf(Place place) const { return place.outer * size + place.inner; }
    /// Its offset in an operand's elements.
    int64_t offsetOf(Place place, const Access& access) const {
      return place.inner * access.strides[inner] + (outer < 0 ? 0 : place.outer * access.strides[outer]);
    }
  };
  Side sideOf(int inner, int outer, int64_t tiles, int64_t of_tile) const {
    const auto& sizes = tile_.tile().sizes;
    return {inner, outer, tiles / outerSize(outer, sizes), of_tile, sizes[inner]};
  }
  static int64_t outerOf(int outer, const Point& vector) { return outer < 0 ? 0 : vector.at[outer]; }

  int sum(int64_t i, int64_t j) const { return static_cast<int>(i * shape_.column_tiles + j); }

  void load(int tile, int input, const Side& side, int64_t number, int from_row_to_row) {
    TileMemory& memory = tile_.memory();
    const int slot = tile_.slotOf(0, false, input);
    const Access& access = memory.access(slot);
    code_.emit(product_.load, {tile},
               memory.at(memory.pointer(slot), access.element, side.offsetOf(side.of(number), access)),
               access.strides[from_row_to_row] * 4);
  }

  /// Emits one step of the sum at the operands' pointers.
  void multiply(int rows, llvm::ArrayRef<int> columns) {
    auto loadColumns = [&](int64_t j) { load(columns[j % columns.size()], 1, columns_, first_ + j, loops_.depth); };
    // Columns that fit in registers are loaded once per step; otherwise again for each tile of rows.
    const bool kept = columns_in_pass_ <= static_cast<int64_t>(columns.size());
    for (int64_t j = 0; kept && j < columns_in_pass_; ++j) loadColumns(j);
    for (int64_t i = 0; i < shape_.row_tiles; ++i) {
      load(rows, 0, rows_, i, loops_.row);
      for (int64_t j = 0; j < columns_in_pass_; ++j) {
        if (!kept) loadColumns(j);
        code_.emit(product_.emit, {sum(i, j), rows, columns[j % columns.size()]});
      }
    }
  }

  /// Emits `fn` within a loop over [0, extent) in steps of `step`, with the operands' pointers moved along. `before`:
  /// the steps of the outer loops so far; `fn` receives the total number of steps so far.
  void walk(int loop, int64_t extent, int64_t step, Value before, llvm::function_ref<void(Value)> fn) {
    TileMemory& memory = tile_.memory();
    // A single iteration needs no loop.
    if (extent == step) return fn(before);
    const auto pointers = memory.pointers();
    auto op = mlir::scf::ForOp::create(b_, b_.getUnknownLoc(), code_.index(0), code_.index(extent), code_.index(step));
    OpBuilder::InsertionGuard guard(b_);
    b_.setInsertionPointToStart(op.getBody());
    memory.enter(loop, op.getInductionVar());
    const mlir::Location loc = b_.getUnknownLoc();
    Value number = op.getInductionVar();
    if (step != 1) number = arith::DivUIOp::create(b_, loc, number, code_.index(step));
    if (before) {
      Value others = arith::MulIOp::create(b_, loc, before, code_.index(extent / step));
      number = arith::AddIOp::create(b_, loc, others, number);
    }
    fn(number);
    memory.restore(pointers);
  }

  void reduce(size_t level, Value before, Beside beside) {
    const int loop = tile_.plan().reductions[level];
    const int64_t extent = tile_.nest().extents[loop];
    if (loop != loops_.depth)
      return walk(loop, extent, 1, before, [&](Value number) { reduce(level + 1, number, beside); });
    const int64_t whole = extent - shape_.last;
    const auto all = llvm::ArrayRef<int>(kAllColumns).take_front(shape_.columnRegisters());
    if (whole > 0)
      walk(loop, whole, shape_.depth, before, [&](Value number) {
        multiply(kRows, all);
        beside(number);
      });
    // The last, shallower step uses registers of another shape.
    if (shape_.last == 0) return;
    const auto pointers = tile_.memory().pointers();
    tile_.memory().enter(loop, code_.index(whole));
    multiply(kLastRows, {kLastColumns});
    tile_.memory().restore(pointers);
  }

  TileEmitter& tile_;
  OpBuilder& b_;
  TileCode code_;
  const MacroTileLoops& loops_;
  const MacroTile& shape_;
  const TileProduct& product_;
  const Side rows_, columns_;
  int64_t first_ = 0, columns_in_pass_ = 0;  ///< tiles of columns
};

class TileKernel final : public MicroKernel {
 public:
  TileKernel() : MicroKernel(words::kTiles) {}

  std::string_view report(const Nest& /*nest*/) const override { return "contraction"; }
  std::optional<TilePlan> plan(const Nest& nest, const Chip& chip, const PlanConstraints& wanted,
                               const TilePlan& vectors) const override;
  bool evaluates(const ProductInstructionStep& step) const override { return step.tiles() != nullptr; }
  bool fits(const Nest& nest, const TilePlan& plan) const override {
    if (!productOf(nest) || plan.lanes == 1 || plan.horizontal) return false;
    return macroTileLoopsOf(nest, plan).has_value();
  }
  std::string refusal(const Nest& nest, const TilePlan& plan) const override;
  Iterations iterations(const Nest& nest, const TilePlan& plan) const override {
    const MacroTileLoops loops = *macroTileLoopsOf(nest, plan);
    Iterations all{.m = {loops.row}, .n = {loops.column}, .k = plan.reductions};
    if (loops.outer_row >= 0) all.m.insert(all.m.begin(), loops.outer_row);
    if (loops.outer_column >= 0) all.n.insert(all.n.begin(), loops.outer_column);
    return all;
  }
  /// The vectors of a row, which are loaded from the stack together.
  int64_t registers(const Nest& /*nest*/, const Chip& /*chip*/, const TilePlan& plan) const override {
    return plan.vectors;
  }
  double cycles(const Nest& nest, const Chip& chip, const TilePlan& plan) const override {
    const MacroTileLoops loops = *macroTileLoopsOf(nest, plan);
    const MacroTile shape = macroTileOf(nest, loops, plan.tile, plan.tile[loops.depth]);
    const double step = MacroTileCostModel(nest, chip, loops).stepCycles(shape, plan.tile);
    // Results cost as much as with other kernels, plus the store to and the load from the stack; followers cost the
    // same with any kernel.
    const double vectors = static_cast<double>(pointsOf(nest, plan));
    return step * steps(nest, plan, loops) +
           vectors * (chip.costParameters().products().result_cycles() + kThroughStack / chip.instructionsPerCycle());
  }
  double instructions(const Nest& nest, const TilePlan& plan) const override {
    const MacroTileLoops loops = *macroTileLoopsOf(nest, plan);
    const MacroTile shape = macroTileOf(nest, loops, plan.tile, plan.tile[loops.depth]);
    // Converts cycles of tile products to the number of ordinary instructions that take as long.
    return steps(nest, plan, loops) * static_cast<double>(shape.row_tiles * shape.all_columns) *
               productOf(nest)->cycles +
           results(nest, plan);
  }
  void enter(OpBuilder& builder, const Nest& nest, const TilePlan& plan) const override {
    const MacroTileLoops loops = *macroTileLoopsOf(nest, plan);
    TileCode(builder).configure(macroTileOf(nest, loops, plan.tile, plan.tile[loops.depth]));
  }
  void leave(OpBuilder& builder, const Nest& /*nest*/) const override {
    TileCode(builder).emit("llvm.x86.tilerelease", {});
  }
  void emit(TileEmitter& tile) const override;

 private:
  static double steps(const Nest& nest, const TilePlan& plan, const MacroTileLoops& loops) {
    double steps = 1;
    for (int loop : plan.reductions)
      steps *=
          static_cast<double>(loop == loops.depth ? ceilDiv(nest.extents[loop], plan.tile[loop]) : nest.extents[loop]);
    return steps;
  }
  /// Instructions between the tiles' sums and the results in memory.
  static double results(const Nest& nest, const TilePlan& plan) {
    double instructions = kThroughStack;
    for (const Statement& follower : llvm::drop_begin(nest.statements)) instructions += bodyCost(*follower.body());
    return instructions * static_cast<double>(pointsOf(nest, plan));
  }
};

std::optional<TilePlan> TileKernel::plan(const Nest& nest, const Chip& chip, const PlanConstraints& wanted,
                                         const TilePlan& /*vectors*/) const {
  if (!productOf(nest)) return std::nullopt;
  const auto usual = macroTileLoopsOf(nest);
  if (!usual) return std::nullopt;  // a slice of one row or one column
  TilePlan plan = emptyPlan(nest);
  plan.lanes = lanesOf(nest, chip);
  plan.vector_loop = usual->column;
  MacroTileLoops loops = chooseMacroTile(nest, chip, wanted.vectors, plan);
  const bool keeps_rows = MacroTileCostModel(nest, chip, loops)
                              .keepsRows(macroTileOf(nest, loops, plan.tile, plan.tile[loops.depth]), plan.tile);
  // With rows in the near level, more columns per macro-tile reuse them.
  if (keeps_rows) splitIntoColumnPasses(nest, chip, wanted.vectors > 0, loops, plan);
  plan.rows = static_cast<int>(plan.tile[loops.row] * outerSize(loops.outer_row, plan.tile));
  plan.vectors =
      static_cast<int>(ceilDiv(plan.tile[loops.column], plan.lanes) * outerSize(loops.outer_column, plan.tile));
  orderReductions(nest, plan);
  sortBy(plan.reductions, [&](int loop) { return loop == loops.depth ? 1 : 0; });
  plan.points = {loops.row, loops.column};
  if (loops.outer_column >= 0) plan.points.insert(plan.points.begin() + 1, loops.outer_column);
  if (loops.outer_row >= 0) plan.points.insert(plan.points.begin(), loops.outer_row);

  const Operand &a = nest.statements[0].inputs[0], &b = nest.statements[0].inputs[1];
  plan.order = byOutputStride(nest);
  sortBy(plan.order, [&](int loop) {
    const bool row = varies(a, loop), column = varies(b, loop);
    // Independent loops outside, the side that stays in the middle, the streamed side innermost.
    return row && column ? 0 : row == keeps_rows ? 1 : 2;
  });
  blockStreamedOperand(nest, chip, keeps_rows ? 1 : 0, plan);
  // Packs the columns if they are strided, or if rows of a tile evict each other and enough macro-tiles read them.
  const bool apart = b.access.strides[loops.column] != 1;
  const bool crowded = evictEachOther(chip, plan.tile[loops.depth], strideBytes(nest, 1, loops.depth)) &&
                       passesOver(nest, plan, b) >= chip.costParameters().products().pack_passes();
  const bool pack = wanted.packed ? llvm::is_contained(*wanted.packed, 1) : apart || (crowded && canPack(nest, 1));
  if (apart && !pack) return std::nullopt;
  if (pack) plan.packed.push_back({.input = 1, .loop = loops.column});
  plan.orderLevels(
      static_cast<int>(llvm::count_if(plan.order, [&](int loop) { return varies(a, loop) && varies(b, loop); })));
  orderPanels(nest, chip, plan);
  return plan;
}

std::string TileKernel::refusal(const Nest& nest, const TilePlan& plan) const {
  if (std::string reason = MicroKernel::refusal(nest, plan); !reason.empty()) return reason;
  const TileProduct& product = *productOf(nest);
  const MacroTileLoops loops = *macroTileLoopsOf(nest, plan);
  for (int loop = 0; loop < nest.loops(); ++loop)
    if (plan.tile[loop] > 1 && nest.reduction[loop] && loop != loops.depth)
      return "a macro-tile has rows, columns, and steps of the innermost sum";
  llvm::SmallVector<int64_t> sizes = plan.tile;
  for (int64_t columns : {plan.tile[loops.column], nest.extents[loops.column] % plan.tile[loops.column]}) {
    sizes[loops.column] = columns;
    if (columns > 0 && !columnPassesAreWhole(nest, loops, sizes, plan.lanes))
      return "several column passes need whole tiles and vectors of columns";
  }
  if (macroTileOf(nest, loops, plan.tile, plan.tile[loops.depth]).products() > kSums)
    return absl::StrCat("sums of more than ", kSums, " tiles of ", product.rows, " by ", product.columns);
  if (plan.tile[loops.depth] > product.depth / product.group)
    return absl::StrCat("more than ", product.depth / product.group, " groups of the sum in a tile");
  if (plan.reductions.back() != loops.depth) return "the reduction within tiles must be the innermost";
  if (plan.transposed >= 0) return "this kernel transposes nothing";
  if (const auto* row = llvm::find(plan.points, loops.row);
      row != plan.points.end() && row > llvm::find(plan.points, loops.column))
    return "rows must come before columns";
  bool panels = nest.statements[0].inputs[1].access.strides[loops.column] == 1;
  for (const PackedOperand& packed : plan.packed) {
    if (packed.input != 1 || packed.loop != loops.column || packed.strided_copy)
      return "only the operand of columns is packed, in panels of columns";
    panels = true;
  }
  return panels ? "" : "columns that are not contiguous must be packed";
}

/// Accumulates column pass `pass`, interleaved with the results of the previous pass: each step is followed by an equal
/// share of their rows, so that few rows remain after the last step.
void accumulateAndFinish(TileEmitter& tile, MacroTileCode& macro_tile, int row, int64_t pass, const TileRows& results) {
  OpBuilder& b = tile.builder();
  const mlir::Location loc = b.getUnknownLoc();
  const auto index = [&](int64_t value) -> Value { return arith::ConstantIntOp::create(b, loc, value, 64); };
  // Rows per step, in whole groups, such that all groups are done after the last step.
  const int64_t rows = tile.tile().sizes[row], together = tile.rowsTogether(results), end = rows - rows % together;
  const int64_t each = ceilDiv(end / together, macro_tile.steps()) * together;
  macro_tile.sumUp(pass, [&](Value step) {
    // A sum of a single step: all rows at once.
    if (!step) return tile.emitRows(results, index(0), index(end), together);
    Value from = arith::MulIOp::create(b, loc, step, index(each));
    Value to = arith::AddIOp::create(b, loc, from, index(each));
    tile.emitRows(results, from, arith::MinSIOp::create(b, loc, to, index(end)), together);
  });
  if (end < rows) tile.emitRows(results, index(end), index(rows), rows - end);
}

void TileKernel::emit(TileEmitter& tile) const {
  const TilePlan& plan = tile.plan();
  const MacroTileLoops loops = *macroTileLoopsOf(tile.nest(), plan);
  const MacroTile usual = macroTileOf(tile.nest(), loops, plan.tile, plan.tile[loops.depth]);
  const MacroTile shape = macroTileOf(tile.nest(), loops, tile.tile().sizes, plan.tile[loops.depth]);
  OpBuilder& b = tile.builder();
  TileCode code(b);
  // Rows of a buffer are whole vectors.
  const auto& sizes = tile.tile().sizes;
  const int64_t lanes = plan.lanes, whole = std::max<int64_t>(16, lanes), passes = shape.columnPasses();
  const int64_t columns =
      passes > 1 ? shape.column_tiles * shape.columns : sizes[loops.column] * outerSize(loops.outer_column, sizes);
  const int64_t stride = ceilDiv(columns, whole) * whole, rows = sizes[loops.row] * outerSize(loops.outer_row, sizes);
  llvm::SmallVector<Value, 2> buffers;
  for (int64_t i = 0; i < std::min<int64_t>(passes, 2); ++i) buffers.push_back(code.stack(rows * stride * 4));
  // At an edge: other shapes during this macro-tile, the usual ones afterwards.
  const bool reshaped = !shape.fitsShapesOf(usual);
  if (reshaped) code.configure(shape);
  MacroTileCode macro_tile(tile, loops, shape);
  const mlir::Type element = tile.nest().statements[0].outputs[0].access.element;
  const auto withResults = [&](int64_t pass, llvm::function_ref<void(const TileRows&)> fn) {
    const auto takes = [&](const Point& vector) { return macro_tile.columnPassOf(vector) == pass; };
    const auto sum = [&](Value row, const Point& vector) -> Value {
      Value from = advance(b, buffers[pass % 2], element, stride, row);
      from = code.at(from, element, macro_tile.placeOf(vector, stride));
      return LLVM::LoadOp::create(b, b.getUnknownLoc(), mlir::VectorType::get({lanes}, element), from, 4);
    };
    fn({.loop = loops.row, .takes = takes, .sum = sum});
  };
  // Software pipeline: the first column pass alone, then each pass together with the results of the previous one, and
  // the last results alone.
  macro_tile.sumUp(0, [](Value) {});
  macro_tile.store(buffers[0], stride);
  for (int64_t pass = 1; pass < passes; ++pass) {
    withResults(pass - 1,
                [&](const TileRows& results) { accumulateAndFinish(tile, macro_tile, loops.row, pass, results); });
    macro_tile.store(buffers[pass % 2], stride);
  }
  if (reshaped) code.configure(usual);
  withResults(passes - 1, [&](const TileRows& results) { tile.emitRows(results); });
}

}  // namespace

const MicroKernel& tileKernel() {
  static const TileKernel kKernel;
  return kKernel;
}

}  // namespace tessera::compiler::codegen
