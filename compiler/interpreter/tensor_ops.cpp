// Operations that move elements between tensors.
#include "absl/strings/str_cat.h"
#include "compiler/interpreter/machine.h"
#include "llvm/ADT/TypeSwitch.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "proto/support/status_macros.h"

namespace tessera::compiler::interpreter {
namespace {

namespace tensor = mlir::tensor;
namespace linalg = mlir::linalg;

absl::Status beyond() { return absl::OutOfRangeError("a slice reaches beyond its tensor"); }

mlir::RankedTensorType typeOf(mlir::Value value) { return llvm::cast<mlir::RankedTensorType>(value.getType()); }

}  // namespace

/// Dense constants, including splats.
Array constantArray(mlir::DenseElementsAttr dense) {
  const auto type = llvm::cast<mlir::ShapedType>(dense.getType());
  Array result = makeArray(type);
  const Element element = result.storage->element;
  auto put = [&](int64_t i, const llvm::APInt& bits) {
    if (element.isReal()) {
      result.storage->real[i] = realOf(element, bits.getZExtValue());
    } else {
      result.storage->integer[i] = wrapTo(element.bits, static_cast<int64_t>(bits.getZExtValue()));
    }
  };
  int64_t i = 0;
  if (element.isReal()) {
    for (const llvm::APFloat& value : dense.getValues<llvm::APFloat>()) put(i++, value.bitcastToAPInt());
  } else {
    for (const llvm::APInt& value : dense.getValues<llvm::APInt>()) put(i++, value);
  }
  return result;
}

namespace {

absl::Status runConstant(Machine& machine, mlir::arith::ConstantOp op) {
  if (auto dense = llvm::dyn_cast<mlir::DenseElementsAttr>(op.getValue())) {
    machine.set(op.getResult(), constantArray(dense));
    return absl::OkStatus();
  }
  const std::optional<Scalar> value = scalarOf(op.getValue());
  if (!value) return absl::UnimplementedError("a constant of an unknown kind");
  machine.set(op.getResult(), *value);
  return absl::OkStatus();
}

absl::Status extractSlice(Machine& machine, tensor::ExtractSliceOp op) {
  const Array& source = machine.array(op.getSource());
  const Extents offsets = machine.indices(op.getMixedOffsets()), sizes = machine.indices(op.getMixedSizes());
  const Extents strides = machine.indices(op.getMixedStrides());
  if (!contains(source, offsets, sizes, strides)) return beyond();
  // A copy: later operations may update the source in place.
  machine.set(op.getResult(), reshaped(ownedDense(viewOf(source, offsets, sizes, strides)), op.getType().getShape()));
  return absl::OkStatus();
}

absl::Status insertSlice(Machine& machine, tensor::InsertSliceOp op) {
  const Extents offsets = machine.indices(op.getMixedOffsets()), sizes = machine.indices(op.getMixedSizes());
  const Extents strides = machine.indices(op.getMixedStrides());
  const Array source = reshaped(machine.array(op.getSource()), sizes);
  Array result = ownedDense(machine.take(op.getDest(), op));
  if (!contains(result, offsets, sizes, strides)) return beyond();
  assign(viewOf(result, offsets, sizes, strides), source);
  machine.set(op.getResult(), std::move(result));
  return absl::OkStatus();
}

absl::Status pad(Machine& machine, tensor::PadOp op) {
  const Array source = machine.array(op.getSource());
  const Extents low = machine.indices(op.getMixedLowPad());
  mlir::Value with = op.getConstantPaddingValue();
  if (!with) return absl::UnimplementedError("padding with more than one value");
  Scalar value;
  if (auto constant = with.getDefiningOp<mlir::arith::ConstantOp>()) {
    value = *scalarOf(constant.getValue());
  } else {
    value = machine.scalar(with);
  }
  Array result = makeArray(op.getResultType());
  forEachPosition(result, [&](int64_t position) { result.set(position, value); });
  // A negative width crops.
  Extents from, to, sizes;
  for (int64_t d = 0; d < source.rank(); ++d) {
    from.push_back(std::max<int64_t>(0, -low[d]));
    to.push_back(std::max<int64_t>(0, low[d]));
    sizes.push_back(std::max<int64_t>(0, std::min(source.shape[d] - from[d], result.shape[d] - to[d])));
  }
  const Extents ones(source.rank(), 1);
  assign(viewOf(result, to, sizes, ones), viewOf(source, from, sizes, ones));
  machine.set(op.getResult(), std::move(result));
  return absl::OkStatus();
}

absl::Status concat(Machine& machine, tensor::ConcatOp op) {
  Array result = makeArray(typeOf(op.getResult()));
  Extents offsets(result.rank(), 0);
  const Extents ones(result.rank(), 1);
  for (mlir::Value input : op.getInputs()) {
    const Array& part = machine.array(input);
    assign(viewOf(result, offsets, part.shape, ones), part);
    offsets[op.getDim()] += part.shape[op.getDim()];
  }
  machine.set(op.getResult(), std::move(result));
  return absl::OkStatus();
}

/// Calls fn(point of the packed tensor, point of the plain one).
template <typename Op, typename Fn>
void eachPacked(Op op, const Extents& packed, int64_t rank, Fn fn) {
  llvm::SmallVector<int64_t> outer(op.getOuterDimsPerm());
  // An empty permutation is the identity.
  for (int64_t d = static_cast<int64_t>(outer.size()); d < rank; ++d) outer.push_back(d);
  Extents at(packed.size(), 0), plain(rank);
  if (llvm::is_contained(packed, 0)) return;
  while (true) {
    for (int64_t d = 0; d < rank; ++d) plain[outer[d]] = at[d];
    for (auto [i, dim] : llvm::enumerate(op.getInnerDimsPos())) {
      plain[dim] = plain[dim] * packed[rank + static_cast<int64_t>(i)] + at[rank + static_cast<int64_t>(i)];
    }
    fn(at, plain);
    int64_t d = static_cast<int64_t>(packed.size()) - 1;
    for (; d >= 0 && ++at[d] == packed[d]; --d) at[d] = 0;
    if (d < 0) return;
  }
}

int64_t positionOf(const Array& array, const Extents& at) {
  int64_t position = array.offset;
  for (size_t d = 0; d < at.size(); ++d) {
    if (at[d] >= array.shape[d]) return -1;
    position += at[d] * array.strides[d];
  }
  return position;
}

absl::Status pack(Machine& machine, linalg::PackOp op) {
  const Array& source = machine.array(op.getSource());
  Array result = makeArray(llvm::cast<mlir::ShapedType>(op.getDestType()), true);
  eachPacked(op, result.shape, source.rank(), [&](const Extents& packed, const Extents& plain) {
    const int64_t from = positionOf(source, plain), to = positionOf(result, packed);
    // A position outside of the source is padding.
    if (from >= 0) {
      result.set(to, source.at(from));
    } else if (op.getPaddingValue()) {
      result.set(to, machine.scalar(op.getPaddingValue()));
    }
  });
  machine.set(op->getResult(0), std::move(result));
  return absl::OkStatus();
}

absl::Status unpack(Machine& machine, linalg::UnPackOp op) {
  const Array& source = machine.array(op.getSource());
  Array result = makeArray(llvm::cast<mlir::ShapedType>(op.getDestType()), true);
  eachPacked(op, source.shape, result.rank(), [&](const Extents& packed, const Extents& plain) {
    const int64_t to = positionOf(result, plain);
    if (to >= 0) result.set(to, source.at(positionOf(source, packed)));
  });
  machine.set(op->getResult(0), std::move(result));
  return absl::OkStatus();
}

/// Position of one element to read or write. An index that depends on rounding makes the value read, or all elements
/// written, unsure.
absl::StatusOr<int64_t> elementAt(Machine& machine, const Array& array, mlir::ValueRange indices, bool& sure) {
  int64_t position = array.offset;
  for (auto [d, value] : llvm::enumerate(indices)) {
    const Scalar index = machine.scalar(value);
    if (index.integer < 0 || index.integer >= array.shape[d]) {
      return absl::OutOfRangeError(
          absl::StrCat("index ", index.integer, " of dimension ", d, " with ", array.shape[d], " elements"));
    }
    sure &= index.error == 0;
    position += index.integer * array.strides[d];
  }
  return position;
}

absl::Status extract(Machine& machine, tensor::ExtractOp op) {
  bool sure = true;
  const Array& source = machine.array(op.getTensor());
  TESSERA_ASSIGN_OR_RETURN(int64_t position, elementAt(machine, source, op.getIndices(), sure));
  Scalar value = source.at(position);
  if (!sure) value.error = kUnknownError;
  machine.set(op.getResult(), value);
  return absl::OkStatus();
}

absl::Status insert(Machine& machine, tensor::InsertOp op) {
  bool sure = true;
  TESSERA_ASSIGN_OR_RETURN(int64_t position, elementAt(machine, machine.array(op.getDest()), op.getIndices(), sure));
  Array result = ownedDense(machine.take(op.getDest(), op));
  result.set(position, machine.scalar(op.getScalar()));
  if (!sure) std::fill(result.storage->error.begin(), result.storage->error.end(), kUnknownError);
  machine.set(op.getResult(), std::move(result));
  return absl::OkStatus();
}

absl::Status fromElements(Machine& machine, tensor::FromElementsOp op) {
  Array result = makeArray(typeOf(op.getResult()));
  for (auto [i, value] : llvm::enumerate(op.getElements())) result.set(static_cast<int64_t>(i), machine.scalar(value));
  machine.set(op.getResult(), std::move(result));
  return absl::OkStatus();
}

absl::Status splat(Machine& machine, tensor::SplatOp op) {
  Array result = makeArray(typeOf(op.getResult()));
  const Scalar value = machine.scalar(op.getInput());
  forEachPosition(result, [&](int64_t position) { result.set(position, value); });
  machine.set(op.getResult(), std::move(result));
  return absl::OkStatus();
}

absl::Status reshape(Machine& machine, mlir::Value source, mlir::Value result) {
  machine.set(result, reshaped(machine.array(source), typeOf(result).getShape()));
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<bool> runTensorOp(Machine& machine, mlir::Operation* op) {
  using Result = std::optional<absl::Status>;
  const Result status =
      llvm::TypeSwitch<mlir::Operation*, Result>(op)
          .Case<mlir::arith::ConstantOp>([&](auto each) { return runConstant(machine, each); })
          // An element that was never written is unknown.
          .Case<tensor::EmptyOp>([&](auto each) {
            machine.set(each.getResult(), makeArray(each.getType(), true));
            return absl::OkStatus();
          })
          .Case<tensor::ExtractSliceOp>([&](auto each) { return extractSlice(machine, each); })
          .Case<tensor::InsertSliceOp>([&](auto each) { return insertSlice(machine, each); })
          .Case<tensor::PadOp>([&](auto each) { return pad(machine, each); })
          .Case<tensor::ConcatOp>([&](auto each) { return concat(machine, each); })
          .Case<tensor::ExpandShapeOp, tensor::CollapseShapeOp>(
              [&](auto each) { return reshape(machine, each.getSrc(), each.getResult()); })
          .Case<tensor::CastOp>([&](auto each) { return reshape(machine, each.getSource(), each.getResult()); })
          .Case<tensor::ReshapeOp>([&](auto each) { return reshape(machine, each.getSource(), each.getResult()); })
          .Case<linalg::PackOp>([&](auto each) { return pack(machine, each); })
          .Case<linalg::UnPackOp>([&](auto each) { return unpack(machine, each); })
          .Case<tensor::ExtractOp>([&](auto each) { return extract(machine, each); })
          .Case<tensor::InsertOp>([&](auto each) { return insert(machine, each); })
          .Case<tensor::FromElementsOp>([&](auto each) { return fromElements(machine, each); })
          .Case<tensor::SplatOp>([&](auto each) { return splat(machine, each); })
          .Case<tensor::DimOp>([&](tensor::DimOp each) {
            const int64_t dim = machine.scalar(each.getIndex()).integer;
            machine.set(each.getResult(), Scalar{0, machine.array(each.getSource()).shape[dim], 0});
            return absl::OkStatus();
          })
          .Default([](mlir::Operation*) { return std::nullopt; });
  if (!status) return false;
  if (!status->ok()) return *status;
  return true;
}

}  // namespace tessera::compiler::interpreter
