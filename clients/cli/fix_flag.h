#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "tessera/v1/tensor.pb.h"

namespace tessera::client {

/// What `--fix` says, an input and the value it is compiled for:
///
///     shape=2,3            a list of integers is int64, one with a point or an exponent float32, true,false bool
///     axis=int32:1         another element type, by numpy's name
///     starts=@starts.npy   a file, with its own type and shape
///
/// Values written out have one dimension (none: no element); the compiler takes a single one for a scalar where
/// the model wants a scalar. INVALID_ARGUMENT says what is wrong.
absl::StatusOr<v1::TensorValue> parseFix(const std::string& text);

}  // namespace tessera::client
