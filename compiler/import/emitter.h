#pragma once

#include <functional>
#include <map>
#include <vector>

#include "compiler/import/constant.h"
#include "compiler/import/scalars.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/IR/Builders.h"

namespace tessera::compiler {

/// A value of the graph: known at import (`constant`) or computed by the module (`value`), never both. An ONNX
/// sequence, whose length is always known at import, is the list of its tensors.
struct Tensor {
  v1::DataType dtype = v1::DATA_TYPE_UNSPECIFIED;
  Shape shape = {};
  mlir::Value value = {};
  ConstantPtr constant = {};
  std::shared_ptr<const std::vector<Tensor>> sequence = {};
  /// Extents of bounded dimensions, as tensor<i64>; `shape` has the upper bounds (bounded_dimensions.h).
  std::map<int64_t, mlir::Value> extents = {};
  bool unknown = false;  ///< its definition has a problem; only while a model is checked

  int64_t rank() const { return static_cast<int64_t>(shape.size()); }
  int64_t elements() const { return elementCount(shape); }
};

/// The access function of an operand of a structured operation: iteration point -> element.
struct Access {
  Tensor tensor;
  mlir::AffineMap map;
};

/// Emits linalg operations on tensors at one insertion point, with one location. All shapes are static. The methods
/// assume that the caller has checked shapes, axes and element types.
class Emitter {
 public:
  /// Turns a constant into a value of the module: an arith.constant, or a weight argument.
  using Materialize = std::function<mlir::Value(Emitter&, const ConstantPtr&)>;
  /// Emits the body of an elementwise operation. `s` computes in the type of the first operand.
  using Body = llvm::function_ref<mlir::Value(const Scalars& s, mlir::ValueRange operands)>;

  Emitter(mlir::OpBuilder builder, mlir::Location loc, Materialize materialize)
      : b(builder), loc(loc), materialize_(std::move(materialize)) {}

  mlir::RankedTensorType type(v1::DataType dtype, llvm::ArrayRef<int64_t> shape) const;
  Scalars scalars(v1::DataType dtype) { return Scalars(b, loc, dtype); }

  /// Returns the tensor as a value of the module.
  mlir::Value value(const Tensor& tensor);
  static Tensor wrap(mlir::Value value, v1::DataType dtype);
  static Tensor wrap(ConstantPtr constant);

  mlir::Value empty(v1::DataType dtype, llvm::ArrayRef<int64_t> shape);
  Tensor filled(mlir::Value scalar, v1::DataType dtype, llvm::ArrayRef<int64_t> shape);
  Tensor zeros(v1::DataType dtype, llvm::ArrayRef<int64_t> shape);

  /// Applies `body` to operands broadcast against each other (NumPy's rules, already checked). Operands with one known
  /// element become constants of the body.
  Tensor elementwise(v1::DataType result, llvm::ArrayRef<Tensor> operands, Body body);

  /// Emits a linalg.generic over `loops`. The last operand of the body is the accumulator if there is an `init`.
  Tensor generic(v1::DataType dtype, llvm::ArrayRef<int64_t> shape, llvm::ArrayRef<Access> inputs,
                 mlir::AffineMap result, llvm::ArrayRef<mlir::utils::IteratorType> loops, const Tensor* init,
                 Body body);

  /// Reduces over `dims`, which are removed from the shape. `combine` gets (element, accumulator).
  Tensor reduce(const Tensor& x, llvm::ArrayRef<int64_t> dims, v1::DataType result, mlir::Value init, Body combine);

  Tensor reshape(const Tensor& x, Shape shape);
  Tensor transpose(const Tensor& x, llvm::ArrayRef<int64_t> permutation);
  Tensor pad(const Tensor& x, llvm::ArrayRef<int64_t> low, llvm::ArrayRef<int64_t> high, mlir::Value with);
  /// Takes elements offset, offset + stride, ...; strides are at least 1.
  Tensor slice(const Tensor& x, llvm::ArrayRef<int64_t> offsets, llvm::ArrayRef<int64_t> sizes,
               llvm::ArrayRef<int64_t> strides);
  Tensor take(const Tensor& x, int64_t dim, int64_t index);  ///< row `index` of a dimension, which is removed
  Tensor concat(llvm::ArrayRef<Tensor> parts, int64_t axis);
  Tensor broadcast(const Tensor& x, const Shape& shape);
  Tensor cast(const Tensor& x, v1::DataType to);
  /// Computes each element from its coordinates (index values); `body` may read tensors by tensor.extract.
  Tensor generate(v1::DataType dtype, llvm::ArrayRef<int64_t> shape,
                  llvm::function_ref<mlir::Value(const Scalars& s, mlir::ValueRange coordinates)> body);
  /// Reads x at `indices` (index type) in a body of generate(). The caller keeps them in range.
  mlir::Value extract(const Scalars& s, mlir::Value x, mlir::ValueRange indices) const;

  mlir::OpBuilder b;
  mlir::Location loc;

 private:
  /// Returns the access function of x broadcast to `shape`.
  Access broadcastAccess(const Tensor& x, const Shape& shape);

  Materialize materialize_;
};

/// Returns NumPy's broadcast shape; nothing if two dimensions disagree.
std::optional<Shape> broadcastShape(const Shape& x, const Shape& y);

}  // namespace tessera::compiler
