#pragma once

#include "compiler/import/node.h"
#include "compiler/import/operator.h"
#include "mlir/Dialect/Arith/IR/Arith.h"

namespace tessera::compiler {

enum class Reduction { kSum, kMean, kMax, kMin, kProd, kL1, kL2, kSumSquare, kMeanSquare, kLogSum, kLogSumExp };

/// Reduces over `axes`, which keep size 1, up to their extents.
Tensor reduceBounded(Emitter& e, Tensor x, const std::vector<int64_t>& axes, Reduction reduction);

/// Reduces over `dims`, which keep size 1.
Tensor reduceKeepingDims(Emitter& e, const Tensor& x, const std::vector<int64_t>& dims, Reduction reduction);

struct Moments {
  Tensor mean, variance;  ///< reduced dimensions of size 1
  Tensor centered;        ///< x - mean
};

Moments moments(Emitter& e, const Tensor& x, const std::vector<int64_t>& dims);

/// Returns 1 / sqrt(variance + epsilon).
Tensor inverseDeviation(Emitter& e, const Tensor& variance, double epsilon);

/// Returns the index (i64) of the maximum or minimum along `axis`, which is removed; the first or last among equals.
Tensor argMax(Emitter& e, const Tensor& x, int64_t axis, bool maximum, bool last);

/// Returns x - log(sum(exp(x))) over `dims`, computed without overflow, in x's shape.
Tensor logSoftmax(Emitter& e, const Tensor& x, const std::vector<int64_t>& dims);

}  // namespace tessera::compiler
