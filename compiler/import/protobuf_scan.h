#pragma once

#include <string_view>

#include "absl/status/status.h"

namespace tessera::compiler {

/// Scans a serialized onnx.ModelProto without allocating: checks that every length fits its message, and that nesting
/// and counts are within limits.h, so that parsing takes bounded memory and stack. Iterative and linear in the file's
/// size. Errors name the byte offset and the field.
absl::Status scanModel(std::string_view bytes);

}  // namespace tessera::compiler
