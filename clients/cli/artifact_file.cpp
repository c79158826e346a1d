#include "clients/cli/artifact_file.h"

#include "absl/strings/str_cat.h"
#include "clients/cli/zip_file.h"

namespace tessera::client {
namespace {

template <typename Message>
absl::StatusOr<Message> readEntry(const std::string& path, const std::string& entry) {
  auto bytes = readZipEntry(path, entry);
  if (!bytes.ok()) return bytes.status();
  Message message;
  if (!message.ParseFromString(*bytes)) {
    return absl::InvalidArgumentError(absl::StrCat(path, ": ", entry, " is damaged; fetch the artifact again"));
  }
  return message;
}

}  // namespace

absl::StatusOr<v1::Manifest> readManifest(const std::string& path) {
  return readEntry<v1::Manifest>(path, "manifest.pb");
}

absl::StatusOr<v1::Plan> readPlan(const std::string& path) { return readEntry<v1::Plan>(path, "plan.pb"); }

}  // namespace tessera::client
