#include "compiler/codegen/instruction/grouped_product.h"

#include "absl/strings/str_cat.h"
#include "compiler/codegen/instruction/grouping.h"
#include "compiler/codegen/tiling/tile_plan.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"

namespace tessera::compiler::codegen {
namespace {

namespace arith = mlir::arith;
using mlir::OpBuilder;
using mlir::Value;

/// An instruction and how its operands are read.
struct GroupedProduct {
  DotProduct instruction;
  Reading first, second;
};

/// Turned, as vectors of 32 bits that hold groups.
Value flip(OpBuilder& b, Value groups, uint8_t flipped) {
  if (flipped == 0) return groups;
  auto type = llvm::cast<mlir::VectorType>(groups.getType());
  Value bits = arith::ConstantOp::create(
      b, groups.getLoc(),
      mlir::DenseElementsAttr::get(type, llvm::APInt(32, static_cast<uint64_t>(flipped) * 0x01010101U)));
  return arith::XOrIOp::create(b, groups.getLoc(), groups, bits);
}

/// Elements 0 and 2, or 1 and 3, of each group as neighbours of 16 bits.
Value everySecond(OpBuilder& b, Value groups, bool odd, bool is_signed) {
  const mlir::Location loc = groups.getLoc();
  const int64_t lanes = llvm::cast<mlir::VectorType>(groups.getType()).getNumElements();
  auto type = mlir::VectorType::get({2 * lanes}, b.getI16Type());
  Value pairs = mlir::LLVM::BitcastOp::create(b, loc, type, groups);
  auto splat = [&](uint64_t value) -> Value {
    return arith::ConstantOp::create(b, loc, mlir::DenseElementsAttr::get(type, llvm::APInt(16, value)));
  };
  if (!odd && !is_signed) return arith::AndIOp::create(b, loc, pairs, splat(0xff));
  if (!odd) pairs = arith::ShLIOp::create(b, loc, pairs, splat(8));
  if (is_signed) return arith::ShRSIOp::create(b, loc, pairs, splat(8));
  return arith::ShRUIOp::create(b, loc, pairs, splat(8));
}

Value call(OpBuilder& b, const DotProduct& instruction, Value first, Value second, Value sum) {
  const mlir::Location loc = sum.getLoc();
  const Value given[] = {sum, first, second};
  llvm::SmallVector<Value> operands;
  for (int operand : instruction.operands) operands.push_back(given[operand]);
  Value result = mlir::LLVM::CallIntrinsicOp::create(b, loc, sum.getType(), b.getStringAttr(instruction.emit), operands)
                     .getResults();
  return instruction.accumulates ? result : arith::AddIOp::create(b, loc, sum, result).getResult();
}

class GroupedStep final : public ProductStep {
 public:
  explicit GroupedStep(GroupedProduct product) : product_(std::move(product)) {}
  const std::string& name() const override { return product_.instruction.name; }
  int lanes() const override { return product_.instruction.lanes; }
  Value emit(OpBuilder& b, Value first, Value second, Value sum) const override {
    const DotProduct& instruction = product_.instruction;
    first = flip(b, first, product_.first.flipped);
    second = flip(b, second, product_.second.flipped);
    const int64_t elements = static_cast<int64_t>(instruction.lanes) * product_.first.group();
    auto packed = mlir::VectorType::get({elements},
                                        instruction.floating ? mlir::Type(b.getBF16Type()) : mlir::Type(b.getI8Type()));
    if (instruction.bits == 16 && !instruction.floating) {
      for (bool odd : {false, true})
        sum = call(b, instruction, everySecond(b, first, odd, product_.first.is_signed),
                   everySecond(b, second, odd, product_.second.is_signed), sum);
      return sum;
    }
    return call(b, instruction, mlir::LLVM::BitcastOp::create(b, sum.getLoc(), packed, first),
                mlir::LLVM::BitcastOp::create(b, sum.getLoc(), packed, second), sum);
  }

 private:
  GroupedProduct product_;
};

class GroupedInstruction final : public ProductInstruction {
 public:
  explicit GroupedInstruction(DotProduct instruction) : instruction_(std::move(instruction)) {}
  const std::string& name() const override { return instruction_.name; }
  Iterations iterations() const override { return {.n = instruction_.lanes, .k = instruction_.group}; }
  std::string takeUp(OpBuilder& builder, Nest& nest, const Chip& chip) const override;

 private:
  DotProduct instruction_;
};

std::string GroupedInstruction::takeUp(OpBuilder& builder, Nest& nest, const Chip& chip) const {
  if (instruction_.lanes != lanesOf(nest, chip)) return "its vectors are not those of the schedule";
  const auto readings = readingsOf(nest.statements[0]);
  if (!readings) return "the nest does not add up products of 8-bit integers or of bf16 in 32 bits";
  auto [x, y] = *readings;
  if (x.floating != instruction_.floating) return "the instruction takes operands of another type";
  const int group = x.group();
  const auto loop = groupedLoop(nest, group);
  if (!loop) return absl::StrCat("no sum of a multiple of ", group, " steps walks both operands element by element");
  // Elements of 16 bits are made of those of 8: signed ones hold both kinds, unsigned ones nothing below zero.
  const bool narrow = instruction_.bits == 8;
  auto holds = [&](bool element_signed, bool operand_signed) {
    return narrow ? element_signed == operand_signed : operand_signed || !element_signed;
  };
  auto fits = [&](const Reading& first, const Reading& second) {
    return holds(first.is_signed, instruction_.first_signed) && holds(second.is_signed, instruction_.second_signed);
  };
  const bool swapped = !fits(x, y);
  if (swapped) std::swap(x, y);
  if (!fits(x, y)) return "the instruction takes operands of other signs";
  countInGroups(builder, nest, *loop, x, y);
  nest.statements[0].step = std::make_shared<GroupedStep>(GroupedProduct{instruction_, x, y});
  return "";
}

}  // namespace

std::vector<std::unique_ptr<const ProductInstruction>> groupedProducts(const Chip& chip) {
  std::vector<std::unique_ptr<const ProductInstruction>> all;
  for (const DotProduct& each : chip.dotProducts()) all.push_back(std::make_unique<GroupedInstruction>(each));
  return all;
}

}  // namespace tessera::compiler::codegen
