#pragma once

#include "compiler/import/emitter.h"
#include "compiler/import/ops/fourier_plan.h"

namespace tessera::compiler {

/// Transforms each row of x (rows x t.given x t.parts) to rows x t.bins x t.bin_parts.
Tensor fourierTransform(Emitter& e, const Tensor& x, const Transform& t);

/// Returns the elements per row of the largest value that fourierTransform() computes.
int64_t largestRow(const Transform& t);

/// Returns the bins of one side of the spectrum of a real signal of `length` samples (x: ... x bins x 2), doubled where
/// the other side has the conjugate bin: all but the first and, for an even length, the last. The signal is the real
/// part of the inverse transform of these bins, with zeros on the other side.
Tensor weightedOneSide(Emitter& e, const Tensor& x, int64_t length);

}  // namespace tessera::compiler
