#pragma once

#include <optional>
#include <string>

#include "absl/status/status.h"
#include "tessera/v1/failure.pb.h"

namespace tessera {

/// A Failure as a status: its message is the status message and the whole Failure rides along as a
/// payload, so that callers between its maker and the user need not know it.
/// The status code follows from the reason (INVALID_MODEL -> kInvalidArgument, and so on).
absl::Status failureStatus(const v1::Failure& given);

/// Shorthand for a Failure of which only reason and message are known.
absl::Status failureStatus(v1::Failure::Reason reason, const std::string& message);

/// The Failure within a status; a status without one becomes INTERNAL with its message.
/// Requires !status.ok().
v1::Failure failureOf(const absl::Status& status);

/// What a failed call carries in its trailer: google.rpc.Status, the Failure as its detail. Empty of details when the
/// status carries none.
v1::RpcStatus rpcStatusOf(const absl::Status& status);

/// The Failure in a call's details (grpc::Status::error_details), a serialized RpcStatus; none: somebody else's.
std::optional<v1::Failure> failureInDetails(const std::string& details);

}  // namespace tessera
