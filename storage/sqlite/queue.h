#pragma once

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "storage/sqlite/database.h"
#include "storage/store.h"

namespace tessera::storage {

/// Reader::nextReadyTask. The head of each kind's queue is one index probe; a filter over one common queue would walk
/// past every task of the kinds that are not wanted.
absl::StatusOr<v1::Task> nextReady(Database& database, const QueueQuery& query);

/// Reader::readySince and Reader::queueDepths; both cost by projects that have something ready, not by tasks.
absl::StatusOr<std::vector<v1::Task>> readyByAge(Database& database, v1::TaskKind kind, int64_t since_us, int limit);
absl::StatusOr<std::vector<QueueDepth>> depths(Database& database);

}  // namespace tessera::storage
