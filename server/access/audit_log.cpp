#include "server/access/audit_log.h"

#include <fcntl.h>
#include <spdlog/spdlog.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <tuple>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "google/protobuf/util/json_util.h"
#include "proto/support/printable.h"
#include "proto/support/status_macros.h"

namespace tessera::server {
namespace {

constexpr size_t kMaxResourceBytes = 300;
constexpr size_t kMaxMessageBytes = 1000;

absl::StatusOr<int> openFile(const std::string& path) {
  const int file = ::open(path.c_str(), O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600);
  if (file < 0) {
    return absl::FailedPreconditionError(absl::StrCat("cannot write the audit log ", path, ": ", std::strerror(errno)));
  }
  // An existing file may be readable by others.
  if (::fchmod(file, 0600) != 0) {
    const int error = errno;
    ::close(file);
    return absl::FailedPreconditionError(
        absl::StrCat("cannot keep others out of the audit log ", path, ": ", std::strerror(error)));
  }
  return file;
}

/// Fields that identify the object of a message, the most specific first.
constexpr const char* kNames[] = {"id",        "job_id",  "artifact_id", "record_id", "target_name",
                                  "worker_id", "task_id", "name",        "sha256",    "request_id"};
/// Nested messages that are the object of a request.
constexpr const char* kParts[] = {"job", "token", "target", "worker", "digest", "spec"};

std::string namedBy(const google::protobuf::Message& message) {
  const auto* reflection = message.GetReflection();
  for (const char* name : kNames) {
    const auto* field = message.GetDescriptor()->FindFieldByName(name);
    if (field == nullptr || field->is_repeated() ||
        field->cpp_type() != google::protobuf::FieldDescriptor::CPPTYPE_STRING) {
      continue;
    }
    if (std::string text = reflection->GetString(message, field); !text.empty()) {
      return text;
    }
  }
  return "";
}

/// Whether two rejected calls count as equal: the caller's port and numbers in the message are ignored.
bool isLike(const v1::AuditEntry& one, const v1::AuditEntry& other) {
  const auto facts = [](const v1::AuditEntry& entry) {
    return std::tie(entry.who(), entry.credential(), entry.role(), entry.project(), entry.method(), entry.resource(),
                    entry.answer());
  };
  return facts(one) == facts(other);
}

}  // namespace

std::string methodOf(const google::protobuf::Message& request) {
  const std::string name(request.GetDescriptor()->name());
  return name.substr(0, name.size() - (absl::EndsWith(name, "Request") ? sizeof("Request") - 1 : 0));
}

std::string resourceOf(const google::protobuf::Message& message) {
  std::string found = namedBy(message);
  const auto* reflection = message.GetReflection();
  for (const char* name : kParts) {
    const auto* field = message.GetDescriptor()->FindFieldByName(name);
    if (found.empty() && field != nullptr && !field->is_repeated() &&
        field->cpp_type() == google::protobuf::FieldDescriptor::CPPTYPE_MESSAGE &&
        reflection->HasField(message, field)) {
      found = namedBy(reflection->GetMessage(message, field));
    }
  }
  return std::string(firstBytes(printable(found), kMaxResourceBytes));
}

absl::StatusOr<std::unique_ptr<AuditLog>> AuditLog::open(const std::string& path) {
  TESSERA_ASSIGN_OR_RETURN(auto file, openFile(path));
  return std::unique_ptr<AuditLog>(new AuditLog(path, file));
}

AuditLog::~AuditLog() {
  lockedFlush();
  ::close(file_);
}

absl::Status AuditLog::reopen() {
  TESSERA_ASSIGN_OR_RETURN(auto file, openFile(path_));
  const std::lock_guard lock(mutex_);
  std::swap(file_, file);
  ::close(file);
  return absl::OkStatus();
}

void AuditLog::write(const v1::AuditEntry& entry) {
  const std::lock_guard lock(mutex_);
  lockedWrite(entry);
}

void AuditLog::writeRefusal(const v1::AuditEntry& entry, Time now) {
  flush(now);
  const std::lock_guard lock(mutex_);
  if (refusals_.empty() && left_out_ == 0) {
    second_begin_ = now;
  }
  const auto known = std::find_if(refusals_.begin(), refusals_.end(),
                                  [&](const Folded& folded) { return isLike(folded.last, entry); });
  if (known != refusals_.end()) {
    known->last = entry;
    ++known->more;
    return;
  }
  const auto of_one = std::count_if(refusals_.begin(), refusals_.end(), [&](const Folded& folded) {
    return folded.last.who() == entry.who() && folded.last.credential() == entry.credential();
  });
  if (refusals_.size() >= kMaxRefusals || of_one >= kMaxRefusalsOfOne) {
    ++left_out_;
    return;
  }
  refusals_.push_back({entry});
  lockedWrite(entry);
}

void AuditLog::flush(Time now) {
  const std::lock_guard lock(mutex_);
  if (now >= second_begin_ + std::chrono::seconds(1)) {
    lockedFlush();
  }
}

void AuditLog::lockedFlush() {
  for (Folded& folded : refusals_) {
    if (folded.more > 0) {
      folded.last.set_message(absl::StrCat(folded.more, " more within a second; the last: ", folded.last.message()));
      lockedWrite(folded.last);
    }
  }
  if (left_out_ > 0) {
    v1::AuditEntry rest;
    rest.set_time(absl::FormatTime(kAuditTime, absl::Now(), absl::UTCTimeZone()));
    rest.set_message(absl::StrCat(left_out_, " other refusals within a second are left out"));
    lockedWrite(rest);
  }
  refusals_.clear();
  left_out_ = 0;
}

void AuditLog::lockedWrite(const v1::AuditEntry& entry) {
  v1::AuditEntry shown = entry;
  // The request's strings may be invalid UTF-8, which JSON does not permit.
  for (std::string* text : {shown.mutable_who(), shown.mutable_credential(), shown.mutable_from(),
                            shown.mutable_resource(), shown.mutable_message()}) {
    *text = std::string(firstBytes(printable(*text), kMaxMessageBytes));
  }
  google::protobuf::util::JsonPrintOptions options;
  options.always_print_primitive_fields = true;
  std::string line;
  const auto told = google::protobuf::util::MessageToJsonString(shown, &line, options);
  if (!told.ok()) {
    spdlog::error("audit log: a call of {} cannot be told", shown.method());
    return;
  }
  line += "\n";
  const bool failed = ::write(file_, line.data(), line.size()) != static_cast<ssize_t>(line.size());
  if (failed && !failing_) {
    spdlog::error("audit log {}: {}; calls go on without", path_, std::strerror(errno));
  }
  failing_ = failed;
}

}  // namespace tessera::server
