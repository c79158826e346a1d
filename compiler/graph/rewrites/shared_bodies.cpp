#include "compiler/graph/rewrites/shared_bodies.h"

#include <set>
#include <vector>

#include "compiler/graph/analysis/op_kind.h"
#include "compiler/graph/constants/fold_constants.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/Hashing.h"
#include "llvm/ADT/MapVector.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/OperationSupport.h"

namespace tessera::compiler {
namespace {

using mlir::OperationEquivalence;
using mlir::Value;
using mlir::linalg::GenericOp;

/// A number in a body: its use and its value.
struct Constant {
  mlir::OpOperand* use;
  mlir::FloatAttr value;
};

/// The numbers that a body reads, in the order of its operations, and a hash of everything else.
struct Shape {
  size_t hash = 0;
  std::vector<Constant> numbers;
};

mlir::FloatAttr numberOf(Value value) {
  auto constant = value.getDefiningOp<mlir::arith::ConstantOp>();
  return constant ? mlir::dyn_cast<mlir::FloatAttr>(constant.getValue()) : mlir::FloatAttr();
}

Shape shapeOf(GenericOp op) {
  Shape shape;
  llvm::DenseMap<Value, size_t> places;
  // Hashes types instead of operands: which tensors are read does not matter.
  llvm::hash_code hash = OperationEquivalence::computeHash(
      op, [](Value operand) { return mlir::hash_value(operand.getType()); }, OperationEquivalence::ignoreHashValue,
      OperationEquivalence::IgnoreLocations);
  for (mlir::BlockArgument argument : op.getBody()->getArguments()) places.try_emplace(argument, places.size());
  for (mlir::Operation& inner : *op.getBody()) {
    // Numbers are compared at their uses.
    if (inner.getNumResults() == 1 && numberOf(inner.getResult(0))) continue;
    hash = llvm::hash_combine(hash, OperationEquivalence::computeHash(&inner, OperationEquivalence::ignoreHashValue,
                                                                      OperationEquivalence::ignoreHashValue,
                                                                      OperationEquivalence::IgnoreLocations));
    for (mlir::OpOperand& use : inner.getOpOperands()) {
      if (mlir::FloatAttr number = numberOf(use.get())) {
        shape.numbers.push_back({&use, number});
        // A mark says that a number stands here, whichever it is.
        hash = llvm::hash_combine(hash, -1);
      } else if (const auto place = places.find(use.get()); place != places.end()) {
        // Values of the body are identified by position.
        hash = llvm::hash_combine(hash, place->second);
      } else {
        hash = llvm::hash_combine(hash, mlir::hash_value(use.get()));
      }
    }
    for (Value result : inner.getResults()) places.try_emplace(result, places.size());
  }
  shape.hash = static_cast<size_t>(hash);
  return shape;
}

bool mayShare(GenericOp op) {
  return kindOf(op) == OpKind::kElementwise && op->getNumResults() == 1 &&
         llvm::all_of(*op.getBody(), [](mlir::Operation& inner) { return inner.getNumRegions() == 0; });
}

/// Replaces `numbers` of the body by scalar operands, one each, so that all bodies of a class stay equal.
void readFromOperands(GenericOp op, llvm::ArrayRef<Constant> numbers,
                      llvm::function_ref<Value(mlir::FloatAttr)> operandOf) {
  if (numbers.empty()) return;
  mlir::OpBuilder builder(op);
  llvm::SmallVector<Value> operands(op.getDpsInputs());
  llvm::SmallVector<mlir::AffineMap> maps = op.getIndexingMapsArray();
  const mlir::AffineMap scalar = mlir::AffineMap::get(op.getNumLoops(), 0, op.getContext());
  for (const Constant& number : numbers) {
    maps.insert(maps.begin() + static_cast<int64_t>(operands.size()), scalar);
    const mlir::BlockArgument argument =
        op.getBody()->insertArgument(static_cast<unsigned>(operands.size()), number.value.getType(), op.getLoc());
    operands.push_back(operandOf(number.value));
    mlir::Operation* constant = number.use->get().getDefiningOp();
    number.use->set(argument);
    if (constant->use_empty() && constant->getBlock() == op.getBody()) constant->erase();
  }
  auto shared = GenericOp::create(builder, op.getLoc(), op->getResultTypes(), operands, op.getDpsInits(), maps,
                                  op.getIteratorTypesArray());
  // Attributes say what an operation belongs to, for example a stage.
  shared->setDiscardableAttrs(op->getDiscardableAttrDictionary());
  shared.getRegion().takeBody(op.getRegion());
  op->replaceAllUsesWith(shared);
  op->erase();
}

}  // namespace

int shareBodiesAcrossConstants(mlir::func::FuncOp main) {
  struct Member {
    GenericOp op;
    std::vector<Constant> numbers;
  };
  llvm::MapVector<std::pair<size_t, size_t>, std::vector<Member>> classes;  // by hash and count of numbers
  mlir::Block& body = main.getBody().front();
  for (auto op : body.getOps<GenericOp>()) {
    if (!mayShare(op)) continue;
    Shape shape = shapeOf(op);
    if (shape.numbers.empty()) continue;
    classes[{shape.hash, shape.numbers.size()}].push_back({op, std::move(shape.numbers)});
  }
  mlir::OpBuilder builder = mlir::OpBuilder::atBlockBegin(&body);
  llvm::DenseMap<mlir::Attribute, Value> stored;
  const auto operandOf = [&](mlir::FloatAttr number) {
    // Each number is stored once.
    Value& value = stored[number];
    if (value) return value;
    auto type = mlir::RankedTensorType::get({}, number.getType());
    auto constant = mlir::arith::ConstantOp::create(builder, main.getLoc(), mlir::DenseElementsAttr::get(type, number));
    constant->setAttr(kStoredConstant, builder.getUnitAttr());
    return value = constant.getResult();
  };
  int count = 0;
  for (auto& [key, members] : classes) {
    // A few different operations are better with their numbers in the code.
    std::set<std::vector<const void*>> different;
    for (const Member& member : members) {
      std::vector<const void*> values;
      for (const Constant& number : member.numbers) values.push_back(number.value.getAsOpaquePointer());
      different.insert(std::move(values));
    }
    if (different.size() <= static_cast<size_t>(kMaxUnsharedBodies)) continue;
    // Numbers that are equal everywhere stay constants.
    std::vector<bool> differs(key.second, false);
    for (const Member& member : members)
      for (size_t i = 0; i < key.second; ++i)
        differs[i] = differs[i] || member.numbers[i].value != members.front().numbers[i].value;
    for (Member& member : members) {
      std::vector<Constant> varying;
      for (size_t i = 0; i < key.second; ++i)
        if (differs[i]) varying.push_back(member.numbers[i]);
      readFromOperands(member.op, varying, operandOf);
      ++count;
    }
  }
  return count;
}

}  // namespace tessera::compiler
