// Collector::verify(): finds objects whose blobs are missing or damaged.
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "absl/strings/str_cat.h"
#include "proto/support/status_macros.h"
#include "server/retention/collector.h"
#include "server/retention/losses.h"
#include "tessera/v1/artifact.pb.h"

namespace tessera::server {
namespace {

using storage::Kind;
using storage::Stored;

constexpr int kMaxProblems = 1000;  // reported by one verification

}  // namespace

absl::StatusOr<v1::VerifyStorageResponse> Collector::verify(bool read_blobs) {
  const std::unique_lock only_one(collecting_, std::try_to_lock);
  if (!only_one.owns_lock()) {
    return absl::AbortedError("a collection, a verification or a backup is going on; try again when it has ended");
  }
  v1::VerifyStorageResponse response;
  const auto problem = [&](const std::string& text) {
    if (response.problems_size() < kMaxProblems) {
      response.add_problems(text);
    }
  };
  std::vector<v1::Digest> rows;
  std::vector<std::string> gone;
  Names named;
  TESSERA_RETURN_IF_ERROR(mark(false, named));  // checks that each job, action, task and record can be read
  const auto needs = [&](storage::Reader&, const Stored& stored) -> absl::Status {
    const v1::Digest& digest = stored.kind == Kind::kArtifact ? static_cast<const v1::Artifact*>(stored.message)->blob()
                                                              : *static_cast<const v1::Digest*>(stored.message);
    const auto size = blobs_.size(digest.sha256());
    const char* what = stored.kind == Kind::kArtifact ? "artifact "
                       : stored.kind == Kind::kObject ? "object "
                                                      : "blob ";
    if (!size.ok() && !absl::IsNotFound(size.status())) {
      return size.status();  // a read error does not mean a missing file
    }
    if (!size.ok()) {
      gone.push_back(digest.sha256());
      // An interrupted collection leaves such a row; nothing refers to it.
      if (stored.kind == Kind::kBlob && !named.contains(stored.id)) {
        return absl::OkStatus();
      }
      problem(absl::StrCat(what, stored.id, ": its file ", digest.sha256(), " is not there"));
    } else if (*size != digest.size_bytes()) {
      problem(absl::StrCat(what, stored.id, ": its file has ", *size, " bytes, not ", digest.size_bytes()));
    } else if (stored.kind == Kind::kBlob) {
      rows.push_back(digest);
    }
    return absl::OkStatus();
  };
  for (const Kind kind : {Kind::kArtifact, Kind::kObject, Kind::kBlob}) {
    TESSERA_RETURN_IF_ERROR(forEach(kind, needs));
  }
  for (const std::string& sha256 : gone) {
    TESSERA_RETURN_IF_ERROR(noteLoss(store_, blobs_, sha256).status());
  }
  TESSERA_ASSIGN_OR_RETURN(const std::vector<std::string> damaged, blobs_.damaged());
  for (const std::string& sha256 : damaged) {
    problem(absl::StrCat("blob ", sha256, " was damaged on disk and set aside; upload it again"));
  }
  for (const v1::Digest& digest : rows) {
    if (stopping_) {
      return absl::CancelledError("the server stops");
    }
    if (read_blobs) {
      const absl::Status whole = blobs_.verify(digest.sha256(), [](std::string_view) { return absl::OkStatus(); });
      if (!whole.ok() && !absl::IsNotFound(whole)) {
        problem(std::string(whole.message()));
      }
      if (absl::IsNotFound(whole) || absl::IsDataLoss(whole)) {
        TESSERA_RETURN_IF_ERROR(noteLoss(store_, blobs_, digest.sha256()).status());
      }
    }
    response.set_blobs(response.blobs() + 1);
    response.set_bytes(response.bytes() + digest.size_bytes());
  }
  return response;
}

}  // namespace tessera::server
