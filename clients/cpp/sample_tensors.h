#pragma once

#include <cstdint>
#include <string>

#include "tessera/v1/tensor.pb.h"

namespace tessera::client {

/// Dense values for a tensor, from a seed: floating-point ones uniform in [-1, 1), all others 0 or 1, which are
/// positions, lengths and truth values wherever a model reads such.
std::string sampleTensor(const v1::TensorSpec& spec, uint64_t seed);

/// Why `found` is not what `wanted` is, both of `spec`: floating-point values further apart than `tolerance` times the
/// largest finite magnitude wanted, NaN or infinity elsewhere; any difference of other types. Empty: it is.
std::string differenceOf(const v1::TensorSpec& spec, const std::string& wanted, const std::string& found,
                         double tolerance);

}  // namespace tessera::client
