#pragma once

#include "absl/status/status.h"
#include "tessera/v1/failure.pb.h"

/// What follows from a failure's reason, in one table: whoever decides about a failed attempt, answers a call or ends
/// a command asks here.
namespace tessera {

/// Exit codes of every command, part of the interface (clients/README.md).
enum ExitCode {
  kExitOk = 0,
  kExitInternal = 1,     ///< our fault, or the service's
  kExitUsage = 2,        ///< the command line
  kExitInvalid = 3,      ///< the model, the target or an input tensor: fix it and try again
  kExitUnsupported = 4,  ///< valid, but not compiled yet
  kExitNotFound = 5,     ///< no such job, artifact, target, worker, file
  kExitDeadline = 6,     ///< a queue, run or total deadline passed
  kExitCancelled = 7,
  kExitUnreachable = 8,   ///< no server answers, no worker of its can do this, or a quota is used up: later
  kExitIncompatible = 9,  ///< the artifact cannot run on this host
  kExitCrashed = 10,      ///< the task crashed or ran out of memory; a reproducer is kept
  kExitForbidden = 11,    ///< the server does not know who calls, or does not let them do that
};

enum class Fault {
  kRequest,  ///< the same input fails everywhere
  kTask,     ///< its process met its end: the input's fault or ours
  kWorker,   ///< the machine it ran on
  kService,  ///< ours
  kNobody,   ///< a wish or a deadline of the client, or a loss on the way
};

/// What a failed attempt is counted as. Each count has its bound (server/scheduler/rules.h), at which the task fails.
enum class Attempts {
  kLast,    ///< it is not tried again
  kCrash,   ///< few more
  kLoss,    ///< many more: says little about the task
  kWorker,  ///< some more, and counted on the worker's account too
};

struct FailureClass {
  v1::Failure::Reason reason;
  Fault fault;
  Attempts attempts;
  bool elsewhere;   ///< another attempt goes to another worker, as long as one lives
  bool reproducer;  ///< what is needed to run it again is kept when it was the last attempt
  absl::StatusCode code;
  ExitCode exit_code;
};

/// A reason without an entry (of a newer release) counts as INTERNAL.
const FailureClass& classOf(v1::Failure::Reason reason);

}  // namespace tessera
