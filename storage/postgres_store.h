#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "storage/postgres/limits.h"
#include "storage/store.h"

namespace tessera::storage {

struct PostgresStoreOptions {
  /// Number of concurrent snapshots; further readers wait. The store opens two more connections: one that writes, and
  /// one for notices.
  int readers = 4;
  /// How long a transaction or a read is repeated while the database cannot be reached or other sessions change or lock
  /// the same rows; then UNAVAILABLE. An answer that is being waited for comes on top.
  std::chrono::milliseconds patience{30'000};
  PostgresLimits limits = {};
  /// Maximum number of transactions per commit. Each has a savepoint, and PostgreSQL keeps 64 in fast memory.
  size_t batch = 32;
  /// Called for each commit, as SqliteStoreOptions::on_commit.
  std::function<void(std::chrono::nanoseconds took, size_t transactions)> on_commit = {};
  /// Runs each body once more than needed: a first time in a transaction that is rolled back. For tests that bodies can
  /// be repeated.
  bool run_bodies_twice = false;
};

/// Whether this names a PostgreSQL database: "postgresql://..." or "postgres://...".
bool isPostgresUri(std::string_view store);

/// Opens the database of a libpq connection string, which several servers may use at the same time, and creates or
/// migrates its tables. TLS, password files and several hosts are options of the string. The transactions are
/// serializable; the bodies of one store run one after another, and may run several times, because a transaction that
/// conflicts with another server's or loses its connection is repeated.
///
/// UNAVAILABLE: no server accepts the connection. FAILED_PRECONDITION: a newer release wrote the tables in a form that
/// this one does not know.
absl::StatusOr<std::unique_ptr<Store>> openPostgresStore(const std::string& uri,
                                                         const PostgresStoreOptions& options = {});

}  // namespace tessera::storage
