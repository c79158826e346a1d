#include "compiler/backends/cpu/instruction/dot_operands.h"

#include "absl/strings/str_cat.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"

namespace tessera::compiler::codegen {

namespace arith = mlir::arith;
using mlir::OpBuilder;
using mlir::Value;

std::variant<std::string, std::pair<Reading, Reading>> takeUpGroups(OpBuilder& builder, Nest& nest,
                                                                    const DotProduct& instruction) {
  const auto readings = operandReadsOf(nest.statements[0]);
  if (!readings) return "the nest does not add up products of integers of 8 or 16 bits or of bf16 in 32 bits";
  auto [x, y] = *readings;
  if (x.floating != instruction.floating || x.bits > instruction.bits)
    return "the instruction takes operands of another type";
  const int group = x.group();
  const auto loop = groupedLoop(nest, group);
  if (!loop) return absl::StrCat("no sum of a multiple of ", group, " steps walks both operands element by element");
  // 8-bit elements widened to 16 bits: signed 16-bit operands hold both kinds, unsigned ones only unsigned elements.
  const bool narrow = instruction.bits == x.bits;
  auto holds = [&](bool element_signed, bool operand_signed) {
    return narrow ? element_signed == operand_signed : operand_signed || !element_signed;
  };
  auto fits = [&](const Reading& first, const Reading& second) {
    return holds(first.is_signed, instruction.first_signed) && holds(second.is_signed, instruction.second_signed);
  };
  // Products commute, so the operands may change places if the instruction takes their signs in the other order.
  const bool swapped = !fits(x, y);
  if (swapped) std::swap(x, y);
  if (!fits(x, y)) return "the instruction takes operands of other signs";
  groupElements(builder, nest, *loop, x, y);
  return std::pair(x, y);
}

Value flip(OpBuilder& b, Value groups, uint8_t flipped) {
  if (flipped == 0) return groups;
  auto type = llvm::cast<mlir::VectorType>(groups.getType());
  Value bits = arith::ConstantOp::create(
      b, groups.getLoc(),
      mlir::DenseElementsAttr::get(type, llvm::APInt(32, static_cast<uint64_t>(flipped) * 0x01010101U)));
  return arith::XOrIOp::create(b, groups.getLoc(), groups, bits);
}

mlir::Type elementTypeOf(OpBuilder& b, const DotProduct& instruction) {
  return instruction.floating ? mlir::Type(b.getBF16Type()) : b.getIntegerType(static_cast<unsigned>(instruction.bits));
}

Value callDotProduct(OpBuilder& b, const DotProduct& instruction, Value first, Value second, Value sum) {
  const mlir::Location loc = sum.getLoc();
  const Value given[] = {sum, first, second};
  llvm::SmallVector<Value> operands;
  for (int operand : instruction.operands) operands.push_back(given[operand]);
  Value result = mlir::LLVM::CallIntrinsicOp::create(b, loc, sum.getType(), b.getStringAttr(instruction.emit), operands)
                     .getResults();
  if (instruction.accumulates) return result;
  if (instruction.floating) return arith::AddFOp::create(b, loc, sum, result);
  return arith::AddIOp::create(b, loc, sum, result);
}

}  // namespace tessera::compiler::codegen
