#pragma once

#include "compiler/import/emitter.h"
#include "compiler/import/ops/resize_taps.h"

namespace tessera::compiler {

/// A dimension whose length, or whose length resized, is known at run time.
struct LiveDimension {
  Tensor input, output;  ///< numbers of elements, i64 of rank 0
  double scale = 0;      ///< 0: of both lengths
};

/// Whether applyLive() has the mode.
bool isLiveMode(const ResizeMode& mode);

/// Resizes along a dimension of lengths known at run time to at most `outputs` elements: nearest, or between two.
Tensor applyLive(Emitter& e, const Tensor& x, int64_t axis, int64_t outputs, const ResizeMode& mode,
                 const LiveDimension& live);

/// Crops a dimension from where element `start` of `region` says to where element `end` does, in parts of its length,
/// and resizes that to `outputs` elements: nearest, or between two. Beyond the input the result is
/// `mode.extrapolation`.
Tensor applyRegion(Emitter& e, const Tensor& x, int64_t axis, int64_t outputs, const ResizeMode& mode,
                   const Tensor& region, int64_t start, int64_t end);

}  // namespace tessera::compiler
