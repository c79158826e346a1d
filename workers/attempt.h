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

/// What all attempts of a worker share; every part is thread-safe.
struct AttemptEnvironment {
  v1::WorkerService::StubInterface& service;
  Registration& registration;
  BlobClient& blobs;
  BlobCache& cache;
  Scratch& scratch;
  const TaskRunner& runner;
  KnownStepsOfProjects& known_steps;
  std::string worker_id;
  int measuring_cores;     ///< of this machine, lent to what is timed
  Cancellation& draining;  ///< the worker wants to leave: do not wait for a server that is away
  Cancellation& stopping;  ///< the worker leaves now
};

/// Works one lease off: inputs, child process, outputs, with heartbeats throughout. What is left is to report it: to be
/// called once, on any thread, while the caller goes on. That returns when the server has taken the result, or nobody
/// wants it any more.
[[nodiscard]] std::function<void()> runAttempt(const AttemptEnvironment& environment, const v1::Lease& lease,
                                               const Session& session);

}  // namespace tessera::worker
