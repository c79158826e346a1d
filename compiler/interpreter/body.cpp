#include "compiler/interpreter/body.h"

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "llvm/ADT/DenseSet.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "proto/support/status_macros.h"

namespace tessera::compiler::interpreter {
namespace {

namespace arith = mlir::arith;

/// The operand of `op` that is an accumulator, or -1.
int sumOperand(mlir::Operation* op, const llvm::DenseSet<mlir::Value>& sums) {
  if (llvm::isa<arith::AddFOp, arith::AddIOp>(op)) {
    // Exactly one operand may be the accumulator: a sum of two accumulators has correlated errors.
    if (sums.contains(op->getOperand(0)) == sums.contains(op->getOperand(1))) return -1;
    return sums.contains(op->getOperand(0)) ? 0 : 1;
  }
  if (llvm::isa<arith::SubFOp>(op)) return sums.contains(op->getOperand(0)) ? 0 : -1;
  if (llvm::isa<mlir::math::FmaOp>(op)) return sums.contains(op->getOperand(2)) ? 2 : -1;
  return -1;
}

}  // namespace

std::optional<Scalar> scalarOf(mlir::Attribute attribute) {
  if (auto real = llvm::dyn_cast<mlir::FloatAttr>(attribute)) return Scalar{real.getValueAsDouble(), 0, 0};
  if (auto boolean = llvm::dyn_cast<mlir::BoolAttr>(attribute)) return Scalar{0, boolean.getValue() ? 1 : 0, 0};
  auto integer = llvm::dyn_cast<mlir::IntegerAttr>(attribute);
  if (!integer) return std::nullopt;
  const llvm::APInt& value = integer.getValue();
  return Scalar{0, wrapTo(value.getBitWidth(), static_cast<int64_t>(value.getZExtValue())), 0};
}

int Body::newSlot(mlir::Value value) {
  const int slot = static_cast<int>(lanes_.size());
  lanes_.emplace_back();
  slots_[value] = slot;
  return slot;
}

absl::StatusOr<int> Body::slotOf(mlir::Value value, const Surroundings& surroundings) {
  if (auto it = slots_.find(value); it != slots_.end()) return it->second;
  // Defined outside of the body: the same at every point.
  const Scalar* scalar = surroundings.scalar(value);
  if (!scalar) return absl::UnimplementedError("a body refers to a value that is no scalar");
  const int slot = newSlot(value);
  for (int i = 0; i < Lanes::kLanes; ++i) lanes_[slot].set(i, *scalar);
  return slot;
}

absl::Status Body::add(mlir::Operation* op, const Surroundings& surroundings) {
  // A constant costs nothing at run time: its lanes are filled once, here.
  if (auto constant = llvm::dyn_cast<arith::ConstantOp>(op)) {
    const std::optional<Scalar> value = scalarOf(constant.getValue());
    if (!value) return absl::UnimplementedError("a constant in a body is no scalar");
    const int slot = newSlot(constant.getResult());
    for (int i = 0; i < Lanes::kLanes; ++i) lanes_[slot].set(i, *value);
    return absl::OkStatus();
  }
  Instruction instruction;
  instruction.op = op;
  mlir::ValueRange operands = op->getOperands();
  if (auto index = llvm::dyn_cast<mlir::linalg::IndexOp>(op)) {
    instruction.loop = static_cast<int>(index.getDim());
  } else if (llvm::isa<mlir::tensor::ExtractOp, mlir::memref::LoadOp>(op)) {
    instruction.array = surroundings.array(op->getOperand(0));
    if (!instruction.array) return absl::UnimplementedError("a body reads elements of a value that is not known");
    operands = operands.drop_front();
  } else {
    instruction.rule = ruleOf(op, instruction.context);
    if (!instruction.rule) {
      return absl::UnimplementedError(absl::StrCat("no rule for ", op->getName().getStringRef().str()));
    }
  }
  for (mlir::Value operand : operands) {
    TESSERA_ASSIGN_OR_RETURN(int slot, slotOf(operand, surroundings));
    instruction.operands.push_back(slot);
  }
  instruction.result = newSlot(op->getResult(0));
  instructions_.push_back(std::move(instruction));
  return absl::OkStatus();
}

/// An accumulator is an argument, every sum of an accumulator and another value, and is yielded as that argument's next
/// value.
void Body::markSums(mlir::Block& block, llvm::ArrayRef<mlir::BlockArgument> sums) {
  const auto yielded = block.getTerminator()->getOperands();
  for (auto [number, argument] : llvm::enumerate(sums)) {
    llvm::DenseSet<mlir::Value> values = {argument};
    llvm::SmallVector<std::pair<Instruction*, int>> marked;
    for (Instruction& instruction : instructions_) {
      if (!instruction.rule) continue;
      const int operand = sumOperand(instruction.op, values);
      // A partial sum with a second use would be read before it is rounded.
      if (operand < 0 || !instruction.op->getResult(0).hasOneUse()) continue;
      values.insert(instruction.op->getResult(0));
      marked.emplace_back(&instruction, operand);
    }
    is_sum_[number] = !marked.empty() && values.contains(yielded[number]);
    if (!is_sum_[number]) continue;
    for (auto [instruction, operand] : marked) {
      instruction->context.accumulates = true;
      // Rules expect the accumulator first.
      if (operand == 1) std::swap(instruction->operands[0], instruction->operands[1]);
    }
  }
}

absl::StatusOr<Body> Body::translate(mlir::Block& block, llvm::ArrayRef<mlir::BlockArgument> sums,
                                     const Surroundings& surroundings) {
  Body body;
  for (mlir::BlockArgument argument : block.getArguments()) body.newSlot(argument);
  for (mlir::Operation& op : block.without_terminator()) {
    TESSERA_RETURN_IF_ERROR(body.add(&op, surroundings));
  }
  for (mlir::Value value : block.getTerminator()->getOperands()) {
    TESSERA_ASSIGN_OR_RETURN(int slot, body.slotOf(value, surroundings));
    body.yields_.push_back(slot);
  }
  body.is_sum_.assign(body.yields_.size(), false);
  body.markSums(block, sums);
  return body;
}

absl::Status Body::extract(const Instruction& instruction, int count) {
  const Array& array = *instruction.array;
  Lanes& out = lanes_[instruction.result];
  for (int i = 0; i < count; ++i) {
    int64_t position = array.offset;
    bool sure = true;
    for (size_t d = 0; d < instruction.operands.size(); ++d) {
      const Lanes& index = lanes_[instruction.operands[d]];
      if (index.integer[i] < 0 || index.integer[i] >= array.shape[d]) {
        return absl::OutOfRangeError(
            absl::StrCat("index ", index.integer[i], " of dimension ", d, " with ", array.shape[d], " elements"));
      }
      position += index.integer[i] * array.strides[d];
      sure &= index.error[i] == 0;
    }
    out.set(i, array.at(position));
    // Another element could have been read.
    if (!sure) out.error[i] = kUnknownError;
  }
  return absl::OkStatus();
}

absl::Status Body::run(llvm::ArrayRef<std::pair<int64_t, int64_t>> loops, int count) {
  const Lanes* in[3] = {};
  for (const Instruction& instruction : instructions_) {
    Lanes& out = lanes_[instruction.result];
    if (instruction.loop >= 0) {
      const auto [first, step] = loops[instruction.loop];
      for (int i = 0; i < count; ++i) out.set(i, {0, first + i * step, 0});
    } else if (instruction.array) {
      TESSERA_RETURN_IF_ERROR(extract(instruction, count));
    } else {
      for (size_t o = 0; o < instruction.operands.size(); ++o) in[o] = &lanes_[instruction.operands[o]];
      instruction.rule(instruction.context, in, out, count);
    }
  }
  return absl::OkStatus();
}

}  // namespace tessera::compiler::interpreter
