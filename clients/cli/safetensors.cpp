#include "clients/cli/safetensors.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <string_view>
#include <utility>

#include "absl/strings/str_cat.h"
#include "compiler/runtime/safetensors_header.h"
#include "proto/messages/element_size.h"
#include "proto/support/status_macros.h"

namespace tessera::client {
namespace {

constexpr int64_t kLengthBytes = 8;
constexpr int64_t kMaxHeader = 100'000'000;  // the format's own limit

constexpr std::pair<std::string_view, v1::DataType> kTypes[] = {
    {"F64", v1::DATA_TYPE_F64},  {"F32", v1::DATA_TYPE_F32}, {"F16", v1::DATA_TYPE_F16}, {"BF16", v1::DATA_TYPE_BF16},
    {"I64", v1::DATA_TYPE_I64},  {"I32", v1::DATA_TYPE_I32}, {"I16", v1::DATA_TYPE_I16}, {"I8", v1::DATA_TYPE_I8},
    {"U64", v1::DATA_TYPE_U64},  {"U32", v1::DATA_TYPE_U32}, {"U16", v1::DATA_TYPE_U16}, {"U8", v1::DATA_TYPE_U8},
    {"BOOL", v1::DATA_TYPE_BOOL}};

absl::Status invalid(const std::string& path, const std::string& what) {
  return absl::InvalidArgumentError(absl::StrCat(path, ": ", what, "; accepted is a safetensors file"));
}

/// Checks one tensor's entry; `data` is the offset of the first tensor, `end` that of the end of the file.
absl::StatusOr<StoredTensor> tensorOf(const compiler::SafetensorsEntry& entry, int64_t data, int64_t end) {
  const auto* known = std::ranges::find(kTypes, entry.dtype, &std::pair<std::string_view, v1::DataType>::first);
  if (known == std::end(kTypes)) return absl::InvalidArgumentError(absl::StrCat("its type is '", entry.dtype, "'"));
  if (entry.begin > entry.end || entry.end > static_cast<uint64_t>(end - data))
    return absl::InvalidArgumentError("it lies outside the file");
  int64_t bytes = elementBytes(known->second);
  for (const int64_t extent : entry.shape)
    if (__builtin_mul_overflow(bytes, extent, &bytes)) return absl::InvalidArgumentError("its shape is too large");
  if (static_cast<uint64_t>(bytes) != entry.end - entry.begin)
    return absl::InvalidArgumentError(
        absl::StrCat("it has ", entry.end - entry.begin, " bytes, its type and shape need ", bytes));
  return StoredTensor{
      .dtype = known->second, .shape = entry.shape, .offset = data + static_cast<int64_t>(entry.begin), .bytes = bytes};
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
  std::vector<compiler::SafetensorsEntry> entries;
  if (const auto parsed = compiler::parseSafetensorsHeader(text, &entries); !parsed.ok())
    return invalid(path, parsed.message());
  const int64_t data = kLengthBytes + static_cast<int64_t>(text.size());
  StoredTensors tensors;
  std::vector<std::pair<int64_t, std::string>> order;
  for (const compiler::SafetensorsEntry& entry : entries) {
    const std::string& name = entry.name;
    absl::StatusOr<StoredTensor> tensor = tensorOf(entry, data, size);
    if (!tensor.ok()) return invalid(path, absl::StrCat("tensor '", name, "': ", tensor.status().message()));
    if (tensor->bytes > 0) order.emplace_back(tensor->offset, name);
    if (!tensors.emplace(name, *std::move(tensor)).second)
      return invalid(path, absl::StrCat("tensor '", name, "' is there twice"));
  }
  std::ranges::sort(order);
  for (size_t i = 1; i < order.size(); ++i) {
    const StoredTensor& before = tensors.at(order[i - 1].second);
    if (before.offset + before.bytes > order[i].first)
      return invalid(path, absl::StrCat("tensors '", order[i - 1].second, "' and '", order[i].second, "' overlap"));
  }
  return tensors;
}

}  // namespace tessera::client
