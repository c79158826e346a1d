#include "server/request_checks.h"

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "proto/messages/failure.h"
#include "proto/support/sha256.h"
#include "proto/support/status_macros.h"

namespace tessera::server {
namespace {

/// Fields that identify the lease of a heartbeat or report.
template <typename Request>
absl::Status checkLease(const Request& request) {
  TESSERA_RETURN_IF_ERROR(checkText("worker_id", request.worker_id(), Limits::kMaxWorkerIdLength, false));
  TESSERA_RETURN_IF_ERROR(checkText("task_id", request.task_id(), Limits::kMaxNameLength, false));
  TESSERA_RETURN_IF_ERROR(checkRange("fencing_token", request.fencing_token(), 1, INT64_MAX));
  return checkRange("secret (bytes)", static_cast<int64_t>(request.secret().size()), Limits::kLeaseSecretBytes,
                    Limits::kLeaseSecretBytes);
}

absl::Status checkFileName(const std::string& field, std::string_view name) {
  TESSERA_RETURN_IF_ERROR(checkText(field, name, Limits::kMaxNameLength, false));
  for (const char c : name) {
    if (!absl::ascii_isalnum(static_cast<unsigned char>(c)) && c != '.' && c != '_' && c != '-') {
      return fieldError(field, absl::StrCat("the character '", std::string(1, c), "'"), "[A-Za-z0-9._-]+");
    }
  }
  return absl::OkStatus();
}

absl::Status checkTime(const std::string& field, double ms) {
  return ms >= 0 && ms < 1e12 ? absl::OkStatus() : fieldError(field, absl::StrCat(ms), "a duration in milliseconds");
}

absl::Status checkTimes(const std::string& field, const google::protobuf::RepeatedField<double>& times_ms) {
  TESSERA_RETURN_IF_ERROR(checkRange(absl::StrCat(field, " (count)"), times_ms.size(), 0, Limits::kMaxMeasuredRuns));
  for (const double ms : times_ms) {
    TESSERA_RETURN_IF_ERROR(checkTime(field, ms));
  }
  return absl::OkStatus();
}

absl::Status checkFailure(const v1::Failure& failure) {
  TESSERA_RETURN_IF_ERROR(checkRange("result.failure.reason", failure.reason(), 0, v1::Failure::Reason_MAX));
  for (const std::string* text : {&failure.message(), &failure.node(), &failure.op_type(), &failure.attribute(),
                                  &failure.found(), &failure.accepted(), &failure.fix()}) {
    TESSERA_RETURN_IF_ERROR(checkRange("result.failure (bytes of a text)", static_cast<int64_t>(text->size()), 0,
                                       Limits::kMaxFailureTextBytes));
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status fieldError(std::string_view field, std::string_view found, std::string_view accepted,
                        std::string_view fix) {
  v1::Failure failure;
  failure.set_reason(v1::Failure::INVALID_INPUT);
  failure.set_message(
      absl::StrCat(std::string(field), ": found ", std::string(found), ", accepted: ", std::string(accepted)));
  failure.set_attribute(std::string(field));
  failure.set_found(std::string(found));
  failure.set_accepted(std::string(accepted));
  failure.set_fix(fix.empty() ? absl::StrCat("correct ", std::string(field), " in the request") : std::string(fix));
  return failureStatus(failure);
}

absl::Status checkRange(std::string_view field, int64_t value, int64_t least, int64_t most) {
  if (value >= least && value <= most) {
    return absl::OkStatus();
  }
  return fieldError(field, absl::StrCat(value), absl::StrCat(least, " to ", most));
}

absl::Status checkPageSize(int64_t page_size) {
  return page_size >= 0 ? absl::OkStatus()
                        : fieldError("page_size", absl::StrCat(page_size),
                                     "0 (default: 50) or more; at most 1000 items are returned");
}

absl::Status checkText(std::string_view field, std::string_view text, int longest, bool optional) {
  const std::string accepted = absl::StrCat(optional ? 0 : 1, " to ", longest, " bytes of printable text");
  if ((text.empty() && !optional) || text.size() > static_cast<size_t>(longest)) {
    return fieldError(field, absl::StrCat(text.size(), " bytes"), accepted);
  }
  for (const char c : text) {
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) {
      return fieldError(field, absl::StrCat("control character ", static_cast<int>(c)), accepted);
    }
  }
  return absl::OkStatus();
}

absl::Status checkSha256(std::string_view field, std::string_view sha256) {
  if (isSha256(sha256)) {
    return absl::OkStatus();
  }
  return fieldError(field, absl::StrCat("'", std::string(sha256.substr(0, 80)), "'"),
                    "64 lower-case hexadecimal digits");
}

absl::Status checkDigest(std::string_view field, const v1::Digest& digest, int64_t max_bytes) {
  TESSERA_RETURN_IF_ERROR(checkSha256(absl::StrCat(std::string(field), ".sha256"), digest.sha256()));
  return checkRange(absl::StrCat(std::string(field), ".size_bytes"), digest.size_bytes(), 0, max_bytes);
}

absl::Status checkTensor(const std::string& field, const v1::TensorValue& value, bool fillable, const Limits& limits) {
  TESSERA_RETURN_IF_ERROR(
      checkText(absl::StrCat(field, ".spec.name"), value.spec().name(), Limits::kMaxTensorNameLength, false));
  TESSERA_RETURN_IF_ERROR(checkRange(absl::StrCat(field, ".spec.dtype"), value.spec().dtype(), 1, v1::DataType_MAX));
  TESSERA_RETURN_IF_ERROR(
      checkRange(absl::StrCat(field, ".spec.shape (rank)"), value.spec().shape_size(), 0, Limits::kMaxRank));
  for (int i = 0; i < value.spec().shape_size(); ++i) {
    TESSERA_RETURN_IF_ERROR(
        checkRange(absl::StrCat(field, ".spec.shape[", i, "]"), value.spec().shape(i), 0, Limits::kMaxDimension));
  }
  switch (value.value_case()) {
    case v1::TensorValue::kData:
      return checkRange(absl::StrCat(field, ".data (bytes; larger values must be blobs)"),
                        static_cast<int64_t>(value.data().size()), 0, Limits::kMaxInlineTensorBytes);
    case v1::TensorValue::kBlob:
      return checkDigest(absl::StrCat(field, ".blob"), value.blob(), limits.max_blob_bytes);
    default:
      return fillable ? absl::OkStatus() : fieldError(absl::StrCat(field, ".value"), "nothing", "data or blob");
  }
}

absl::Status checkWorker(const v1::RegisterWorkerRequest& request) {
  TESSERA_RETURN_IF_ERROR(checkText("worker_id", request.worker_id(), Limits::kMaxWorkerIdLength, false));
  TESSERA_RETURN_IF_ERROR(checkRange("slots", request.slots(), 0, Limits::kMaxSlots));
  TESSERA_RETURN_IF_ERROR(checkRange("measuring_cores", request.measuring_cores(), 0, Limits::kMaxThreads));
  TESSERA_RETURN_IF_ERROR(checkText("host.hostname", request.host().hostname(), Limits::kMaxNameLength, true));
  TESSERA_RETURN_IF_ERROR(checkRange("operators (count)", request.operators_size(), 0, Limits::kMaxOperators));
  for (const v1::OperatorInfo& info : request.operators()) {
    TESSERA_RETURN_IF_ERROR(checkText("operators.name", info.name(), Limits::kMaxNameLength, false));
    TESSERA_RETURN_IF_ERROR(checkText("operators.domain", info.domain(), Limits::kMaxNameLength, true));
    TESSERA_RETURN_IF_ERROR(checkText("operators.family", info.family(), Limits::kMaxNameLength, true));
  }
  TESSERA_RETURN_IF_ERROR(checkRange("sandbox (count)", request.sandbox_size(), 0, Limits::kMaxMeasures));
  for (const v1::SandboxMeasure& measure : request.sandbox()) {
    TESSERA_RETURN_IF_ERROR(checkText("sandbox.name", measure.name(), Limits::kMaxNameLength, false));
    TESSERA_RETURN_IF_ERROR(checkText("sandbox.detail", measure.detail(), Limits::kMaxTroubleLength, true));
  }
  return checkText("compiler_version", request.compiler_version(), Limits::kMaxNameLength, false);
}

absl::Status checkHeartbeat(const v1::HeartbeatRequest& request) {
  TESSERA_RETURN_IF_ERROR(checkLease(request));
  TESSERA_RETURN_IF_ERROR(checkRange("run_us", request.run_us(), 0, Limits::kMaxTimeoutUs));
  TESSERA_RETURN_IF_ERROR(checkText("progress.phase", request.progress().phase(), Limits::kMaxNameLength, true));
  TESSERA_RETURN_IF_ERROR(checkText("progress.detail", request.progress().detail(), Limits::kMaxLocationLength, true));
  TESSERA_RETURN_IF_ERROR(checkRange("progress.total", request.progress().total(), 0, INT32_MAX));
  return checkRange("progress.done", request.progress().done(), 0, INT32_MAX);
}

absl::Status checkReport(const v1::ReportTaskRequest& request, const Limits& limits) {
  TESSERA_RETURN_IF_ERROR(checkLease(request));
  const v1::TaskResult& result = request.result();
  if (result.has_failure()) {
    TESSERA_RETURN_IF_ERROR(checkFailure(result.failure()));
  }
  TESSERA_RETURN_IF_ERROR(checkRange("result.files (count)", result.files_size(), 0, Limits::kMaxOutputFiles));
  for (int i = 0; i < result.files_size(); ++i) {
    const v1::OutputFile& file = result.files(i);
    const std::string field = absl::StrCat("result.files[", i, "]");
    TESSERA_RETURN_IF_ERROR(checkFileName(absl::StrCat(field, ".name"), file.name()));
    TESSERA_RETURN_IF_ERROR(checkDigest(absl::StrCat(field, ".digest"), file.digest(), limits.max_blob_bytes));
  }
  TESSERA_RETURN_IF_ERROR(
      checkRange("result.plan.units (count)", result.plan().units_size(), 0, Limits::kMaxOutputFiles));
  TESSERA_RETURN_IF_ERROR(
      checkRange("result.execute.outputs (count)", result.execute().outputs_size(), 0, Limits::kMaxTensors));
  for (int i = 0; i < result.execute().outputs_size(); ++i) {
    TESSERA_RETURN_IF_ERROR(
        checkTensor(absl::StrCat("result.execute.outputs[", i, "]"), result.execute().outputs(i), false, limits));
  }
  TESSERA_RETURN_IF_ERROR(
      checkRange("result.search.proposals (count)", result.search().proposals_size(), 0, Limits::kMaxProposals));
  TESSERA_RETURN_IF_ERROR(checkRange("result.search.batch.refused (count)", result.search().batch().refused_size(), 0,
                                     Limits::kMaxOutputFiles));
  // Outcomes of trees are set by the server only.
  TESSERA_RETURN_IF_ERROR(
      checkRange("result.search.batch.speeds (count)", result.search().batch().speeds_size(), 0, 0));
  TESSERA_RETURN_IF_ERROR(
      checkRange("result.measure.steps (count)", result.measure().steps_size(), 0, Limits::kMaxKernels));
  for (const v1::MeasureTaskResult::StepTime& step : result.measure().steps()) {
    TESSERA_RETURN_IF_ERROR(
        checkText("result.measure.steps.workload_hash", step.workload_hash(), Limits::kMaxNameLength, true));
    TESSERA_RETURN_IF_ERROR(checkTime("result.measure.steps.median_ms", step.median_ms()));
    TESSERA_RETURN_IF_ERROR(
        checkText("result.measure.steps.fusion.kind", step.fusion().kind(), Limits::kMaxNameLength, true));
  }
  TESSERA_RETURN_IF_ERROR(
      checkText("result.measure.wrong", result.measure().wrong(), Limits::kMaxFailureTextBytes, true));
  TESSERA_RETURN_IF_ERROR(checkTimes("result.measure.baseline_ms", result.measure().baseline_ms()));
  TESSERA_RETURN_IF_ERROR(checkTimes("result.measure.candidate_ms", result.measure().candidate_ms()));
  return checkRange("result.profile.kernels (count)", result.profile().kernels_size(), 0, Limits::kMaxKernels);
}

}  // namespace tessera::server
