#include "workers/child_exit.h"

#include <signal.h>
#include <string.h>

#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "workers/exit_codes.h"

namespace tessera::worker {
namespace {

using v1::Failure;

std::string signalText(int signal) {
  const char* name = sigabbrev_np(signal);
  const char* what = sigdescr_np(signal);
  return absl::StrCat("signal ", signal,
                      name ? absl::StrCat(" (SIG", name, what ? absl::StrCat(", ", what) : "", ")") : "");
}

// SIGKILL comes from the kernel when memory runs out, or from an operator. Near the limit, assume the kernel.
bool nearMemoryLimit(const ChildExit& end, const Limits& limits) {
  return limits.address_space_bytes > 0 && end.peak_rss_bytes >= limits.address_space_bytes / 10 * 9;
}

Failure make(Failure::Reason reason, std::string message, std::string fix = "") {
  Failure failure;
  failure.set_reason(reason);
  failure.set_message(std::move(message));
  failure.set_fix(std::move(fix));
  return failure;
}

Failure outOfMemory(const ChildExit& end, const Limits& limits) {
  Failure failure = make(Failure::OUT_OF_MEMORY, "the task ran out of memory",
                         "raise the worker's --memory-limit, or use a smaller model or batch");
  failure.set_found(absl::StrCat(end.peak_rss_bytes >> 20, " MiB resident at the peak"));
  if (limits.address_space_bytes > 0) {
    failure.set_accepted(absl::StrCat("at most ", limits.address_space_bytes >> 20, " MiB of address space"));
  }
  return failure;
}

Failure deadline(const ChildExit& end, const ChildSpec& spec) {
  Failure failure = make(Failure::RUN_DEADLINE_EXCEEDED, "the task ran longer than its run deadline",
                         "raise the job's run timeout, or use a smaller model");
  failure.set_found(absl::StrCat(static_cast<int64_t>(end.wall_ms), " ms wall, ", static_cast<int64_t>(end.cpu_ms),
                                 " ms processor time"));
  if (spec.run_timeout.count() > 0) failure.set_accepted(absl::StrCat("at most ", spec.run_timeout.count(), " ms"));
  return failure;
}

Failure ofSignal(const ChildExit& end, const ChildSpec& spec) {
  switch (end.signal) {
    case SIGSYS:
      return make(Failure::SANDBOX_VIOLATION, "the task made a system call that its profile forbids");
    case SIGXCPU:
      return deadline(end, spec);
    case SIGXFSZ: {
      Failure failure = make(Failure::LIMIT_EXCEEDED, "the task wrote a file larger than its limit");
      failure.set_accepted(absl::StrCat("at most ", spec.limits.file_bytes, " bytes in one file"));
      return failure;
    }
    case SIGBUS:
      // Access to a mapped file raises SIGBUS if the disk is full or fails; other code of ours does not.
      if (spec.generated_code) break;
      return make(Failure::WORKER_FAULT, "the task could not read or write a mapped file",
                  "check the worker's disk for free space and errors");
    case SIGKILL:
      // RLIMIT_CPU's hard limit also kills, if the child ignored SIGXCPU.
      if (spec.limits.cpu_seconds > 0 && end.cpu_ms >= static_cast<double>(spec.limits.cpu_seconds) * 1e3) {
        return deadline(end, spec);
      }
      if (nearMemoryLimit(end, spec.limits)) return outOfMemory(end, spec.limits);
      break;
    default:
      break;
  }
  return make(Failure::CRASHED, absl::StrCat("the task was ended by ", signalText(end.signal)));
}

Failure ofExit(const ChildExit& end, const ChildSpec& spec) {
  if (!end.not_started.empty()) return make(Failure::WORKER_FAULT, end.not_started);
  switch (end.exit_code) {
    case 0:
      return make(Failure::INTERNAL, "the task ended without leaving a readable result");
    case kTaskOutOfMemory:
      return outOfMemory(end, spec.limits);
    // The task has printed the reason; its output is appended to the message.
    case kTaskCannotStart:
      return make(Failure::WORKER_FAULT, "the task process could not set itself up");
    case kTaskOtherBuild:
      return otherBuild("the task program is of another build than its worker");
    case kTaskCannotReport:
      return make(Failure::WORKER_FAULT, "the task could not write its result");
    default:
      return make(Failure::CRASHED, absl::StrCat("the task exited with status ", end.exit_code, " and no result"));
  }
}

Failure classify(const ChildExit& end, const ChildSpec& spec) {
  switch (end.stopped) {
    case StopReason::kDeadline:
      return deadline(end, spec);
    case StopReason::kCancelled:
      return make(Failure::CANCELLED, "the job was cancelled while the task ran");
    case StopReason::kLeaseLost:
      return make(Failure::LEASE_LOST, "the lease was lost while the task ran");
    case StopReason::kShutdown:
      return make(Failure::LEASE_LOST, "the worker was stopped while the task ran");
    case StopReason::kDiskQuota: {
      Failure failure = make(Failure::LIMIT_EXCEEDED,
                             "the task exceeded the size limit of its scratch folder, or made a part of it unreadable");
      failure.set_accepted(absl::StrCat("at most ", spec.scratch_bytes >> 20, " MiB (the worker's --scratch-quota)"));
      return failure;
    }
    case StopReason::kNone:
      break;
  }
  return end.exited ? ofExit(end, spec) : ofSignal(end, spec);
}

}  // namespace

v1::Failure otherBuild(std::string message) {
  return make(Failure::WORKER_FAULT, std::move(message),
              "restart the worker, and its server if that is of the earlier build too");
}

v1::Failure failureOfExit(const ChildExit& end, const ChildSpec& spec) {
  Failure failure = classify(end, spec);
  if (!end.exited) failure.set_signal(end.signal);
  // Output may contain any bytes; a proto string must be UTF-8.
  std::string tail;
  for (char c : absl::StripSuffix(end.stderr_tail, "\n"))
    tail += (c == '\n' || c == '\t' || (c >= 32 && c < 127)) ? c : '?';
  if (end.stopped == StopReason::kNone && !tail.empty()) {
    failure.set_message(absl::StrCat(failure.message(), "; it printed last:\n", tail));
  }
  return failure;
}

}  // namespace tessera::worker
