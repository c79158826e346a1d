#pragma once

#include <optional>
#include <string>

#include "absl/status/status.h"
#include "tessera/v1/failure.pb.h"

namespace tessera {

/// Converts a Failure to a status. Its message becomes the status message, its reason determines the status code
/// (INVALID_MODEL -> kInvalidArgument, and so on), and the whole Failure is attached as a payload, so that code in
/// between need not know it.
absl::Status failureStatus(const v1::Failure& given);

/// Shorthand for a Failure with only a reason and a message.
absl::Status failureStatus(v1::Failure::Reason reason, const std::string& message);

/// Returns the Failure attached to a status. A status without one becomes INTERNAL with its message. Requires
/// !status.ok().
v1::Failure failureOf(const absl::Status& status);

/// Returns the status for the trailer of a failed call, with the attached Failure, if any, as its detail.
v1::RpcStatus toRpcStatus(const absl::Status& status);

/// Returns the Failure in a call's serialized RpcStatus (grpc::Status::error_details); none if it was not sent by
/// Tessera.
std::optional<v1::Failure> failureInDetails(const std::string& details);

}  // namespace tessera
