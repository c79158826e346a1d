#pragma once

#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "proto/support/status_macros.h"
#include "server/limits.h"
#include "storage/store.h"
#include "tessera/v1/job.pb.h"
#include "tessera/v1/tensor.pb.h"
#include "tessera/v1/worker_service.pb.h"

/// Validation of requests, by size and form only: tesserad never parses a model. Every error is INVALID_ARGUMENT with a
/// Failure that has attribute, found, accepted and fix.
namespace tessera::server {

/// The error for one field.
absl::Status fieldError(std::string_view field, std::string_view found, std::string_view accepted,
                        std::string_view fix = "");

absl::Status checkRange(std::string_view field, int64_t value, int64_t least, int64_t most);
/// 1 to `longest` bytes of valid UTF-8 without control characters; may be empty if `optional`.
absl::Status checkText(std::string_view field, std::string_view text, int longest, bool optional);
absl::Status checkDigest(std::string_view field, const v1::Digest& digest, int64_t max_bytes);
/// `fillable`: a tensor without a value is allowed, since it is filled by its shape.
absl::Status checkTensor(const std::string& field, const v1::TensorValue& value, bool fillable, const Limits& limits);
absl::Status checkSha256(std::string_view field, std::string_view sha256);

/// Validates a CreateJob request, except its target, which the catalog resolves.
absl::Status checkCreateJob(const v1::CreateJobRequest& request, const Limits& limits);
absl::Status checkCompileSpec(const v1::CompileSpec& spec, const Limits& limits);
absl::Status checkTuneSpec(const v1::TuneSpec& spec, const Limits& limits);
absl::Status checkWorker(const v1::RegisterWorkerRequest& request);
absl::Status checkHeartbeat(const v1::HeartbeatRequest& request);
/// Validates a worker's result, which is as untrusted as a request: names, digests and counts.
absl::Status checkReport(const v1::ReportTaskRequest& request, const Limits& limits);

/// Any value of 0 or more; values above the maximum mean the maximum (AIP-158).
absl::Status checkPageSize(int64_t page_size);

/// Validates the list fields of a request by size; the store parses the filter.
template <typename Request>
absl::Status checkList(const Request& request) {
  TESSERA_RETURN_IF_ERROR(checkPageSize(request.page_size()));
  TESSERA_RETURN_IF_ERROR(checkText("filter", request.filter(), Limits::kMaxFilterLength, true));
  return checkText("order_by", request.order_by(), Limits::kMaxNameLength, true);
}

/// `project`: restriction of the list; empty: all projects. A required argument, so that no list forgets it.
template <typename Request>
storage::ListQuery listQuery(const Request& request, const std::string& project) {
  return {request.page_size(), request.page_token(), request.filter(), request.order_by(), project};
}

}  // namespace tessera::server
