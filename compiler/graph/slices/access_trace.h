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

/// What every operation of a few groups accesses, as a function of the loops of their one result: backward shape
/// inference with the access functions kept. Windows become terms with the stride, what a view merges becomes two
/// loops, paddings move a slice and leave no trace.
class AccessTrace {
 public:
  /// `ops` in program order, the result's last; INVALID_ARGUMENT, with what stands in the way, for a gather, an
  /// operation of several results, a second result, or a value that is read in ways no slice of bounded size serves.
  static absl::StatusOr<AccessTrace> of(std::vector<mlir::Operation*> ops);

  struct Read {
    mlir::Value value;
    int held = -1;
    mlir::Operation* reader = nullptr;
  };
  /// A dimension of the result that can be cut: slices of it ask every operation for a slice, overlaps (windows)
  /// included. A loop of the last operation alone would run the others again for each slice; a reduced one needs all.
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
  const std::vector<Read>& reads() const { return reads_; }  ///< of what comes from outside
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
  llvm::DenseMap<mlir::Value, int> needed_;           // values made inside -> what is held of them
  llvm::DenseMap<mlir::Operation*, int> iterations_;  // operations -> subscript per loop of theirs
  std::vector<Read> reads_;
  std::vector<Cut> cuts_;
};

/// Operations of all `groups` and the views between them, in program order.
std::vector<mlir::Operation*> inProgramOrder(std::vector<mlir::Operation*> ops);

/// Arithmetic of the vector unit, in the unit of multiply-adds (two each): a mathematical function is a polynomial of
/// about 20 instructions (compiler/codegen/math_expansion).
double vectorWork(mlir::linalg::LinalgOp op);

}  // namespace tessera::compiler
