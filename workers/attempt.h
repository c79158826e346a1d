#pragma once

#include <functional>
#include <string>

#include "tessera/v1/worker_service.grpc.pb.h"
#include "workers/blob_cache.h"
#include "workers/blob_client.h"
#include "workers/cancellation.h"
#include "workers/registration.h"
#include "workers/scratch.h"
#include "workers/task_run.h"

namespace tessera::worker {

/// State shared by all attempts of a worker. Each member is thread-safe.
struct AttemptEnvironment {
  v1::WorkerService::StubInterface& service;
  Registration& registration;
  BlobClient& blobs;
  BlobCache& cache;
  Scratch& scratch;
  const TaskRunner& runner;
  ProjectStepCaches& step_cache;
  std::string worker_id;
  int measuring_cores;     ///< cores of this machine reserved for timed runs
  Cancellation& draining;  ///< cancelled when the worker drains: do not wait for an unreachable server
  Cancellation& stopping;  ///< cancelled when the worker stops at once
};

/// Executes one lease: fetches inputs, runs the child process and stores outputs, with heartbeats throughout. Returns a
/// function that reports the result. Call it once, on any thread; it returns when the server has accepted the result,
/// or the result is no longer wanted.
[[nodiscard]] std::function<void()> runAttempt(const AttemptEnvironment& environment, const v1::Lease& lease,
                                               const Session& session);

}  // namespace tessera::worker
