#pragma once

#include <map>
#include <memory>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"

namespace onnx {
class ModelProto;
}

namespace tessera::compiler {

/// A file mapped read-only; unmapped with its last owner.
struct MappedFile {
  std::string_view bytes;
  std::shared_ptr<const void> owner;
};

/// Maps a regular file. `what` names it in errors ("the model", "the external data 'w.bin'").
absl::StatusOr<MappedFile> mapFile(const std::string& path, const std::string& what);

/// Parses an untrusted model file. Size, nesting and counts are checked first (limits.h). The tensors' bytes are part
/// of the message, so constants keep a reference to it.
absl::StatusOr<std::shared_ptr<const onnx::ModelProto>> parseModelFile(const std::string& path);

/// The external data files that a model may refer to by location, mapped at first use. Never opens a path from the
/// model.
class ExternalData {
 public:
  explicit ExternalData(std::map<std::string, std::string> files) : files_(std::move(files)) {}

  /// Returns the file for `location`; MISSING_BLOB naming `tensor` if the caller gave none.
  absl::StatusOr<MappedFile> find(const std::string& location, const std::string& tensor);

 private:
  std::map<std::string, std::string> files_;
  std::map<std::string, MappedFile> mapped_;
};

}  // namespace tessera::compiler
