#pragma once

#include <functional>
#include <string>

#include "absl/status/status.h"
#include "storage/store.h"

namespace tessera::storage {

/// Items per snapshot of forEachInSnapshots().
inline constexpr int kSnapshotItems = 200;

/// Visits all items of a kind, as Reader::forEach() does, but in several short snapshots: a snapshot of all items would
/// make a store with several versions keep every row that changes meanwhile. Items that exist throughout are visited
/// exactly once. `visit` may be called again for the items of a snapshot that was interrupted, never for earlier ones.
inline absl::Status forEachInSnapshots(Store& store, Kind kind,
                                       const std::function<absl::Status(Reader& reader, const Stored& stored)>& visit) {
  std::string last;
  for (int visited = kSnapshotItems; visited == kSnapshotItems;) {
    const std::string after = last;
    absl::Status status = store.read([&](Reader& reader) -> absl::Status {
      absl::StatusOr<int> page = reader.forEachAfter(kind, after, kSnapshotItems, [&](const Stored& stored) {
        absl::Status done = visit(reader, stored);
        last = stored.id;
        return done;
      });
      if (page.ok()) visited = *page;
      return page.status();
    });
    if (!status.ok()) return status;
  }
  return absl::OkStatus();
}

}  // namespace tessera::storage
