#include "compiler/ir/extent_functions.h"

#include <algorithm>
#include <utility>

#include "compiler/ir/multi_range_bounds.h"
#include "compiler/ir/weight_attribute.h"
#include "llvm/ADT/TypeSwitch.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"

namespace tessera::compiler {
namespace {

namespace arith = mlir::arith;
namespace tensor = mlir::tensor;
using mlir::Value;

using Rule = std::optional<int64_t> (*)(int64_t, int64_t);

Rule ruleOf(mlir::Operation* op) {
  return llvm::TypeSwitch<mlir::Operation*, Rule>(op)
      .Case([](arith::AddIOp) -> Rule { return [](int64_t a, int64_t b) { return std::optional(a + b); }; })
      .Case([](arith::SubIOp) -> Rule { return [](int64_t a, int64_t b) { return std::optional(a - b); }; })
      .Case([](arith::MulIOp) -> Rule { return [](int64_t a, int64_t b) { return std::optional(a * b); }; })
      .Case([](arith::MaxSIOp) -> Rule { return [](int64_t a, int64_t b) { return std::optional(std::max(a, b)); }; })
      .Case([](arith::MinSIOp) -> Rule { return [](int64_t a, int64_t b) { return std::optional(std::min(a, b)); }; })
      .Case([](arith::AndIOp) -> Rule { return [](int64_t a, int64_t b) { return std::optional(a & b); }; })
      .Case([](arith::OrIOp) -> Rule { return [](int64_t a, int64_t b) { return std::optional(a | b); }; })
      .Case([](arith::XOrIOp) -> Rule { return [](int64_t a, int64_t b) { return std::optional(a ^ b); }; })
      .Case([](arith::DivSIOp) -> Rule {
        // A divisor of 0 or less makes the series unknown; the importer's divisions never have one.
        return [](int64_t a, int64_t b) { return b > 0 ? std::optional(a / b) : std::nullopt; };
      })
      .Case([](arith::RemSIOp) -> Rule {
        return [](int64_t a, int64_t b) { return b > 0 ? std::optional(a % b) : std::nullopt; };
      })
      .Default([](mlir::Operation*) -> Rule { return nullptr; });
}

bool compared(arith::CmpIPredicate predicate, int64_t a, int64_t b) {
  switch (predicate) {
    case arith::CmpIPredicate::eq:
      return a == b;
    case arith::CmpIPredicate::ne:
      return a != b;
    case arith::CmpIPredicate::slt:
      return a < b;
    case arith::CmpIPredicate::sle:
      return a <= b;
    case arith::CmpIPredicate::sgt:
      return a > b;
    case arith::CmpIPredicate::sge:
      return a >= b;
    case arith::CmpIPredicate::ult:
      return static_cast<uint64_t>(a) < static_cast<uint64_t>(b);
    case arith::CmpIPredicate::ule:
      return static_cast<uint64_t>(a) <= static_cast<uint64_t>(b);
    case arith::CmpIPredicate::ugt:
      return static_cast<uint64_t>(a) > static_cast<uint64_t>(b);
    case arith::CmpIPredicate::uge:
      return static_cast<uint64_t>(a) >= static_cast<uint64_t>(b);
  }
  return false;
}

std::optional<ExtentFunction> constantOf(mlir::Attribute attribute, int64_t element) {
  llvm::APInt value;
  if (auto list = mlir::dyn_cast<mlir::DenseIntElementsAttr>(attribute); list && element >= 0) {
    if (element >= list.getNumElements()) return std::nullopt;
    value = list.getValues<mlir::APInt>()[static_cast<size_t>(element)];
  } else if (auto integer = mlir::dyn_cast<mlir::IntegerAttr>(attribute)) {
    value = integer.getValue();
  } else if (auto dense = mlir::dyn_cast<mlir::DenseIntElementsAttr>(attribute); dense && dense.getNumElements() == 1) {
    value = *dense.getValues<mlir::APInt>().begin();
  } else {
    return std::nullopt;
  }
  // A condition has the values 0 and 1.
  return ExtentFunction{-1,
                        {value.getBitWidth() == 1 ? static_cast<int64_t>(value.getZExtValue()) : value.getSExtValue()}};
}

/// Combines series of the same range, or constants, elementwise.
template <typename Of>
std::optional<ExtentFunction> together(std::initializer_list<const ExtentFunction*> parts, Of of) {
  // Constants fit every range, but two different ranges have no common series.
  ExtentFunction result;
  size_t length = 1;
  for (const ExtentFunction* part : parts) {
    if (!part->sum.empty()) return std::nullopt;
    if (part->dimension < 0) continue;
    if (part->at.empty() || (result.dimension >= 0 && result.dimension != part->dimension)) return std::nullopt;
    result.dimension = part->dimension;
    length = part->at.size();
  }
  for (size_t n = 0; n < length; ++n) {
    const auto value = of([n](const ExtentFunction& part) { return part.at[part.dimension < 0 ? 0 : n]; });
    if (!value) return std::nullopt;
    result.at.push_back(*value);
  }
  return result;
}

bool isOneInteger(mlir::Type type) {
  if (auto ranked = mlir::dyn_cast<mlir::RankedTensorType>(type))
    return ranked.hasStaticShape() && ranked.getNumElements() == 1 && ranked.getElementType().isInteger();
  return type.isIntOrIndex();
}

/// Whether the type is an integer or a tensor of a few, such as a shape.
bool isShort(mlir::Type type) {
  auto ranked = mlir::dyn_cast<mlir::RankedTensorType>(type);
  if (!ranked) return type.isIntOrIndex();
  return ranked.hasStaticShape() && ranked.getNumElements() <= 64 && ranked.getElementType().isInteger();
}

}  // namespace

ExtentFunctions::ExtentFunctions(const ImportedModel& model, mlir::func::FuncOp main, int64_t upto)
    : model_(model), upto_(upto) {
  size_t input = 0;
  for (mlir::BlockArgument argument : main.getArguments()) {
    // Weights come between inputs; only inputs count here.
    if (main.getArgAttr(argument.getArgNumber(), kWeightAttribute)) continue;
    if (input == model.inputs.size()) return;
    const v1::TensorSpec& spec = model.inputs[input++];
    if (!isOneInteger(argument.getType())) continue;
    for (int d = 0; d < dimensions(); ++d)
      if (isRange(d) && model.dimensions[static_cast<size_t>(d)].name() == spec.name()) counts_[argument] = d;
  }
}

std::optional<ExtentFunction> ExtentFunctions::of(Value value, int64_t element) {
  // A tensor of one element has no position to choose.
  if (isOneInteger(value.getType()) && mlir::isa<mlir::RankedTensorType>(value.getType())) element = kAll;
  if (element == kAll ? !isOneInteger(value.getType()) : !isShort(value.getType())) return std::nullopt;
  if (const auto known = known_.find({value, element}); known != known_.end()) return known->second;
  std::optional<ExtentFunction> result = computed(value, element);
  known_[{value, element}] = result;
  return result;
}

std::optional<ExtentFunction> ExtentFunctions::ofArgument(mlir::BlockArgument argument, int64_t element) {
  if (const auto count = counts_.find(argument); count != counts_.end()) {
    ExtentFunction series{count->second, {}};
    // A range that is too long has no series of values; only sums of products describe it.
    const int64_t last = std::min(most(series.dimension), upto_);
    if (last <= kLongest)
      for (int64_t n = 0; n <= last; ++n) series.at.push_back(n);
    return series;
  }
  // The argument of an operation's body stands for an element of the operand.
  auto op = mlir::dyn_cast<mlir::linalg::LinalgOp>(argument.getOwner()->getParentOp());
  if (!op || argument.getArgNumber() >= static_cast<unsigned>(op.getNumDpsInputs())) return std::nullopt;
  const Value operand = op->getOperand(argument.getArgNumber());
  const bool along = isOneInteger(operand.getType()) ||
                     op.getMatchingIndexingMap(&op->getOpOperand(argument.getArgNumber())).isIdentity();
  return along ? of(operand, element) : std::nullopt;
}

std::optional<ExtentFunction> ExtentFunctions::ofSlice(mlir::Operation* op, int64_t element) {
  if (auto part = mlir::dyn_cast<tensor::ExtractSliceOp>(op)) {
    if (part.getSourceType().getRank() != 1 || part.isDynamicOffset(0) || part.isDynamicStride(0)) return std::nullopt;
    // A part of a short list: its elements stand at offset + index * stride.
    return of(part.getSource(), part.getStaticOffset(0) + std::max<int64_t>(element, 0) * part.getStaticStride(0));
  }
  auto put = mlir::cast<tensor::InsertSliceOp>(op);
  if (element == kAll || put.getDestType().getRank() != 1 || put.getSourceType().getRank() != 1 ||
      put.isDynamicOffset(0) || put.isDynamicStride(0) || put.getStaticStride(0) != 1)
    return std::nullopt;
  // The element comes from what was put in, or from the destination.
  const int64_t place = element - put.getStaticOffset(0);
  if (place >= 0 && place < put.getSourceType().getDimSize(0)) return of(put.getSource(), place);
  return of(put.getDest(), element);
}

std::optional<ExtentFunction> ExtentFunctions::computed(Value value, int64_t element) {
  if (auto argument = mlir::dyn_cast<mlir::BlockArgument>(value)) return ofArgument(argument, element);
  mlir::Operation* op = value.getDefiningOp();
  if (auto constant = mlir::dyn_cast<arith::ConstantOp>(op)) return constantOf(constant.getValue(), element);
  if (mlir::isa<tensor::ExtractSliceOp, tensor::InsertSliceOp>(op)) return ofSlice(op, element);
  if (mlir::isa<tensor::ExtractOp>(op)) return of(op->getOperand(0));
  if (mlir::isa<tensor::ExpandShapeOp, tensor::CollapseShapeOp, arith::IndexCastOp>(op) ||
      (mlir::isa<arith::ExtSIOp>(op) && !mlir::getElementTypeOrSelf(op->getOperand(0)).isInteger(1)))
    return of(op->getOperand(0), element);
  if (auto generic = mlir::dyn_cast<mlir::linalg::GenericOp>(op)) {
    const unsigned result = mlir::cast<mlir::OpResult>(value).getResultNumber();
    // A reduction mixes elements.
    if (generic.getNumReductionLoops() > 0 || (element != kAll && generic.getNumLoops() != 1)) return std::nullopt;
    return of(generic.getBody()->getTerminator()->getOperand(result), element);
  }
  std::vector<ExtentFunction> operands;
  if (op->getNumRegions() > 0 || op->getNumOperands() < 2) return std::nullopt;
  if (mlir::isa<arith::SelectOp>(op)) return ofSelect(op, element);
  for (Value operand : op->getOperands()) {
    std::optional<ExtentFunction> series = of(operand, element);
    if (!series) return std::nullopt;
    operands.push_back(*std::move(series));
  }
  if (auto compare = mlir::dyn_cast<arith::CmpIOp>(op)) {
    return together({&operands.front(), &operands.back()}, [&](auto at) {
      return std::optional<int64_t>(compared(compare.getPredicate(), at(operands[0]), at(operands[1])) ? 1 : 0);
    });
  }
  const Rule rule = ruleOf(op);
  if (!rule) return std::nullopt;
  const bool is_logical = mlir::isa<arith::AndIOp, arith::OrIOp, arith::XOrIOp>(op);
  if (!is_logical && mlir::getElementTypeOrSelf(value).isInteger(1)) return std::nullopt;  // sums of i1 wrap around
  auto exact =
      together({&operands.front(), &operands.back()}, [&](auto at) { return rule(at(operands[0]), at(operands[1])); });
  if (exact || is_logical) return exact;
  if (!mlir::isa<arith::DivSIOp>(op)) return boundOverRanges(op, operands[0], operands[1]);
  // Scalars::div replaces a divisor 0 by 1. Dividing by the original divisor is exact if the dividend has it as a
  // factor, since it is 0 then too.
  auto guard = op->getOperand(1).getDefiningOp<arith::SelectOp>();
  const auto unguarded = guard ? of(guard.getFalseValue(), element) : std::nullopt;
  return boundOverRanges(op, operands[0], unguarded ? *unguarded : operands[1]);
}

std::optional<ExtentFunction> ExtentFunctions::ofSelect(mlir::Operation* op, int64_t element) {
  const auto condition = of(op->getOperand(0), element), a = of(op->getOperand(1), element),
             b = of(op->getOperand(2), element);
  if (!a || !b) return std::nullopt;
  if (condition) {
    // Selects at every size, if the condition is known there.
    auto exact = together({&*condition, &*a, &*b},
                          [&](auto at) { return std::optional<int64_t>(at(*condition) != 0 ? at(*a) : at(*b)); });
    if (exact) return exact;
  }
  // Either side may be chosen, so the greater one bounds both.
  return a->sum.empty() && b->sum.empty() ? std::nullopt : upperBoundOf(*a, *b);
}

std::optional<ExtentFunction> ExtentFunctions::greatest(Value value) {
  if (std::optional<ExtentFunction> exact = of(value)) return exact;
  if (auto argument = mlir::dyn_cast<mlir::BlockArgument>(value)) {
    auto around = mlir::dyn_cast<mlir::linalg::LinalgOp>(argument.getOwner()->getParentOp());
    if (!around || argument.getArgNumber() >= static_cast<unsigned>(around.getNumDpsInputs())) return std::nullopt;
    auto result = mlir::dyn_cast<mlir::OpResult>(around->getOperand(argument.getArgNumber()));
    auto table = result ? mlir::dyn_cast<mlir::linalg::GenericOp>(result.getOwner()) : nullptr;
    if (!table || table.getNumReductionLoops() > 0) return std::nullopt;
    return greatest(table.getBody()->getTerminator()->getOperand(result.getResultNumber()));
  }
  mlir::Operation* op = value.getDefiningOp();
  // An index is below the extent of its loop.
  if (auto index = mlir::dyn_cast<mlir::linalg::IndexOp>(op)) {
    auto around = mlir::dyn_cast<mlir::linalg::LinalgOp>(op->getParentOp());
    if (!around) return std::nullopt;
    return ExtentFunction{-1, {around.getStaticLoopRanges()[index.getDim()] - 1}};
  }
  if (mlir::isa<arith::IndexCastOp>(op)) return greatest(op->getOperand(0));
  // A remainder is below its divisor.
  if (mlir::isa<arith::RemSIOp>(op)) {
    std::optional<ExtentFunction> divisor = of(op->getOperand(1));
    if (divisor && !divisor->sum.empty()) return divisor;
    if (!divisor || divisor->at.empty()) return std::nullopt;
    for (int64_t& each : divisor->at) {
      if (each < 1) return std::nullopt;
      each -= 1;
    }
    return divisor;
  }
  // Each of these grows with its operands, so the greatest operands give the greatest result.
  if (!mlir::isa<arith::MinSIOp, arith::MaxSIOp, arith::AddIOp, arith::SubIOp, arith::SelectOp>(op))
    return std::nullopt;
  const unsigned first = mlir::isa<arith::SelectOp>(op) ? 1 : 0;
  const bool subtracts = mlir::isa<arith::SubIOp>(op), least = mlir::isa<arith::MinSIOp>(op);
  // The subtrahend must be exact, as its greatest value would give the least difference.
  const std::optional<ExtentFunction> a = greatest(op->getOperand(first));
  const std::optional<ExtentFunction> b = subtracts ? of(op->getOperand(1)) : greatest(op->getOperand(first + 1));
  if (a && b) {
    const bool adds = mlir::isa<arith::AddIOp>(op);
    auto both = together({&*a, &*b}, [&](auto at) {
      const int64_t x = at(*a), y = at(*b);
      return std::optional(adds ? x + y : subtracts ? x - y : least ? std::min(x, y) : std::max(x, y));
    });
    if (both) return both;
    if (adds || subtracts) return boundOverRanges(op, *a, *b);
    if (!least) return upperBoundOf(*a, *b);
  }
  if (!least) return std::nullopt;
  // A minimum is at most either operand: prefers one that follows a range.
  return a && (a->dimension >= 0 || !a->sum.empty() || !b) ? a : b;
}

}  // namespace tessera::compiler
