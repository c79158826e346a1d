#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "tessera/v1/admin_service.pb.h"

namespace tessera::server {

/// The numbers the scheduler goes by.
struct Rules {
  int64_t lease_us = 10'000'000;         ///< a lease not prolonged for this long is lost
  int64_t heartbeat_us = 500'000;        ///< a cancelled attempt learns of it at its next heartbeat
  int64_t run_timeout_us = 600'000'000;  ///< of one attempt, where the request names none
  int64_t run_grace_us = 15'000'000;     ///< past the run timeout, for a worker that does not enforce it itself
  /// An attempt's inputs and outputs may take this long to move, on top of its run.
  int64_t transfer_us = int64_t{3600} * 1'000'000;
  int64_t queue_timeout_us =
      int64_t{24} * 3600 * 1'000'000;  ///< of a job's wait to start, where the request names none
  int64_t total_timeout_us = int64_t{48} * 3600 * 1'000'000;  ///< of all of a job, where the request names none
  /// A task that no live worker can run fails after this long. Also how long it waits for workers after a start.
  int64_t no_worker_us = 600'000'000;
  int64_t ageing_us = 600'000'000;  ///< a waiting task gains one priority for each of these
  int crashes_before_quarantine = 3;
  /// Attempts lost with their worker. Much higher than the bound for crashes: a killed worker says
  /// nothing about the task it happened to run.
  int lease_losses_before_failure = 10;
  int worker_faults_before_failure = 8;  ///< of one task, each on a worker that could not do it
  int faults_before_suspension = 3;      ///< of one worker, in a row
  int64_t first_suspension_us = 5'000'000;
  int64_t longest_suspension_us = 300'000'000;
  int64_t progress_interval_us = 200'000;  ///< at most one Progress event of a job in this time
  /// Projects share objects that two workers have made alike.
  bool share_reproduced = false;
  int64_t task_memory_bytes = 0;  ///< 0 = the worker's default
  std::string compiler_version;   ///< workers must have the same
  /// What a project may have at a time; empty: as much as it likes.
  std::function<v1::Quota(const std::string& project)> quota_of = {};
  /// Measures of a worker's sandbox without which it is not taken; "full": all that it knows of.
  std::vector<std::string> required_sandbox = {};
};

}  // namespace tessera::server
