#pragma once

#include <string>
#include <string_view>

#include "tessera/v1/tensor.pb.h"

namespace tessera::worker {

struct ResultCheck {
  std::string difference;  ///< how the two differ; empty: they do not, within the tolerance
  bool finite = true;      ///< of the reference: there is no NaN and no infinity
};

/// Holds a tensor against a reference of the same type and shape. Floats may be off by `tolerance` of the reference's
/// largest magnitude (0: 1e-4, of halves 2e-2), and are NaN or infinite where the reference is; all others are equal.
ResultCheck checkResult(const v1::TensorSpec& spec, std::string_view found, std::string_view reference,
                        double tolerance);

}  // namespace tessera::worker
