#pragma once

#include <functional>
#include <string>
#include <unordered_set>

#include "absl/status/status.h"
#include "storage/store.h"

namespace tessera::storage {

/// Items per snapshot of forEachInSnapshots().
inline constexpr int kSnapshotItems = 200;

/// Visits all items of a kind, as Reader::forEach() does, but in several short snapshots of `items` each: a snapshot of
/// all items would make a store with several versions keep every row that changes meanwhile. Each item is visited at
/// most once; those that exist throughout are visited exactly once. An item that is stored meanwhile may be missed.
inline absl::Status forEachInSnapshots(Store& store, Kind kind,
                                       const std::function<absl::Status(Reader& reader, const Stored& stored)>& visit,
                                       int items = kSnapshotItems) {
  std::string last;
  for (int visited = items; visited == items;) {
    const std::string after = last;
    std::unordered_set<std::string> seen;  // in this snapshot, which may be interrupted and taken again
    absl::Status status = store.read([&](Reader& reader) -> absl::Status {
      absl::StatusOr<int> page = reader.forEachAfter(kind, after, items, [&](const Stored& stored) {
        absl::Status done = seen.insert(stored.id).second ? visit(reader, stored) : absl::OkStatus();
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
