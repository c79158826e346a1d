#pragma once

#include <cstddef>

#include "absl/types/span.h"

namespace tessera {

/// Of several times the middle one, of an even count the upper of two; 0 of none.
double medianOf(absl::Span<const double> values);

/// Median of the distances from the median, as a share of it; 0 where that is none.
double spreadOf(absl::Span<const double> values);

/// The standard error of the median of so many values, one at least, of which this is the median absolute deviation, as
/// a figure or as a share: of normal ones 1.4826 of it estimates the deviation, 1.2533 / sqrt(count) of that is the
/// median's error.
double errorOfMedian(double deviation, size_t count);

}  // namespace tessera
