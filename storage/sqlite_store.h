#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "storage/store.h"

namespace tessera::storage {

struct SqliteStoreOptions {
  /// SQLite VFS to use; null: the operating system's, and <path>.lock is held.
  const char* vfs = nullptr;
  /// PRAGMA synchronous. Anything less than FULL loses acknowledged transactions at a power loss; only the tests that
  /// demonstrate this may set it.
  const char* synchronous = "FULL";
  /// How long to wait for a lock that another program holds on the file; then UNAVAILABLE.
  std::chrono::milliseconds busy{2'000};
  /// WAL size in pages (of 4 KiB) from which it is copied into the database. A page that many transactions changed
  /// meanwhile is copied once.
  int checkpoint_pages = 8192;
  /// Number of concurrent snapshots; further readers wait.
  int readers = 4;
  /// Called for each commit that changed something, with the time from the start of the first transaction to the end of
  /// the sync and the number of transactions in it. Runs on the writer's thread before the transactions return, so it
  /// must not block.
  std::function<void(std::chrono::nanoseconds took, size_t transactions)> on_commit = {};
};

/// Opens (or creates and migrates) the database file at `path`, with WAL, synchronous=FULL and foreign keys.
/// FAILED_PRECONDITION: a newer release wrote the file, or another process has it open for writing. DATA_LOSS: the file
/// is damaged.
absl::StatusOr<std::unique_ptr<Store>> openSqliteStore(const std::string& path, const SqliteStoreOptions& options = {});

/// Whether opening failed because of the file's content: written by a newer release or another program, or damaged. A
/// retry fails again until an operator provides the right program or file.
bool isForeignOrDamaged(const absl::Status& status);

}  // namespace tessera::storage
