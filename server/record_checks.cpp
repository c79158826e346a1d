#include "server/record_checks.h"

#include <cmath>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "compiler/schedule/text.h"
#include "proto/support/status_macros.h"
#include "server/request_checks.h"

namespace tessera::server {
namespace {

constexpr int kMaxHash = 128, kMaxSummary = 4096, kMaxReason = 64 << 10, kMaxFeatures = 256;

absl::Status checkTime(const char* field, double value) {
  if (std::isfinite(value) && value >= 0) {
    return absl::OkStatus();
  }
  return fieldError(field, absl::StrCat(value), "a finite number, 0 or more");
}

/// A tree must print and parse back to itself.
absl::Status checkTree(const v1::Schedule& schedule) {
  const absl::StatusOr<v1::Schedule> read = compiler::parseSchedule(compiler::printSchedule(schedule));
  if (read.ok()) {
    return absl::OkStatus();
  }
  return fieldError("schedule", std::string(read.status().message()), "a tree as compiler/schedule/text.h prints it");
}

absl::Status checkTexts(const v1::TuningRecord& record) {
  const std::pair<const char*, const std::string*> names[] = {{"id", &record.id()},
                                                              {"target_hash", &record.target_hash()},
                                                              {"hostname", &record.hostname()},
                                                              {"cpu_model", &record.cpu_model()},
                                                              {"mode", &record.mode()},
                                                              {"job_id", &record.job_id()},
                                                              {"artifact_id", &record.artifact_id()},
                                                              {"method", &record.method()},
                                                              {"worker", &record.worker()},
                                                              {"compiler_version", &record.compiler_version()}};
  for (const auto& [field, text] : names) {
    TESSERA_RETURN_IF_ERROR(checkText(field, *text, Limits::kMaxNameLength, true));
  }
  TESSERA_RETURN_IF_ERROR(checkText("workload_hash", record.workload_hash(), kMaxHash, false));
  TESSERA_RETURN_IF_ERROR(checkText("target_name", record.target_name(), Limits::kMaxNameLength, false));
  TESSERA_RETURN_IF_ERROR(checkText("workload_summary", record.workload_summary(), kMaxSummary, true));
  TESSERA_RETURN_IF_ERROR(checkText("flags", record.flags(), kMaxSummary, true));
  TESSERA_RETURN_IF_ERROR(checkRange("cpu_features (count)", record.cpu_features_size(), 0, kMaxFeatures));
  // A failure's reason may have several lines.
  TESSERA_RETURN_IF_ERROR(
      checkRange("validation (bytes)", static_cast<int64_t>(record.validation().size()), 0, kMaxReason));
  return checkRange("reason (bytes)", static_cast<int64_t>(record.reason().size()), 0, kMaxReason);
}

}  // namespace

absl::Status checkRecord(const v1::TuningRecord& record) {
  TESSERA_RETURN_IF_ERROR(
      checkRange("record (bytes)", static_cast<int64_t>(record.ByteSizeLong()), 0, Limits::kMaxRecordBytes));
  TESSERA_RETURN_IF_ERROR(checkTexts(record));
  TESSERA_RETURN_IF_ERROR(checkRange("threads", record.threads(), 1, Limits::kMaxThreads));
  TESSERA_RETURN_IF_ERROR(checkRange("times_ms (count)", record.times_ms_size(), 0, Limits::kMaxRepeat));
  TESSERA_RETURN_IF_ERROR(checkRange("create_time_us", record.create_time_us(), 0, INT64_MAX));
  TESSERA_RETURN_IF_ERROR(checkRange("trial", record.trial(), 0, INT32_MAX));
  TESSERA_RETURN_IF_ERROR(checkRange("flops", record.flops(), 0, INT64_MAX));
  if (!v1::TuningRecord::Outcome_IsValid(record.outcome())) {
    return fieldError("outcome", absl::StrCat(static_cast<int>(record.outcome())),
                      "an outcome that this release knows");
  }
  const std::pair<const char*, double> times[] = {{"predicted_ms", record.predicted_ms()},
                                                  {"median_ms", record.median_ms()},
                                                  {"mad_ms", record.mad_ms()},
                                                  {"baseline_ms", record.baseline_ms()},
                                                  {"elapsed_ms", record.elapsed_ms()},
                                                  {"build_ms", record.build_ms()},
                                                  {"measure_ms", record.measure_ms()},
                                                  {"predicted_cycles", record.predicted_cycles()},
                                                  {"host_noise", record.host_noise()},
                                                  {"load_average", record.load_average()}};
  for (const auto& [field, value] : times) {
    TESSERA_RETURN_IF_ERROR(checkTime(field, value));
  }
  for (const double time : record.times_ms()) {
    TESSERA_RETURN_IF_ERROR(checkTime("times_ms", time));
  }
  return record.has_schedule() ? checkTree(record.schedule()) : absl::OkStatus();
}

absl::Status checkBestRecords(const v1::BestRecordsRequest& request) {
  TESSERA_RETURN_IF_ERROR(
      checkRange("workload_hashes (count)", request.workload_hashes_size(), 0, Limits::kMaxRecords));
  for (const std::string& hash : request.workload_hashes()) {
    TESSERA_RETURN_IF_ERROR(checkText("workload_hashes", hash, kMaxHash, false));
  }
  TESSERA_RETURN_IF_ERROR(checkText("target_name", request.target_name(), Limits::kMaxNameLength, true));
  TESSERA_RETURN_IF_ERROR(checkText("target_hash", request.target_hash(), Limits::kMaxNameLength, true));
  TESSERA_RETURN_IF_ERROR(checkRange("threads", request.threads(), 0, Limits::kMaxThreads));
  TESSERA_RETURN_IF_ERROR(checkRange("top", request.top(), 0, Limits::kMaxTop));
  return checkPageSize(request.page_size());
}

}  // namespace tessera::server
