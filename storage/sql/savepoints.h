#pragma once

#include "absl/status/status.h"

namespace tessera::storage {

class Database;

/// Nested parts of a connection's transaction that can be rolled back alone. A savepoint has a cost: SQLite copies each
/// page that changes within it, PostgreSQL gives it a transaction id. Therefore it is opened only at the first write of
/// a part, and in SQLite not for a last write, since SQLite undoes a failed statement by itself.
class Savepoints {
 public:
  explicit Savepoints(Database& database) : database_(database) {}

  void begin() { ++begun_; }
  /// Ends the innermost part, and keeps or rolls back its writes. INTERNAL if they cannot be rolled back, because they
  /// follow an announced last write; then the whole transaction must not be committed.
  absl::Status end(bool keep);

  /// Announces that the next writing statement is the last one of the part, which is kept if it succeeds. Ignored in a
  /// nested part.
  void announceLastWrite();

  /// Called before and after each writing statement. A write after the announced last one is INTERNAL.
  absl::Status beforeWrite();
  void afterWrite(bool succeeded);

 private:
  enum class LastWrite { kNotYet, kNext, kDone };

  Database& database_;
  int begun_ = 0;
  int open_ = 0;  ///< number of parts, from the outermost, that have a savepoint in the database
  LastWrite last_write_ = LastWrite::kNotYet;
};

}  // namespace tessera::storage
