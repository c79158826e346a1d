#pragma once

#include "compiler/import/emitter.h"
#include "compiler/import/ops/resize_taps.h"

namespace tessera::compiler {

/// A dimension whose length before or after a resize is known at run time.
struct DynamicDimension {
  Tensor input, output;  ///< numbers of elements, i64 of rank 0
  double scale = 0;      ///< 0: computed from both lengths
};

/// Whether resizeDynamic() supports the mode.
bool supportsDynamicResize(const ResizeMode& mode);

/// Resizes a dimension with run-time lengths to at most `outputs` elements: nearest, or linear.
Tensor resizeDynamic(Emitter& e, const Tensor& x, int64_t axis, int64_t outputs, const ResizeMode& mode,
                     const DynamicDimension& live);

/// Crops a dimension to the range from element `start` to element `end` of `region`, as fractions of its length, and
/// resizes that to `outputs` elements: nearest, or linear. Positions outside the input give `mode.extrapolation`.
Tensor cropAndResizeDynamic(Emitter& e, const Tensor& x, int64_t axis, int64_t outputs, const ResizeMode& mode,
                            const Tensor& region, int64_t start, int64_t end);

}  // namespace tessera::compiler
