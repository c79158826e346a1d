#pragma once

#include "compiler/import/emitter.h"
#include "compiler/import/ops/fourier_plan.h"

namespace tessera::compiler {

/// The transform of each row of x (rows x t.given x t.parts): rows x t.bins x t.bin_parts.
Tensor fourierTransform(Emitter& e, const Tensor& x, const Transform& t);

/// Elements of the largest value that fourierTransform() computes for one row.
int64_t largestRow(const Transform& t);

/// The bins of one side of the spectrum of a real signal of `length` samples (x: ... x bins x 2), with a factor of 2
/// where the conjugate of a bin is a bin of the other side: all but the first and, for an even length, the last. The
/// signal is the real part of the inverse transform of these, with zeros for the other side.
Tensor weightedOneSide(Emitter& e, const Tensor& x, int64_t length);

}  // namespace tessera::compiler
