#pragma once

#include <string_view>

namespace tessera::compiler {

/// A file that people take for a model, by its first bytes.
struct ForeignFile {
  std::string_view kind;  ///< "a gzip archive"
  std::string_view fix;   ///< how a model comes of it
};

/// What a file is that is no ONNX model; null: nothing that is known by its first bytes. Some of these bytes could
/// begin a model as well, so that this is to be asked of what could not be read as one.
const ForeignFile* foreignFile(std::string_view bytes);

}  // namespace tessera::compiler
