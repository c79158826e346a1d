#pragma once

#include <memory>
#include <mutex>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "google/protobuf/message.h"
#include "tessera/v1/admin_service.pb.h"

namespace tessera::server {

/// Who did what: a file of JSON lines, each a v1::AuditEntry, for its owner alone. Whoever rotates it renames it and
/// sends the server SIGHUP, as logrotate does. Thread-safe.
class AuditLog {
 public:
  /// Appends to the file, or makes it. FAILED_PRECONDITION when it cannot be opened.
  static absl::StatusOr<std::unique_ptr<AuditLog>> open(const std::string& path);
  ~AuditLog();

  /// One line, written at once. A disk that refuses it is told of in the server's log, and the call goes on.
  void write(const v1::AuditEntry& entry);
  /// Opens the file anew under its name. The old one is written to where that fails.
  absl::Status reopen();

 private:
  AuditLog(std::string path, int file) : path_(std::move(path)), file_(file) {}

  const std::string path_;
  std::mutex mutex_;
  int file_;
  bool failing_ = false;  ///< told of once
};

/// "CreateJob", of a CreateJobRequest.
std::string methodOf(const google::protobuf::Message& request);
/// What a message is about: the first of its ids and names, or of those of the messages in it; never its content.
std::string resourceOf(const google::protobuf::Message& message);

}  // namespace tessera::server
