#include "compiler/import/evaluate.h"

#include "compiler/import/limits.h"
#include "llvm/ADT/TypeSwitch.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Linalg/Transforms/Transforms.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/IR/Matchers.h"
#include "mlir/IR/PatternMatch.h"

namespace tessera::compiler {
namespace {

using llvm::ArrayRef;
using llvm::SmallVector;
using mlir::Attribute;
using mlir::Value;

/// A tensor under evaluation. An element without a value is null: reading it is a failure.
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

/// Advances an odometer; false when it wraps around.
bool next(SmallVector<int64_t>& index, ArrayRef<int64_t> bounds) {
  for (size_t d = bounds.size(); d-- > 0;) {
    if (++index[d] < bounds[d]) return true;
    index[d] = 0;
  }
  return false;
}

class Evaluator {
 public:
  explicit Evaluator(int64_t& steps) : steps_(steps) {}

  bool run(mlir::Block& block) {
    for (mlir::Operation& op : llvm::make_early_inc_range(block)) {
      if (!evaluateOp(op)) return false;
    }
    return true;
  }

  ConstantPtr constant(Value value, v1::DataType type) {
    auto known = tensors_.find(value);
    if (known == tensors_.end()) return nullptr;
    std::string bytes;
    const int64_t size = elementBytes(type);
    for (Attribute element : known->second.values) {
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
    return makeConstant(type, known->second.shape, std::move(bytes));
  }

 private:
  bool evaluateOp(mlir::Operation& op) {
    for (mlir::Type type : op.getResultTypes()) {
      auto tensor = llvm::dyn_cast<mlir::RankedTensorType>(type);
      if (tensor && tensor.getNumElements() > limits::kFoldedElements) return false;
    }
    return llvm::TypeSwitch<mlir::Operation*, bool>(&op)
        .Case([&](mlir::arith::ConstantOp constant) { return evaluateConstant(constant); })
        .Case([&](mlir::tensor::EmptyOp empty) {
          return define(empty.getResult(), std::vector<Attribute>(empty.getType().getNumElements()));
        })
        .Case([&](mlir::tensor::CollapseShapeOp reshape) { return copy(reshape.getSrc(), reshape.getResult()); })
        .Case([&](mlir::tensor::ExpandShapeOp reshape) { return copy(reshape.getSrc(), reshape.getResult()); })
        .Case([&](mlir::tensor::ExtractSliceOp slice) { return extractSlice(slice); })
        .Case([&](mlir::tensor::InsertSliceOp slice) { return insertSlice(slice); })
        .Case([&](mlir::tensor::PadOp pad) { return evaluatePad(pad); })
        .Case([&](mlir::linalg::FillOp fill) {
          Attribute value = scalars_.lookup(fill.getInputs()[0]);
          auto type = llvm::cast<mlir::RankedTensorType>(fill->getResult(0).getType());
          return value && define(fill->getResult(0), std::vector<Attribute>(type.getNumElements(), value));
        })
        .Case([&](mlir::linalg::GenericOp generic) { return evaluateGeneric(generic); })
        .Case([&](mlir::linalg::LinalgOp named) {
          mlir::IRRewriter rewriter(named->getContext());
          rewriter.setInsertionPoint(named);
          SmallVector<Value> old(named->getResults());
          auto generic = mlir::linalg::generalizeNamedOp(rewriter, named);
          return mlir::succeeded(generic) && evaluateGeneric(*generic);
        })
        .Default([&](mlir::Operation* scalar) { return foldScalar(*scalar, scalars_); });
  }

  bool define(Value value, std::vector<Attribute> elements) {
    ArrayRef<int64_t> shape = llvm::cast<mlir::RankedTensorType>(value.getType()).getShape();
    steps_ -= static_cast<int64_t>(elements.size());
    tensors_[value] = Elements{Shape(shape.begin(), shape.end()), std::move(elements)};
    return steps_ >= 0;
  }

  bool copy(Value from, Value to) { return define(to, tensors_[from].values); }

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
    const Elements& source = tensors_[slice.getSource()];
    if (slice.getType().getRank() != slice.getSourceType().getRank()) return false;
    std::vector<Attribute> result;
    SmallVector<int64_t> index(source.shape.size(), 0);
    ArrayRef<int64_t> sizes = slice.getStaticSizes();
    if (slice.getType().getNumElements() > 0) {
      do {
        SmallVector<int64_t> from;
        for (const auto& [d, i] : llvm::enumerate(index)) {
          from.push_back(slice.getStaticOffset(d) + i * slice.getStaticStride(d));
        }
        const int64_t at = source.offset(from);
        if (at < 0) return false;
        result.push_back(source.values[at]);
      } while (next(index, sizes));
    }
    return define(slice.getResult(), std::move(result));
  }

  bool insertSlice(mlir::tensor::InsertSliceOp slice) {
    const Elements& source = tensors_[slice.getSource()];
    Elements result = tensors_[slice.getDest()];
    if (slice.getSourceType().getRank() != slice.getDestType().getRank()) return false;
    SmallVector<int64_t> index(source.shape.size(), 0);
    for (Attribute element : source.values) {
      SmallVector<int64_t> to;
      for (const auto& [d, i] : llvm::enumerate(index)) {
        to.push_back(slice.getStaticOffset(d) + i * slice.getStaticStride(d));
      }
      const int64_t at = result.offset(to);
      if (at < 0) return false;
      result.values[at] = element;
      next(index, source.shape);
    }
    return define(slice.getResult(), std::move(result.values));
  }

  bool evaluatePad(mlir::tensor::PadOp pad) {
    Value with = pad.getConstantPaddingValue();
    if (!with || !scalars_.contains(with)) return false;
    const Elements& source = tensors_[pad.getSource()];
    Elements result;
    for (int64_t dim : pad.getType().getShape()) result.shape.push_back(dim);
    result.values.assign(pad.getType().getNumElements(), scalars_[with]);
    SmallVector<int64_t> index(source.shape.size(), 0);
    for (Attribute element : source.values) {
      SmallVector<int64_t> to;
      for (const auto& [d, i] : llvm::enumerate(index)) to.push_back(i + pad.getStaticLow()[d]);
      const int64_t at = result.offset(to);
      if (at >= 0) result.values[at] = element;  // negative padding crops
      next(index, source.shape);
    }
    return define(pad.getResult(), std::move(result.values));
  }

  bool evaluateGeneric(mlir::linalg::GenericOp generic) {
    if (generic.getNumDpsInits() != static_cast<int64_t>(generic->getNumResults())) return false;
    SmallVector<int64_t> bounds = generic.getStaticLoopRanges();
    SmallVector<mlir::AffineMap> maps = generic.getIndexingMapsArray();
    SmallVector<Elements*> operands;
    for (Value operand : generic->getOperands()) {
      auto known = tensors_.find(operand);
      if (known == tensors_.end()) return false;
      operands.push_back(&known->second);
    }
    const auto num_inputs = static_cast<size_t>(generic.getNumDpsInputs());
    std::vector<Elements> results;
    for (size_t i = num_inputs; i < operands.size(); ++i) results.push_back(*operands[i]);

    int64_t points = 1;
    for (int64_t bound : bounds) points = points > steps_ ? points : points * bound;
    if (points > steps_) return false;
    SmallVector<int64_t> index(bounds.size(), 0);
    llvm::DenseMap<Value, Attribute> local = scalars_;
    for (int64_t point = 0; point < points; ++point, next(index, bounds)) {
      for (size_t i = 0; i < operands.size(); ++i) {
        Elements& source = i < num_inputs ? *operands[i] : results[i - num_inputs];
        const int64_t at = source.offset(maps[i].compose(index));
        if (at < 0) return false;
        local[generic.getBody()->getArgument(static_cast<unsigned>(i))] = source.values[at];
      }
      for (mlir::Operation& op : generic.getBody()->without_terminator()) {
        if (!evaluateScalar(op, index, local)) return false;
      }
      auto* yield = generic.getBody()->getTerminator();
      for (size_t i = 0; i < results.size(); ++i) {
        Attribute value = local.lookup(yield->getOperand(static_cast<unsigned>(i)));
        if (!value) return false;
        results[i].values[results[i].offset(maps[num_inputs + i].compose(index))] = value;
      }
    }
    for (size_t i = 0; i < results.size(); ++i) {
      if (!define(generic->getResult(static_cast<unsigned>(i)), std::move(results[i].values))) return false;
    }
    return true;
  }

  bool evaluateScalar(mlir::Operation& op, ArrayRef<int64_t> index, llvm::DenseMap<Value, Attribute>& local) {
    if (--steps_ < 0) return false;
    if (auto position = llvm::dyn_cast<mlir::linalg::IndexOp>(op)) {
      local[position.getResult()] =
          mlir::IntegerAttr::get(mlir::IndexType::get(op.getContext()), index[position.getDim()]);
      return true;
    }
    if (auto extract = llvm::dyn_cast<mlir::tensor::ExtractOp>(op)) {
      auto known = tensors_.find(extract.getTensor());
      if (known == tensors_.end()) return false;
      SmallVector<int64_t> at;
      for (Value coordinate : extract.getIndices()) {
        auto value = llvm::dyn_cast_or_null<mlir::IntegerAttr>(local.lookup(coordinate));
        if (!value) return false;
        at.push_back(value.getInt());
      }
      const int64_t offset = known->second.offset(at);
      if (offset < 0) return false;
      local[extract.getResult()] = known->second.values[offset];
      return true;
    }
    return foldScalar(op, local);
  }

  static bool foldScalar(mlir::Operation& op, llvm::DenseMap<Value, Attribute>& values) {
    SmallVector<Attribute> operands;
    for (Value operand : op.getOperands()) operands.push_back(values.lookup(operand));
    SmallVector<mlir::OpFoldResult> results;
    if (auto constant = llvm::dyn_cast<mlir::arith::ConstantOp>(op)) {
      values[constant.getResult()] = constant.getValue();
      return true;
    }
    if (op.getNumResults() != 1 || op.getNumRegions() != 0) return false;
    // A folder that only rewrites the operation in place gives no results.
    if (mlir::failed(op.fold(operands, results)) || results.size() != 1) return false;
    Attribute result = llvm::dyn_cast<Attribute>(results[0]);
    if (!result) result = values.lookup(llvm::cast<Value>(results[0]));
    if (!result || !llvm::isa<mlir::IntegerAttr, mlir::FloatAttr>(result)) return false;
    values[op.getResult(0)] = result;
    return true;
  }

  int64_t& steps_;
  llvm::DenseMap<Value, Elements> tensors_;
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
