#pragma once

#include <string_view>

#include "absl/status/status.h"

namespace tessera::compiler {

/// Walks a serialized onnx.ModelProto without building anything: checks that every length fits its message,
/// and that nesting and counts stay within limits.h, so that parsing afterwards takes bounded memory and
/// stack. Iterative and linear in the file's size. Errors name the byte offset and the field.
absl::Status scanModel(std::string_view bytes);

}  // namespace tessera::compiler
