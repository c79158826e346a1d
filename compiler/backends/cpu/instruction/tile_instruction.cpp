#include "compiler/backends/cpu/instruction/tile_instruction.h"

#include <cstdlib>

#include "absl/strings/str_cat.h"
#include "compiler/backends/cpu/instruction/grouping.h"
#include "compiler/backends/cpu/tiling/body_analysis.h"
#include "compiler/backends/cpu/tiling/contraction_plan.h"
#include "compiler/backends/cpu/tiling/loop_order.h"
#include "compiler/target/tile_product.h"

namespace tessera::compiler::codegen {
namespace {

class TileStep final : public ProductInstructionStep {
 public:
  explicit TileStep(TileProduct product) : product_(std::move(product)) {}
  const std::string& name() const override { return product_.name; }
  int lanes() const override { return 0; }
  const TileProduct* tiles() const override { return &product_; }
  mlir::Value emit(mlir::OpBuilder& /*builder*/, mlir::Value /*first*/, mlir::Value /*second*/,
                   mlir::Value /*sum*/) const override {
    llvm_unreachable("it works on no vectors");
  }

 private:
  TileProduct product_;
};

/// The loop of the results' columns: the loop with the smallest output stride that only one input walks; that input is
/// the one of columns.
struct Columns {
  int loop, input;
};
std::optional<Columns> columnsOf(const Nest& nest) {
  std::optional<Columns> found;
  const Statement& main = nest.statements[0];
  int64_t nearest = 0;
  for (int loop = 0; loop < nest.loops(); ++loop) {
    if (nest.reduction[loop] || nest.extents[loop] == 1) continue;
    const bool first = varies(main.inputs[0], loop), second = varies(main.inputs[1], loop);
    const int64_t stride = std::abs(main.outputs[0].access.strides[loop]);
    if (first == second || (found && stride >= nearest)) continue;
    found = {loop, second ? 1 : 0};
    nearest = stride;
  }
  return found;
}

class TileInstruction final : public ProductInstruction {
 public:
  explicit TileInstruction(TileProduct product) : product_(std::move(product)) {}
  const std::string& name() const override { return product_.name; }
  Iterations iterations() const override { return {product_.rows, product_.columns, product_.depth}; }
  std::string rewriteFor(mlir::OpBuilder& builder, Nest& nest, const Chip& chip) const override;

 private:
  TileProduct product_;
};

std::string TileInstruction::rewriteFor(mlir::OpBuilder& builder, Nest& nest, const Chip& chip) const {
  const auto readings = operandReadsOf(nest.statements[0]);
  if (!readings) return "the nest does not add up products of 8-bit integers or of bf16 in 32 bits";
  auto [first, second] = *readings;
  if (first.floating != product_.floating || first.group() != product_.group)
    return "the instruction takes operands of another type";
  if (first.flipped != 0 || second.flipped != 0) return "tiles are loaded as they lie, without turning a bit";
  const auto loop = groupedLoop(nest, product_.group);
  if (!loop)
    return absl::StrCat("no sum of a multiple of ", product_.group, " steps walks both operands element by element");
  const auto columns = columnsOf(nest);
  if (!columns) return "no operand has columns of its own";
  // The instruction's second operand is the one of columns.
  if (first.argument == columns->input) std::swap(first, second);
  if (!product_.floating && (first.is_signed != product_.first_signed || second.is_signed != product_.second_signed))
    return "the instruction takes operands of other signs";
  if (nest.iterations() == 0 || lanesOf(nest, chip) < 2 ||
      !llvm::all_of(llvm::drop_begin(nest.statements),
                    [](const Statement& each) { return isVectorizableBody(*each.body()); }))
    return "results do not leave tiles as vectors";
  // Works on a copy: a failed rewrite must leave the nest unchanged.
  Nest grouped = nest;
  groupElements(builder, grouped, *loop, first, second);
  const auto loops = macroTileLoopsOf(grouped);
  if (!loops) return "no loop of rows, of columns, or of the sum for tiles";
  if (grouped.statements[0].inputs[1].access.strides[loops->column] != 1 && !canPack(grouped, 1))
    return "columns lie apart and cannot be copied to panels";
  nest = std::move(grouped);
  nest.statements[0].step = std::make_shared<TileStep>(product_);
  return "";
}

}  // namespace

std::optional<MacroTileLoops> macroTileLoopsOf(const Nest& nest) {
  constexpr int64_t kMaxRows = 64;  // rows that one load of a column tile serves
  const Statement& main = nest.statements[0];
  const auto columns = columnsOf(nest);
  if (!columns || columns->input != 1) return std::nullopt;
  MacroTileLoops loops{-1, columns->loop, -1};
  int64_t rows = 0, steps = 0;
  const llvm::SmallVector<int> parallel = byOutputStride(nest);
  for (int loop : llvm::reverse(parallel))  // among equal loops, the one nearest in memory
    if (varies(main.inputs[0], loop) && !varies(main.inputs[1], loop) &&
        std::min(nest.extents[loop], kMaxRows) > rows) {
      // Rows beyond kMaxRows gain nothing, so longer loops count alike.
      rows = std::min(nest.extents[loop], kMaxRows);
      loops.row = loop;
    }
  for (int loop = 0; loop < nest.loops(); ++loop)
    if (nest.reduction[loop] && main.inputs[0].access.strides[loop] == 1 && varies(main.inputs[1], loop) &&
        nest.extents[loop] > steps) {
      steps = nest.extents[loop];
      loops.depth = loop;
    }
  if (loops.row < 0 || loops.depth < 0) return std::nullopt;
  return loops;
}

std::optional<MacroTileLoops> macroTileLoopsOf(const Nest& nest, const TilePlan& plan) {
  auto loops = macroTileLoopsOf(nest);
  if (!loops || plan.vector_loop != loops->column) return std::nullopt;
  const Statement& main = nest.statements[0];
  llvm::SmallVector<int> rows, columns;
  for (int loop : plan.points) {
    if (loop == loops->column || plan.tile[loop] == 1) continue;
    const bool row = varies(main.inputs[0], loop), column = varies(main.inputs[1], loop);
    if (row == column) return std::nullopt;
    (row ? rows : columns).push_back(loop);
  }
  if (rows.size() > 2 || columns.size() > 1) return std::nullopt;
  if (!rows.empty()) loops->row = rows.back();
  if (rows.size() == 2) loops->outer_row = rows.front();
  if (!columns.empty()) loops->outer_column = columns.front();
  return loops;
}

std::vector<MacroTileLoops> possibleMacroTileLoops(const Nest& nest) {
  std::vector<MacroTileLoops> possible;
  const auto usual = macroTileLoopsOf(nest);
  if (!usual) return possible;
  const Statement& main = nest.statements[0];
  llvm::SmallVector<int> rows{usual->row}, columns;
  for (int loop = 0; loop < nest.loops(); ++loop) {
    if (nest.reduction[loop] || nest.extents[loop] == 1) continue;
    const bool row = varies(main.inputs[0], loop), column = varies(main.inputs[1], loop);
    if (row && !column && loop != usual->row) rows.push_back(loop);
    if (column && !row && loop != usual->column) columns.push_back(loop);
  }
  // -1: the tiles of a macro-tile have no outer loop of columns. Listed last and visited first.
  columns.push_back(-1);
  for (int row : rows)
    for (int outer_column : llvm::reverse(columns)) {
      MacroTileLoops loops = *usual;
      loops.row = row;
      loops.outer_column = outer_column;
      possible.push_back(loops);
      for (int outer_row : rows) {
        if (outer_row == row) continue;
        loops.outer_row = outer_row;
        possible.push_back(loops);
      }
    }
  return possible;
}

std::vector<std::unique_ptr<const ProductInstruction>> tileInstructions(const Chip& chip) {
  std::vector<std::unique_ptr<const ProductInstruction>> all;
  for (const TileProduct& each : chip.tileProducts()) all.push_back(std::make_unique<TileInstruction>(each));
  return all;
}

}  // namespace tessera::compiler::codegen
