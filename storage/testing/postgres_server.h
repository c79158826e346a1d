#pragma once

#include <sys/types.h>

#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace tessera::storage {

/// A PostgreSQL server for tests, in a temporary folder and on a socket in it. Ends with this object or process. Its
/// programs are those of Debian's package postgresql-15; they refuse to run as root, so they run as another user then.
class PostgresServer {
 public:
  /// NOT_FOUND if the package is not installed.
  static absl::StatusOr<std::unique_ptr<PostgresServer>> start();
  /// The server of this process, which starts at the first call.
  static const absl::StatusOr<std::unique_ptr<PostgresServer>>& shared();
  ~PostgresServer();
  PostgresServer(const PostgresServer&) = delete;
  PostgresServer& operator=(const PostgresServer&) = delete;

  /// The connection string of a database of this server.
  std::string uri(const std::string& database) const;
  /// Creates an empty database, or a copy of `like`, and returns its connection string.
  absl::StatusOr<std::string> createDatabase(const std::string& like = "template0");
  /// Runs one statement, and returns the first value of its first row; empty: none.
  absl::StatusOr<std::string> query(const std::string& uri, const std::string& sql) const;
  /// Stops the server as a crash does, and starts it again.
  absl::Status crashAndRestart();
  /// Sends a signal, such as SIGSTOP, to all its processes.
  void signalAll(int signal) const;

 private:
  explicit PostgresServer(std::string folder) : folder_(std::move(folder)) {}
  absl::Status launch();

  const std::string folder_;
  pid_t process_ = -1;
  int databases_ = 0;
};

}  // namespace tessera::storage
