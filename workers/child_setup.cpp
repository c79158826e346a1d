#include "workers/child_setup.h"

#include <fcntl.h>
#include <linux/close_range.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "workers/exit_codes.h"

namespace tessera::worker {

ChildReport reportOf(const char* step, int error) {
  ChildReport report;
  report.error = error;
  strncpy(report.step, step, sizeof(report.step) - 1);
  return report;
}

void giveUp(int report, const char* step, int error) {
  const ChildReport message = reportOf(step, error);
  [[maybe_unused]] const ssize_t sent = write(report, &message, sizeof(message));
  _exit(kTaskExecFailed);
}

void dieWithParent(pid_t worker, int pipe) {
  if (prctl(PR_SET_PDEATHSIG, SIGKILL) != 0) _exit(kTaskExecFailed);
  // The worker may have died before prctl().
  pollfd reader = {pipe, 0, 0};
  if (getppid() != worker || (poll(&reader, 1, 0) > 0 && (reader.revents & POLLERR) != 0)) _exit(kTaskExecFailed);
}

void setUpChild(const ChildSetup& setup) {
  setpgid(0, 0);
  dieWithParent(setup.worker, setup.report);

  struct sigaction standard = {};
  standard.sa_handler = SIG_DFL;
  for (int signal = 1; signal < NSIG; ++signal) sigaction(signal, &standard, nullptr);
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);

  // The sources are at 6 or above, so no dup2() overwrites one of them.
  if (dup2(setup.null, 0) < 0 || dup2(setup.output, 1) < 0 || dup2(setup.output, 2) < 0 ||
      dup2(setup.progress, 3) < 0 || dup2(setup.report, 4) < 0 ||
      (setup.step_cache >= 0 && dup2(setup.step_cache, 5) < 0)) {
    giveUp(setup.report, "descriptors", errno);
  }
  if (fcntl(4, F_SETFD, FD_CLOEXEC) != 0 || close_range(setup.step_cache >= 0 ? 6 : 5, ~0U, 0) != 0)
    giveUp(4, "closing descriptors", errno);
  if (const FailedStep step = enterMounts(*setup.isolation); step.name != nullptr) giveUp(4, step.name, step.error);
  if (chdir(setup.folder) != 0) giveUp(4, "working folder", errno);
  umask(077);
  if (int error = applyLimits(setup.limits)) giveUp(4, "resource limits", error);
  if (const FailedStep step = becomeUser(*setup.isolation); step.name != nullptr) giveUp(4, step.name, step.error);
  dieWithParent(setup.worker, 4);  // again, since a change of user clears it
}

}  // namespace tessera::worker
