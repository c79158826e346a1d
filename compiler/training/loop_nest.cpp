#include "compiler/training/loop_nest.h"

#include "llvm/ADT/SmallBitVector.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"
#include "proto/support/status_macros.h"

namespace tessera::compiler::training {

using mlir::AffineExpr;
using mlir::AffineMap;
using mlir::Value;
using mlir::linalg::GenericOp;
using mlir::utils::IteratorType;

namespace {

/// Removes operations without users, last first.
void removeDead(mlir::Block& body) {
  for (mlir::Operation& op : llvm::make_early_inc_range(llvm::reverse(body)))
    if (mlir::isOpTriviallyDead(&op)) op.erase();
}

struct Order {
  std::vector<unsigned> position;  // of each original loop
  std::vector<IteratorType> iterators;
  AffineMap result;

  AffineMap of(AffineMap map) const {
    llvm::SmallVector<AffineExpr> dims;
    for (const unsigned at : position) dims.push_back(mlir::getAffineDimExpr(at, map.getContext()));
    return map.replaceDimsAndSymbols(dims, {}, static_cast<unsigned>(position.size()), 0);
  }
};

Order orderOf(const LoopNest& nest, mlir::MLIRContext* context) {
  const size_t loops = nest.extents.size();
  Order order;
  order.position.assign(loops, 0);
  order.iterators.assign(loops, IteratorType::reduction);
  std::vector<bool> placed(loops, false);
  unsigned next = 0;
  llvm::SmallVector<AffineExpr> result;
  for (const unsigned loop : nest.result_loops) {
    order.iterators[next] = IteratorType::parallel;
    result.push_back(mlir::getAffineDimExpr(next, context));
    order.position[loop] = next++;
    placed[loop] = true;
  }
  for (size_t loop = 0; loop < loops; ++loop)
    if (!placed[loop]) order.position[loop] = next++;
  order.result = AffineMap::get(static_cast<unsigned>(loops), 0, result, context);
  return order;
}

/// Loops that are a dimension of their own in none of the maps.
llvm::SmallBitVector uncovered(llvm::ArrayRef<AffineMap> maps, size_t loops) {
  llvm::SmallBitVector missing(static_cast<unsigned>(loops), true);
  for (const AffineMap map : maps)
    for (const AffineExpr expr : map.getResults())
      if (const auto dim = mlir::dyn_cast<mlir::AffineDimExpr>(expr)) missing.reset(dim.getPosition());
  return missing;
}

}  // namespace

void cloneBody(mlir::OpBuilder& b, mlir::Block& body, const LoopNest::Loop& loop, mlir::IRMapping& forward) {
  for (mlir::Operation& op : body.without_terminator()) {
    if (auto index = mlir::dyn_cast<mlir::linalg::IndexOp>(op)) {
      forward.map(index.getResult(), loop(static_cast<unsigned>(index.getDim())));
      continue;
    }
    b.clone(op, forward);
  }
}

absl::StatusOr<Value> emitNest(Emitter& e, const LoopNest& nest) {
  const Order order = orderOf(nest, e.b.getContext());
  const bool sums = nest.result_loops.size() < nest.extents.size();
  Shape shape;
  for (const unsigned loop : nest.result_loops) shape.push_back(nest.extents[loop]);
  const Value out = sums ? e.zeros(nest.dtype, shape).value : e.empty(nest.dtype, shape);
  llvm::SmallVector<AffineMap> maps;
  for (const AffineMap map : nest.maps) maps.push_back(order.of(map));

  // All operands first: which of them the body needs is known once it is written.
  llvm::SmallVector<AffineMap> all_maps = maps;
  all_maps.push_back(order.result);
  absl::Status status;
  auto draft =
      GenericOp::create(e.b, e.loc, mlir::TypeRange{out.getType()}, nest.tensors, mlir::ValueRange{out}, all_maps,
                        order.iterators, [&](mlir::OpBuilder& b, mlir::Location at, mlir::ValueRange arguments) {
                          const LoopNest::Loop loop = [&](unsigned original) -> Value {
                            return mlir::linalg::IndexOp::create(b, at, order.position[original]);
                          };
                          auto element = nest.body(b, arguments.drop_back(), loop);
                          if (!element.ok()) status = element.status();
                          Value value = element.ok() ? *element : arguments.back();
                          if (sums && element.ok()) value = Scalars(b, at, nest.dtype).add(arguments.back(), value);
                          mlir::linalg::YieldOp::create(b, at, value);
                        });
  if (!status.ok()) {
    draft.erase();
    return status;
  }
  mlir::Block& body = *draft.getBody();
  removeDead(body);

  llvm::SmallVector<Value> used;
  llvm::SmallVector<AffineMap> used_maps;
  llvm::BitVector unused(body.getNumArguments());
  for (unsigned i = 0; i < nest.tensors.size(); ++i) {
    if (body.getArgument(i).use_empty()) {
      unused.set(i);
      continue;
    }
    used.push_back(nest.tensors[i]);
    used_maps.push_back(maps[i]);
  }
  // linalg takes a loop's extent from an operand that the loop alone indexes.
  llvm::SmallVector<AffineMap> covering = used_maps;
  covering.push_back(order.result);
  const size_t kept = used.size();
  for (const unsigned loop : uncovered(covering, nest.extents.size()).set_bits()) {
    const auto original = static_cast<size_t>(llvm::find(order.position, loop) - order.position.begin());
    used.push_back(e.empty(nest.dtype, {nest.extents[original]}));
    used_maps.push_back(
        AffineMap::get(static_cast<unsigned>(nest.extents.size()), 0, mlir::getAffineDimExpr(loop, e.b.getContext())));
  }
  const mlir::Type element = mlir::getElementTypeOrSelf(out.getType());
  const size_t extents = used.size() - kept;
  used_maps.push_back(order.result);
  auto result = GenericOp::create(e.b, e.loc, mlir::TypeRange{out.getType()}, used, mlir::ValueRange{out}, used_maps,
                                  order.iterators);
  result.getRegion().takeBody(draft.getRegion());
  mlir::Block& moved = *result.getBody();
  moved.eraseArguments(unused);
  for (size_t i = 0; i < extents; ++i) moved.insertArgument(static_cast<unsigned>(kept), element, e.loc);
  draft.erase();
  return result.getResult(0);
}

}  // namespace tessera::compiler::training
