#include "compiler/backends/cpu/instruction/grouped_product.h"

#include <variant>

#include "compiler/backends/cpu/instruction/dot_operands.h"
#include "compiler/backends/cpu/tiling/tile_plan.h"
#include "compiler/ir/workload.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

namespace tessera::compiler::codegen {
namespace {

namespace arith = mlir::arith;
using mlir::OpBuilder;
using mlir::Value;

constexpr char kOtherLanes[] = "its vectors are not those of the schedule";

/// An instruction and how its operands are read.
struct GroupedProduct {
  DotProduct instruction;
  Reading first, second;
};

/// Elements 0 and 2, or 1 and 3, of each group as pairs of 16 bits.
Value everySecond(OpBuilder& b, Value groups, bool odd, bool is_signed) {
  const mlir::Location loc = groups.getLoc();
  const int64_t lanes = llvm::cast<mlir::VectorType>(groups.getType()).getNumElements();
  auto type = mlir::VectorType::get({2 * lanes}, b.getI16Type());
  Value pairs = mlir::LLVM::BitcastOp::create(b, loc, type, groups);
  auto splat = [&](uint64_t value) -> Value {
    return arith::ConstantOp::create(b, loc, mlir::DenseElementsAttr::get(type, llvm::APInt(16, value)));
  };
  // The low byte of each pair is masked out if it is unsigned; a signed one is shifted up first, so that the shift
  // down copies its sign.
  if (!odd && !is_signed) return arith::AndIOp::create(b, loc, pairs, splat(0xff));
  if (!odd) pairs = arith::ShLIOp::create(b, loc, pairs, splat(8));
  if (is_signed) return arith::ShRSIOp::create(b, loc, pairs, splat(8));
  return arith::ShRUIOp::create(b, loc, pairs, splat(8));
}

class GroupedStep final : public ProductInstructionStep {
 public:
  explicit GroupedStep(GroupedProduct product) : product_(std::move(product)) {}
  const std::string& name() const override { return product_.instruction.name; }
  int lanes() const override { return product_.instruction.lanes; }
  /// Both halves of each operand, and the mask that separates them. An instruction that does not accumulate needs one
  /// more register for its result.
  int64_t registers(int64_t vectors) const override {
    if (takesApart()) return 2 * (vectors + 1) + 1;
    return vectors + (product_.instruction.accumulates ? 1 : 2);
  }
  /// Two products and two sums for each pair. Splitting a row takes a load and two instructions, a vector a load and
  /// three.
  double instructions(int64_t rows, int64_t vectors) const override {
    if (takesApart()) return static_cast<double>(4 * rows * vectors + 3 * rows + 4 * vectors);
    return ProductInstructionStep::instructions(rows, vectors) +
           static_cast<double>(product_.instruction.accumulates ? 0 : rows * vectors);
  }
  Value emit(OpBuilder& b, Value first, Value second, Value sum) const override {
    const DotProduct& instruction = product_.instruction;
    first = flip(b, first, product_.first.flipped);
    second = flip(b, second, product_.second.flipped);
    const int64_t elements = static_cast<int64_t>(instruction.lanes) * product_.first.group();
    auto packed = mlir::VectorType::get({elements}, elementTypeOf(b, instruction));
    if (takesApart()) {
      for (bool odd : {false, true})
        sum = callDotProduct(b, instruction, everySecond(b, first, odd, product_.first.is_signed),
                             everySecond(b, second, odd, product_.second.is_signed), sum);
      return sum;
    }
    return callDotProduct(b, instruction, mlir::LLVM::BitcastOp::create(b, sum.getLoc(), packed, first),
                          mlir::LLVM::BitcastOp::create(b, sum.getLoc(), packed, second), sum);
  }

 private:
  /// Whether 8-bit elements are widened to pairs of 16 bits.
  bool takesApart() const { return product_.first.bits < product_.instruction.bits; }

  GroupedProduct product_;
};

/// Sums pairs of products in 16 bits, which a second instruction adds to the 32-bit sum: half the instructions of
/// widening the elements. Pairs that could saturate are detected when vectors of the second operand are loaded.
class PairStep final : public ProductInstructionStep {
 public:
  PairStep(PairProduct pairs, const Reading& first, const Reading& second)
      : pairs_(std::move(pairs)),
        first_(first),
        second_(second),
        fallback_(GroupedProduct{pairs_.sums, first, second}) {}
  const std::string& name() const override { return pairs_.name; }
  int lanes() const override { return pairs_.sums.lanes; }
  /// In addition to the operands: the sums of pairs, and a vector of ones.
  int64_t registers(int64_t vectors) const override { return vectors + 3; }
  /// Two products and a sum for each pair of vectors; a load and three instructions to check a vector.
  double instructions(int64_t rows, int64_t vectors) const override {
    return static_cast<double>(3 * rows * vectors + rows + 4 * vectors);
  }
  const ProductInstructionStep* fallback() const override { return &fallback_; }

  Value emit(OpBuilder& b, Value first, Value second, Value sum) const override {
    Value sums = pairsOf(b, flip(b, first, first_.flipped), flip(b, second, second_.flipped));
    return callDotProduct(b, pairs_.sums, sums, splat(b, sum.getLoc(), 1), sum);
  }

  Value isCorrectFor(OpBuilder& b, llvm::ArrayRef<Value> seconds) const override {
    const mlir::Location loc = seconds[0].getLoc();
    const auto groups = llvm::cast<mlir::VectorType>(seconds[0].getType());
    Value ones = arith::ConstantOp::create(b, loc, mlir::DenseElementsAttr::get(groups, llvm::APInt(32, 0x01010101)));
    Value widest;
    for (Value second : seconds) {
      // A pair of equal signs is as wide as its sum; a pair of different signs never saturates.
      Value width = mlir::math::AbsIOp::create(b, loc, pairsOf(b, ones, flip(b, second, second_.flipped)));
      widest = widest ? arith::MaxSIOp::create(b, loc, widest, width).getResult() : width;
    }
    Value wide =
        arith::CmpIOp::create(b, loc, arith::CmpIPredicate::sgt, widest, splat(b, loc, PairProduct::kMaxExactSum));
    Value any = mlir::vector::ReductionOp::create(b, loc, mlir::vector::CombiningKind::OR, wide);
    return arith::XOrIOp::create(b, loc, any, arith::ConstantIntOp::create(b, loc, 1, 1));
  }

 private:
  mlir::VectorType sumsType(OpBuilder& b) const { return mlir::VectorType::get({2 * lanes()}, b.getI16Type()); }
  Value splat(OpBuilder& b, mlir::Location loc, int value) const {
    return arith::ConstantOp::create(
        b, loc, mlir::DenseElementsAttr::get(sumsType(b), llvm::APInt(16, static_cast<uint64_t>(value))));
  }
  Value pairsOf(OpBuilder& b, Value first, Value second) const {
    const mlir::Location loc = first.getLoc();
    auto packed = mlir::VectorType::get({4 * lanes()}, b.getI8Type());
    const Value given[] = {{},
                           mlir::LLVM::BitcastOp::create(b, loc, packed, first),
                           mlir::LLVM::BitcastOp::create(b, loc, packed, second)};
    llvm::SmallVector<Value> operands;
    for (int operand : pairs_.operands) operands.push_back(given[operand]);
    return mlir::LLVM::CallIntrinsicOp::create(b, loc, sumsType(b), b.getStringAttr(pairs_.emit), operands)
        .getResults();
  }

  PairProduct pairs_;
  Reading first_, second_;
  GroupedStep fallback_;
};

class GroupedInstruction final : public ProductInstruction {
 public:
  explicit GroupedInstruction(DotProduct instruction) : instruction_(std::move(instruction)) {}
  const std::string& name() const override { return instruction_.name; }
  Iterations iterations() const override { return {.n = instruction_.lanes, .k = instruction_.depth}; }
  std::string rewriteFor(OpBuilder& builder, Nest& nest, const Chip& chip) const override {
    if (instruction_.lanes != lanesOf(nest, chip)) return kOtherLanes;
    const auto taken = takeUpGroups(builder, nest, instruction_);
    if (const auto* reason = std::get_if<std::string>(&taken)) return *reason;
    const auto& [x, y] = std::get<1>(taken);
    nest.statements[0].step = std::make_shared<GroupedStep>(GroupedProduct{instruction_, x, y});
    return "";
  }

 private:
  DotProduct instruction_;
};

class PairInstruction final : public ProductInstruction {
 public:
  explicit PairInstruction(PairProduct pairs) : pairs_(std::move(pairs)) {
    groups_.lanes = pairs_.sums.lanes;
    groups_.group = 4;
    groups_.bits = 8;
    groups_.second_signed = true;
  }
  const std::string& name() const override { return pairs_.name; }
  Iterations iterations() const override { return {.n = groups_.lanes, .k = groups_.group}; }
  bool isProfitable(const Nest& nest) const override { return nest.statements[0].op->hasAttr(kNarrowPairs); }
  std::string rewriteFor(OpBuilder& builder, Nest& nest, const Chip& chip) const override {
    if (groups_.lanes != lanesOf(nest, chip)) return kOtherLanes;
    const auto taken = takeUpGroups(builder, nest, groups_);
    if (const auto* reason = std::get_if<std::string>(&taken)) return *reason;
    const auto& [x, y] = std::get<1>(taken);
    nest.statements[0].step = std::make_shared<PairStep>(pairs_, x, y);
    return "";
  }

 private:
  PairProduct pairs_;
  DotProduct groups_;  ///< the layout of its operands
};

}  // namespace

std::vector<std::unique_ptr<const ProductInstruction>> groupedProducts(const Chip& chip) {
  std::vector<std::unique_ptr<const ProductInstruction>> all;
  for (const DotProduct& each : chip.dotProducts())
    if (each.isByLane()) all.push_back(std::make_unique<GroupedInstruction>(each));
  return all;
}

std::vector<std::unique_ptr<const ProductInstruction>> saturatingPairProducts(const Chip& chip) {
  std::vector<std::unique_ptr<const ProductInstruction>> all;
  if (!chip.multipliesPairs()) return all;
  for (const PairProduct& each : chip.pairProducts()) all.push_back(std::make_unique<PairInstruction>(each));
  return all;
}

}  // namespace tessera::compiler::codegen
