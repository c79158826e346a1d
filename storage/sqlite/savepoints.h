#pragma once

#include "absl/status/status.h"

namespace tessera::storage {

class Database;

/// Parts of a connection's transaction that are undone alone; they nest. SQLite copies each page that changes within a
/// savepoint, so it gets one only where something is written, and not for a last write: a statement is done or not as a
/// whole.
class Savepoints {
 public:
  explicit Savepoints(Database& database) : database_(database) {}

  void begin() { ++begun_; }
  /// Ends the innermost part; what was written in it is kept or undone. INTERNAL when it cannot be undone, as behind a
  /// last write: the whole transaction must not be committed then.
  absl::Status end(bool keep);

  /// The next statement that writes is the last one of the part, which will be kept if it succeeds. Says nothing within
  /// a nested part.
  void announceLastWrite();

  /// Before and after a statement that writes. One behind the last is INTERNAL.
  absl::Status beforeWrite();
  void afterWrite(bool succeeded);

 private:
  enum class LastWrite { kNotYet, kNext, kDone };

  Database& database_;
  int begun_ = 0;
  int open_ = 0;  ///< of them, from the outermost on: those that SQLite knows of
  LastWrite last_write_ = LastWrite::kNotYet;
};

}  // namespace tessera::storage
