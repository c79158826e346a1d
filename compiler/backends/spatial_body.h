#pragma once

#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "compiler/backends/spatial_access.h"
#include "llvm/ADT/DenseMap.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "tessera/v1/spatial.pb.h"

namespace tessera::compiler::spatial {

/// The buffers of a kernel, and when each was written last, in operations of the workload.
struct Buffers {
  llvm::DenseMap<mlir::Value, int> number;      ///< by root of a view
  llvm::DenseMap<mlir::Operation*, int> place;  ///< of the workload's own operations, in program order
  std::map<int, int> written;                   ///< buffer -> place of the latest operation that wrote it
};

/// UNSUPPORTED_OPERATOR naming the operation: a SpatialKernel cannot express it.
absl::Status inexpressible(mlir::Operation* op, const std::string& why);

/// Writes the body of one nest. A value is written when something asks for it, with all that it depends on; operations
/// outside of the nest that compute scalars become part of the body.
class BodyWriter {
 public:
  /// All accesses of `nest` are known. loops[d] is the extent of loop d.
  BodyWriter(v1::SpatialKernel::Nest& nest, const Buffers& buffers) : nest_(nest), buffers_(buffers) {}

  /// `value` is the element at access `access`.
  void bind(mlir::Value value, int access) { known_[value] = access; }
  /// `value` is another value of the workload.
  void bind(mlir::Value value, mlir::Value other) { same_[value] = other; }

  /// `value` is the number of the current iteration of a loop, times `step`, plus `first`.
  void bindLoop(mlir::Value value, int64_t loop, int64_t first, int64_t step);

  /// The number of a value in the body. Errors: inexpressible().
  absl::StatusOr<int> valueOf(mlir::Value value);
  /// The number of an operand's element whose subscripts no access can state: a load at computed subscripts.
  absl::StatusOr<int> elementAt(const View& view, mlir::AffineMap map);
  /// Whether `value` is the number of the current iteration of each of these loops, as one bit.
  int isPlace(const std::vector<std::pair<int, int64_t>>& value_and_loop);
  /// `chosen` where `condition` holds, otherwise `other`.
  int select(int condition, int chosen, int other, v1::DataType dtype);

 private:
  absl::StatusOr<int> write(mlir::Operation* op);
  absl::StatusOr<int> writeConversion(mlir::Operation* op, bool is_signed);
  absl::StatusOr<int> writeLoad(mlir::Operation* op, mlir::Value memref, mlir::ValueRange indices);
  absl::StatusOr<int> writeExpression(mlir::AffineExpr expression);
  absl::StatusOr<int> writeConstant(mlir::Operation* op, mlir::Attribute value);
  int writeIndex(int64_t loop);
  int writeNumber(int64_t number);
  int combine(const char* name, int left, int right, v1::DataType dtype = v1::DATA_TYPE_I64);
  int load(const View& view, int buffer, const std::vector<int>& indices, v1::DataType dtype);
  int add(v1::SpatialKernel::Operation operation);

  v1::SpatialKernel::Nest& nest_;
  const Buffers& buffers_;
  llvm::DenseMap<mlir::Value, int> known_;
  llvm::DenseMap<mlir::Value, mlir::Value> same_;
  std::map<int64_t, int> indices_, numbers_;
};

}  // namespace tessera::compiler::spatial
