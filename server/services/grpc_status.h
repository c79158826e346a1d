#pragma once

#include <grpcpp/support/status.h>

#include "absl/status/status.h"

namespace tessera::server {

/// Our status as gRPC's. The codes are the same numbers; when the status carries a Failure, `error_details` is a
/// google.rpc.Status with it, so that a client can show what was found, what is accepted and how to fix it. Both travel
/// in the call's trailer, which HTTP/2 peers bound (8 KiB): longer texts are cut, and say so.
grpc::Status toGrpc(const absl::Status& status);

}  // namespace tessera::server
