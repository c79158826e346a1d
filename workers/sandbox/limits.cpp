#include "workers/sandbox/limits.h"

#include <sys/resource.h>

#include <algorithm>
#include <cerrno>

namespace tessera::worker {
namespace {

#if defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define TESSERA_SHADOW_MEMORY 1  // sanitizers reserve terabytes of address space
#endif
#endif

// Lowers a limit. A tighter limit is kept, because only root may raise it.
int lower(int resource, rlim_t soft, rlim_t hard) {
  rlimit now{};
  if (getrlimit(resource, &now) != 0) return errno;
  now.rlim_max = std::min(now.rlim_max, hard);
  now.rlim_cur = std::min(now.rlim_max, soft);
  return setrlimit(resource, &now) == 0 ? 0 : errno;
}

}  // namespace

int applyLimits(const Limits& limits) {
  if (int error = lower(RLIMIT_CORE, 0, 0)) return error;
#ifndef TESSERA_SHADOW_MEMORY
  if (limits.address_space_bytes > 0) {
    const auto bytes = static_cast<rlim_t>(limits.address_space_bytes);
    if (int error = lower(RLIMIT_AS, bytes, bytes)) return error;
  }
#endif
  if (limits.cpu_seconds > 0) {
    const auto seconds = static_cast<rlim_t>(limits.cpu_seconds);
    if (int error = lower(RLIMIT_CPU, seconds, seconds + 2)) return error;
  }
  if (limits.file_bytes > 0) {
    const auto bytes = static_cast<rlim_t>(limits.file_bytes);
    if (int error = lower(RLIMIT_FSIZE, bytes, bytes)) return error;
  }
  if (limits.open_files > 0) {
    const auto files = static_cast<rlim_t>(limits.open_files);
    if (int error = lower(RLIMIT_NOFILE, files, files)) return error;
  }
  if (limits.processes > 0) {
    const auto processes = static_cast<rlim_t>(limits.processes);
    if (int error = lower(RLIMIT_NPROC, processes, processes)) return error;
  }
  return 0;
}

}  // namespace tessera::worker
