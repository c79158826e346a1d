#include "compiler/import/ops/scalar_functions.h"

#include "mlir/Dialect/Math/IR/Math.h"

namespace tessera::compiler {

mlir::Value atLeast(const Scalars& s, mlir::Value x, mlir::Value bound) {
  return s.select(s.compare(Relation::kLess, x, bound), bound, x);
}

mlir::Value atMost(const Scalars& s, mlir::Value x, mlir::Value bound) {
  return s.select(s.compare(Relation::kGreater, x, bound), bound, x);
}

mlir::Value logistic(const Scalars& s, mlir::Value x) {
  const mlir::Value one = s.constant(1);
  return s.div(one, s.add(one, s.math<mlir::math::ExpOp>(s.neg(x))));
}

}  // namespace tessera::compiler
