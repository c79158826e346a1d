#pragma once

#include "compiler/import/node.h"

namespace tessera::compiler {

/// Returns input `index`, a scale or zero point of x, in a shape that broadcasts against x: one element, one per slice
/// along `axis`, or a tensor of x's rank.
absl::StatusOr<Tensor> aligned(Node& n, Emitter& e, int index, const Tensor& x, int64_t axis);

/// Rounds x, of the floating-point type `s.type`, half to even, adds the zero point and saturates at the range of `to`.
mlir::Value quantize(const Scalars& s, mlir::Value x, mlir::Value zero_point, v1::DataType to);

struct ScaledU8 {
  Tensor y, scale, zero;
};

/// Quantizes x, an f32 of at least one element, to u8: scale = (max(x, 0) - min(x, 0)) / 255 and the zero point that
/// makes 0 exact.
ScaledU8 quantizeDynamically(Emitter& e, const Tensor& x);

}  // namespace tessera::compiler
