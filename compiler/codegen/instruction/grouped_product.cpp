#include "compiler/codegen/instruction/grouped_product.h"

#include "absl/strings/str_cat.h"
#include "compiler/codegen/body_op.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/IR/Matchers.h"

namespace tessera::compiler::codegen {
namespace {

namespace arith = mlir::arith;
using mlir::OpBuilder;
using mlir::Value;

/// What the body of a statement over groups of elements computes: `first` and `second` are its two inputs, whose
/// elements of 32 bits are groups of four of 8 bits or, in floats, of two of bf16.
struct GroupedProduct {
  DotProduct instruction;
  int group = 4;
  bool first_signed = false, second_signed = false;  ///< how elements are extended, once
  uint8_t first_flipped = 0, second_flipped = 0;     ///< these bits of each element are turned
};

/// How a body reads one of its arguments: with every bit of `flipped` turned, then extended.
struct Reading {
  int argument = -1;
  bool is_signed = false;
  uint8_t flipped = 0;
  bool floating = false;                          ///< bf16
  int group() const { return floating ? 2 : 4; }  ///< elements in a sum's 32 bits
};

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
  if (reading.floating ? !argument.getType().isBF16() : !argument.getType().isInteger(8)) return std::nullopt;
  reading.argument = static_cast<int>(argument.getArgNumber());
  return reading;
}

/// Both readings of a body sum + x * y; nothing for another body.
std::optional<std::pair<Reading, Reading>> productOf(const Statement& statement) {
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
  if (!x || !y || x->argument == y->argument || x->floating != floating || y->floating != floating) return std::nullopt;
  return std::pair(*x, *y);
}

/// A reduction that both operands walk element by element, in whole groups; everything else they walk by groups. The
/// longest of several.
std::optional<int> groupedLoop(const Nest& nest, int group) {
  std::optional<int> found;
  const auto& inputs = nest.statements[0].inputs;
  for (int loop = 0; loop < nest.loops(); ++loop) {
    if (!nest.reduction[loop] || nest.extents[loop] % group != 0) continue;
    const bool fits = llvm::all_of(inputs, [&](const Operand& input) {
      const Access& access = input.access;
      if (!access.root || input.from || !access.panel.empty() || !access.slice.empty()) return false;
      if (access.strides[loop] != 1 || access.offset % group != 0) return false;
      for (int other = 0; other < nest.loops(); ++other)
        if (other != loop && access.strides[other] % group != 0) return false;
      return true;
    });
    if (fits && (!found || nest.extents[loop] > nest.extents[*found])) found = loop;
  }
  return found;
}

void countGroups(Access& access, int loop, int group, mlir::Type type) {
  access.element = type;
  access.offset /= group;
  for (auto [other, stride] : llvm::enumerate(access.strides))
    if (static_cast<int>(other) != loop) stride /= group;
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

/// Element `i` of a group, in 32 bits, whole vectors or single ones alike.
Value elementOf(OpBuilder& b, mlir::Location loc, Value group, int i, bool is_signed, uint8_t flipped) {
  constexpr int kGroup = 4;
  auto constant = [&](uint32_t value) { return bits32(b, loc, value); };
  if (flipped != 0) group = arith::XOrIOp::create(b, loc, group, constant(flipped * 0x01010101U));
  Value up = i == kGroup - 1 ? group : arith::ShLIOp::create(b, loc, group, constant(8U * (kGroup - 1 - i)));
  if (is_signed) return arith::ShRSIOp::create(b, loc, up, constant(24));
  return arith::ShRUIOp::create(b, loc, up, constant(24));
}

/// Element `i` of a group of two bf16, which is the upper half of an f32.
Value halfOf(OpBuilder& b, mlir::Location loc, Value group, int i) {
  Value bits = arith::BitcastOp::create(b, loc, b.getI32Type(), group);
  bits = i == 0 ? arith::ShLIOp::create(b, loc, bits, bits32(b, loc, 16)).getResult()
                : arith::AndIOp::create(b, loc, bits, bits32(b, loc, 0xffff0000U)).getResult();
  return arith::BitcastOp::create(b, loc, b.getF32Type(), bits);
}

/// What the instruction computes, for one sum: for lanes that are no whole vector of it.
mlir::linalg::LinalgOp groupBody(OpBuilder& builder, const GroupedProduct& product) {
  if (product.instruction.floating)
    return bodyOp(builder, builder.getF32Type(), 2, [&](OpBuilder& b, mlir::Location loc, mlir::ValueRange v) -> Value {
      Value terms[2];
      for (int i : {0, 1}) terms[i] = arith::MulFOp::create(b, loc, halfOf(b, loc, v[0], i), halfOf(b, loc, v[1], i));
      return arith::AddFOp::create(b, loc, v[2], arith::AddFOp::create(b, loc, terms[0], terms[1]));
    });
  return bodyOp(builder, builder.getI32Type(), 2, [&](OpBuilder& b, mlir::Location loc, mlir::ValueRange v) -> Value {
    Value all;
    for (int i = 0; i < product.group; ++i) {
      Value x = elementOf(b, loc, v[0], i, product.first_signed, product.first_flipped);
      Value y = elementOf(b, loc, v[1], i, product.second_signed, product.second_flipped);
      Value term = arith::MulIOp::create(b, loc, x, y);
      all = all ? arith::AddIOp::create(b, loc, all, term).getResult() : term;
    }
    return arith::AddIOp::create(b, loc, v[2], all);
  });
}

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
    first = flip(b, first, product_.first_flipped);
    second = flip(b, second, product_.second_flipped);
    const int64_t elements = static_cast<int64_t>(instruction.lanes) * product_.group;
    auto packed = mlir::VectorType::get({elements},
                                        instruction.floating ? mlir::Type(b.getBF16Type()) : mlir::Type(b.getI8Type()));
    if (instruction.bits == 16 && !instruction.floating) {
      for (bool odd : {false, true})
        sum = call(b, instruction, everySecond(b, first, odd, product_.first_signed),
                   everySecond(b, second, odd, product_.second_signed), sum);
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
  Statement& main = nest.statements[0];
  const auto readings = productOf(main);
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
  GroupedProduct product{.instruction = instruction_,
                         .group = group,
                         .first_signed = x.is_signed,
                         .second_signed = y.is_signed,
                         .first_flipped = x.flipped,
                         .second_flipped = y.flipped};
  if (x.argument == 1) std::swap(main.inputs[0], main.inputs[1]);
  nest.extents[*loop] /= group;
  // As wide as the sums, of their type: what copies and loads need not know of groups.
  for (Operand& input : main.inputs) countGroups(input.access, *loop, group, main.outputs[0].access.element);
  main.op = groupBody(builder, product);
  main.step = std::make_shared<GroupedStep>(std::move(product));
  if (nest.extents[*loop] == 1 && llvm::count(nest.reduction, true) > 1) dropLoop(nest, *loop);
  return "";
}

}  // namespace

std::vector<std::unique_ptr<const ProductInstruction>> groupedProducts(const Chip& chip) {
  std::vector<std::unique_ptr<const ProductInstruction>> all;
  for (const DotProduct& each : chip.dotProducts()) all.push_back(std::make_unique<GroupedInstruction>(each));
  return all;
}

}  // namespace tessera::compiler::codegen
