#pragma once

#include <spdlog/spdlog.h>

#include <chrono>
#include <mutex>
#include <string>

#include "storage/objects/object_store.h"

namespace tessera::storage {

/// Passes calls on. Errors that only the operator of the service can mend (credentials, rights, a missing bucket) go to
/// the log; the caller, whose own credentials are fine, gets UNAVAILABLE without a place or a name.
class ReportingObjectStore : public ObjectStore {
 public:
  explicit ReportingObjectStore(ObjectStore& inner) : inner_(inner) {}

  absl::Status put(const std::string& name, const File& file, const v1::Digest& digest) override {
    return report(inner_.put(name, file, digest));
  }
  absl::Status get(const std::string& name, int64_t offset, int64_t limit,
                   const std::function<absl::Status(std::string_view chunk)>& sink) override {
    absl::Status consumed;
    const absl::Status status =
        inner_.get(name, offset, limit, [&](std::string_view chunk) { return consumed = sink(chunk); });
    return consumed.ok() ? report(status) : status;
  }
  absl::Status remove(const std::string& name) override { return report(inner_.remove(name)); }
  absl::Status list(const std::string& prefix, const std::string& after,
                    const std::function<bool(const ObjectInfo& object)>& visit) override {
    return report(inner_.list(prefix, after, visit));
  }
  absl::StatusOr<int> removeIncomplete(int64_t age_s) override {
    absl::StatusOr<int> removed = inner_.removeIncomplete(age_s);
    if (removed.ok()) return removed;
    return report(removed.status());
  }
  absl::Status checkWritable() override { return inner_.checkWritable(); }
  std::string placeOf(const std::string& name) const override { return inner_.placeOf(name); }
  const ObjectRequests& requests() const override { return inner_.requests(); }

  /// The error that a client gets.
  absl::Status report(absl::Status status) {
    if (!absl::IsFailedPrecondition(status) && !absl::IsUnauthenticated(status) && !absl::IsPermissionDenied(status)) {
      return status;
    }
    const auto now = std::chrono::steady_clock::now();
    const std::lock_guard lock(mutex_);
    if (logged_ != status.message() || now - logged_at_ >= kLogInterval) {
      spdlog::error("the object store cannot be used: {}", std::string(status.message()));
      logged_ = std::string(status.message());
      logged_at_ = now;
    }
    return absl::UnavailableError("the service cannot use its object store; its operator finds the reason in its log");
  }

 private:
  static constexpr std::chrono::seconds kLogInterval{10};

  ObjectStore& inner_;
  std::mutex mutex_;
  std::string logged_;
  std::chrono::steady_clock::time_point logged_at_;
};

}  // namespace tessera::storage
