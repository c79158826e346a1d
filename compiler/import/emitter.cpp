#include "compiler/import/emitter.h"

#include <algorithm>
#include <span>

#include "compiler/import/limits.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Utils/ReshapeOpsUtils.h"

namespace tessera::compiler {

using llvm::ArrayRef;
using llvm::SmallVector;
using mlir::AffineExpr;
using mlir::AffineMap;
using mlir::OpFoldResult;
using mlir::Value;
using mlir::utils::IteratorType;

std::optional<Shape> broadcastShape(const Shape& x, const Shape& y) {
  Shape result(std::max(x.size(), y.size()));
  for (size_t i = 0; i < result.size(); ++i) {  // starts at the innermost dimension
    const int64_t dx = i < x.size() ? x[x.size() - 1 - i] : 1;
    const int64_t dy = i < y.size() ? y[y.size() - 1 - i] : 1;
    if (dx != dy && dx != 1 && dy != 1) return std::nullopt;
    result[result.size() - 1 - i] = dx == 1 ? dy : dx;
  }
  return result;
}

mlir::RankedTensorType Emitter::type(v1::DataType dtype, ArrayRef<int64_t> shape) const {
  return mlir::RankedTensorType::get(shape, mlirType(b.getContext(), dtype));
}

Value Emitter::value(const Tensor& tensor) {
  return tensor.constant ? materialize_(*this, tensor.constant) : tensor.value;
}

Tensor Emitter::wrap(Value value, v1::DataType dtype) {
  ArrayRef<int64_t> shape = llvm::cast<mlir::RankedTensorType>(value.getType()).getShape();
  return Tensor{.dtype = dtype, .shape = Shape(shape.begin(), shape.end()), .value = value};
}

Tensor Emitter::wrap(ConstantPtr constant) {
  return Tensor{.dtype = constant->dtype, .shape = constant->shape, .constant = std::move(constant)};
}

Value Emitter::empty(v1::DataType dtype, ArrayRef<int64_t> shape) {
  return mlir::tensor::EmptyOp::create(b, loc, shape, mlirType(b.getContext(), dtype));
}

Tensor Emitter::filled(Value scalar, v1::DataType dtype, ArrayRef<int64_t> shape) {
  return wrap(mlir::linalg::FillOp::create(b, loc, scalar, empty(dtype, shape)).getResult(0), dtype);
}

Tensor Emitter::zeros(v1::DataType dtype, ArrayRef<int64_t> shape) {
  return filled(scalars(dtype).constant(0), dtype, shape);
}

Tensor Emitter::generic(v1::DataType dtype, ArrayRef<int64_t> shape, ArrayRef<Access> inputs, AffineMap result,
                        ArrayRef<IteratorType> loops, const Tensor* init, Body body) {
  SmallVector<Value> values;
  SmallVector<AffineMap> maps;
  for (const Access& input : inputs) {
    values.push_back(value(input.tensor));
    maps.push_back(input.map);
  }
  maps.push_back(result);
  // Bodies compute in the first operand's type, also where the result has another one (a comparison).
  const v1::DataType first = inputs.empty() ? dtype : inputs[0].tensor.dtype;
  // Without an initial value the destination is uninitialized, and the body must not read it.
  Value out = init ? value(*init) : empty(dtype, shape);
  auto op = mlir::linalg::GenericOp::create(
      b, loc, mlir::TypeRange{out.getType()}, values, mlir::ValueRange{out}, maps, loops,
      [&](mlir::OpBuilder& nested, mlir::Location at, mlir::ValueRange arguments) {
        Value yielded = body(Scalars(nested, at, first), init ? arguments : arguments.drop_back());
        mlir::linalg::YieldOp::create(nested, at, yielded);
      });
  return wrap(op.getResult(0), dtype);
}

Access Emitter::broadcastAccess(const Tensor& x, const Shape& shape) {
  // Drops broadcast dimensions from the operand, so that every map is a projected permutation.
  Shape kept;
  SmallVector<AffineExpr> results;
  const size_t lead = shape.size() - x.shape.size();
  for (size_t d = 0; d < x.shape.size(); ++d) {
    if (x.shape[d] == 1 && shape[lead + d] != 1) continue;
    kept.push_back(x.shape[d]);
    results.push_back(b.getAffineDimExpr(static_cast<unsigned>(lead + d)));
  }
  return {reshape(x, kept), AffineMap::get(static_cast<unsigned>(shape.size()), 0, results, b.getContext())};
}

Tensor Emitter::elementwise(v1::DataType result, ArrayRef<Tensor> operands, Body body) {
  Shape shape;
  for (const Tensor& operand : operands) shape = *broadcastShape(shape, operand.shape);

  // Constants of one element go into the body, where later passes fold them; others are operands.
  SmallVector<Access> accesses;
  SmallVector<bool> captured(operands.size(), false);
  for (const auto& [i, operand] : llvm::enumerate(operands)) {
    if (operand.constant && operand.elements() == 1) {
      captured[i] = true;
      continue;
    }
    accesses.push_back(broadcastAccess(operand, shape));
  }
  const v1::DataType first = operands.empty() ? result : operands[0].dtype;
  SmallVector<IteratorType> loops(shape.size(), IteratorType::parallel);
  AffineMap identity = b.getMultiDimIdentityMap(static_cast<unsigned>(shape.size()));
  return generic(result, shape, accesses, identity, loops, nullptr,
                 [&](const Scalars& s, mlir::ValueRange arguments) -> Value {
                   SmallVector<Value> all;
                   size_t next = 0;
                   for (const auto& [i, operand] : llvm::enumerate(operands)) {
                     if (!captured[i]) {
                       all.push_back(arguments[next++]);
                     } else if (isFloat(operand.dtype)) {
                       all.push_back(s.as(operand.dtype).constant(operand.constant->realAt(0)));
                     } else {
                       all.push_back(s.as(operand.dtype).integer(operand.constant->integerAt(0)));
                     }
                   }
                   return body(s.as(first), all);
                 });
}

Tensor Emitter::reduce(const Tensor& x, ArrayRef<int64_t> dims, v1::DataType result, Value init, Body combine) {
  SmallVector<IteratorType> loops(x.shape.size(), IteratorType::parallel);
  for (int64_t dim : dims) loops[dim] = IteratorType::reduction;
  Shape shape;
  SmallVector<AffineExpr> kept;
  for (size_t d = 0; d < x.shape.size(); ++d) {
    if (loops[d] == IteratorType::reduction) continue;
    shape.push_back(x.shape[d]);
    kept.push_back(b.getAffineDimExpr(static_cast<unsigned>(d)));
  }
  const auto rank = static_cast<unsigned>(x.shape.size());
  Tensor start = filled(init, result, shape);
  return generic(result, shape, {{x, b.getMultiDimIdentityMap(rank)}}, AffineMap::get(rank, 0, kept, b.getContext()),
                 loops, &start, combine);
}

Tensor Emitter::reshape(const Tensor& x, Shape shape) {
  if (x.shape == shape) return x;
  if (x.constant) return wrap(reshaped(x.constant, std::move(shape)));
  auto from = type(x.dtype, x.shape);
  auto to = type(x.dtype, shape);
  // MLIR's reshapes need a grouping of dimensions, which zeros make ambiguous.
  if (x.elements() == 0) return wrap(empty(x.dtype, shape), x.dtype);
  if (auto groups = mlir::getReassociationIndicesForReshape(from, to)) {
    if (from.getRank() > to.getRank()) {
      return wrap(mlir::tensor::CollapseShapeOp::create(b, loc, to, x.value, *groups), x.dtype);
    }
    return wrap(mlir::tensor::ExpandShapeOp::create(b, loc, to, x.value, *groups), x.dtype);
  }
  // No grouping of dimensions maps one shape to the other, so it goes through one dimension.
  const Shape flat = {x.elements()};
  return reshape(reshape(x, flat), std::move(shape));
}

Tensor Emitter::transpose(const Tensor& x, ArrayRef<int64_t> permutation) {
  Shape shape;
  bool identity = true;
  for (const auto& [i, source] : llvm::enumerate(permutation)) {
    shape.push_back(x.shape[source]);
    identity &= source == static_cast<int64_t>(i);
  }
  // The identity costs nothing.
  if (identity) return x;
  Value out = empty(x.dtype, shape);
  return wrap(mlir::linalg::TransposeOp::create(b, loc, value(x), out, permutation)->getResult(0), x.dtype);
}

Tensor Emitter::pad(const Tensor& x, ArrayRef<int64_t> low, ArrayRef<int64_t> high, Value with) {
  Shape shape = x.shape;
  SmallVector<OpFoldResult> lows, highs;
  bool any = false;
  for (size_t d = 0; d < shape.size(); ++d) {
    shape[d] += low[d] + high[d];
    any |= low[d] != 0 || high[d] != 0;
    lows.push_back(b.getIndexAttr(low[d]));
    highs.push_back(b.getIndexAttr(high[d]));
  }
  if (!any) return x;
  return wrap(mlir::tensor::PadOp::create(b, loc, type(x.dtype, shape), value(x), lows, highs, with), x.dtype);
}

namespace {

/// Calls `visit` with the position of each element of a region, in order, in an array of shape `whole`.
void forEachPlace(const Shape& whole, ArrayRef<int64_t> offsets, ArrayRef<int64_t> sizes, ArrayRef<int64_t> strides,
                  llvm::function_ref<void(int64_t place)> visit) {
  const int64_t count = elementCount(std::span(sizes.data(), sizes.size()));
  SmallVector<int64_t> index(sizes.size(), 0);
  for (int64_t i = 0; i < count; ++i) {
    int64_t place = 0;
    for (size_t d = 0; d < whole.size(); ++d) place = place * whole[d] + offsets[d] + index[d] * strides[d];
    visit(place);
    // Counts up like an odometer: the last dimension fastest.
    for (size_t d = sizes.size(); d-- > 0 && ++index[d] == sizes[d];) index[d] = 0;
  }
}

/// Small constants are moved at import, because a value that control flow or sequences rearrange may decide a shape.
bool isSmall(int64_t elements) { return elements <= limits::kSmallFold; }

}  // namespace

Tensor Emitter::slice(const Tensor& x, ArrayRef<int64_t> offsets, ArrayRef<int64_t> sizes, ArrayRef<int64_t> strides) {
  if (x.constant && isSmall(elementCount(std::span(sizes.data(), sizes.size())))) {
    const int64_t size = elementBytes(x.dtype);
    std::string bytes;
    forEachPlace(x.shape, offsets, sizes, strides,
                 [&](int64_t place) { bytes.append(x.constant->bytes.substr(place * size, size)); });
    return wrap(makeConstant(x.dtype, Shape(sizes.begin(), sizes.end()), std::move(bytes)));
  }
  // MLIR requires offsets within x, which has none if an extent is zero.
  if (elementCount(std::span(sizes.data(), sizes.size())) == 0) return wrap(empty(x.dtype, sizes), x.dtype);
  SmallVector<OpFoldResult> o, n, s;
  for (size_t d = 0; d < x.shape.size(); ++d) {
    o.push_back(b.getIndexAttr(offsets[d]));
    n.push_back(b.getIndexAttr(sizes[d]));
    s.push_back(b.getIndexAttr(strides[d]));
  }
  // The whole tensor needs no slice.
  if (ArrayRef<int64_t>(x.shape) == sizes) return x;
  return wrap(mlir::tensor::ExtractSliceOp::create(b, loc, value(x), o, n, s), x.dtype);
}

Tensor Emitter::take(const Tensor& x, int64_t dim, int64_t index) {
  SmallVector<int64_t> offsets(x.shape.size(), 0), sizes(x.shape.begin(), x.shape.end()), strides(x.shape.size(), 1);
  offsets[dim] = index;
  sizes[dim] = 1;
  Shape shape = x.shape;
  shape.erase(shape.begin() + dim);
  return reshape(slice(x, offsets, sizes, strides), std::move(shape));
}

Tensor Emitter::concat(ArrayRef<Tensor> parts, int64_t axis) {
  Shape shape = parts[0].shape;
  shape[axis] = 0;
  for (const Tensor& part : parts) shape[axis] += part.shape[axis];
  const bool known = llvm::all_of(parts, [](const Tensor& part) { return part.constant != nullptr; });
  if (known && isSmall(elementCount(shape))) {
    const int64_t size = elementBytes(parts[0].dtype);
    std::string bytes(elementCount(shape) * size, '\0');
    const SmallVector<int64_t> strides(shape.size(), 1);
    SmallVector<int64_t> offsets(shape.size(), 0);
    for (const Tensor& part : parts) {
      const char* from = part.constant->bytes.data();
      forEachPlace(shape, offsets, part.shape, strides, [&](int64_t place) {
        std::copy_n(from, size, bytes.data() + place * size);
        from += size;
      });
      offsets[axis] += part.shape[axis];
    }
    return wrap(makeConstant(parts[0].dtype, shape, std::move(bytes)));
  }
  // Fills one destination slice by slice: bufferization lets each producer write its slice in place.
  Value result = empty(parts[0].dtype, shape);
  int64_t at = 0;
  for (const Tensor& part : parts) {
    if (part.elements() == 0) continue;
    SmallVector<OpFoldResult> o(shape.size(), b.getIndexAttr(0)), n, s(shape.size(), b.getIndexAttr(1));
    for (int64_t dim : part.shape) n.push_back(b.getIndexAttr(dim));
    o[axis] = b.getIndexAttr(at);
    at += part.shape[axis];
    result = mlir::tensor::InsertSliceOp::create(b, loc, value(part), result, o, n, s);
  }
  return wrap(result, parts[0].dtype);
}

Tensor Emitter::broadcast(const Tensor& x, const Shape& shape) {
  if (x.shape == shape) return x;
  const auto rank = static_cast<unsigned>(shape.size());
  SmallVector<IteratorType> loops(rank, IteratorType::parallel);
  return generic(x.dtype, shape, {broadcastAccess(x, shape)}, b.getMultiDimIdentityMap(rank), loops, nullptr,
                 [](const Scalars&, mlir::ValueRange operands) { return operands[0]; });
}

Tensor Emitter::cast(const Tensor& x, v1::DataType to) {
  if (x.dtype == to) return x;
  return elementwise(to, {x}, [to](const Scalars& s, mlir::ValueRange v) { return s.cast(v[0], to); });
}

Tensor Emitter::generate(v1::DataType dtype, ArrayRef<int64_t> shape,
                         llvm::function_ref<Value(const Scalars&, mlir::ValueRange)> body) {
  const auto rank = static_cast<unsigned>(shape.size());
  SmallVector<IteratorType> loops(rank, IteratorType::parallel);
  return generic(dtype, shape, {}, b.getMultiDimIdentityMap(rank), loops, nullptr,
                 [&](const Scalars& s, mlir::ValueRange) {
                   SmallVector<Value> coordinates;
                   for (unsigned d = 0; d < rank; ++d) {
                     coordinates.push_back(mlir::linalg::IndexOp::create(s.b, s.loc, d));
                   }
                   return body(s, coordinates);
                 });
}

Value Emitter::extract(const Scalars& s, Value x, mlir::ValueRange indices) const {
  return mlir::tensor::ExtractOp::create(s.b, s.loc, x, indices);
}

}  // namespace tessera::compiler
