#pragma once

#include <string_view>

namespace tessera::compiler {

/// A kind of file that users mistake for a model, recognized by its first bytes.
struct NonModelFile {
  std::string_view kind;    ///< "a gzip archive"
  std::string_view remedy;  ///< how to obtain a model from it
};

/// Returns the kind of a file that is no ONNX model; null if its first bytes are unknown. Some of these bytes could
/// also begin a model, so call this only for a file that failed to parse.
const NonModelFile* recognizeNonModel(std::string_view bytes);

}  // namespace tessera::compiler
