#include "clients/cli/exit_code.h"

#include "proto/messages/failure.h"

namespace tessera::client {

ExitCode exitCodeOf(const v1::Failure& failure) { return classOf(failure.reason()).exit_code; }

ExitCode exitCodeOf(const v1::CheckReport& report) {
  bool unsupported = false;
  for (const v1::Failure& problem : report.problems()) {
    const bool unbound = problem.reason() == v1::Failure::UNBOUND_DIMENSION;
    if (exitCodeOf(problem) == kExitInvalid && !unbound) return kExitInvalid;
    unsupported |= exitCodeOf(problem) == kExitUnsupported;
  }
  if (unsupported) return kExitUnsupported;
  return report.problems().empty() ? kExitOk : exitCodeOf(report.problems(0));
}

ExitCode exitCodeOf(const absl::Status& status) {
  if (status.ok()) return kExitOk;
  // A typed Failure is more precise than the status code.
  const v1::Failure failure = failureOf(status);
  if (failure.reason() != v1::Failure::INTERNAL) return exitCodeOf(failure);
  switch (status.code()) {
    case absl::StatusCode::kInvalidArgument:
    case absl::StatusCode::kOutOfRange:
    case absl::StatusCode::kAlreadyExists:
    case absl::StatusCode::kFailedPrecondition:  // the request does not fit the state
      return kExitInvalid;
    case absl::StatusCode::kUnimplemented:
      return kExitUnsupported;
    case absl::StatusCode::kNotFound:
      return kExitNotFound;
    case absl::StatusCode::kDeadlineExceeded:
      return kExitDeadline;
    case absl::StatusCode::kCancelled:
      return kExitCancelled;
    case absl::StatusCode::kUnauthenticated:
    case absl::StatusCode::kPermissionDenied:
      return kExitForbidden;
    case absl::StatusCode::kUnavailable:
      return kExitUnreachable;
    default:
      return kExitInternal;
  }
}

}  // namespace tessera::client
