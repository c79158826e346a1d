#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "tessera/v1/admin_service.pb.h"

namespace tessera::server {

/// Limits and times of the queue.
struct Rules {
  int64_t lease_us = 10'000'000;         ///< a lease expires after this time without a heartbeat
  int64_t heartbeat_us = 500'000;        ///< interval of heartbeats; a cancelled attempt stops at its next one
  int64_t run_timeout_us = 600'000'000;  ///< of one attempt, unless the request sets it
  /// The worker enforces the run timeout; if it does not, the server does after this additional time.
  int64_t run_grace_us = 15'000'000;
  /// Time that an attempt may spend on moving inputs and outputs, in addition to its run.
  int64_t transfer_us = int64_t{3600} * 1'000'000;
  int64_t queue_timeout_us = int64_t{24} * 3600 * 1'000'000;  ///< of a job's wait to start, unless the request sets it
  int64_t total_timeout_us = int64_t{48} * 3600 * 1'000'000;  ///< of a whole job, unless the request sets it
  /// A task that no live worker can run fails after this time, counted from the start of the server at the earliest.
  int64_t no_worker_us = 600'000'000;
  int64_t ageing_us = 600'000'000;  ///< a waiting task gains one priority per interval
  int crashes_before_quarantine = 3;
  /// Attempts lost with their worker. Far above the limit for crashes, because a killed worker says nothing about its
  /// task.
  int lease_losses_before_failure = 10;
  int worker_faults_before_failure = 8;  ///< of one task, each on a worker that could not run it
  int faults_before_suspension = 3;      ///< of one worker, consecutive
  int64_t first_suspension_us = 5'000'000;
  int64_t longest_suspension_us = 300'000'000;
  int64_t progress_interval_us = 200'000;  ///< minimum time between Progress events of a job
  /// Whether projects share objects that two workers have built identically.
  bool share_reproduced = false;
  int64_t task_memory_bytes = 0;  ///< per task; 0: the worker's default
  std::string compiler_version;   ///< workers must have an equal one
  /// Quota of a project; empty function: no limits.
  std::function<v1::Quota(const std::string& project)> quota_of = {};
  /// Sandbox measures that a worker must have; "full": all known ones.
  std::vector<std::string> required_sandbox = {};
};

}  // namespace tessera::server
