#pragma once

#include <cstdint>
#include <string>

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "tessera/v1/plan.pb.h"

namespace tessera::compiler {

struct WorkloadFacts {
  std::string summary;  ///< for people: "conv2d 3x3 s1 64->64 56x56 + add + relu"
  v1::WorkloadShape shape;
  int64_t slice_rows = 0;  ///< rows of the first result that run through all stages together; 0: all
  std::string algorithm;   ///< of a convolution, as in Schedule.algorithm; empty: none
  int64_t flops = 0;       ///< arithmetic operations; multiply and add count as two
  int64_t bytes = 0;       ///< arguments and results, each counted once
};

/// Returns the arithmetic operations of `op` over all its points; a multiply-add counts as two.
int64_t flopsOf(mlir::linalg::LinalgOp op);

/// Describes operations and their element types in words: "conv2d 3x3 s1 64->64 56x56 + add, f32". Equal operations
/// have equal texts.
std::string operationsText(llvm::ArrayRef<mlir::Operation*> operations);

/// Describes a convolution in words: "conv2d 3x3 s1 64->64 56x56".
std::string convolutionText(mlir::linalg::LinalgOp op);

/// Describes a workload's function by its access functions. Call before canonicalizeWorkload, which removes the
/// attributes of rewritten convolutions.
WorkloadFacts describeWorkload(mlir::func::FuncOp function);

}  // namespace tessera::compiler
