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

/// The border: what a client sent is checked here, by size and form alone. tesserad never parses a model.
/// Every error is INVALID_ARGUMENT with a Failure whose attribute, found, accepted and fix are filled in.
namespace tessera::server {

/// The error for one field.
absl::Status fieldError(std::string_view field, std::string_view found, std::string_view accepted,
                        std::string_view fix = "");

absl::Status checkRange(std::string_view field, int64_t value, int64_t least, int64_t most);
/// 1 to `longest` bytes of valid text without control characters; empty where `optional`.
absl::Status checkText(std::string_view field, std::string_view text, int longest, bool optional);
absl::Status checkDigest(std::string_view field, const v1::Digest& digest, int64_t max_bytes);
/// `fillable`: a tensor without a value is filled, its shape counts.
absl::Status checkTensor(const std::string& field, const v1::TensorValue& value, bool fillable, const Limits& limits);
absl::Status checkSha256(std::string_view field, std::string_view sha256);

/// All of a CreateJob request but its target, which the catalog resolves.
absl::Status checkCreateJob(const v1::CreateJobRequest& request, const Limits& limits);
absl::Status checkCompileSpec(const v1::CompileSpec& spec, const Limits& limits);
absl::Status checkTuneSpec(const v1::TuneSpec& spec, const Limits& limits);
absl::Status checkWorker(const v1::RegisterWorkerRequest& request);
absl::Status checkHeartbeat(const v1::HeartbeatRequest& request);
/// A worker's results are no more trusted than a client's requests: names, digests and counts within their bounds.
absl::Status checkReport(const v1::ReportTaskRequest& request, const Limits& limits);

/// 0 or more: what is above the largest page means the largest (AIP-158).
absl::Status checkPageSize(int64_t page_size);

/// The list fields of a request with a page: sizes here, the filter's grammar in the store.
template <typename Request>
absl::Status checkList(const Request& request) {
  TESSERA_RETURN_IF_ERROR(checkPageSize(request.page_size()));
  TESSERA_RETURN_IF_ERROR(checkText("filter", request.filter(), Limits::kMaxFilterLength, true));
  return checkText("order_by", request.order_by(), Limits::kMaxNameLength, true);
}

/// `project`: whose things; empty: all there are. Said with every list, so that none forgets it.
template <typename Request>
storage::ListQuery listQuery(const Request& request, const std::string& project) {
  return {request.page_size(), request.page_token(), request.filter(), request.order_by(), project};
}

}  // namespace tessera::server
