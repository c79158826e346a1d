#include "compiler/backends/cpu/instruction/grouping.h"

#include "compiler/backends/cpu/body_op.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/IR/Matchers.h"

namespace tessera::compiler::codegen {
namespace {

namespace arith = mlir::arith;
using mlir::OpBuilder;
using mlir::Value;

// Matches ext(arg) and ext(arg ^ constant); a constant of 0x80 converts between signed and unsigned 8-bit values.
std::optional<Reading> readingOf(Value value, mlir::Block* body) {
  Reading reading;
  Value narrow;
  if (auto wide = value.getDefiningOp<arith::ExtSIOp>()) {
    reading.is_signed = true;
    narrow = wide.getIn();
  } else if (auto zero = value.getDefiningOp<arith::ExtUIOp>()) {
    narrow = zero.getIn();
  } else if (auto real = value.getDefiningOp<arith::ExtFOp>()) {
    reading.floating = true;
    reading.bits = 16;
    narrow = real.getIn();
  } else {
    return std::nullopt;
  }
  if (auto flip = narrow.getDefiningOp<arith::XOrIOp>()) {
    mlir::APInt bits;
    if (!mlir::matchPattern(flip.getRhs(), mlir::m_ConstantInt(&bits)) || bits.getBitWidth() != 8) return std::nullopt;
    reading.flipped = static_cast<uint8_t>(bits.getZExtValue());
    narrow = flip.getLhs();
  }
  auto argument = llvm::dyn_cast<mlir::BlockArgument>(narrow);
  if (!argument || argument.getOwner() != body) return std::nullopt;
  const mlir::Type element = argument.getType();
  if (reading.floating) {
    if (!element.isBF16()) return std::nullopt;
  } else if (element.isInteger(16) && reading.flipped == 0) {
    reading.bits = 16;
  } else if (!element.isInteger(8)) {
    return std::nullopt;
  }
  reading.argument = static_cast<int>(argument.getArgNumber());
  return reading;
}

// Converts an access function from elements to groups. groupedLoop() has checked that all divisions are exact.
void countGroups(Access& access, int loop, int group, mlir::Type type) {
  access.element = type;
  access.offset /= group;
  for (auto [other, stride] : llvm::enumerate(access.strides))
    if (static_cast<int>(other) != loop) stride /= group;
  for (int64_t& stride : access.slice) stride /= group;
}

/// Drops a loop of one step.
void dropLoop(Nest& nest, int loop) {
  auto drop = [loop](auto& list) { list.erase(list.begin() + loop); };
  drop(nest.extents);
  drop(nest.reduction);
  for (Statement& statement : nest.statements) {
    for (Operand& input : statement.inputs)
      if (!input.access.strides.empty()) drop(input.access.strides);
    for (Operand& output : statement.outputs) drop(output.access.strides);
    for (auto& weights : statement.index_weights) drop(weights);
  }
}

Value bits32(OpBuilder& b, mlir::Location loc, uint32_t value) {
  return arith::ConstantOp::create(b, loc, b.getI32IntegerAttr(static_cast<int32_t>(value)));
}

/// Element `i` of a group, extended to 32 bits; for whole vectors and for scalars.
Value elementOf(OpBuilder& b, mlir::Location loc, Value group, int i, const Reading& reading) {
  auto constant = [&](uint32_t value) { return bits32(b, loc, value); };
  const auto bits = static_cast<uint32_t>(reading.bits);
  if (reading.flipped != 0) group = arith::XOrIOp::create(b, loc, group, constant(reading.flipped * 0x01010101U));
  // Shifts the element to the top of the word and back down, which extends its sign or zeros it.
  const int above = reading.group() - 1 - i;
  Value up = above == 0 ? group : arith::ShLIOp::create(b, loc, group, constant(bits * static_cast<uint32_t>(above)));
  if (reading.is_signed) return arith::ShRSIOp::create(b, loc, up, constant(32 - bits));
  return arith::ShRUIOp::create(b, loc, up, constant(32 - bits));
}

/// Element `i` of a group of two bf16 as f32: a bf16 is the upper half of an f32.
Value halfOf(OpBuilder& b, mlir::Location loc, Value group, int i) {
  Value bits = arith::BitcastOp::create(b, loc, b.getI32Type(), group);
  bits = i == 0 ? arith::ShLIOp::create(b, loc, bits, bits32(b, loc, 16)).getResult()
                : arith::AndIOp::create(b, loc, bits, bits32(b, loc, 0xffff0000U)).getResult();
  return arith::BitcastOp::create(b, loc, b.getF32Type(), bits);
}

/// One step of a product of groups for one sum, used for lanes that no instruction handles.
mlir::linalg::LinalgOp groupBody(OpBuilder& builder, const Reading& first, const Reading& second) {
  if (first.floating)
    return bodyOp(builder, builder.getF32Type(), 2, [&](OpBuilder& b, mlir::Location loc, mlir::ValueRange v) -> Value {
      Value terms[2];
      for (int i : {0, 1}) terms[i] = arith::MulFOp::create(b, loc, halfOf(b, loc, v[0], i), halfOf(b, loc, v[1], i));
      return arith::AddFOp::create(b, loc, v[2], arith::AddFOp::create(b, loc, terms[0], terms[1]));
    });
  return bodyOp(builder, builder.getI32Type(), 2, [&](OpBuilder& b, mlir::Location loc, mlir::ValueRange v) -> Value {
    Value all;
    for (int i = 0; i < first.group(); ++i) {
      Value x = elementOf(b, loc, v[0], i, first);
      Value y = elementOf(b, loc, v[1], i, second);
      Value term = arith::MulIOp::create(b, loc, x, y);
      all = all ? arith::AddIOp::create(b, loc, all, term).getResult() : term;
    }
    return arith::AddIOp::create(b, loc, v[2], all);
  });
}

}  // namespace

std::optional<std::pair<Reading, Reading>> operandReadsOf(const Statement& statement) {
  mlir::Block* body = statement.body();
  if (statement.inputs.size() != 2 || statement.outputs.size() != 1) return std::nullopt;
  const Value accumulator = body->getArgument(2);
  mlir::Operation* sum = body->getTerminator()->getOperand(0).getDefiningOp();
  if (!sum || !accumulator.hasOneUse() || *accumulator.user_begin() != sum) return std::nullopt;
  const bool floating = llvm::isa<arith::AddFOp>(sum);
  if (floating ? !accumulator.getType().isF32()
               : !llvm::isa<arith::AddIOp>(sum) || !accumulator.getType().isInteger(32))
    return std::nullopt;
  mlir::Operation* product = sum->getOperand(sum->getOperand(0) == accumulator ? 1 : 0).getDefiningOp();
  if (!product || !(floating ? llvm::isa<arith::MulFOp>(product) : llvm::isa<arith::MulIOp>(product)))
    return std::nullopt;
  const auto x = readingOf(product->getOperand(0), body), y = readingOf(product->getOperand(1), body);
  if (!x || !y || x->argument == y->argument || x->floating != floating || y->floating != floating ||
      x->bits != y->bits)
    return std::nullopt;
  return std::pair(*x, *y);
}

std::optional<int> groupedLoop(const Nest& nest, int group) {
  std::optional<int> found;
  const auto& inputs = nest.statements[0].inputs;
  for (int loop = 0; loop < nest.loops(); ++loop) {
    if (!nest.reduction[loop] || nest.extents[loop] % group != 0) continue;
    const bool fits = llvm::all_of(inputs, [&](const Operand& input) {
      const Access& access = input.access;
      if (!access.root || input.from || !access.panel.empty()) return false;
      if (access.strides[loop] != 1 || access.offset % group != 0) return false;
      if (llvm::any_of(access.slice, [&](int64_t stride) { return stride % group != 0; })) return false;
      for (int other = 0; other < nest.loops(); ++other)
        if (other != loop && access.strides[other] % group != 0) return false;
      return true;
    });
    if (fits && (!found || nest.extents[loop] > nest.extents[*found])) found = loop;
  }
  return found;
}

void groupElements(OpBuilder& builder, Nest& nest, int loop, const Reading& first, const Reading& second) {
  Statement& main = nest.statements[0];
  if (first.argument == 1) std::swap(main.inputs[0], main.inputs[1]);
  const int group = first.group();
  nest.extents[loop] /= group;
  // The element type becomes that of the sums, so that copies and loads need not know of groups.
  for (Operand& input : main.inputs) countGroups(input.access, loop, group, main.outputs[0].access.element);
  main.op = groupBody(builder, first, second);
  if (nest.extents[loop] == 1 && llvm::count(nest.reduction, true) > 1) dropLoop(nest, loop);
}

}  // namespace tessera::compiler::codegen
