#pragma once

#include <cstdint>
#include <string>

namespace tessera::server {

/// The numbers the scheduler goes by.
struct Rules {
  int64_t lease_us = 10'000'000;         ///< a lease not prolonged for this long is lost
  int64_t heartbeat_us = 500'000;        ///< a cancelled attempt learns of it at its next heartbeat
  int64_t run_timeout_us = 600'000'000;  ///< of one attempt, where the request names none
  int64_t run_grace_us = 15'000'000;     ///< past the run timeout, for a worker that does not enforce it itself
  int crashes_before_quarantine = 3;
  /// Attempts lost with their worker. Much higher than the bound for crashes: a killed worker says
  /// nothing about the task it happened to run.
  int lease_losses_before_failure = 10;
  int64_t progress_interval_us = 200'000;  ///< at most one Progress event of a job in this time
  int64_t task_memory_bytes = 0;           ///< 0 = the worker's default
  std::string compiler_version;            ///< workers must have the same
};

}  // namespace tessera::server
