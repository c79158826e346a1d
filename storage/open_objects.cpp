#include "storage/open_objects.h"

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "proto/support/status_macros.h"
#include "storage/objects/folder_object_store.h"
#include "storage/s3/credentials.h"
#include "storage/s3/location.h"
#include "storage/s3/s3_object_store.h"

namespace tessera::storage {
namespace {

constexpr char kBucket[] = "s3://";

}  // namespace

absl::Status checkObjectsPlace(const std::string& place) {
  if (absl::StartsWith(place, kBucket)) return parseS3Url(place).status();
  if (absl::StartsWith(place, "/")) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("found \"", place, "\"; accepted: s3://BUCKET?endpoint=URL, or the absolute path of a folder"));
}

absl::StatusOr<std::unique_ptr<ObjectStore>> openObjects(const std::string& place, bool known) {
  TESSERA_RETURN_IF_ERROR(checkObjectsPlace(place));
  if (!absl::StartsWith(place, kBucket)) return openFolderObjects(place, known);
  TESSERA_ASSIGN_OR_RETURN(const S3Location location, parseS3Url(place));
  auto objects = openS3Objects(location);
  hideS3Credentials();
  return objects;
}

}  // namespace tessera::storage
