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

/// The audit log: a file of JSON lines, each a v1::AuditEntry, readable by its owner only. To rotate it, rename it and
/// send the server SIGHUP, as logrotate does. Thread-safe.
class AuditLog {
 public:
  /// Opens the file for appending; creates it if needed. FAILED_PRECONDITION if that fails.
  static absl::StatusOr<std::unique_ptr<AuditLog>> open(const std::string& path);
  ~AuditLog();

  using Time = std::chrono::steady_clock::time_point;
  /// Limits of distinct rejected calls written per second: of one caller, and in total.
  static constexpr int kMaxRefusalsOfOne = 10;
  static constexpr int kMaxRefusals = 50;

  /// Writes a line at once. A write error is logged, and the call continues.
  void write(const v1::AuditEntry& entry);
  /// Writes a failed call. Anyone can cause many of these, so equal ones (caller, object and answer) of one second are
  /// written once, and counted in a second line at the second's end, as are those beyond the limits.
  void writeRefusal(const v1::AuditEntry& entry, Time now = std::chrono::steady_clock::now());
  /// Writes the counts of a second that has passed. Call regularly.
  void flush(Time now = std::chrono::steady_clock::now());
  /// Opens the file again under its name. Continues with the old one if that fails.
  absl::Status reopen();

 private:
  /// Equal rejected calls of the current second.
  struct Folded {
    v1::AuditEntry last;
    int64_t more = 0;  ///< after the one that was written
  };

  AuditLog(std::string path, int file) : path_(std::move(path)), file_(file) {}
  void lockedWrite(const v1::AuditEntry& entry);
  void lockedFlush();

  const std::string path_;
  std::mutex mutex_;
  int file_;
  bool failing_ = false;  ///< reported already
  Time second_begin_;
  std::vector<Folded> refusals_;  ///< of the current second, in order of arrival
  int64_t left_out_ = 0;
};

/// Time format of the lines, for absl::FormatTime: RFC 3339, UTC.
inline constexpr char kAuditTime[] = "%Y-%m-%dT%H:%M:%E6SZ";

/// "CreateJob" for a CreateJobRequest.
std::string methodOf(const google::protobuf::Message& request);
/// The object of a message: its first id or name, else the first one of its nested messages. Never content.
std::string resourceOf(const google::protobuf::Message& message);

}  // namespace tessera::server
