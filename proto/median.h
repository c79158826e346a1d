#pragma once

#include "absl/types/span.h"

namespace tessera {

/// Of several times the middle one, of an even count the upper of two; 0 of none.
double medianOf(absl::Span<const double> values);

/// Median of the distances from the median, as a share of it; 0 where that is none.
double spreadOf(absl::Span<const double> values);

}  // namespace tessera
