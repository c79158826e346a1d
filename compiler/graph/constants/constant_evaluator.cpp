#include "compiler/graph/constants/constant_evaluator.h"

#include <algorithm>
#include <cstring>

#include "compiler/graph/constants/column_body.h"
#include "compiler/graph/constants/constant_product.h"
#include "compiler/graph/constants/in_parallel.h"
#include "compiler/graph/constants/weight_derivation.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/IR/AffineExprVisitor.h"
#include "mlir/IR/Matchers.h"

namespace tessera::compiler {
namespace {

using mlir::RankedTensorType;
using mlir::Value;
using Known = llvm::DenseMap<Value, DenseValue>;
using Operands = llvm::SmallVector<DenseValue>;

bool isLinear(mlir::AffineMap map) {
  for (mlir::AffineExpr result : map.getResults()) {
    const auto walked = result.walk([](mlir::AffineExpr part) {
      const auto kind = part.getKind();
      const bool nonlinear = kind == mlir::AffineExprKind::Mod || kind == mlir::AffineExprKind::FloorDiv ||
                             kind == mlir::AffineExprKind::CeilDiv;
      return nonlinear ? mlir::WalkResult::interrupt() : mlir::WalkResult::advance();
    });
    if (walked.wasInterrupted()) return false;
  }
  return true;
}

/// Returns an affine access to a row-major tensor as strides of the loops.
StridedAccess accessOf(mlir::AffineMap map, llvm::ArrayRef<int64_t> shape) {
  llvm::SmallVector<int64_t> strides = rowMajorStrides(shape);
  auto offsetAt = [&](llvm::ArrayRef<int64_t> point) {
    int64_t offset = 0;
    for (auto [result, stride] : llvm::zip_equal(map.compose(point), strides)) offset += result * stride;
    return offset;
  };
  // A linear map is known by its value at the origin and by its steps along each loop.
  llvm::SmallVector<int64_t> point(map.getNumDims(), 0);
  StridedAccess access{offsetAt(point), {}};
  for (unsigned d = 0; d < map.getNumDims(); ++d) {
    point[d] = 1;
    access.strides.push_back(offsetAt(point) - access.offset);
    point[d] = 0;
  }
  return access;
}

/// Whether the operation yields input 0 unchanged over parallel loops: a transpose, broadcast or copy.
bool isPureCopy(mlir::linalg::LinalgOp op) {
  if (op.getNumReductionLoops() != 0 || op->getNumResults() != 1 || op.getNumDpsInputs() != 1) return false;
  mlir::Value yielded = op.getBlock()->getTerminator()->getOperand(0);
  return yielded == op.getBlock()->getArgument(0);
}

llvm::SmallVector<int64_t> shapeOf(Value value) {
  return llvm::SmallVector<int64_t>(mlir::cast<RankedTensorType>(value.getType()).getShape());
}

int64_t widthOf(Value value) { return denseWidth(mlir::cast<RankedTensorType>(value.getType()).getElementType()); }

/// Column length from which on the overhead of a column is negligible.
constexpr int64_t kLongColumn = 64;

/// A range of iterations of one loop.
struct LoopRange {
  int loop = -1;
  int64_t begin = 0, end = 0;
};

/// Runs all loops except `column` sequentially, and the body on pieces of `column`. `range`, if given, restricts
/// another loop.
void runColumns(ColumnBody& body, llvm::ArrayRef<int64_t> extents, int column, const Operands& operands,
                llvm::ArrayRef<StridedAccess> accesses, llvm::ArrayRef<char*> outputs, const Operands& results,
                LoopRange range = {}) {
  const auto inputs = static_cast<unsigned>(operands.size() - outputs.size());
  const int64_t column_extent = column < 0 ? 1 : extents[column];
  llvm::SmallVector<int64_t> index(extents.size(), 0);
  if (range.loop >= 0) index[range.loop] = range.begin;
  while (true) {
    for (int64_t start = 0; start < column_extent; start += ColumnBody::kColumn) {
      const int64_t count = std::min(ColumnBody::kColumn, column_extent - start);
      if (column >= 0) index[column] = start;
      auto offsetOf = [&](const StridedAccess& access) {
        int64_t offset = access.offset;
        for (size_t d = 0; d < index.size(); ++d) offset += index[d] * access.strides[d];
        return offset;
      };
      auto strideOf = [&](const StridedAccess& access) { return column < 0 ? 0 : access.strides[column]; };
      for (unsigned o = 0; o < operands.size(); ++o) {
        const char* data = o < inputs ? operands[o].data : outputs[o - inputs];
        body.load(o, data + offsetOf(accesses[o]) * operands[o].width, strideOf(accesses[o]), count);
      }
      for (unsigned d = 0; d < index.size(); ++d) {
        body.setLoop(d, index[d], static_cast<int>(d) == column ? 1 : 0, count);
      }
      body.run(count);
      for (unsigned r = 0; r < outputs.size(); ++r) {
        const StridedAccess& access = accesses[inputs + r];
        body.store(r, outputs[r] + offsetOf(access) * results[r].width, strideOf(access), count);
      }
    }
    if (column >= 0) index[column] = 0;
    int d = static_cast<int>(extents.size()) - 1;
    for (; d >= 0; --d) {
      if (d == column) continue;
      if (++index[d] < (d == range.loop ? range.end : extents[d])) break;
      index[d] = d == range.loop ? range.begin : 0;
    }
    if (d < 0) return;
  }
}

/// Merges two parallel loops into one if every operand accesses both with a common stride, so that columns become
/// longer.
void mergeLoops(llvm::SmallVectorImpl<int64_t>& extents, llvm::SmallVectorImpl<mlir::utils::IteratorType>& types,
                llvm::SmallVectorImpl<StridedAccess>& accesses) {
  for (size_t d = extents.size(); d-- > 1;) {
    if (types[d - 1] != types[d] || types[d] != mlir::utils::IteratorType::parallel) continue;
    const bool as_one = llvm::all_of(
        accesses, [&](const StridedAccess& access) { return access.strides[d - 1] == access.strides[d] * extents[d]; });
    if (!as_one) continue;
    extents[d - 1] *= extents[d];
    for (StridedAccess& access : accesses) {
      access.strides[d - 1] = access.strides[d];
      access.strides.erase(access.strides.begin() + static_cast<int64_t>(d));
    }
    extents.erase(extents.begin() + static_cast<int64_t>(d));
    types.erase(types.begin() + static_cast<int64_t>(d));
  }
}

/// Runs the loops of a linalg operation, with the body on columns along one parallel loop.
bool computeLinalg(mlir::linalg::LinalgOp op, const Operands& operands, int64_t& budget, Operands& results) {
  llvm::SmallVector<int64_t> extents(op.getStaticLoopRanges());
  int64_t points = 1;
  for (int64_t extent : extents) points *= extent;
  budget -= points;
  if (budget < 0) return false;
  llvm::SmallVector<StridedAccess> accesses;
  for (auto [operand, known] : llvm::zip_equal(op->getOpOperands(), operands)) {
    if (mlir::isa<RankedTensorType>(operand.get().getType())) {
      accesses.push_back(accessOf(op.getMatchingIndexingMap(&operand), known.shape));
    } else {
      accesses.push_back({0, llvm::SmallVector<int64_t>(extents.size(), 0)});
    }
  }
  const unsigned inputs = op.getNumDpsInputs();
  llvm::SmallVector<char*> outputs;
  for (auto [index, result] : llvm::enumerate(op->getResults())) {
    results.push_back(makeDense(shapeOf(result), widthOf(result), &outputs.emplace_back()));
  }
  if (points == 0) return true;
  if (isPureCopy(op)) {
    copyStrided(extents, operands[0].width, operands[0].data, accesses[0], outputs[0], accesses[1]);
    return true;
  }
  // Accumulation starts from copies of the initial values, so the body may read and write in place.
  for (unsigned r = 0; r < outputs.size(); ++r) {
    std::memcpy(outputs[r], operands[inputs + r].data, operands[inputs + r].bytes());
  }
  if (inputs == 2 && addConstantProduct(op, extents, accesses, operands[0].data, operands[1].data, outputs[0]))
    return true;
  std::optional<ColumnBody> body = ColumnBody::translate(op);
  if (!body) return false;
  llvm::SmallVector<mlir::utils::IteratorType> types(op.getIteratorTypesArray());
  if (!body->readsLoops()) mergeLoops(extents, types, accesses);
  // Columns run along the loop that is most contiguous in the first result, among parallel loops that are long enough.
  int column = -1;
  auto better = [&](size_t loop) {
    const bool is_long = extents[loop] >= kLongColumn;
    const bool was_long = extents[column] >= kLongColumn;
    const auto& strides = accesses[inputs].strides;
    return is_long == was_long ? strides[loop] < strides[column] : is_long;
  };
  for (auto [loop, type] : llvm::enumerate(types)) {
    if (type != mlir::utils::IteratorType::parallel || extents[loop] == 1) continue;
    if (column < 0 || better(loop)) column = static_cast<int>(loop);
  }
  // Threads share a loop whose iterations write disjoint elements in every result; each thread has its own body.
  int shared = points >= kMinParallelWork ? parallelLoop(extents, accesses[inputs].strides) : -1;
  for (unsigned r = 0; r < outputs.size(); ++r) {
    if (shared >= 0 && parallelLoop(extents, accesses[inputs + r].strides) != shared) shared = -1;
  }
  if (shared == column) shared = -1;  // a single long row cannot be shared
  if (shared < 0) {
    runColumns(*body, extents, column, operands, accesses, outputs, results);
    return true;
  }
  parallelFor(extents[shared], [&](int64_t begin, int64_t end) {
    ColumnBody own = *body;
    runColumns(own, extents, column, operands, accesses, outputs, results, {shared, begin, end});
  });
  return true;
}

DenseValue filled(Value result, const char* element) {
  char* data = nullptr;
  DenseValue value = makeDense(shapeOf(result), widthOf(result), &data);
  // Fresh memory is zero already.
  if (std::all_of(element, element + value.width, [](char byte) { return byte == 0; })) return value;
  const int64_t bytes = value.bytes();
  if (bytes == 0) return value;
  std::memcpy(data, element, value.width);
  // Doubles the filled part with each copy.
  for (int64_t done = value.width; done < bytes; done += std::min(done, bytes - done))
    std::memcpy(data + done, data, std::min(done, bytes - done));
  return value;
}

/// Returns the bytes of a scalar constant in DenseValue's format.
std::optional<std::array<char, 8>> scalarBytes(mlir::OpFoldResult scalar) {
  mlir::Attribute attribute;
  if (auto value = mlir::dyn_cast<Value>(scalar)) {
    if (!mlir::matchPattern(value, mlir::m_Constant(&attribute))) return std::nullopt;
  } else {
    attribute = mlir::cast<mlir::Attribute>(scalar);
  }
  llvm::APInt bits;
  if (auto real = mlir::dyn_cast<mlir::FloatAttr>(attribute)) {
    bits = real.getValue().bitcastToAPInt();
  } else if (auto integer = mlir::dyn_cast<mlir::IntegerAttr>(attribute)) {
    bits = integer.getValue();
  } else {
    return std::nullopt;
  }
  const uint64_t word = bits.getZExtValue();
  std::array<char, 8> bytes = {};
  std::memcpy(bytes.data(), &word, 8);
  return bytes;
}

std::optional<DenseValue> denseOf(mlir::arith::ConstantOp constant) {
  auto elements = mlir::dyn_cast<mlir::DenseElementsAttr>(constant.getValue());
  if (!elements) return std::nullopt;
  Value result = constant.getResult();
  const int64_t width = widthOf(result);
  if (width == 0) return std::nullopt;
  // A splat stores one element for all.
  if (elements.isSplat()) {
    auto scalar = mlir::dyn_cast<mlir::TypedAttr>(elements.getSplatValue<mlir::Attribute>());
    auto bytes = scalarBytes(scalar);
    if (!bytes) return std::nullopt;
    return filled(result, bytes->data());
  }
  char* data = nullptr;
  DenseValue value = makeDense(shapeOf(result), width, &data);
  // MLIR packs bits, DenseValue takes a byte for each.
  if (elements.getElementType().isInteger(1)) {
    for (auto [i, bit] : llvm::enumerate(elements.getValues<bool>())) data[i] = bit;
  } else {
    std::memcpy(data, elements.getRawData().data(), elements.getRawData().size());
  }
  return value;
}

DenseValue reshaped(const DenseValue& source, Value result) {
  DenseValue value = source;
  value.shape = shapeOf(result);
  return value;
}

/// Returns the access function of a box in the larger tensor; `low` and `step` give its position.
StridedAccess boxAccess(llvm::ArrayRef<int64_t> shape, llvm::ArrayRef<int64_t> low, llvm::ArrayRef<int64_t> step) {
  StridedAccess access{0, rowMajorStrides(shape)};
  for (size_t d = 0; d < shape.size(); ++d) {
    access.offset += low[d] * access.strides[d];
    access.strides[d] *= step[d];
  }
  return access;
}

/// Returns the access function of the same box in the other tensor, which may lack dimensions of extent one.
StridedAccess denseAccess(llvm::ArrayRef<int64_t> extents) { return {0, rowMajorStrides(extents)}; }

std::optional<DenseValue> computePad(mlir::tensor::PadOp pad, const DenseValue& source) {
  Value with = pad.getConstantPaddingValue();
  auto element = with ? scalarBytes(mlir::OpFoldResult(with)) : std::nullopt;
  if (!element) return std::nullopt;
  // Everything is padding first, then the source covers its place.
  DenseValue value = filled(pad.getResult(), element->data());
  llvm::SmallVector<int64_t> unit(value.shape.size(), 1);
  copyStrided(source.shape, value.width, source.data, denseAccess(source.shape), const_cast<char*>(value.data),
              boxAccess(value.shape, pad.getStaticLow(), unit));
  return value;
}

std::optional<DenseValue> computeConcat(mlir::tensor::ConcatOp concat, const Operands& parts) {
  char* data = nullptr;
  DenseValue value = makeDense(shapeOf(concat.getResult()), widthOf(concat.getResult()), &data);
  llvm::SmallVector<int64_t> low(value.shape.size(), 0);
  llvm::SmallVector<int64_t> unit(value.shape.size(), 1);
  for (const DenseValue& part : parts) {
    copyStrided(part.shape, value.width, part.data, denseAccess(part.shape), data, boxAccess(value.shape, low, unit));
    low[concat.getDim()] += part.shape[concat.getDim()];
  }
  return value;
}

bool hasStaticSlice(mlir::OffsetSizeAndStrideOpInterface op) {
  auto isStatic = [](llvm::ArrayRef<int64_t> values) {
    return llvm::none_of(values, [](int64_t value) { return mlir::ShapedType::isDynamic(value); });
  };
  return isStatic(op.getStaticOffsets()) && isStatic(op.getStaticSizes()) && isStatic(op.getStaticStrides());
}

DenseValue computeSlice(mlir::tensor::ExtractSliceOp slice, const DenseValue& source) {
  char* data = nullptr;
  DenseValue value = makeDense(shapeOf(slice.getResult()), source.width, &data);
  copyStrided(slice.getStaticSizes(), source.width, source.data,
              boxAccess(source.shape, slice.getStaticOffsets(), slice.getStaticStrides()), data,
              denseAccess(slice.getStaticSizes()));
  return value;
}

DenseValue computeInsert(mlir::tensor::InsertSliceOp insert, const DenseValue& source, const DenseValue& dest) {
  char* data = nullptr;
  DenseValue value = makeDense(dest.shape, dest.width, &data);
  // The result is a new value: the destination may have other readers.
  std::memcpy(data, dest.data, dest.bytes());
  copyStrided(insert.getStaticSizes(), dest.width, source.data, denseAccess(insert.getStaticSizes()), data,
              boxAccess(dest.shape, insert.getStaticOffsets(), insert.getStaticStrides()));
  return value;
}

}  // namespace

bool ConstantEvaluator::hasRule(mlir::Operation* op) {
  for (Value value : op->getResults()) {
    auto type = mlir::dyn_cast<RankedTensorType>(value.getType());
    if (!type || !type.hasStaticShape() || denseWidth(type.getElementType()) == 0) return false;
  }
  // Only slices at known positions have a fixed result.
  if (auto slice = mlir::dyn_cast<mlir::OffsetSizeAndStrideOpInterface>(op)) {
    return mlir::isa<mlir::tensor::ExtractSliceOp, mlir::tensor::InsertSliceOp>(op) && hasStaticSlice(slice);
  }
  if (auto pad = mlir::dyn_cast<mlir::tensor::PadOp>(op)) {
    Value with = pad.getConstantPaddingValue();
    return with && mlir::matchPattern(with, mlir::m_Constant()) &&
           // Negative padding would crop, which copyStrided() cannot.
           llvm::none_of(pad.getStaticLow(), [](int64_t low) { return low < 0; }) &&
           llvm::none_of(pad.getStaticHigh(), [](int64_t high) { return high < 0; });
  }
  if (auto fill = mlir::dyn_cast<mlir::linalg::FillOp>(op)) {
    return mlir::matchPattern(fill.getInputs()[0], mlir::m_Constant());
  }
  if (auto linalg_op = mlir::dyn_cast<mlir::linalg::LinalgOp>(op)) {
    return llvm::all_of(linalg_op.getIndexingMapsArray(), isLinear) && ColumnBody::translate(linalg_op).has_value();
  }
  if (auto constant = mlir::dyn_cast<mlir::arith::ConstantOp>(op)) {
    return mlir::isa<mlir::DenseElementsAttr>(constant.getValue());
  }
  return mlir::isa<mlir::tensor::EmptyOp, mlir::tensor::ExpandShapeOp, mlir::tensor::CollapseShapeOp,
                   mlir::tensor::ConcatOp>(op);
}

bool ConstantEvaluator::compute(mlir::Operation* op, int64_t& budget) {
  if (!hasRule(op)) return false;
  Operands operands;
  for (Value operand : op->getOperands()) {
    // Scalars stay in the operation; their entries only keep the order.
    if (!mlir::isa<RankedTensorType>(operand.getType())) {
      operands.emplace_back();
      continue;
    }
    auto value = evaluate(operand, budget);
    if (!value) return false;
    operands.push_back(std::move(*value));
  }
  Operands results;
  std::optional<DenseValue> single;
  if (auto fill = mlir::dyn_cast<mlir::linalg::FillOp>(op)) {
    single = filled(op->getResult(0), scalarBytes(mlir::OpFoldResult(fill.getInputs()[0]))->data());
  } else if (auto linalg_op = mlir::dyn_cast<mlir::linalg::LinalgOp>(op)) {
    if (!computeLinalg(linalg_op, operands, budget, results)) return false;
  } else if (auto constant = mlir::dyn_cast<mlir::arith::ConstantOp>(op)) {
    single = denseOf(constant);
  } else if (auto pad = mlir::dyn_cast<mlir::tensor::PadOp>(op)) {
    single = computePad(pad, operands[0]);
  } else if (auto concat = mlir::dyn_cast<mlir::tensor::ConcatOp>(op)) {
    single = computeConcat(concat, operands);
  } else if (auto slice = mlir::dyn_cast<mlir::tensor::ExtractSliceOp>(op)) {
    single = computeSlice(slice, operands[0]);
  } else if (auto insert = mlir::dyn_cast<mlir::tensor::InsertSliceOp>(op)) {
    single = computeInsert(insert, operands[0], operands[1]);
  } else if (mlir::isa<mlir::tensor::EmptyOp>(op)) {
    char* data = nullptr;
    single = makeDense(shapeOf(op->getResult(0)), widthOf(op->getResult(0)), &data);
  } else {
    single = reshaped(operands[0], op->getResult(0));
  }
  if (single) results.push_back(std::move(*single));
  if (results.size() != op->getNumResults()) return false;
  // Stored even if only one of several results was asked for.
  for (auto [value, result] : llvm::zip_equal(op->getResults(), results)) {
    computed_[value] = std::move(result);
  }
  return true;
}

std::optional<DenseValue> ConstantEvaluator::evaluate(Value value, int64_t& budget) {
  if (auto it = known_.find(value); it != known_.end()) return it->second;
  if (auto it = computed_.find(value); it != computed_.end()) return it->second;
  // Derived weights are computed when a reader needs their bytes.
  if (auto it = derived_.find(value); it != derived_.end()) {
    std::optional<DenseValue> derived = tessera::compiler::evaluate(*it->second, budget);
    if (derived) computed_[value] = *derived;
    return derived;
  }
  if (!value.getDefiningOp() || !compute(value.getDefiningOp(), budget)) return std::nullopt;
  return computed_[value];
}

}  // namespace tessera::compiler
