#include "compiler/model_format.h"

#include <openssl/evp.h>

#include <fstream>
#include <memory>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "proto/failure.h"

namespace tessera::compiler {

v1::ModelFormat formatOf(std::string_view first_bytes) {
  const size_t start = first_bytes.find_first_not_of(" \t\r\n");
  if (start == first_bytes.npos) return v1::ONNX;
  const std::string_view text = first_bytes.substr(start);
  // What MLIR's printer begins a module with: aliases, a comment, or the operation.
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
  const std::unique_ptr<EVP_MD_CTX, decltype(&EVP_MD_CTX_free)> context(EVP_MD_CTX_new(), &EVP_MD_CTX_free);
  EVP_DigestInit_ex(context.get(), EVP_sha256(), nullptr);
  std::vector<char> chunk(kChunk);
  FileIdentity identity;
  while (file.read(chunk.data(), kChunk), file.gcount() > 0) {
    const auto count = static_cast<size_t>(file.gcount());
    if (identity.first_bytes.empty()) identity.first_bytes.assign(chunk.data(), std::min(count, kFirstBytes));
    EVP_DigestUpdate(context.get(), chunk.data(), count);
  }
  if (identity.first_bytes.empty()) {
    return failureStatus(v1::Failure::INVALID_MODEL, "the model file is empty or unreadable");
  }
  char digest[EVP_MAX_MD_SIZE];
  unsigned size = 0;
  EVP_DigestFinal_ex(context.get(), reinterpret_cast<unsigned char*>(digest), &size);
  identity.sha256 = absl::BytesToHexString({digest, size});
  return identity;
}

}  // namespace tessera::compiler
