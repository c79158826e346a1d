#include "proto/failure.h"

#include "absl/strings/cord.h"

namespace tessera {
namespace {

constexpr char kPayloadType[] = "type.googleapis.com/tessera.v1.Failure";

absl::StatusCode codeOf(v1::Failure::Reason reason) {
  switch (reason) {
    case v1::Failure::INVALID_MODEL:
    case v1::Failure::UNBOUND_DIMENSION:
    case v1::Failure::INVALID_TARGET:
    case v1::Failure::INVALID_INPUT:
      return absl::StatusCode::kInvalidArgument;
    case v1::Failure::UNSUPPORTED_OPERATOR:
      return absl::StatusCode::kUnimplemented;
    case v1::Failure::LIMIT_EXCEEDED:
    case v1::Failure::OUT_OF_MEMORY:
      return absl::StatusCode::kResourceExhausted;
    case v1::Failure::MISSING_BLOB:
      return absl::StatusCode::kNotFound;
    case v1::Failure::INCOMPATIBLE_HOST:
    case v1::Failure::QUARANTINED:
      return absl::StatusCode::kFailedPrecondition;
    case v1::Failure::RUN_DEADLINE_EXCEEDED:
    case v1::Failure::QUEUE_DEADLINE_EXCEEDED:
      return absl::StatusCode::kDeadlineExceeded;
    case v1::Failure::LEASE_LOST:
      return absl::StatusCode::kAborted;
    case v1::Failure::SANDBOX_VIOLATION:
      return absl::StatusCode::kPermissionDenied;
    case v1::Failure::CANCELLED:
      return absl::StatusCode::kCancelled;
    default:
      return absl::StatusCode::kInternal;
  }
}

}  // namespace

absl::Status failureStatus(const v1::Failure& failure) {
  absl::Status status(codeOf(failure.reason()), failure.message());
  // By view: Cord's string constructors are templates whose mangling differs between g++ 12 and clang 22.
  const std::string bytes = failure.SerializeAsString();
  status.SetPayload(kPayloadType, absl::Cord(absl::string_view(bytes)));
  return status;
}

absl::Status failureStatus(v1::Failure::Reason reason, const std::string& message) {
  v1::Failure failure;
  failure.set_reason(reason);
  failure.set_message(message);
  return failureStatus(failure);
}

v1::Failure failureOf(const absl::Status& status) {
  v1::Failure failure;
  if (auto payload = status.GetPayload(kPayloadType); payload && failure.ParseFromString(std::string(*payload))) {
    return failure;
  }
  failure.Clear();
  failure.set_reason(v1::Failure::INTERNAL);
  failure.set_message(std::string(status.message()));
  return failure;
}

}  // namespace tessera
