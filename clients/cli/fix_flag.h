#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "tessera/v1/tensor.pb.h"

namespace tessera::client {

/// Parses the value of `--fix`, an input and the value to compile for:
///
///     shape=2,3            integers are int64; numbers with a point or an exponent are float32; true,false are bool
///     axis=int32:1         an explicit element type, by NumPy's name
///     starts=@starts.npy   a file, with its own type and shape
///
/// Values in the text form a vector (empty: no element). The compiler accepts a single value for a scalar if the model
/// needs a scalar. INVALID_ARGUMENT states the fault.
absl::StatusOr<v1::TensorValue> parseFix(const std::string& text);

}  // namespace tessera::client
