#include "compiler/backends/cpu/instruction/matrix_product.h"

#include <algorithm>
#include <array>
#include <numeric>

#include "compiler/backends/cpu/instruction/dot_operands.h"
#include "compiler/backends/cpu/tiling/tile_plan.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

namespace tessera::compiler::codegen {
namespace {

using mlir::OpBuilder;
using mlir::Value;
using Values = llvm::SmallVector<Value>;

int64_t elementsOf(Value vector) { return llvm::cast<mlir::VectorType>(vector.getType()).getNumElements(); }

Value zerosLike(OpBuilder& b, Value vector) {
  return mlir::arith::ConstantOp::create(b, vector.getLoc(), b.getZeroAttr(vector.getType()));
}

/// The elements `picked` of the sources, which are counted one after the other and have the same type.
Value gather(OpBuilder& b, Values sources, llvm::ArrayRef<int64_t> picked) {
  // Joins neighbours until a single shuffle reads the two that remain; the last source may be joined with itself.
  while (sources.size() > 2) {
    llvm::SmallVector<int64_t> all(2 * elementsOf(sources[0]));
    std::iota(all.begin(), all.end(), 0);
    Values joined;
    for (size_t i = 0; i < sources.size(); i += 2)
      joined.push_back(mlir::vector::ShuffleOp::create(b, sources[i].getLoc(), sources[i],
                                                       sources[std::min(i + 1, sources.size() - 1)], all));
    sources = std::move(joined);
  }
  return mlir::vector::ShuffleOp::create(b, sources[0].getLoc(), sources[0], sources.back(), picked);
}

/// One instruction that takes these operands, with the shuffles that fill its registers.
class MatrixStep final : public ProductInstructionStep, public MatrixProductStep {
 public:
  /// `lanes`: of the vectors of sums. `slots`: issue slots for multiply-adds that the instruction takes.
  MatrixStep(DotProduct instruction, const Reading& first, const Reading& second, int lanes, double slots)
      : instruction_(std::move(instruction)), reads_{first, second}, lanes_(lanes), slots_(slots) {}

  const std::string& name() const override { return instruction_.name; }
  int lanes() const override { return lanes_; }
  const MatrixProductStep* matrices() const override { return this; }
  int steps() const override { return instruction_.depth / instruction_.group; }

  int64_t sums(int64_t rows, int64_t vectors) const override {
    const auto issued = static_cast<int64_t>(issues(rows, vectors) * steps());
    return issued * std::max(1, instruction_.lanes / lanes_);
  }
  /// The loaded vectors of all steps, the registers made of them, and a register of rows.
  int64_t registers(int64_t vectors) const override { return vectors * std::max(steps(), registersOfVector()) + 2; }
  double multiplyAdds(int64_t rows, int64_t vectors) const override { return slots_ * issues(rows, vectors); }
  /// In addition to the products: a load for each vector and step and a shuffle for each register of columns; for each
  /// row a load of all steps.
  double instructions(int64_t rows, int64_t vectors) const override {
    const auto each = static_cast<double>(steps());
    const double sums = instruction_.accumulates ? 1 : 2;
    return sums * issues(rows, vectors) + static_cast<double>(vectors) * (1 + registersOfVector() / each) +
           static_cast<double>(rows) / each;
  }
  /// A vector of several rows cannot be evaluated alone: see matrices().
  Value emit(OpBuilder& /*b*/, Value /*first*/, Value /*second*/, Value sum) const override { return sum; }

  Shape shape(int rows_from) const override { return {.rows = placement(rows_from).rows, .steps = steps()}; }

  Values pack(OpBuilder& b, llvm::ArrayRef<Value> rows, int rows_from) const override {
    const DotProduct::Placement& to = placement(rows_from);
    Values sources(rows);
    sources.resize(static_cast<size_t>(to.rows), zerosLike(b, rows[0]));
    Values registers;
    for (int64_t first = 0; first < lanes_; first += to.columns) {
      llvm::SmallVector<int64_t> picked;
      for (const int sum : to.sums) picked.push_back((sum / to.columns * lanes_) + first + (sum % to.columns));
      registers.push_back(gather(b, sources, picked));
    }
    return registers;
  }

  Values unpack(OpBuilder& b, llvm::ArrayRef<Value> registers, int rows, int rows_from) const override {
    const DotProduct::Placement& from = placement(rows_from);
    const auto size = static_cast<int64_t>(from.sums.size());
    Values unpacked;
    for (int row = 0; row < rows; ++row) {
      llvm::SmallVector<int64_t> picked;
      for (int64_t lane = 0; lane < lanes_; ++lane) {
        const auto sum = llvm::find(from.sums, (row * from.columns) + (lane % from.columns));
        picked.push_back((lane / from.columns * size) + (sum - from.sums.begin()));
      }
      unpacked.push_back(gather(b, Values(registers), picked));
    }
    return unpacked;
  }

  void multiply(OpBuilder& b, llvm::ArrayRef<Value> rows, llvm::ArrayRef<Value> columns, int rows_from,
                llvm::MutableArrayRef<Value> registers) const override {
    const DotProduct::Placement& to = placement(rows_from);
    const Value row_register = rowRegister(b, rows, static_cast<int>(columns.size()), rows_from);
    const Values sources = columnSources(b, columns, 1 - rows_from);
    const int64_t group = instruction_.group, step_size = lanes_ * group;
    for (auto [number, sums] : llvm::enumerate(registers)) {
      const int64_t first = static_cast<int64_t>(number) * to.columns;
      llvm::SmallVector<int64_t> picked;
      for (const int element : to.column_source) {
        const int64_t column = element / instruction_.depth, within = element % instruction_.depth;
        const int64_t step = within / group;
        // Steps that the caller does not have are zeros, which follow the sources.
        picked.push_back(step < static_cast<int64_t>(columns.size())
                             ? (step * step_size) + ((first + column) * group) + (within % group)
                             : static_cast<int64_t>(columns.size()) * step_size);
      }
      const Value column_register = gather(b, sources, picked);
      sums = rows_from == 0 ? callDotProduct(b, instruction_, row_register, column_register, sums)
                            : callDotProduct(b, instruction_, column_register, row_register, sums);
    }
  }

 private:
  const DotProduct::Placement& placement(int rows_from) const {
    return instruction_.placements[static_cast<size_t>(rows_from)];
  }
  /// Registers of sums, and of columns, for one vector of results.
  int registersOfVector() const {
    return lanes_ / std::min(instruction_.placements[0].columns, instruction_.placements[1].columns);
  }
  /// Issues for one step of a tile.
  double issues(int64_t rows, int64_t vectors) const {
    int64_t most = 0;
    for (const DotProduct::Placement& each : instruction_.placements)
      most = std::max(most, (rows + each.rows - 1) / each.rows * vectors * (lanes_ / each.columns));
    return static_cast<double>(most) / steps();
  }

  /// Groups as vectors of the instruction's elements.
  Value elements(OpBuilder& b, Value groups, int input) const {
    const int64_t count = elementsOf(groups) * instruction_.group;
    return mlir::LLVM::BitcastOp::create(b, groups.getLoc(),
                                         mlir::VectorType::get({count}, elementTypeOf(b, instruction_)),
                                         flip(b, groups, reads_[static_cast<size_t>(input)].flipped));
  }

  Values columnSources(OpBuilder& b, llvm::ArrayRef<Value> columns, int input) const {
    Values sources;
    for (const Value step : columns) sources.push_back(elements(b, step, input));
    if (static_cast<int>(columns.size()) < steps()) sources.push_back(zerosLike(b, sources[0]));
    return sources;
  }

  /// The rows as one register; rows and steps that the caller does not have are zeros.
  Value rowRegister(OpBuilder& b, llvm::ArrayRef<Value> rows, int given_steps, int rows_from) const {
    const DotProduct::Placement& to = placement(rows_from);
    Values sources;
    for (const Value row : rows) sources.push_back(elements(b, row, rows_from));
    const int64_t row_size = elementsOf(sources[0]), zeros = static_cast<int64_t>(rows.size()) * row_size;
    if (static_cast<int>(rows.size()) < to.rows || given_steps < steps()) sources.push_back(zerosLike(b, sources[0]));
    llvm::SmallVector<int64_t> picked;
    for (const int element : to.row_source) {
      const int64_t row = element / instruction_.depth, within = element % instruction_.depth;
      const bool given = row < static_cast<int64_t>(rows.size()) && within < row_size;
      picked.push_back(given ? (row * row_size) + within : zeros);
    }
    return gather(b, sources, picked);
  }

  DotProduct instruction_;
  std::array<Reading, 2> reads_;
  int lanes_;
  double slots_;
};

class MatrixInstruction final : public ProductInstruction {
 public:
  explicit MatrixInstruction(DotProduct instruction) : instruction_(std::move(instruction)) {}
  const std::string& name() const override { return instruction_.name; }
  Iterations iterations() const override {
    const DotProduct::Placement& placement = instruction_.placements[0];
    return {.m = placement.rows, .n = placement.columns, .k = instruction_.depth};
  }
  std::string rewriteFor(OpBuilder& builder, Nest& nest, const Chip& chip) const override {
    const int lanes = lanesOf(nest, chip);
    const auto divides = [&](const DotProduct::Placement& each) { return lanes >= 2 && lanes % each.columns == 0; };
    if (!llvm::all_of(instruction_.placements, divides))
      return "the schedule's vectors do not hold a whole number of its columns";
    const auto readings = operandReadsOf(nest.statements[0]);
    if (readings && readings->first.bits != instruction_.bits) return "the instruction takes operands of another width";
    const auto taken = takeUpGroups(builder, nest, instruction_);
    if (const auto* reason = std::get_if<std::string>(&taken)) return *reason;
    const auto& [first, second] = std::get<1>(taken);
    const double slots = std::max(1.0, instruction_.cycles * chip.multiplyAddsPerCycle());
    nest.statements[0].step = std::make_shared<MatrixStep>(instruction_, first, second, lanes, slots);
    return "";
  }

 private:
  DotProduct instruction_;
};

}  // namespace

std::vector<std::unique_ptr<const ProductInstruction>> matrixProducts(const Chip& chip) {
  std::vector<std::unique_ptr<const ProductInstruction>> all;
  for (const DotProduct& each : chip.dotProducts())
    if (!each.isByLane()) all.push_back(std::make_unique<MatrixInstruction>(each));
  return all;
}

}  // namespace tessera::compiler::codegen
