#pragma once

#include <cstdint>

namespace tessera::worker {

/// Resource limits of a task process; 0 leaves a resource unlimited.
struct Limits {
  int64_t address_space_bytes = 0;
  int64_t cpu_seconds = 0;  ///< total over threads; SIGXCPU when used up, SIGKILL two seconds later
  int64_t file_bytes = 0;   ///< maximum size of a file; SIGXFSZ beyond
  int64_t open_files = 0;
  int64_t processes = 0;  ///< processes and threads of the process's user; does not apply to root
};

/// Applies `limits` to the calling process, and disables core files. Async-signal-safe, since it runs between fork and
/// exec. Returns 0 or an errno.
int applyLimits(const Limits& limits);

}  // namespace tessera::worker
