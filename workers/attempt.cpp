#include "workers/attempt.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "proto/messages/failure.h"
#include "proto/support/log_format.h"
#include "workers/backoff.h"
#include "workers/cores.h"
#include "workers/heartbeat.h"
#include "workers/output_files.h"
#include "workers/rpc.h"

namespace tessera::worker {
namespace {

using Clock = std::chrono::steady_clock;

constexpr Milliseconds kReportTimeout{20'000};
constexpr Milliseconds kReturnTimeout{1'000};  // for giving a task back, when the worker has little time left
/// Inputs that were sent with the lease.
using Enclosed = google::protobuf::RepeatedPtrField<v1::BlobBytes>;

constexpr int kMaxRefusals = 10;  // refusals of a report by a reachable server

v1::TaskResult failed(const absl::Status& status) {
  v1::TaskResult result;
  *result.mutable_failure() = failureOf(status);
  return result;
}

/// Result of an attempt in which a step of this worker failed: the task may succeed elsewhere. A status that already
/// names the party at fault is kept, as is one with which the server rejected a request.
v1::TaskResult workerFault(const absl::Status& status) {
  v1::TaskResult result = failed(status);
  if (result.failure().reason() == v1::Failure::INTERNAL && !absl::IsInvalidArgument(status)) {
    result.mutable_failure()->set_reason(v1::Failure::WORKER_FAULT);
  }
  return result;
}

absl::Status fetchInputs(const AttemptEnvironment& environment, const v1::TaskSpec& task, const Enclosed& enclosed,
                         const AttemptFolder& folder, Cancellation& attempt) {
  const BlobSource download = [&](const v1::Digest& digest, const ByteSink& sink) {
    const auto here = std::find_if(enclosed.begin(), enclosed.end(),
                                   [&](const auto& each) { return each.digest().sha256() == digest.sha256(); });
    return here != enclosed.end() ? sink(here->data()) : environment.blobs.download(digest, sink, attempt);
  };
  std::set<std::string> have;
  for (const v1::Digest& digest : task.inputs()) {
    if (!have.insert(digest.sha256()).second) continue;
    absl::Status status = environment.cache.provide(digest, folder.input(digest.sha256()), download);
    if (absl::IsNotFound(status) || absl::IsDataLoss(status)) {
      v1::Failure failure;
      failure.set_reason(v1::Failure::MISSING_BLOB);
      failure.set_message(absl::StrCat("input blob ", digest.sha256(), " is not available: ", status.message()));
      failure.set_fix("upload the blob again, then create the job again");
      return failureStatus(failure);
    }
    if (!status.ok()) return status;
  }
  return absl::OkStatus();
}

/// The task for its process, restricted to the CPUs that its lease allows.
v1::TaskSpec placed(const v1::Lease& lease, int measuring_cores) {
  v1::TaskSpec task = lease.task();
  const std::vector<int> cpus = cpusOfTask(lease.cores(), lease.first_core(), std::max(1, task.measure().threads()),
                                           measuring_cores, allowedCpus());
  task.mutable_cpus()->Assign(cpus.begin(), cpus.end());
  return task;
}

/// All steps between lease and report. An empty result means that the attempt was cancelled.
v1::TaskResult work(const AttemptEnvironment& environment, const v1::TaskSpec& task, const v1::Lease& lease,
                    Heartbeat& heartbeat, Cancellation& attempt) {
  auto folder = environment.scratch.newAttempt();
  if (!folder.ok()) return workerFault(folder.status());
  if (absl::Status status = fetchInputs(environment, task, lease.inputs(), *folder, attempt); !status.ok()) {
    return workerFault(status);
  }
  heartbeat.setTaskRunning(true);
  const std::shared_ptr<SharedStepCache> steps = environment.step_cache.of(lease.step_cache());
  v1::TaskResult result = runTask(
      environment.runner, task, *folder, [&](const v1::Progress& progress) { heartbeat.setProgress(progress); },
      attempt, steps.get());
  heartbeat.setTaskRunning(false);
  heartbeat.setResultComplete();
  if (attempt.cancelled()) return result;
  absl::Status stored = storeOutputs(result, task, *folder, environment.blobs, environment.cache, attempt);
  return stored.ok() ? result : workerFault(stored);
}

/// Reports the result until the server has accepted or rejected it, or `give_up` returns true.
void report(const AttemptEnvironment& environment, const v1::Lease& lease, const v1::TaskResult& result,
            Cancellation& until, const std::function<bool(Clock::duration)>& give_up,
            Milliseconds timeout = kReportTimeout) {
  v1::ReportTaskRequest request;
  request.set_worker_id(environment.worker_id);
  request.set_task_id(lease.task_id());
  request.set_fencing_token(lease.fencing_token());
  request.set_secret(lease.secret());
  *request.mutable_result() = result;
  const Clock::time_point started = Clock::now();
  Backoff backoff;
  for (int refusals = 0; !until.cancelled();) {
    v1::ReportTaskResponse response;
    absl::Status status;
    {
      CallContext context(until, timeout);
      status = toAbsl(environment.service.ReportTask(context.get(), request, &response));
    }
    if (status.ok()) return;
    if (absl::IsAborted(status)) {
      spdlog::warn("task {}: the server discarded the result of token {}: {}", lease.task_id(), lease.fencing_token(),
                   std::string(status.message()));
      return;
    }
    const bool away = absl::IsUnavailable(status) || absl::IsDeadlineExceeded(status);
    if ((!away && ++refusals >= kMaxRefusals) || absl::IsInvalidArgument(status)) {
      spdlog::error("task {}: the server rejects the result: {}", lease.task_id(), status.ToString());
      return;
    }
    // Retry as long as the result may still be accepted.
    if (until.cancelled() || give_up(Clock::now() - started)) break;
    // A restarted server may require a new registration.
    if (auto session = environment.registration.sessionNow(until); session.ok() && !away) {
      environment.registration.invalidate(session->generation);
    }
    until.sleepFor(backoff.next());
  }
  // A heartbeat may learn during the report that the lease is lost, and then cancels it.
  spdlog::warn("task {}: the result of token {} was abandoned: its lease was lost, or the worker stops",
               lease.task_id(), lease.fencing_token());
}

/// The state of an attempt from its lease until the server has its result.
struct Running {
  Running(const AttemptEnvironment& environment, v1::Lease granted, const Session& session)
      : lease(std::move(granted)),
        stop(environment.stopping, [this](StopReason reason) { attempt.cancel(reason); }),
        heartbeat(environment.service, environment.registration, session, environment.worker_id, lease, attempt) {}

  const v1::Lease lease;
  Cancellation attempt;
  const OnCancel stop;
  Heartbeat heartbeat;
  v1::TaskResult result;
};

LogContext logAbout(const v1::Lease& lease) { return LogContext({{"task", lease.task_id()}, {"job", lease.job_id()}}); }

void report(const AttemptEnvironment& environment, Running& running, const Session& session) {
  const v1::Lease& lease = running.lease;
  const v1::TaskResult& result = running.result;
  const LogContext about = logAbout(lease);
  const auto lease_length = Milliseconds(lease.lease_us() > 0 ? lease.lease_us() / 1000 : session.lease.count());
  switch (running.attempt.reason()) {
    case StopReason::kNone:
      if (result.has_failure()) {
        spdlog::warn("task {}: {}: {}", lease.task_id(), v1::Failure::Reason_Name(result.failure().reason()),
                     result.failure().message());
      }
      report(environment, lease, result, running.attempt,
             [&](Clock::duration waited) { return environment.draining.cancelled() && waited > lease_length; });
      break;
    case StopReason::kCancelled: {
      // Report it, so that the server can give this worker another task before the lease expires.
      v1::TaskResult cancelled = failed(failureStatus(v1::Failure::CANCELLED, "the job was cancelled"));
      *cancelled.mutable_usage() = result.usage();
      report(environment, lease, cancelled, environment.stopping,
             [&](Clock::duration waited) { return waited > lease_length; });
      break;
    }
    case StopReason::kShutdown: {
      // Give the task back, so that it starts elsewhere at once and not after the lease.
      spdlog::warn("task {}: given back, the worker stops", lease.task_id());
      v1::TaskResult returned =
          failed(failureStatus(v1::Failure::LEASE_LOST, "the worker was stopped while the task ran"));
      *returned.mutable_usage() = result.usage();
      Cancellation never;
      report(
          environment, lease, returned, never, [](Clock::duration waited) { return waited > kReturnTimeout; },
          kReturnTimeout);
      break;
    }
    default:
      spdlog::warn("task {}: abandoned, its lease was lost", lease.task_id());
  }
}

}  // namespace

std::function<void()> runAttempt(const AttemptEnvironment& environment, const v1::Lease& lease,
                                 const Session& session) {
  const LogContext about = logAbout(lease);
  spdlog::info("task {} ({}, job {}): attempt {}, token {}", lease.task_id(), v1::TaskKind_Name(lease.task().kind()),
               lease.job_id(), lease.attempt(), lease.fencing_token());
  const auto running = std::make_shared<Running>(environment, lease, session);
  running->result =
      work(environment, placed(lease, environment.measuring_cores), lease, running->heartbeat, running->attempt);
  const v1::Usage& usage = running->result.usage();
  spdlog::debug(
      "task {} (job {}): attempt {} took {:.0f} ms and {:.0f} ms of processor time, {} KiB resident at the peak",
      lease.task_id(), lease.job_id(), lease.attempt(), usage.wall_ms(), usage.cpu_ms(), usage.peak_rss_bytes() >> 10);
  return [&environment, running, session] { report(environment, *running, session); };
}

}  // namespace tessera::worker
