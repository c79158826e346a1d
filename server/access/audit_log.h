#pragma once

#include <chrono>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

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

  using Time = std::chrono::steady_clock::time_point;
  /// Refusals that differ, which are written in one second: of one caller, and of all.
  static constexpr int kMostRefusalsOfOne = 10;
  static constexpr int kMostRefusals = 50;

  /// One line, written at once. A disk that refuses it is told of in the server's log, and the call goes on.
  void write(const v1::AuditEntry& entry);
  /// The same of a call that failed, as anybody's can, as often as they like: the first of its kind in a second is
  /// written at once, those like it (by the same caller, of the same thing, answered the same) are counted in a line at
  /// the second's end, and so are those beyond the bounds.
  void writeRefusal(const v1::AuditEntry& entry, Time now = std::chrono::steady_clock::now());
  /// Writes what was counted if its second is over. To be called now and then.
  void flush(Time now = std::chrono::steady_clock::now());
  /// Opens the file anew under its name. The old one is written to where that fails.
  absl::Status reopen();

 private:
  /// Equal refusals of this second.
  struct Folded {
    v1::AuditEntry last;
    int64_t more = 0;  ///< behind the one that was written
  };

  AuditLog(std::string path, int file) : path_(std::move(path)), file_(file) {}
  void lockedWrite(const v1::AuditEntry& entry);
  void lockedFlush();

  const std::string path_;
  std::mutex mutex_;
  int file_;
  bool failing_ = false;  ///< told of once
  Time second_begin_;
  std::vector<Folded> refusals_;  ///< since then, in the order they came
  int64_t left_out_ = 0;
};

/// How lines tell the time, for absl::FormatTime: RFC 3339, UTC.
inline constexpr char kAuditTime[] = "%Y-%m-%dT%H:%M:%E6SZ";

/// "CreateJob", of a CreateJobRequest.
std::string methodOf(const google::protobuf::Message& request);
/// What a message is about: the first of its ids and names, or of those of the messages in it; never its content.
std::string resourceOf(const google::protobuf::Message& message);

}  // namespace tessera::server
