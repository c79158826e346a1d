#pragma once

#include <grpcpp/support/status.h>

#include "absl/status/status.h"

namespace tessera::server {

/// Converts a status. The codes have equal numbers. If the status carries a Failure, `error_details` is a
/// google.rpc.Status with it, so that clients can show the found value, the accepted values and the remedy. Both are
/// sent in the trailer, which HTTP/2 peers limit to 8 KiB; longer texts are cut and marked as cut.
grpc::Status toGrpc(const absl::Status& status);

}  // namespace tessera::server
