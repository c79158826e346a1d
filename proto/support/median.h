#pragma once

#include <cstddef>

#include "absl/types/span.h"

namespace tessera {

/// Median; of an even count, the upper of the two middle values. 0 if empty.
double medianOf(absl::Span<const double> values);

/// Relative median absolute deviation (over the median); 0 if the median is 0.
double relativeMad(absl::Span<const double> values);

/// Standard error of the median of `count` >= 1 values with the given median absolute deviation (absolute or relative).
/// For normally distributed values, 1.4826 * MAD estimates the standard deviation s, and the error of the median is
/// 1.2533 * s / sqrt(count).
double medianStandardError(double deviation, size_t count);

}  // namespace tessera
