#pragma once

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "storage/store.h"

namespace tessera::storage {

/// Opens (or creates and migrates) the database file at `path`: WAL, synchronous=FULL, foreign keys on.
/// FAILED_PRECONDITION when a newer release wrote it, or another process has it open for writing.
absl::StatusOr<std::unique_ptr<Store>> openSqliteStore(const std::string& path);

}  // namespace tessera::storage
