#include "compiler/training/gradient_norm.h"

#include <numeric>

#include "mlir/Dialect/Math/IR/Math.h"

namespace tessera::compiler::training {

using mlir::ValueRange;

Tensor sumOfSquares(Emitter& e, const Tensor& x) {
  if (x.rank() == 0)
    return e.elementwise(x.dtype, {x}, [](const Scalars& s, ValueRange v) { return s.mul(v[0], v[0]); });
  std::vector<int64_t> dims(x.shape.size());
  std::iota(dims.begin(), dims.end(), 0);
  return e.reduce(x, dims, x.dtype, e.scalars(x.dtype).constant(0),
                  [](const Scalars& s, ValueRange v) { return s.fma(v[0], v[0], v[1]); });
}

std::vector<Tensor> limitNorm(Emitter& e, const std::vector<Tensor>& gradients, double limit) {
  Tensor total;
  for (const Tensor& gradient : gradients) {
    const Tensor part = e.cast(sumOfSquares(e, gradient), v1::DATA_TYPE_F32);
    total = !total.value ? part : e.elementwise(v1::DATA_TYPE_F32, {total, part}, [](const Scalars& s, ValueRange v) {
      return s.add(v[0], v[1]);
    });
  }
  const Tensor factor = e.elementwise(v1::DATA_TYPE_F32, {total}, [&](const Scalars& s, ValueRange v) {
    const mlir::Value norm = s.math<mlir::math::SqrtOp>(v[0]);
    return s.min(s.div(s.constant(limit), s.add(norm, s.constant(1e-6))), s.constant(1));
  });
  std::vector<Tensor> scaled;
  for (const Tensor& gradient : gradients)
    scaled.push_back(e.elementwise(gradient.dtype, {gradient, e.cast(factor, gradient.dtype)},
                                   [](const Scalars& s, ValueRange v) { return s.mul(v[0], v[1]); }));
  return scaled;
}

}  // namespace tessera::compiler::training
