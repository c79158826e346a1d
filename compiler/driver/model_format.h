#pragma once

#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "tessera/v1/job.pb.h"

namespace tessera::compiler {

/// Guesses the format from a model's first bytes. ONNX has no signature: everything that is not text counts as ONNX,
/// and the ONNX parser reports its faults.
v1::ModelFormat formatOf(std::string_view first_bytes);

/// SHA-256 of a file (64 lower-case hexadecimal digits) and its first bytes, at most 64.
struct FileIdentity {
  std::string sha256;
  std::string first_bytes;
};
/// Fails with INVALID_MODEL when the file cannot be read or is empty.
absl::StatusOr<FileIdentity> identifyModel(const std::string& path);

}  // namespace tessera::compiler
