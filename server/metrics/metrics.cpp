#include "server/metrics/metrics.h"

#include <array>
#include <string_view>

#include "absl/strings/ascii.h"
#include "proto/version/version.h"

namespace tessera::server {
namespace {

using prometheus::BuildCounter;
using prometheus::BuildGauge;
using prometheus::BuildHistogram;
using Buckets = prometheus::Histogram::BucketBoundaries;

/// Bucket limits in seconds, of disk operations.
const Buckets kCommit = {0.0002, 0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5};
/// Of calls; some calls wait for events.
const Buckets kCall = {0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60};
/// Of work, from the smallest kernel to a night of tuning.
const Buckets kWork = {0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300, 1800, 7200, 28800};

/// Names of status codes by number, as gRPC's documentation spells them.
constexpr std::array<std::string_view, 17> kCodes = {
    "OK",        "CANCELLED",      "UNKNOWN",           "INVALID_ARGUMENT",   "DEADLINE_EXCEEDED",
    "NOT_FOUND", "ALREADY_EXISTS", "PERMISSION_DENIED", "RESOURCE_EXHAUSTED", "FAILED_PRECONDITION",
    "ABORTED",   "OUT_OF_RANGE",   "UNIMPLEMENTED",     "INTERNAL",           "UNAVAILABLE",
    "DATA_LOSS", "UNAUTHENTICATED"};

std::string kindLabel(v1::TaskKind kind) { return labelOf(v1::TaskKind_Name(kind)); }

std::string endLabel(v1::Failure::Reason reason) {
  return reason == v1::Failure::REASON_UNSPECIFIED ? "succeeded" : labelOf(v1::Failure::Reason_Name(reason));
}

struct LookupLabels {
  Lookup lookup;
  const char* result;
  const char* reason;
};
constexpr LookupLabels kLookups[] = {{Lookup::kStored, "hit", "stored"},      {Lookup::kShared, "hit", "shared"},
                                     {Lookup::kInFlight, "hit", "in_flight"}, {Lookup::kSkipped, "miss", "skipped"},
                                     {Lookup::kNew, "miss", "new"},           {Lookup::kDamaged, "miss", "damaged"}};

prometheus::Labels labelsOf(const Observations::Answer& answer) {
  for (const LookupLabels& known : kLookups) {
    if (known.lookup == answer.lookup) {
      return {{"cache", answer.cache == Cache::kArtifact ? "artifact" : "object"},
              {"result", known.result},
              {"reason", known.reason}};
    }
  }
  return {};
}

}  // namespace

std::string labelOf(const std::string& enum_name) { return absl::AsciiStrToLower(enum_name); }

Metrics::Metrics()
    : attempts_(
          BuildCounter()
              .Name("tessera_task_attempts_total")
              .Help("Ended attempts of tasks, by kind of task and result: succeeded, or the reason of the failure.")
              .Register(registry_)),
      attempt_seconds_(BuildHistogram()
                           .Name("tessera_task_attempt_seconds")
                           .Help("Time from the lease to the end of an attempt, by kind of task.")
                           .Register(registry_)),
      wait_seconds_(BuildHistogram()
                        .Name("tessera_task_wait_seconds")
                        .Help("Time from ready to the first lease of a task, by kind of task.")
                        .Register(registry_)),
      phase_seconds_(BuildHistogram()
                         .Name("tessera_job_phase_seconds")
                         .Help("Time from the first start to the last end of each phase of successful work, by phase.")
                         .Register(registry_)),
      jobs_(BuildCounter()
                .Name("tessera_jobs_total")
                .Help("Ended jobs, by kind, state and reason of failure.")
                .Register(registry_)),
      job_seconds_(BuildHistogram()
                       .Name("tessera_job_seconds")
                       .Help("Time from a job's creation to its end, by kind; includes jobs answered from the cache.")
                       .Register(registry_)),
      lookups_(BuildCounter()
                   .Name("tessera_cache_lookups_total")
                   .Help("Cache lookups of artifacts and objects, by result and reason.")
                   .Register(registry_)),
      commit_seconds_(BuildHistogram()
                          .Name("tessera_store_commit_seconds")
                          .Help("Duration of commits with changes, from begin to the end of the sync.")
                          .Register(registry_)
                          .Add({}, kCommit)),
      transactions_(BuildCounter()
                        .Name("tessera_store_transactions_total")
                        .Help("Transactions in these commits; several may share one.")
                        .Register(registry_)
                        .Add({})),
      calls_(
          BuildCounter()
              .Name("tessera_rpcs_total")
              .Help("Ended gRPC calls, including those of the web page, by method and status code. Rejected calls end "
                    "with UNAUTHENTICATED, PERMISSION_DENIED or RESOURCE_EXHAUSTED.")
              .Register(registry_)),
      call_seconds_(BuildHistogram()
                        .Name("tessera_rpc_seconds")
                        .Help("Duration of calls, by method. WatchJob and LeaseTask wait for events.")
                        .Register(registry_)),
      in_progress_(
          BuildGauge().Name("tessera_rpcs_in_progress").Help("gRPC calls in progress.").Register(registry_).Add({})),
      scrubbed_bytes_(BuildCounter()
                          .Name("tessera_scrubbed_bytes_total")
                          .Help("Bytes of blobs read by the scrubber.")
                          .Register(registry_)
                          .Add({})),
      damaged_blobs_(BuildCounter()
                         .Name("tessera_damaged_blobs_total")
                         .Help("Blobs that the scrubber found damaged; they are set aside and count as missing.")
                         .Register(registry_)
                         .Add({})),
      scrub_pass_end_(BuildGauge()
                          .Name("tessera_scrub_last_pass_timestamp_seconds")
                          .Help("End of the last pass over all blobs; 0: none yet.")
                          .Register(registry_)
                          .Add({})) {
  BuildGauge()
      .Name("tessera_build_info")
      .Help("Always 1; labels: the release.")
      .Register(registry_)
      .Add({{"version", releaseVersion()}, {"compiler", compilerVersion()}})
      .Set(1);
  // Create all series with 0, so that rates can be computed from the first scrape.
  for (int kind = v1::TaskKind_MIN + 1; kind <= v1::TaskKind_MAX; ++kind) {
    attempts_.Add({{"kind", kindLabel(static_cast<v1::TaskKind>(kind))}, {"end", "succeeded"}});
    attempt_seconds_.Add({{"kind", kindLabel(static_cast<v1::TaskKind>(kind))}}, kWork);
    wait_seconds_.Add({{"kind", kindLabel(static_cast<v1::TaskKind>(kind))}}, kWork);
  }
  for (const LookupLabels& lookup : kLookups) {
    for (const Cache cache : {Cache::kArtifact, Cache::kObject}) {
      lookups_.Add(labelsOf({cache, lookup.lookup}));
    }
  }
  for (const char* kind : {"compile", "execute", "profile", "analyze", "tune"}) {
    jobs_.Add({{"kind", kind}, {"state", "succeeded"}, {"reason", ""}});
    job_seconds_.Add({{"kind", kind}}, kWork);
  }
  for (const char* phase : {"import", "plan", "build", "assemble"}) {
    phase_seconds_.Add({{"phase", phase}}, kWork);
  }
}

void Metrics::happened(const Observations& seen) {
  for (const Observations::Start& start : seen.starts) {
    wait_seconds_.Add({{"kind", kindLabel(start.kind)}}, kWork).Observe(start.waited_s);
  }
  for (const Observations::Attempt& attempt : seen.attempts) {
    attempts_.Add({{"kind", kindLabel(attempt.kind)}, {"end", endLabel(attempt.reason)}}).Increment();
    attempt_seconds_.Add({{"kind", kindLabel(attempt.kind)}}, kWork).Observe(attempt.took_s);
  }
  for (const Observations::Phase& phase : seen.phases) {
    phase_seconds_.Add({{"phase", phase.phase}}, kWork).Observe(phase.wall_s);
  }
  for (const Observations::End& end : seen.ends) {
    const bool failed = end.reason != v1::Failure::REASON_UNSPECIFIED;
    jobs_
        .Add({{"kind", end.kind},
              {"state", labelOf(v1::Job::State_Name(end.state))},
              {"reason", failed ? labelOf(v1::Failure::Reason_Name(end.reason)) : ""}})
        .Increment();
    job_seconds_.Add({{"kind", end.kind}}, kWork).Observe(end.took_s);
  }
  for (const Observations::Answer& answer : seen.answers) {
    lookups_.Add(labelsOf(answer)).Increment();
  }
}

void Metrics::committed(std::chrono::nanoseconds took, size_t transactions) {
  commit_seconds_.Observe(std::chrono::duration<double>(took).count());
  transactions_.Increment(static_cast<double>(transactions));
}

Metrics::Calls& Metrics::callsOf(const std::string& method) {
  const std::lock_guard lock(mutex_);
  const auto known = by_method_.find(method);
  return known != by_method_.end()
             ? known->second
             : by_method_.emplace(method, Calls{call_seconds_.Add({{"method", method}}, kCall), method}).first->second;
}

void Metrics::callEnded(Calls& calls, int code, double seconds) {
  const bool known = code >= 0 && static_cast<size_t>(code) < kCodes.size();
  in_progress_.Decrement();
  calls.seconds.Observe(seconds);
  calls_.Add({{"method", calls.method}, {"code", std::string(known ? kCodes[static_cast<size_t>(code)] : "UNKNOWN")}})
      .Increment();
}

}  // namespace tessera::server
