#include "compiler/driver/model_format.h"

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <system_error>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "proto/messages/failure.h"
#include "proto/support/sha256.h"

namespace tessera::compiler {

v1::ModelFormat formatOf(std::string_view first_bytes) {
  const size_t start = first_bytes.find_first_not_of(" \t\r\n");
  // An ONNX file may consist of anything; protobuf has no signature, so it is what no other format claims.
  if (start == first_bytes.npos) return v1::ONNX;
  const std::string_view text = first_bytes.substr(start);
  // The first words of a module that MLIR prints: aliases, a comment, or an operation.
  for (std::string_view opening : {"#", "//", "module", "builtin.module", "func.func"}) {
    if (text.starts_with(opening)) return v1::MLIR_TEXT;
  }
  for (std::string_view opening : {"input ", "param "}) {
    if (text.starts_with(opening)) return v1::TENSOR_EXPRESSION;
  }
  return v1::ONNX;
}

absl::StatusOr<FileIdentity> identifyModel(const std::string& path) {
  constexpr size_t kFirstBytes = 64, kChunk = size_t{1} << 20;
  std::ifstream file(path, std::ios::binary);
  Sha256 hash;
  std::error_code unknown;
  const uintmax_t size = std::filesystem::file_size(path, unknown);
  // At most the file's size: in a new process, each page of the buffer costs a page fault.
  std::vector<char> chunk(unknown ? kChunk : static_cast<size_t>(std::clamp<uintmax_t>(size, kFirstBytes, kChunk)));
  FileIdentity identity;
  while (file.read(chunk.data(), std::ssize(chunk)), file.gcount() > 0) {
    const auto count = static_cast<size_t>(file.gcount());
    if (identity.first_bytes.empty()) identity.first_bytes.assign(chunk.data(), std::min(count, kFirstBytes));
    hash.update({chunk.data(), count});
  }
  if (identity.first_bytes.empty()) {
    return failureStatus(v1::Failure::INVALID_MODEL, "the model file is empty or unreadable");
  }
  identity.sha256 = hash.finish();
  return identity;
}

}  // namespace tessera::compiler
