// Operations on buffers, in the forms that bufferization produces.
#include "absl/strings/str_cat.h"
#include "compiler/interpreter/machine.h"
#include "llvm/ADT/TypeSwitch.h"
#include "mlir/Dialect/Affine/IR/AffineOps.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "proto/support/status_macros.h"

namespace tessera::compiler::interpreter {
namespace {

namespace memref = mlir::memref;

/// The same elements in another shape, with the strides of the result's type.
absl::Status reinterpret(Machine& machine, mlir::Value source, mlir::Value result) {
  auto type = llvm::cast<mlir::MemRefType>(result.getType());
  const auto [strides, offset] = type.getStridesAndOffset();
  if (llvm::is_contained(strides, mlir::ShapedType::kDynamic)) {
    return absl::UnimplementedError("a buffer with strides that are not known");
  }
  Array view = machine.array(source);
  view.shape.assign(type.getShape().begin(), type.getShape().end());
  view.strides.assign(strides.begin(), strides.end());
  machine.set(result, std::move(view));
  return absl::OkStatus();
}

absl::Status subview(Machine& machine, memref::SubViewOp op) {
  const Array& source = machine.array(op.getSource());
  const Extents offsets = machine.indices(op.getMixedOffsets()), sizes = machine.indices(op.getMixedSizes());
  const Extents strides = machine.indices(op.getMixedStrides());
  if (!contains(source, offsets, sizes, strides)) return absl::OutOfRangeError("a view reaches beyond its buffer");
  const Array whole = viewOf(source, offsets, sizes, strides);
  Array view{whole.storage, whole.offset, {}, {}};
  // Unit dimensions that the result's type omits.
  const llvm::SmallBitVector dropped = op.getDroppedDims();
  for (int64_t d = 0; d < whole.rank(); ++d) {
    if (dropped.test(static_cast<unsigned>(d))) continue;
    view.shape.push_back(whole.shape[d]);
    view.strides.push_back(whole.strides[d]);
  }
  machine.set(op.getResult(), std::move(view));
  return absl::OkStatus();
}

absl::StatusOr<int64_t> positionOf(Machine& machine, const Array& array, mlir::ValueRange indices, bool& sure) {
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

/// A constant that bufferization has moved out of the function.
absl::Status getGlobal(Machine& machine, memref::GetGlobalOp op) {
  auto global = mlir::SymbolTable::lookupNearestSymbolFrom<memref::GlobalOp>(op, op.getNameAttr());
  auto dense = global && global.getInitialValue() ? llvm::dyn_cast<mlir::DenseElementsAttr>(*global.getInitialValue())
                                                  : mlir::DenseElementsAttr();
  if (!dense) return absl::UnimplementedError("a global buffer that is no constant");
  machine.set(op.getResult(), constantArray(dense));
  return absl::OkStatus();
}

absl::Status load(Machine& machine, memref::LoadOp op) {
  bool sure = true;
  const Array& buffer = machine.array(op.getMemRef());
  TESSERA_ASSIGN_OR_RETURN(int64_t position, positionOf(machine, buffer, op.getIndices(), sure));
  Scalar value = buffer.at(position);
  if (!sure) value.error = kUnknownError;
  machine.set(op.getResult(), value);
  return absl::OkStatus();
}

absl::Status store(Machine& machine, memref::StoreOp op) {
  bool sure = true;
  Array buffer = machine.array(op.getMemRef());
  TESSERA_ASSIGN_OR_RETURN(int64_t position, positionOf(machine, buffer, op.getIndices(), sure));
  buffer.set(position, machine.scalar(op.getValueToStore()));
  // The store might have been to any element.
  if (!sure) forEachPosition(buffer, [&](int64_t each) { buffer.storage->error[each] = kUnknownError; });
  return absl::OkStatus();
}

absl::Status apply(Machine& machine, mlir::affine::AffineApplyOp op) {
  const mlir::AffineMap map = op.getAffineMap();
  Extents dims, symbols;
  for (auto [i, operand] : llvm::enumerate(op.getMapOperands())) {
    (i < map.getNumDims() ? dims : symbols).push_back(machine.scalar(operand).integer);
  }
  machine.set(op.getResult(), Scalar{0, evaluate(map.getResult(0), dims, symbols), 0});
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<bool> runBufferOp(Machine& machine, mlir::Operation* op) {
  using Result = std::optional<absl::Status>;
  const Result status = llvm::TypeSwitch<mlir::Operation*, Result>(op)
                            .Case<memref::AllocOp, memref::AllocaOp>([&](auto each) {
                              machine.set(each.getResult(), makeArray(each.getType(), true));
                              return absl::OkStatus();
                            })
                            .Case<memref::GetGlobalOp>([&](auto each) { return getGlobal(machine, each); })
                            .Case<memref::DeallocOp>([&](auto) { return absl::OkStatus(); })
                            .Case<memref::SubViewOp>([&](auto each) { return subview(machine, each); })
                            .Case<memref::ExpandShapeOp, memref::CollapseShapeOp>(
                                [&](auto each) { return reinterpret(machine, each.getSrc(), each.getResult()); })
                            .Case<memref::CastOp>([&](auto each) {
                              machine.set(each.getResult(), machine.array(each.getSource()));
                              return absl::OkStatus();
                            })
                            .Case<memref::CopyOp>([&](auto each) {
                              assign(machine.array(each.getTarget()), machine.array(each.getSource()));
                              return absl::OkStatus();
                            })
                            .Case<memref::LoadOp>([&](auto each) { return load(machine, each); })
                            .Case<memref::StoreOp>([&](auto each) { return store(machine, each); })
                            .Case<mlir::affine::AffineApplyOp>([&](auto each) { return apply(machine, each); })
                            .Default([](mlir::Operation*) { return std::nullopt; });
  if (!status) return false;
  if (!status->ok()) return *status;
  return true;
}

}  // namespace tessera::compiler::interpreter
