#pragma once

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "storage/sql/database.h"
#include "storage/store.h"

namespace tessera::storage {

/// Implements Reader::nextReadyTask. The head of each kind's queue is one index probe; a filter on a common queue would
/// have to step over all tasks of other kinds.
absl::StatusOr<v1::Task> nextReady(Database& database, const QueueQuery& query);

/// Implements Transaction::claimReadyTask. Tasks that another transaction has claimed are skipped.
absl::StatusOr<v1::Task> claimReady(Database& database, const QueueQuery& query);

/// Implement Reader::readySince and Reader::queueDepths. Their cost depends on the projects with ready tasks, not on
/// the tasks.
absl::StatusOr<std::vector<v1::Task>> readyByAge(Database& database, v1::TaskKind kind, int64_t since_us, int limit);
absl::StatusOr<std::vector<QueueDepth>> depths(Database& database);

}  // namespace tessera::storage
