#pragma once

#include <cstdint>

namespace tessera::worker {

/// Resource limits of a task process; 0 leaves a resource as it is.
struct Limits {
  int64_t address_space_bytes = 0;
  int64_t cpu_seconds = 0;  ///< summed over threads; SIGXCPU when spent, SIGKILL two seconds later
  int64_t file_bytes = 0;   ///< largest file; SIGXFSZ beyond
  int64_t open_files = 0;
  int64_t processes = 0;  ///< and threads, of the process's user; root is not bound by it
};

/// Applies `limits` to the calling process, and never lets it write a core file. Async-signal-safe, since
/// it runs between fork and exec. Returns 0 or an errno.
int applyLimits(const Limits& limits);

}  // namespace tessera::worker
