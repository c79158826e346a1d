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

}  // namespace tessera::compiler
