// Arbitrary bytes as a request of the web gateway (method and path, query, JSON body): rejected with INVALID_ARGUMENT
// and a message, or an API message that can be printed as JSON again.
#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <iostream>
#include <string>
#include <string_view>

#include "server/gateway/routes.h"
#include "server/gateway/transcoding.h"
#include "tessera/v1/admin_service.pb.h"
#include "tessera/v1/artifact.pb.h"
#include "tessera/v1/artifact_versions.pb.h"
#include "tessera/v1/blob_service.pb.h"
#include "tessera/v1/job.pb.h"
#include "tessera/v1/operator_service.pb.h"
#include "tessera/v1/record.pb.h"
#include "tessera/v1/target_service.pb.h"
#include "tessera/v1/worker_service.pb.h"

namespace {

using namespace tessera::server::gateway;

/// Removes and returns the text up to the next `end`.
std::string_view next(std::string_view& text, char end) {
  const size_t length = std::min(text.find(end), text.size());
  const std::string_view part = text.substr(0, length);
  text.remove_prefix(std::min(length + 1, text.size()));
  return part;
}

/// One message of each API file: the linker keeps only referenced descriptors.
const google::protobuf::Descriptor* const kFiles[] = {
    tessera::v1::CreateJobRequest::descriptor(),     tessera::v1::FindMissingBlobsRequest::descriptor(),
    tessera::v1::GetArtifactRequest::descriptor(),   tessera::v1::ListTargetsRequest::descriptor(),
    tessera::v1::ListRecordsRequest::descriptor(),   tessera::v1::ListWorkersRequest::descriptor(),
    tessera::v1::ListOperatorsRequest::descriptor(), tessera::v1::ListTokensRequest::descriptor(),
    tessera::v1::CreateTuningRequest::descriptor()};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  std::string_view text(reinterpret_cast<const char*>(data), size);
  const std::string_view verb = next(text, ' ');
  const std::string_view path = next(text, '\n');
  std::string_view line = next(text, '\n');
  Parameters query;
  while (!line.empty()) {
    std::string_view pair = next(line, '&');
    const std::string_view name = next(pair, '=');
    query.emplace(name, pair);
  }
  std::string allowed;
  const auto found = match(verb, path, &allowed);
  if (!found) return 0;
  const auto request = requestOf(*found, query, std::string(text));
  const absl::Status& status = request.status();
  if (!status.ok() && (!absl::IsInvalidArgument(status) || status.message().empty())) {
    std::cerr << "check: " << status << "\n";
    std::abort();
  }
  if (status.ok() && toJson(**request).empty()) std::abort();
  (void)errorJson(status.ok() ? absl::NotFoundError(std::string(path)) : status);
  return 0;
}
