#pragma once

#include <string>
#include <string_view>

#include "tessera/v1/tensor.pb.h"

namespace tessera::worker {

struct ResultCheck {
  std::string difference;  ///< how the two differ; empty: equal within the tolerance
  bool finite = true;      ///< the reference contains no NaN or infinity
};

/// Compares a tensor with a reference of the same type and shape. Floating-point elements may differ by `tolerance`
/// times the reference's largest magnitude (0: 1e-4, for 16-bit floats 2e-2), and must be NaN or infinite exactly where
/// the reference is. Others must be equal.
ResultCheck checkResult(const v1::TensorSpec& spec, std::string_view found, std::string_view reference,
                        double tolerance);

}  // namespace tessera::worker
