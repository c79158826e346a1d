#pragma once

#include <cstdint>
#include <string>

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"

namespace tessera::compiler {

struct WorkloadFacts {
  std::string summary;     ///< for people: "conv2d 3x3 s1 64->64 56x56 + add + relu"
  int64_t slice_rows = 0;  ///< rows of the first result that run through all stages at once; 0: all
  std::string algorithm;   ///< of a convolution, as Schedule.algorithm has it; empty: there is none
  int64_t flops = 0;       ///< arithmetic operations; multiply and add count as two
  int64_t bytes = 0;       ///< arguments and results, each touched once
};

/// Arithmetic operations of one operation over all its points; multiply and add count as two.
int64_t flopsOf(mlir::linalg::LinalgOp op);

/// Operations in words, and the types of the elements that they work on: "conv2d 3x3 s1 64->64 56x56 + add, f32". Equal
/// operations, equal words.
std::string operationsText(llvm::ArrayRef<mlir::Operation*> operations);

/// A convolution in words: "conv2d 3x3 s1 64->64 56x56".
std::string convolutionText(mlir::linalg::LinalgOp op);

/// What a workload's function computes, read off its access functions. Call before canonicalizeWorkload, which removes
/// what says how a convolution was rewritten.
WorkloadFacts describeWorkload(mlir::func::FuncOp function);

}  // namespace tessera::compiler
