#include "compiler/import/evaluate.h"

#include "compiler/import/limits.h"
#include "llvm/ADT/TypeSwitch.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"

namespace tessera::compiler {
namespace {

using llvm::ArrayRef;
using llvm::SmallVector;
using mlir::Attribute;
using mlir::Value;

/// A tensor under evaluation. Null elements have no value; reading one fails.
struct Elements {
  Shape shape;
  std::vector<Attribute> values;

  int64_t offset(ArrayRef<int64_t> index) const {
    int64_t at = 0;
    for (size_t d = 0; d < shape.size(); ++d) {
      if (index[d] < 0 || index[d] >= shape[d]) return -1;
      at = at * shape[d] + index[d];
    }
    return at;
  }
};
using ElementsPtr = std::shared_ptr<Elements>;

/// Advances an odometer; false when it wraps around.
bool next(SmallVector<int64_t>& index, ArrayRef<int64_t> bounds) {
  for (size_t d = bounds.size(); d-- > 0;) {
    if (++index[d] < bounds[d]) return true;
    index[d] = 0;
  }
  return false;
}

Shape shapeOf(mlir::Type type) {
  ArrayRef<int64_t> shape = llvm::cast<mlir::RankedTensorType>(type).getShape();
  return Shape(shape.begin(), shape.end());
}

class Evaluator {
 public:
  explicit Evaluator(int64_t& steps) : steps_(steps) {}

  /// Evaluates all operations except the terminator, whose operands then have values.
  bool run(mlir::Block& block) {
    for (mlir::Operation& op : block) {
      if (op.hasTrait<mlir::OpTrait::IsTerminator>()) break;
      if (--steps_ < 0 || !evaluateOp(op)) return false;
    }
    return true;
  }

  ConstantPtr constant(Value value, v1::DataType type) {
    auto known = tensors_.find(value);
    if (known == tensors_.end()) return nullptr;
    // MLIR keeps every element as an attribute; a constant keeps the same bits in little-endian bytes.
    std::string bytes;
    const int64_t size = elementBytes(type);
    for (Attribute element : known->second->values) {
      llvm::APInt bits;
      if (auto integer = llvm::dyn_cast_or_null<mlir::IntegerAttr>(element)) {
        bits = integer.getValue();
      } else if (auto real = llvm::dyn_cast_or_null<mlir::FloatAttr>(element)) {
        bits = real.getValue().bitcastToAPInt();
      } else {
        return nullptr;
      }
      const uint64_t word = bits.getZExtValue();
      bytes.append(reinterpret_cast<const char*>(&word), size);
    }
    return makeConstant(type, known->second->shape, std::move(bytes));
  }

 private:
  bool evaluateOp(mlir::Operation& op) {
    // Refuses results that are too large before evaluating them, since a few operations can describe enormous tensors.
    for (mlir::Type type : op.getResultTypes()) {
      auto tensor = llvm::dyn_cast<mlir::RankedTensorType>(type);
      if (tensor && tensor.getNumElements() > limits::kFoldedElements) return false;
    }
    return llvm::TypeSwitch<mlir::Operation*, bool>(&op)
        .Case([&](mlir::arith::ConstantOp constant) { return evaluateConstant(constant); })
        .Case([&](mlir::tensor::EmptyOp empty) {
          return define(empty.getResult(), std::vector<Attribute>(empty.getType().getNumElements()));
        })
        .Case<mlir::tensor::CollapseShapeOp, mlir::tensor::ExpandShapeOp>(
            [&](auto reshape) { return reshaped(reshape.getSrc(), reshape.getResult()); })
        .Case([&](mlir::tensor::ExtractSliceOp slice) { return extractSlice(slice); })
        .Case([&](mlir::tensor::InsertSliceOp slice) { return insertSlice(slice); })
        .Case([&](mlir::tensor::PadOp pad) { return evaluatePad(pad); })
        .Case([&](mlir::tensor::ExtractOp extract) { return evaluateExtract(extract); })
        .Case([&](mlir::tensor::InsertOp insert) { return evaluateInsert(insert); })
        .Case([&](mlir::linalg::LinalgOp structured) { return evaluateStructured(structured); })
        // Inside a structured operation's body: the index of the point that is being evaluated.
        .Case([&](mlir::linalg::IndexOp position) {
          scalars_[position.getResult()] =
              mlir::IntegerAttr::get(mlir::IndexType::get(op.getContext()), point_[position.getDim()]);
          return true;
        })
        .Case([&](mlir::scf::ForOp loop) { return evaluateFor(loop); })
        // Everything else is scalar arithmetic, which MLIR's own folders know.
        .Default([&](mlir::Operation* scalar) { return foldScalar(*scalar); });
  }

  bool define(Value value, std::vector<Attribute> elements) {
    // Every element costs a step, also those only copied: the budget limits memory as well as time.
    steps_ -= static_cast<int64_t>(elements.size());
    tensors_[value] = std::make_shared<Elements>(shapeOf(value.getType()), std::move(elements));
    return steps_ >= 0;
  }

  ElementsPtr find(Value tensor) const {
    auto known = tensors_.find(tensor);
    return known == tensors_.end() ? nullptr : known->second;
  }

  bool reshaped(Value from, Value to) {
    ElementsPtr source = find(from);
    return source && define(to, source->values);
  }

  bool evaluateConstant(mlir::arith::ConstantOp constant) {
    auto dense = llvm::dyn_cast<mlir::DenseElementsAttr>(constant.getValue());
    if (!dense) {
      scalars_[constant.getResult()] = constant.getValue();
      return true;
    }
    auto values = dense.getValues<Attribute>();
    return define(constant.getResult(), std::vector<Attribute>(values.begin(), values.end()));
  }

  bool extractSlice(mlir::tensor::ExtractSliceOp slice) {
    ElementsPtr source = find(slice.getSource());
    // Slices that drop dimensions never come from the importer.
    if (!source || slice.getType().getRank() != slice.getSourceType().getRank()) return false;
    std::vector<Attribute> result;
    SmallVector<int64_t> index(source->shape.size(), 0);
    ArrayRef<int64_t> sizes = slice.getStaticSizes();
    if (slice.getType().getNumElements() > 0) {
      do {
        SmallVector<int64_t> from;
        for (const auto& [d, i] : llvm::enumerate(index)) {
          from.push_back(slice.getStaticOffset(d) + i * slice.getStaticStride(d));
        }
        const int64_t at = source->offset(from);
        if (at < 0) return false;
        result.push_back(source->values[at]);
      } while (next(index, sizes));
    }
    return define(slice.getResult(), std::move(result));
  }

  bool insertSlice(mlir::tensor::InsertSliceOp slice) {
    ElementsPtr source = find(slice.getSource()), into = find(slice.getDest());
    if (!source || !into || slice.getSourceType().getRank() != slice.getDestType().getRank()) return false;
    Elements result = *into;
    SmallVector<int64_t> index(source->shape.size(), 0);
    for (Attribute element : source->values) {
      SmallVector<int64_t> to;
      for (const auto& [d, i] : llvm::enumerate(index)) {
        to.push_back(slice.getStaticOffset(d) + i * slice.getStaticStride(d));
      }
      const int64_t at = result.offset(to);
      if (at < 0) return false;
      result.values[at] = element;
      next(index, source->shape);
    }
    return define(slice.getResult(), std::move(result.values));
  }

  bool evaluatePad(mlir::tensor::PadOp pad) {
    Value with = pad.getConstantPaddingValue();
    ElementsPtr source = find(pad.getSource());
    if (!with || !source || !scalars_.contains(with)) return false;
    Elements result{shapeOf(pad.getType()), {}};
    // Fills the result with the padding first and writes the source over it.
    result.values.assign(pad.getType().getNumElements(), scalars_[with]);
    SmallVector<int64_t> index(source->shape.size(), 0);
    for (Attribute element : source->values) {
      SmallVector<int64_t> to;
      for (const auto& [d, i] : llvm::enumerate(index)) to.push_back(i + pad.getStaticLow()[d]);
      const int64_t at = result.offset(to);
      if (at >= 0) result.values[at] = element;  // negative padding crops
      next(index, source->shape);
    }
    return define(pad.getResult(), std::move(result.values));
  }

  /// Returns the position for known indices; -1 if one is unknown or out of range.
  int64_t offset(const Elements& elements, mlir::ValueRange indices) const {
    SmallVector<int64_t> at;
    for (Value coordinate : indices) {
      auto value = llvm::dyn_cast_or_null<mlir::IntegerAttr>(scalars_.lookup(coordinate));
      if (!value) return -1;
      at.push_back(value.getInt());
    }
    return elements.offset(at);
  }

  bool evaluateExtract(mlir::tensor::ExtractOp extract) {
    ElementsPtr source = find(extract.getTensor());
    const int64_t at = source ? offset(*source, extract.getIndices()) : -1;
    if (at < 0 || !source->values[at]) return false;
    scalars_[extract.getResult()] = source->values[at];
    return true;
  }

  bool evaluateInsert(mlir::tensor::InsertOp insert) {
    ElementsPtr into = find(insert.getDest());
    const int64_t at = into ? offset(*into, insert.getIndices()) : -1;
    Attribute element = scalars_.lookup(insert.getScalar());
    if (at < 0 || !element) return false;
    // A loop inserts one element at a time, so the tensor is modified in place after its last use.
    const bool last_use = llvm::all_of(insert.getDest().getUsers(), [&](mlir::Operation* user) {
      return user == insert || (user->getBlock() == insert->getBlock() && user->isBeforeInBlock(insert));
    });
    if (last_use) tensors_.erase(insert.getDest());
    if (into.use_count() > 1) {
      into = std::make_shared<Elements>(*into);
      steps_ -= static_cast<int64_t>(into->values.size());
    }
    into->values[at] = element;
    tensors_[insert.getResult()] = std::move(into);
    return steps_ >= 0;
  }

  bool evaluateStructured(mlir::linalg::LinalgOp op) {
    const auto num_inputs = static_cast<size_t>(op.getNumDpsInputs());
    // Operations on memory have no results, and dynamic shapes cannot be evaluated.
    if (op.getNumDpsInits() != static_cast<int64_t>(op->getNumResults()) || op.hasDynamicShape()) return false;
    SmallVector<int64_t> bounds = op.getStaticLoopRanges();
    SmallVector<mlir::AffineMap> maps = op.getIndexingMapsArray();
    mlir::Block& body = op->getRegion(0).front();
    SmallVector<ElementsPtr> operands;  // null for scalars
    // Results start as copies of the initial values; inputs are shared.
    for (const auto& [i, operand] : llvm::enumerate(op->getOperands())) {
      ElementsPtr tensor = find(operand);
      if (!tensor && !(i < num_inputs && scalars_.contains(operand))) return false;
      operands.push_back(i < num_inputs ? tensor : std::make_shared<Elements>(*tensor));
    }
    // Multiplies with saturation: the product of the bounds may exceed int64_t.
    int64_t points = 1;
    for (int64_t bound : bounds) points = points > steps_ ? points : points * bound;
    if (points > steps_) return false;

    // Structured operations nest only with loops in between, so the outer point is kept and restored.
    const SmallVector<int64_t> outer = std::exchange(point_, SmallVector<int64_t>(bounds.size(), 0));
    for (int64_t i = 0; i < points; ++i, next(point_, bounds)) {
      if (!evaluatePoint(op, body, operands, maps)) return false;
    }
    point_ = outer;
    for (size_t i = num_inputs; i < operands.size(); ++i) {
      if (!define(op->getResult(static_cast<unsigned>(i - num_inputs)), std::move(operands[i]->values))) return false;
    }
    return true;
  }

  bool evaluatePoint(mlir::linalg::LinalgOp op, mlir::Block& body, ArrayRef<ElementsPtr> operands,
                     ArrayRef<mlir::AffineMap> maps) {
    SmallVector<int64_t> places;
    // Binds the body's arguments to the elements at this point.
    for (const auto& [i, operand] : llvm::enumerate(operands)) {
      mlir::BlockArgument argument = body.getArgument(static_cast<unsigned>(i));
      places.push_back(operand ? operand->offset(maps[i].compose(point_)) : 0);
      if (places.back() < 0) return false;
      scalars_[argument] = operand ? operand->values[places.back()] : scalars_.lookup(op->getOperand(i));
    }
    if (!run(body)) return false;
    // Writes each result back to where its previous value came from; a reduction thereby accumulates.
    for (const auto& [i, yielded] : llvm::enumerate(body.getTerminator()->getOperands())) {
      const size_t result = static_cast<size_t>(op.getNumDpsInputs()) + i;
      Attribute value = scalars_.lookup(yielded);
      if (!value) return false;
      operands[result]->values[places[result]] = value;
    }
    return true;
  }

  /// Gives `to` the value of `from`, tensor or scalar.
  bool bind(Value to, Value from) {
    if (ElementsPtr tensor = find(from)) {
      tensors_[to] = std::move(tensor);
      return true;
    }
    scalars_[to] = scalars_.lookup(from);
    return static_cast<bool>(scalars_[to]);
  }

  bool evaluateFor(mlir::scf::ForOp loop) {
    auto bound = [&](Value value) { return llvm::dyn_cast_or_null<mlir::IntegerAttr>(scalars_.lookup(value)); };
    auto from = bound(loop.getLowerBound()), to = bound(loop.getUpperBound()), step = bound(loop.getStep());
    // A step of 0 would never end.
    if (!from || !to || !step || step.getInt() <= 0) return false;
    for (auto [argument, init] : llvm::zip_equal(loop.getRegionIterArgs(), loop.getInitArgs())) {
      if (!bind(argument, init)) return false;
    }
    for (int64_t i = from.getInt(); i < to.getInt(); i += step.getInt()) {
      if (--steps_ < 0) return false;
      scalars_[loop.getInductionVar()] = mlir::IntegerAttr::get(loop.getInductionVar().getType(), i);
      if (!run(*loop.getBody())) return false;
      // Reads all values before overwriting the first, because a body may exchange them.
      SmallVector<std::pair<ElementsPtr, Attribute>> now;
      for (Value yielded : loop.getYieldedValues()) {
        now.emplace_back(find(yielded), scalars_.lookup(yielded));
        if (yielded.getParentBlock() == loop.getBody()) tensors_.erase(yielded);
      }
      for (auto [argument, value] : llvm::zip_equal(loop.getRegionIterArgs(), now)) {
        if (!value.first && !value.second) return false;
        if (value.first) tensors_[argument] = std::move(value.first);
        if (value.second) scalars_[argument] = value.second;
      }
    }
    for (auto [result, argument] : llvm::zip_equal(loop.getResults(), loop.getRegionIterArgs())) {
      if (!bind(result, argument)) return false;
    }
    return true;
  }

  bool foldScalar(mlir::Operation& op) {
    if (op.getNumResults() != 1 || op.getNumRegions() != 0) return false;
    SmallVector<mlir::OpFoldResult> results;
    // A folder may first rewrite the operation in place (swapping operands) without giving a result.
    for (int attempt = 0; attempt < 3 && results.empty(); ++attempt) {
      SmallVector<Attribute> operands;
      for (Value operand : op.getOperands()) operands.push_back(scalars_.lookup(operand));
      if (mlir::failed(op.fold(operands, results))) return false;
    }
    if (results.size() != 1) return false;
    Attribute result = llvm::dyn_cast<Attribute>(results[0]);
    if (!result) result = scalars_.lookup(llvm::cast<Value>(results[0]));
    if (!result || !llvm::isa<mlir::IntegerAttr, mlir::FloatAttr>(result)) return false;
    scalars_[op.getResult(0)] = result;
    return true;
  }

  int64_t& steps_;
  SmallVector<int64_t> point_;  ///< of the enclosing structured operation
  llvm::DenseMap<Value, ElementsPtr> tensors_;
  llvm::DenseMap<Value, Attribute> scalars_;
};

}  // namespace

std::optional<std::vector<ConstantPtr>> evaluate(mlir::Block& block, ArrayRef<Value> results,
                                                 ArrayRef<v1::DataType> types, int64_t& steps) {
  Evaluator evaluator(steps);
  if (!evaluator.run(block)) return std::nullopt;
  std::vector<ConstantPtr> constants;
  for (const auto& [value, type] : llvm::zip_equal(results, types)) {
    constants.push_back(evaluator.constant(value, type));
    if (!constants.back()) return std::nullopt;
  }
  return constants;
}

}  // namespace tessera::compiler
