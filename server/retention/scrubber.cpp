#include "server/retention/scrubber.h"

#include <algorithm>
#include <cstddef>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "proto/support/status_macros.h"
#include "server/retention/losses.h"
#include "storage/snapshots.h"

namespace tessera::server {
namespace {

/// Blobs per call of BlobStore::findAbsent.
constexpr ptrdiff_t kNamesAtOnce = 1000;

absl::Status stopped() { return absl::CancelledError("the server stops"); }

}  // namespace

void Scrubber::tell(const std::string& sha256, const std::string& why, Found& found) {
  ++found.damaged;
  if (told_.damaged) {
    told_.damaged(sha256, why);
  }
}

absl::Status Scrubber::findGone(const Wait& wait, Found& found) {
  std::vector<std::string> names;
  TESSERA_RETURN_IF_ERROR(storage::forEachInSnapshots(
      store_, storage::Kind::kBlob, [&](storage::Reader&, const storage::Stored& stored) -> absl::Status {
        if (!wait(0)) {
          return stopped();
        }
        names.push_back(stored.id);
        return absl::OkStatus();
      }));
  std::ranges::sort(names);
  for (auto first = names.begin(); first != names.end();) {
    if (!wait(0)) {
      return stopped();
    }
    const auto end = first + std::min<ptrdiff_t>(kNamesAtOnce, names.end() - first);
    TESSERA_ASSIGN_OR_RETURN(const std::vector<std::string> gone, blobs_.findAbsent({first, end}));
    for (const std::string& sha256 : gone) {
      // Checked again: a collection may have deleted it meanwhile.
      TESSERA_ASSIGN_OR_RETURN(const bool lost, noteLoss(store_, blobs_, sha256));
      if (lost) {
        tell(sha256, absl::StrCat("the file of blob ", sha256, " is gone; upload it again"), found);
      }
    }
    first = end;
  }
  return absl::OkStatus();
}

absl::StatusOr<Scrubber::Found> Scrubber::pass(const Wait& wait) {
  Found found;
  TESSERA_RETURN_IF_ERROR(findGone(wait, found));
  absl::Status unread;
  const auto pause = [&](int64_t bytes) {
    return wait(static_cast<double>(bytes) / static_cast<double>(bytes_per_second_)) ? absl::OkStatus() : stopped();
  };
  TESSERA_RETURN_IF_ERROR(blobs_.forEach([&](const std::string& sha256, int64_t bytes, int64_t) -> absl::Status {
    bool cancelled = false;
    absl::Status whole = blobs_.verify(sha256, [&](std::string_view chunk) {
      const absl::Status paused = pause(static_cast<int64_t>(chunk.size()));
      cancelled = !paused.ok();
      return paused;
    });
    if (cancelled) {
      return whole;
    }
    if (absl::IsNotFound(whole)) {
      return absl::OkStatus();  // deleted meanwhile
    }
    ++found.blobs;
    found.bytes += bytes;
    if (told_.read) {
      told_.read(bytes);
    }
    if (absl::IsDataLoss(whole)) {
      tell(sha256, std::string(whole.message()), found);
      return noteLoss(store_, blobs_, sha256).status();
    }
    unread.Update(whole);
    return absl::OkStatus();
  }));
  TESSERA_RETURN_IF_ERROR(unread);
  return found;
}

}  // namespace tessera::server
