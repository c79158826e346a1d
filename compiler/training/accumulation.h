#pragma once

#include "absl/status/statusor.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"

namespace tessera::compiler::training {

/// How a structured operation combines the values of its iterations.
struct Accumulation {
  enum class Kind { kNone, kSum, kProduct, kMax, kMin };
  Kind kind = Kind::kNone;
  mlir::Value value;  ///< of the body, of one iteration
};

/// Fails with UNSUPPORTED_OPERATOR for another body.
absl::StatusOr<Accumulation> accumulationOf(mlir::linalg::GenericOp op);

}  // namespace tessera::compiler::training
