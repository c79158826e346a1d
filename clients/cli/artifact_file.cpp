#include "clients/cli/artifact_file.h"

#include "absl/strings/str_cat.h"
#include "clients/cli/zip_file.h"
#include "proto/support/status_macros.h"

namespace tessera::client {
namespace {

constexpr size_t kMaxManifest = size_t{64} << 20;
constexpr size_t kMaxPlanBytes = size_t{2} << 30;  // the limit of a protobuf message

template <typename Message>
absl::StatusOr<Message> readEntry(const std::string& path, const std::string& entry, size_t most) {
  TESSERA_ASSIGN_OR_RETURN(auto bytes, readZipEntry(path, entry, most));
  Message message;
  if (!message.ParseFromString(bytes)) {
    return absl::InvalidArgumentError(absl::StrCat(path, ": ", entry, " is damaged; fetch the artifact again"));
  }
  return message;
}

}  // namespace

absl::StatusOr<v1::Manifest> readManifest(const std::string& path) {
  return readEntry<v1::Manifest>(path, "manifest.pb", kMaxManifest);
}

absl::StatusOr<v1::Plan> readPlan(const std::string& path) {
  return readEntry<v1::Plan>(path, "plan.pb", kMaxPlanBytes);
}

}  // namespace tessera::client
