#include "proto/support/parent_exit.h"

#include <poll.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <thread>

namespace tessera {

bool signalOnParentExit(int signal) {
  const pid_t parent = getppid();
  const auto watched = static_cast<int>(syscall(SYS_pidfd_open, parent, 0));
  // Fallback without pidfd (old kernel, sandbox): PDEATHSIG fires when the parent's creating thread ends.
  if (watched < 0) prctl(PR_SET_PDEATHSIG, signal);
  if (getppid() != parent) {
    if (watched >= 0) close(watched);
    return false;
  }
  if (watched >= 0) {
    std::thread([watched, signal] {
      pollfd ended{watched, POLLIN, 0};
      while (poll(&ended, 1, -1) < 0 && errno == EINTR) {
      }
      kill(getpid(), signal);
    }).detach();
  }
  return true;
}

}  // namespace tessera
