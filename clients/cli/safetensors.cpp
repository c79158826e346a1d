#include "clients/cli/safetensors.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <utility>

#include "absl/strings/str_cat.h"
#include "compiler/runtime/safetensors.h"
#include "proto/support/status_macros.h"

namespace tessera::client {
namespace {

constexpr int64_t kLengthBytes = 8;
constexpr int64_t kMaxHeader = 100'000'000;  // the format's own limit

absl::Status invalid(const std::string& path, const std::string& what) {
  return absl::InvalidArgumentError(absl::StrCat(path, ": ", what, "; accepted is a safetensors file"));
}

/// The header's text.
absl::StatusOr<std::string> headerOf(const std::string& path, int64_t size) {
  std::ifstream in(path, std::ios::binary);
  uint8_t length[kLengthBytes] = {};
  if (size < kLengthBytes || !in.read(reinterpret_cast<char*>(length), kLengthBytes))
    return invalid(path, "the file is too short");
  uint64_t bytes = 0;
  for (int i = kLengthBytes - 1; i >= 0; --i) bytes = bytes << 8 | length[i];
  if (bytes > static_cast<uint64_t>(std::min(kMaxHeader, size - kLengthBytes)))
    return invalid(path, absl::StrCat("a header of ", bytes, " bytes in a file of ", size));
  std::string text(bytes, '\0');
  if (!in.read(text.data(), static_cast<std::streamsize>(bytes))) return invalid(path, "the header cannot be read");
  return text;
}

}  // namespace

absl::StatusOr<StoredTensors> readSafetensors(const std::string& path) {
  std::error_code error;
  const auto size = static_cast<int64_t>(std::filesystem::file_size(path, error));
  if (error) return absl::InvalidArgumentError(absl::StrCat("cannot read ", path, ": ", error.message()));
  TESSERA_ASSIGN_OR_RETURN(const std::string text, headerOf(path, size));
  const int64_t data = kLengthBytes + static_cast<int64_t>(text.size());
  std::vector<compiler::SafetensorsPlace> places;
  if (const auto read = compiler::readSafetensorsHeader(text, static_cast<uint64_t>(size - data), &places); !read.ok())
    return invalid(path, read.message());
  StoredTensors tensors;
  for (compiler::SafetensorsPlace& place : places)
    tensors.emplace(std::move(place.name), StoredTensor{.dtype = static_cast<v1::DataType>(place.dtype),
                                                        .shape = std::move(place.shape),
                                                        .offset = data + static_cast<int64_t>(place.begin),
                                                        .bytes = static_cast<int64_t>(place.size_bytes)});
  return tensors;
}

}  // namespace tessera::client
