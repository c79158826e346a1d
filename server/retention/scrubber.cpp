#include "server/retention/scrubber.h"

#include <string_view>
#include <utility>

#include "server/status_macros.h"

namespace tessera::server {

absl::StatusOr<Scrubber::Found> Scrubber::pass(const Wait& wait) {
  Found found;
  absl::Status unread;
  const auto pause = [&](int64_t bytes) {
    return wait(static_cast<double>(bytes) / static_cast<double>(bytes_per_second_))
               ? absl::OkStatus()
               : absl::CancelledError("the server stops");
  };
  TESSERA_TRY(blobs_.forEach([&](const std::string& sha256, int64_t bytes, int64_t) -> absl::Status {
    bool cancelled = false;
    absl::Status whole = blobs_.get(sha256, 0, 0, [&](std::string_view chunk) {
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
      ++found.damaged;
      if (told_.damaged) {
        told_.damaged(sha256, std::string(whole.message()));
      }
      return absl::OkStatus();
    }
    unread.Update(whole);
    return absl::OkStatus();
  }));
  TESSERA_TRY(unread);
  return found;
}

}  // namespace tessera::server
