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
  /// Names the VFS the files are on; null: the operating system's, and <path>.lock is held.
  const char* vfs = nullptr;
  /// What a commit waits for. Anything less than FULL loses acknowledged work with the power; the tests that show so
  /// are all that may ask for it.
  const char* synchronous = "FULL";
  /// How long to wait where another program holds a lock on the file; then UNAVAILABLE.
  std::chrono::milliseconds busy{2'000};
  /// The log is copied into the database from this many pages (of 4 KiB) on: what many transactions write meanwhile is
  /// copied once.
  int checkpoint_pages = 8192;
  /// Concurrent snapshots; further readers wait.
  int readers = 4;
  /// Told of every commit that changed something and became durable: how long it took from the first transaction's
  /// begin to the end of the sync, and how many transactions shared it. Called on the writer's thread before they
  /// return: it must not wait.
  std::function<void(std::chrono::nanoseconds took, size_t transactions)> on_commit = {};
};

/// Opens (or creates and migrates) the database file at `path`: WAL, synchronous=FULL, foreign keys on.
/// FAILED_PRECONDITION when a newer release wrote it, or another process has it open for writing. DATA_LOSS when the
/// file is damaged.
absl::StatusOr<std::unique_ptr<Store>> openSqliteStore(const std::string& path, const SqliteStoreOptions& options = {});

/// Whether opening failed by what is in the file: a newer release or another program wrote it, or it is damaged.
/// Opening it again fails as well, until somebody brings the right program or the right file.
bool refusedByContent(const absl::Status& status);

}  // namespace tessera::storage
