#include "compiler/import/ops/coordinates.h"

#include "mlir/Dialect/Arith/IR/Arith.h"

namespace tessera::compiler {

using mlir::Value;
namespace arith = mlir::arith;

Value position(const Scalars& s, Value coordinate) {
  return arith::IndexCastOp::create(s.b, s.loc, s.b.getI64Type(), coordinate);
}

Value clampedCoordinate(const Scalars& s, Value position, int64_t dim) {
  const Scalars wide = s.as(v1::DATA_TYPE_I64);
  Value at = wide.min(wide.max(position, wide.integer(0)), wide.integer(dim - 1));
  return arith::IndexCastOp::create(s.b, s.loc, s.b.getIndexType(), at);
}

Value isInside(const Scalars& s, Value position, int64_t dim) {
  // Compares as unsigned: a negative position is then large.
  return s.as(v1::DATA_TYPE_U64).compare(Relation::kLess, position, s.as(v1::DATA_TYPE_I64).integer(dim));
}

}  // namespace tessera::compiler
