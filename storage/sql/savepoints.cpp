#include "storage/sql/savepoints.h"

#include <algorithm>
#include <utility>

#include "proto/support/status_macros.h"
#include "storage/sql/database.h"

namespace tessera::storage {

void Savepoints::announceLastWrite() {
  if (begun_ == 1) last_write_ = LastWrite::kNext;
}

absl::Status Savepoints::beforeWrite() {
  if (last_write_ == LastWrite::kDone) {
    return absl::InternalError("a transaction's body wrote again after its announced last write");
  }
  if (last_write_ == LastWrite::kNext) {
    last_write_ = LastWrite::kDone;
    return absl::OkStatus();
  }
  // The savepoints share a name, which SQLite resolves to the innermost.
  for (; open_ < begun_; ++open_) {
    TESSERA_RETURN_IF_ERROR(database_.prepare("SAVEPOINT part").run());
  }
  return absl::OkStatus();
}

void Savepoints::afterWrite(bool succeeded) {
  // The failed statement was undone by SQLite.
  if (!succeeded && last_write_ == LastWrite::kDone) last_write_ = LastWrite::kNotYet;
}

absl::Status Savepoints::end(bool keep) {
  --begun_;
  const bool last_was_written = begun_ == 0 && std::exchange(last_write_, LastWrite::kNotYet) == LastWrite::kDone;
  // The part wrote nothing, or only its announced last write: SQLite has no savepoint for it.
  if (open_ <= begun_) {
    return keep || !last_was_written
               ? absl::OkStatus()
               : absl::InternalError("a transaction's body failed after its announced last write");
  }
  open_ = begun_;
  // SQLite rolled back the whole transaction; the fault says why.
  if (!database_.inTransaction()) return absl::OkStatus();
  TESSERA_RETURN_IF_ERROR(keep ? absl::OkStatus() : database_.prepare("ROLLBACK TO part").run());
  return database_.prepare("RELEASE part").run();
}

}  // namespace tessera::storage
