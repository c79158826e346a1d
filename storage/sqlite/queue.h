#pragma once

#include "absl/status/statusor.h"
#include "storage/sqlite/database.h"
#include "storage/store.h"

namespace tessera::storage {

/// Reader::nextReadyTask. The head of each kind's queue is one index probe; a filter over one common queue would walk
/// past every task of the kinds that are not wanted.
absl::StatusOr<v1::Task> nextReady(Database& database, const QueueQuery& query);

}  // namespace tessera::storage
