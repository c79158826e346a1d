#include "compiler/backends/cpu/tiling/reduction.h"

#include "llvm/ADT/TypeSwitch.h"
#include "mlir/Dialect/Arith/IR/Arith.h"

namespace tessera::compiler::codegen {
namespace {

namespace arith = mlir::arith;
using mlir::vector::CombiningKind;

std::optional<CombiningKind> kindOf(mlir::Operation* op) {
  return llvm::TypeSwitch<mlir::Operation*, std::optional<CombiningKind>>(op)
      .Case<arith::AddFOp, arith::AddIOp>([](auto) { return CombiningKind::ADD; })
      .Case<arith::MulFOp, arith::MulIOp>([](auto) { return CombiningKind::MUL; })
      .Case<arith::MaximumFOp>([](auto) { return CombiningKind::MAXIMUMF; })
      .Case<arith::MinimumFOp>([](auto) { return CombiningKind::MINIMUMF; })
      .Case<arith::MaxNumFOp>([](auto) { return CombiningKind::MAXNUMF; })
      .Case<arith::MinNumFOp>([](auto) { return CombiningKind::MINNUMF; })
      .Case<arith::MaxSIOp>([](auto) { return CombiningKind::MAXSI; })
      .Case<arith::MinSIOp>([](auto) { return CombiningKind::MINSI; })
      .Case<arith::MaxUIOp>([](auto) { return CombiningKind::MAXUI; })
      .Case<arith::MinUIOp>([](auto) { return CombiningKind::MINUI; })
      .Case<arith::AndIOp>([](auto) { return CombiningKind::AND; })
      .Case<arith::OrIOp>([](auto) { return CombiningKind::OR; })
      .Case<arith::XOrIOp>([](auto) { return CombiningKind::XOR; })
      .Default([](mlir::Operation*) { return std::nullopt; });
}

mlir::TypedAttr neutralOf(CombiningKind kind, mlir::Type type) {
  if (auto real = llvm::dyn_cast<mlir::FloatType>(type)) {
    const auto& semantics = real.getFloatSemantics();
    switch (kind) {
      case CombiningKind::ADD:
        // -0: adding it preserves the sign of every zero; +0 would turn -0 into +0.
        return mlir::FloatAttr::get(type, llvm::APFloat::getZero(semantics, true));
      case CombiningKind::MUL:
        return mlir::FloatAttr::get(type, llvm::APFloat::getOne(semantics));
      case CombiningKind::MAXIMUMF:
      case CombiningKind::MAXNUMF:
        return mlir::FloatAttr::get(type, llvm::APFloat::getInf(semantics, true));
      default:  // minima
        return mlir::FloatAttr::get(type, llvm::APFloat::getInf(semantics, false));
    }
  }
  const unsigned bits = type.getIntOrFloatBitWidth();
  switch (kind) {
    case CombiningKind::MUL:
      return mlir::IntegerAttr::get(type, llvm::APInt(bits, 1));
    case CombiningKind::MAXSI:
      return mlir::IntegerAttr::get(type, llvm::APInt::getSignedMinValue(bits));
    case CombiningKind::MINSI:
      return mlir::IntegerAttr::get(type, llvm::APInt::getSignedMaxValue(bits));
    case CombiningKind::MINUI:
    case CombiningKind::AND:
      return mlir::IntegerAttr::get(type, llvm::APInt::getAllOnes(bits));
    default:  // ADD, OR, XOR, MAXUI
      return mlir::IntegerAttr::get(type, llvm::APInt(bits, 0));
  }
}

}  // namespace

std::optional<Combiner> combinerOf(const Statement& statement, int output) {
  mlir::Block* body = statement.body();
  mlir::Value accumulator = body->getArgument(statement.inputs.size() + output);
  mlir::Operation* op = body->getTerminator()->getOperand(output).getDefiningOp();
  // Both the accumulator and the result must have a single use: otherwise partial results of lanes would be observable
  // before they are combined.
  if (!op || op->getBlock() != body || op->getNumOperands() != 2 || !accumulator.hasOneUse() ||
      *accumulator.user_begin() != op || !op->hasOneUse() || accumulator.getType().isIndex())
    return std::nullopt;
  auto kind = kindOf(op);
  if (!kind) return std::nullopt;
  return Combiner{op, *kind, neutralOf(*kind, accumulator.getType())};
}

bool isStreamed(const Nest& nest, int output) {
  const Statement& main = nest.statements[0];
  if (main.init[output] || !main.body()->getArgument(main.inputs.size() + output).use_empty()) return false;
  // With a stride of zero along a reduction loop, a later step would overwrite what an earlier one wrote.
  for (int loop = 0; loop < nest.loops(); ++loop)
    if (nest.reduction[loop] && nest.extents[loop] > 1 && main.outputs[output].access.strides[loop] == 0) return false;
  return nest.hasReduction();
}

bool canCombineLanes(const Nest& nest) {
  for (int o = 0; o < static_cast<int>(nest.statements[0].outputs.size()); ++o)
    if (!isStreamed(nest, o) && !combinerOf(nest.statements[0], o)) return false;
  return true;
}

}  // namespace tessera::compiler::codegen
