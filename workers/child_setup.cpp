#include "workers/child_setup.h"

#include <fcntl.h>
#include <linux/close_range.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "workers/exit_codes.h"

namespace tessera::worker {

void giveUp(int report, const char* step, int error) {
  ChildReport message;
  message.pid = getpid();
  message.error = error;
  strncpy(message.step, step, sizeof(message.step) - 1);
  [[maybe_unused]] const ssize_t sent = write(report, &message, sizeof(message));
  _exit(kTaskExecFailed);
}

void setUpChild(const ChildSetup& setup) {
  setpgid(0, 0);
  if (prctl(PR_SET_PDEATHSIG, SIGKILL) != 0) giveUp(setup.report, "parent death signal", errno);
  if (getppid() != setup.worker) _exit(kTaskExecFailed);  // it died before the line above

  struct sigaction standard = {};
  standard.sa_handler = SIG_DFL;
  for (int signal = 1; signal < NSIG; ++signal) sigaction(signal, &standard, nullptr);
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);

  // The sources are above 4, so these cannot overwrite one another.
  if (dup2(setup.null, 0) < 0 || dup2(setup.output, 1) < 0 || dup2(setup.output, 2) < 0 ||
      dup2(setup.progress, 3) < 0 || dup2(setup.report, 4) < 0) {
    giveUp(setup.report, "descriptors", errno);
  }
  if (fcntl(4, F_SETFD, FD_CLOEXEC) != 0 || close_range(5, ~0U, 0) != 0) giveUp(4, "closing descriptors", errno);
  if (chdir(setup.folder) != 0) giveUp(4, "working folder", errno);
  umask(077);
  if (int error = applyLimits(setup.limits)) giveUp(4, "resource limits", error);
}

}  // namespace tessera::worker
