#include "proto/messages/failure_class.h"

#include <algorithm>
#include <iterator>

namespace tessera {
namespace {

using v1::Failure;
using Code = absl::StatusCode;

// clang-format off
constexpr FailureClass kClasses[] = {
    // reason                         whose             attempts          elsewhere reproducer  gRPC code                 exit code
    {Failure::INTERNAL,                Fault::kService, Attempts::kLast,   false,   true,  Code::kInternal,           kExitInternal},
    {Failure::INVALID_MODEL,           Fault::kRequest, Attempts::kLast,   false,   false, Code::kInvalidArgument,    kExitInvalid},
    {Failure::UNSUPPORTED_OPERATOR,    Fault::kRequest, Attempts::kLast,   false,   false, Code::kUnimplemented,      kExitUnsupported},
    {Failure::UNBOUND_DIMENSION,       Fault::kRequest, Attempts::kLast,   false,   false, Code::kInvalidArgument,    kExitInvalid},
    {Failure::INVALID_TARGET,          Fault::kRequest, Attempts::kLast,   false,   false, Code::kInvalidArgument,    kExitInvalid},
    {Failure::INVALID_INPUT,           Fault::kRequest, Attempts::kLast,   false,   false, Code::kInvalidArgument,    kExitInvalid},
    {Failure::INVALID_SCHEDULE,        Fault::kRequest, Attempts::kLast,   false,   false, Code::kInvalidArgument,    kExitInvalid},
    {Failure::LIMIT_EXCEEDED,          Fault::kRequest, Attempts::kLast,   false,   false, Code::kResourceExhausted,  kExitInvalid},
    {Failure::QUOTA_EXCEEDED,          Fault::kRequest, Attempts::kLast,   false,   false, Code::kResourceExhausted,  kExitUnreachable},
    {Failure::MISSING_BLOB,            Fault::kRequest, Attempts::kLast,   false,   false, Code::kNotFound,           kExitNotFound},
    {Failure::INCOMPATIBLE_HOST,       Fault::kRequest, Attempts::kLast,   false,   false, Code::kFailedPrecondition, kExitIncompatible},
    {Failure::CRASHED,                 Fault::kTask,    Attempts::kCrash,  true,    true,  Code::kInternal,           kExitCrashed},
    {Failure::OUT_OF_MEMORY,           Fault::kTask,    Attempts::kCrash,  true,    true,  Code::kResourceExhausted,  kExitCrashed},
    {Failure::RUN_DEADLINE_EXCEEDED,   Fault::kTask,    Attempts::kLast,   false,   true,  Code::kDeadlineExceeded,   kExitDeadline},
    {Failure::LEASE_LOST,              Fault::kNobody,  Attempts::kLoss,   true,    true,  Code::kAborted,            kExitInternal},
    {Failure::SANDBOX_VIOLATION,       Fault::kTask,    Attempts::kLast,   false,   true,  Code::kPermissionDenied,   kExitCrashed},
    {Failure::WORKER_FAULT,            Fault::kWorker,  Attempts::kWorker, true,    false, Code::kUnavailable,        kExitInternal},
    {Failure::QUEUE_DEADLINE_EXCEEDED, Fault::kNobody,  Attempts::kLast,   false,   false, Code::kDeadlineExceeded,   kExitDeadline},
    {Failure::CANCELLED,               Fault::kNobody,  Attempts::kLoss,   false,   false, Code::kCancelled,          kExitCancelled},
    {Failure::QUARANTINED,             Fault::kTask,    Attempts::kLast,   false,   true,  Code::kFailedPrecondition, kExitCrashed},
    {Failure::JOB_DEADLINE_EXCEEDED,   Fault::kNobody,  Attempts::kLast,   false,   false, Code::kDeadlineExceeded,   kExitDeadline},
    {Failure::NO_WORKER,               Fault::kService, Attempts::kLast,   false,   false, Code::kUnavailable,        kExitUnreachable},
};
// clang-format on

}  // namespace

const FailureClass& classOf(v1::Failure::Reason reason) {
  const auto* found = std::find_if(std::begin(kClasses), std::end(kClasses),
                                   [&](const FailureClass& entry) { return entry.reason == reason; });
  return found != std::end(kClasses) ? *found : kClasses[0];
}

}  // namespace tessera
