#pragma once

#include "absl/status/status.h"
#include "tessera/v1/failure.pb.h"

/// The consequences of each failure reason, in one table. It decides how a failed attempt is retried, which status code
/// a call returns, and which exit code a command has.
namespace tessera {

/// Exit codes of all commands; part of the public interface (clients/README.md).
enum ExitCode {
  kExitOk = 0,
  kExitInternal = 1,     ///< a fault of Tessera or of the service
  kExitUsage = 2,        ///< wrong command line
  kExitInvalid = 3,      ///< wrong model, target or input tensor; retry after fixing it
  kExitUnsupported = 4,  ///< valid, but not supported by the compiler
  kExitNotFound = 5,     ///< no such job, artifact, target, worker, file
  kExitDeadline = 6,     ///< the queue, run or total deadline has passed
  kExitCancelled = 7,
  kExitUnreachable = 8,   ///< no server answers, no worker accepts the task, or a quota is used up; retry later
  kExitIncompatible = 9,  ///< the artifact cannot run on this host
  kExitCrashed = 10,      ///< the task crashed or ran out of memory; a reproducer is kept
  kExitForbidden = 11,    ///< unknown credentials, or insufficient permissions
};

/// Who is responsible for a failure.
enum class Fault {
  kRequest,  ///< the request; it fails everywhere
  kTask,     ///< the task's process died, because of its input or of the compiler
  kWorker,   ///< the machine of the worker
  kService,  ///< Tessera
  kNobody,   ///< nobody: cancellation, a deadline of the client, or a lost connection
};

/// The counter that a failed attempt increments. Each counter has a limit (server/queue/rules.h) at which the task
/// fails.
enum class Attempts {
  kLast,    ///< no retry
  kCrash,   ///< a small number of retries
  kLoss,    ///< a large number of retries, since the loss says little about the task
  kWorker,  ///< some retries; also counted against the worker
};

struct FailureClass {
  v1::Failure::Reason reason;
  Fault fault;
  Attempts attempts;
  bool elsewhere;   ///< retry on another worker, as long as one is alive
  bool reproducer;  ///< after the last attempt, keep what is needed to rerun the task
  absl::StatusCode code;
  ExitCode exit_code;
};

/// Returns the class of a reason. An unknown reason, such as one of a newer release, is treated as INTERNAL.
const FailureClass& classOf(v1::Failure::Reason reason);

}  // namespace tessera
