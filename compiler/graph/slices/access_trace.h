#pragma once

#include <span>
#include <vector>

#include "absl/status/statusor.h"
#include "compiler/graph/slices/loop_space.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/SmallPtrSet.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"

namespace tessera::compiler {

/// Expresses what every operation of a few groups accesses as a function of the loops of their single result: backward
/// shape inference that keeps the access functions. A window becomes a term with the stride; a dimension merged by a
/// view becomes two loops; a padding shifts the position of a slice and adds no term.
class AccessTrace {
 public:
  /// Traces `ops`, in program order with the result's last. INVALID_ARGUMENT, with the obstacle, for a gather, an
  /// operation with several results, a second result of the group, or a value whose reads no slice of bounded size
  /// covers.
  static absl::StatusOr<AccessTrace> of(std::vector<mlir::Operation*> ops);

  struct Read {
    mlir::Value value;
    int held = -1;
    mlir::Operation* reader = nullptr;
  };
  /// A dimension of the result that can be cut into slices: each slice of the result needs only a slice of every other
  /// operation, with overlaps for windows. Two kinds of loops cannot be cut:
  /// - a loop that only the last operation has, because the other operations would run again in every slice;
  /// - a reduction loop, because a result needs all of its iterations.
  struct Cut {
    int dimension = 0;
    int loop = 0;
    int64_t stride = 1;  ///< elements of the dimension per iteration of the loop
  };

  const std::vector<mlir::Operation*>& ops() const { return ops_; }
  const LoopSpace& space() const { return space_; }
  bool made(mlir::Value value) const { return needed_.contains(value); }
  const Subscripts& needed(mlir::Value value) const { return space_.at(needed_.lookup(value)); }
  const Subscripts& iterations(mlir::Operation* op) const { return space_.at(iterations_.lookup(op)); }
  const std::vector<Read>& reads() const { return reads_; }  ///< of values from outside
  const std::vector<Cut>& cuts() const { return cuts_; }     ///< outermost first

 private:
  absl::Status visit(mlir::Operation* op);
  void keepWindowsWhole(mlir::linalg::LinalgOp op, mlir::AffineExpr expression, int iteration);
  absl::Status visitLinalg(mlir::linalg::LinalgOp op, int written);
  absl::Status visitCollapse(mlir::tensor::CollapseShapeOp op, int written);
  absl::Status visitExpand(mlir::tensor::ExpandShapeOp op, int written);
  absl::Status need(mlir::Value value, Subscripts subscripts, mlir::Operation* reader);
  void findCuts();

  std::vector<mlir::Operation*> ops_;
  llvm::SmallPtrSet<mlir::Operation*, 32> inside_;
  LoopSpace space_;
  llvm::DenseMap<mlir::Value, int> needed_;           // values defined inside -> the part of them that is held
  llvm::DenseMap<mlir::Operation*, int> iterations_;  // operations -> a subscript for each of their loops
  std::vector<Read> reads_;
  std::vector<Cut> cuts_;
};

/// Returns `ops` with the views between them, in program order.
std::vector<mlir::Operation*> inProgramOrder(std::vector<mlir::Operation*> ops);

/// Returns the vector arithmetic of an operation, in multiply-adds (two operations each). A mathematical function
/// counts as a polynomial of about 20 instructions (compiler/backends/cpu/math_expansion).
double vectorWork(mlir::linalg::LinalgOp op);

}  // namespace tessera::compiler
