#include "storage/record_properties.h"

#include <cmath>
#include <utility>

#include "proto/messages/deterministic_bytes.h"
#include "proto/support/sha256.h"
#include "storage/stored_key.h"

namespace tessera::storage {
bool failed(const v1::TuningRecord& record) {
  switch (record.outcome()) {
    case v1::TuningRecord::OUTCOME_UNSPECIFIED:
      // Records of earlier releases have no outcome, only the text.
      return record.validation().starts_with("failed");
    case v1::TuningRecord::UNCHECKED:
    case v1::TuningRecord::PASSED:
      return false;
    default:
      return true;
  }
}

double speedOf(const v1::TuningRecord& record) {
  const double speed = record.baseline_ms() / record.median_ms();
  return !failed(record) && record.median_ms() > 0 && record.baseline_ms() > 0 && std::isfinite(speed) ? speed : 0;
}

std::string contentHashOf(v1::TuningRecord& record) {
  std::string id, schedule_hash, project;
  // Excluded from the hash: the identity and project differ between servers, and the schedule's hash follows from the
  // schedule. Swapped out and back to avoid a copy of the record.
  record.mutable_id()->swap(id);
  record.mutable_project()->swap(project);
  record.mutable_schedule_hash()->swap(schedule_hash);
  std::string hash = sha256Hex(deterministicBytes(record));
  record.mutable_id()->swap(id);
  record.mutable_project()->swap(project);
  record.mutable_schedule_hash()->swap(schedule_hash);
  return hash;
}

std::string contentHash(const v1::TuningRecord& record) {
  v1::TuningRecord content = record;
  return contentHashOf(content);
}

std::string idOfMerged(const std::string& project, const std::string& content_hash) {
  return project == kDefaultProject ? content_hash : sha256Hex(storedKey(project, content_hash));
}

v1::TuningRecord completed(v1::TuningRecord record) {
  if (record.has_schedule()) {
    record.set_schedule_hash(sha256Hex(deterministicBytes(record.schedule())));
  } else {
    record.clear_schedule_hash();
  }
  return record;
}

}  // namespace tessera::storage
