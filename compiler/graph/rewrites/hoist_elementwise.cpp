#include "compiler/graph/rewrites/hoist_elementwise.h"

#include <numeric>
#include <optional>

#include "compiler/graph/analysis/channel_block.h"
#include "compiler/graph/analysis/element_type.h"
#include "compiler/graph/analysis/op_kind.h"
#include "compiler/graph/analysis/permutation.h"
#include "compiler/graph/analysis/tensor_type.h"
#include "compiler/graph/constants/fold_constants.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/IR/IRMapping.h"

namespace tessera::compiler {
namespace {

using mlir::AffineMap;
using mlir::OpBuilder;
using mlir::RankedTensorType;
using mlir::Value;
using mlir::linalg::GenericOp;
using mlir::tensor::CollapseShapeOp;
using mlir::tensor::ExpandShapeOp;
using mlir::tensor::ExtractSliceOp;

/// Most elements of another operand, which is repeated for each digit along which it does not vary.
constexpr int64_t kFewElements = int64_t{1} << 16;
/// Largest fraction of the computed elements that a slice may discard.
constexpr double kMaxCut = 0.25;

/// Whether `op` ends a product with its elementwise operations and concatenations.
bool endsProduct(mlir::Operation* op) {
  for (; op && op->hasOneUse(); op = op->getNumOperands() > 0 ? op->getOperand(0).getDefiningOp() : nullptr) {
    const OpKind kind = kindOf(op);
    if (kind == OpKind::kHeavy || kind == OpKind::kReduction) return true;
    if (kind != OpKind::kElementwise && !mlir::isa<mlir::tensor::ConcatOp>(op)) return false;
  }
  return false;
}

/// Another operand during the move: a constant that varies along some dimensions of the moved value, in their order.
struct Constant {
  Value value;
  llvm::SmallVector<int64_t> dims;  ///< ascending
};

class Hoister {
 public:
  explicit Hoister(GenericOp op) : op_(op), b_(op) {}
  bool run();

 private:
  bool findMovement();
  std::optional<Constant> constantOf(unsigned input);
  bool above(Constant& constant, mlir::Operation* movement);
  bool aboveExpansion(Constant& constant, ExpandShapeOp view);
  void rebuild(llvm::ArrayRef<std::optional<Constant>> constants);

  GenericOp op_;
  OpBuilder b_;
  unsigned moved_ = 0;                             ///< the input through which the operation moves
  llvm::SmallVector<mlir::Operation*> movements_;  ///< from the operation to the product
};

/// Finds the input that comes from a product through a chain of movements.
bool Hoister::findMovement() {
  if (kindOf(op_) != OpKind::kElementwise || op_->getNumResults() != 1 || op_.hasIndexSemantics() ||
      !tensorType(op_.getResult(0)).hasStaticShape() || op_.payloadUsesValueFromOperand(op_.getDpsInitOperand(0))) {
    return false;
  }
  // Exactly one operand may be unknown: the moved one.
  int moved = 0;
  for (unsigned input = 0; input < op_.getNumDpsInputs(); ++input) {
    Value value = op_.getDpsInputs()[input];
    if (isKnownAtCompileTime(value) || !mlir::isa<RankedTensorType>(value.getType())) continue;
    moved_ = input;
    ++moved;
  }
  if (moved != 1 || !op_.getIndexingMapsArray()[moved_].isIdentity()) return false;
  // An operation that widens elements stays after the movement, which then moves fewer bytes.
  if (bytesPerElement(tensorType(op_.getResult(0)).getElementType()) >
      bytesPerElement(tensorType(op_.getDpsInputs()[moved_]).getElementType())) {
    return false;
  }
  bool turns = false;
  // Follows movements back to the product, each with this single reader.
  mlir::Operation* movement = op_.getDpsInputs()[moved_].getDefiningOp();
  for (; movement && movement->hasOneUse(); movement = movement->getOperand(0).getDefiningOp()) {
    if (auto slice = mlir::dyn_cast<ExtractSliceOp>(movement)) {
      const auto whole = static_cast<double>(slice.getSourceType().getNumElements());
      // Slices that discard little: their result is computed whole.
      const bool plain = kindOf(slice) == OpKind::kSlice && slice.hasUnitStride() &&
                         slice.getSourceType().getRank() == slice.getType().getRank();
      if (!plain || static_cast<double>(slice.getType().getNumElements()) < (1 - kMaxCut) * whole) return false;
    } else if (!permutationOf(movement).empty()) {
      turns = true;
    } else if (kindOf(movement) != OpKind::kView) {
      break;
    }
    movements_.push_back(movement);
  }
  // Without a transpose there is nothing to gain: views and slices cost nothing.
  return turns && endsProduct(movement);
}

/// Returns an operand as a constant along the dimensions of the result.
std::optional<Constant> Hoister::constantOf(unsigned input) {
  const AffineMap map = op_.getIndexingMapsArray()[input];
  Value value = op_.getDpsInputs()[input];
  if (!map.isProjectedPermutation() || !mlir::isa<RankedTensorType>(value.getType())) return std::nullopt;
  if (tensorType(value).getNumElements() > kFewElements) return std::nullopt;
  llvm::SmallVector<int64_t> order(map.getNumResults()), dims;
  std::iota(order.begin(), order.end(), 0);
  // Sorts dimensions as in the result, so that the movement can be applied to them in order.
  llvm::sort(order, [&](int64_t a, int64_t b) { return map.getDimPosition(a) < map.getDimPosition(b); });
  for (int64_t d : order) dims.push_back(map.getDimPosition(d));
  if (!llvm::is_sorted(order)) value = transpose(b_, op_.getLoc(), value, order);
  return Constant{.value = value, .dims = std::move(dims)};
}

/// Before an expansion: several dimensions were one, so the operand varies along that one.
bool Hoister::aboveExpansion(Constant& constant, ExpandShapeOp view) {
  llvm::SmallVector<int64_t> all, few;  // dimensions of the view, of its source
  for (auto [d, group] : llvm::enumerate(view.getReassociationIndices())) {
    if (llvm::none_of(group, [&](int64_t each) { return llvm::is_contained(constant.dims, each); })) continue;
    all.append(group.begin(), group.end());
    few.push_back(static_cast<int64_t>(d));
  }
  llvm::SmallVector<int64_t> shape;
  // Reads the constant with broadcasts, because the dimensions that were one must all be there.
  llvm::SmallVector<mlir::AffineExpr> read;
  for (auto [loop, d] : llvm::enumerate(all)) {
    shape.push_back(view.getResultType().getDimSize(d));
    if (llvm::is_contained(constant.dims, d)) read.push_back(b_.getAffineDimExpr(loop));
  }
  if (mlir::ShapedType::getNumElements(shape) > kFewElements) return false;
  if (all.size() > constant.dims.size()) {
    Value empty = mlir::tensor::EmptyOp::create(b_, op_.getLoc(), shape, tensorType(constant.value).getElementType());
    const llvm::SmallVector<AffineMap> maps = {AffineMap::get(all.size(), 0, read, b_.getContext()),
                                               b_.getMultiDimIdentityMap(all.size())};
    constant.value =
        GenericOp::create(
            b_, op_.getLoc(), mlir::TypeRange{empty.getType()}, mlir::ValueRange{constant.value},
            mlir::ValueRange{empty}, maps,
            llvm::SmallVector<mlir::utils::IteratorType>(all.size(), mlir::utils::IteratorType::parallel),
            [](OpBuilder& b, mlir::Location at, mlir::ValueRange v) { mlir::linalg::YieldOp::create(b, at, v[0]); })
            .getResult(0);
  }
  // Then merges the digits again, which gives the dimension before the expansion.
  for (size_t d = 0; d < few.size(); ++d) {
    const size_t digits = view.getReassociationIndices()[few[d]].size();
    for (size_t digit = 1; digit < digits; ++digit) {
      constant.value = mergeDimensions(b_, op_.getLoc(), constant.value, static_cast<int64_t>(d));
    }
  }
  constant.dims = few;
  return true;
}

/// Rewrites the operand for the position before a movement.
bool Hoister::above(Constant& constant, mlir::Operation* movement) {
  if (auto slice = mlir::dyn_cast<ExtractSliceOp>(movement)) {
    return llvm::all_of(
        constant.dims, [&](int64_t d) { return slice.getType().getDimSize(d) == slice.getSourceType().getDimSize(d); });
  }
  if (auto view = mlir::dyn_cast<ExpandShapeOp>(movement)) return aboveExpansion(constant, view);
  if (auto view = mlir::dyn_cast<CollapseShapeOp>(movement)) {
    llvm::SmallVector<int64_t> dims;
    for (size_t d = constant.dims.size(); d-- > 0;) {
      // Splits each merged dimension into its digits.
      const mlir::ReassociationIndices group = view.getReassociationIndices()[constant.dims[d]];
      for (size_t digit = group.size(); digit-- > 1;) {
        const int64_t inner = view.getSrcType().getDimSize(group[digit]);
        constant.value = splitDimension(b_, op_.getLoc(), constant.value, static_cast<int64_t>(d), inner);
      }
      dims.insert(dims.begin(), group.begin(), group.end());
    }
    constant.dims = std::move(dims);
    return true;
  }
  // A transpose: dimension d of the result was dimension permutation[d].
  const llvm::SmallVector<int64_t> permutation = permutationOf(movement);
  llvm::SmallVector<int64_t> order(constant.dims.size()), dims;
  std::iota(order.begin(), order.end(), 0);
  llvm::sort(order,
             [&](int64_t a, int64_t b) { return permutation[constant.dims[a]] < permutation[constant.dims[b]]; });
  for (int64_t d : order) dims.push_back(permutation[constant.dims[d]]);
  if (!llvm::is_sorted(order)) constant.value = transpose(b_, op_.getLoc(), constant.value, order);
  constant.dims = std::move(dims);
  return true;
}

void Hoister::rebuild(llvm::ArrayRef<std::optional<Constant>> constants) {
  Value source = movements_.back()->getOperand(0);
  const llvm::ArrayRef<int64_t> shape = tensorType(source).getShape();
  auto rank = static_cast<unsigned>(shape.size());
  llvm::SmallVector<Value> inputs;
  llvm::SmallVector<AffineMap> maps;
  for (unsigned input = 0; input < op_.getNumDpsInputs(); ++input) {
    const bool moved = input == moved_;
    inputs.push_back(moved ? source : constants[input] ? constants[input]->value : op_.getDpsInputs()[input]);
    llvm::SmallVector<mlir::AffineExpr> read;
    if (constants[input]) {
      for (int64_t d : constants[input]->dims) read.push_back(b_.getAffineDimExpr(d));
    }
    maps.push_back(moved ? b_.getMultiDimIdentityMap(rank) : AffineMap::get(rank, 0, read, b_.getContext()));
  }
  maps.push_back(b_.getMultiDimIdentityMap(rank));
  // The element type may have changed, so movements are rebuilt for it.
  const mlir::Type element = tensorType(op_.getResult(0)).getElementType();
  Value empty = mlir::tensor::EmptyOp::create(b_, op_.getLoc(), shape, element);
  auto hoisted =
      GenericOp::create(b_, op_.getLoc(), mlir::TypeRange{empty.getType()}, inputs, mlir::ValueRange{empty}, maps,
                        llvm::SmallVector<mlir::utils::IteratorType>(rank, mlir::utils::IteratorType::parallel));
  b_.cloneRegionBefore(op_.getRegion(), hoisted.getRegion(), hoisted.getRegion().begin());
  Value result = hoisted.getResult(0);
  for (mlir::Operation* movement : llvm::reverse(movements_)) {
    auto type = RankedTensorType::get(tensorType(movement->getResult(0)).getShape(), element);
    if (const llvm::SmallVector<int64_t> permutation = permutationOf(movement); !permutation.empty()) {
      result = transpose(b_, movement->getLoc(), result, permutation);
      continue;
    }
    mlir::IRMapping mapping;
    mapping.map(movement->getOperand(0), result);
    mlir::Operation* clone = b_.clone(*movement, mapping);
    clone->getResult(0).setType(type);
    result = clone->getResult(0);
  }
  op_.getResult(0).replaceAllUsesWith(result);
}

bool Hoister::run() {
  if (!findMovement()) return false;
  llvm::SmallVector<std::optional<Constant>> constants(op_.getNumDpsInputs());
  for (unsigned input = 0; input < constants.size(); ++input) {
    if (input == moved_) continue;
    if (!mlir::isa<RankedTensorType>(op_.getDpsInputs()[input].getType())) continue;
    constants[input] = constantOf(input);
    if (!constants[input]) return false;
    // Every other operand must find its way back through all movements.
    for (mlir::Operation* movement : movements_) {
      if (!above(*constants[input], movement)) return false;
    }
  }
  rebuild(constants);
  op_->erase();
  for (mlir::Operation* movement : movements_) movement->erase();
  return true;
}

}  // namespace

int hoistElementwise(mlir::func::FuncOp main) {
  int count = 0;
  for (GenericOp op : llvm::make_early_inc_range(main.getBody().front().getOps<GenericOp>())) {
    count += Hoister(op).run();
  }
  return count;
}

}  // namespace tessera::compiler
