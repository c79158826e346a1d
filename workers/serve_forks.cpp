#include "workers/serve_forks.h"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "workers/child_setup.h"
#include "workers/exit_codes.h"
#include "workers/fork_request.h"

namespace tessera::worker {
namespace {

constexpr int kSocket = 3;
constexpr int kReport = 4;  // where setUpChild puts it

// In the new process. `reaped` ends once nothing is left of its parent, which is to end at once, and it is therefore a
// child of the worker, which adopts orphans.
void becomeTask(const ReceivedFork& fork, int null, int reaped, pid_t worker) {
  char nothing;
  while (read(reaped, &nothing, 1) < 0 && errno == EINTR) {
  }
  const auto& [output, progress, report] = fork.descriptors;
  setUpChild({fork.request.working_folder.c_str(), fork.request.limits, null, output.get(), progress.get(),
              report.get(), worker});
  clearenv();
  for (const std::string& variable : fork.request.environment) {
    const size_t equals = variable.find('=');
    setenv(variable.substr(0, equals).c_str(), variable.c_str() + equals + 1, 1);
  }
  ChildReport started;
  started.pid = getpid();
  if (write(kReport, &started, sizeof(started)) != sizeof(started)) _exit(kTaskExecFailed);
  close(kReport);
}

}  // namespace

std::vector<std::string> serveForks() {
  const pid_t worker = getppid();
  // The first takes 4, so that whatever is opened from here on lies above what setUpChild assigns.
  const FileDescriptor low(open("/dev/null", O_RDONLY | O_CLOEXEC));
  const FileDescriptor null(fcntl(low.get(), F_DUPFD_CLOEXEC, 5));
  if (!null.valid()) _exit(kTaskCannotStart);
  while (auto received = receiveForkRequest(kSocket)) {
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0) _exit(kTaskCannotStart);
    const FileDescriptor reaped(ends[0]);
    FileDescriptor not_yet(ends[1]);
    const pid_t between = fork();
    if (between == 0) {
      const pid_t task = fork();
      if (task == 0) {
        not_yet.reset();
        becomeTask(*received, null.get(), reaped.get(), worker);
        return std::move(received->request.arguments);
      }
      _exit(task < 0 ? errno : 0);
    }
    int status = 0;
    int error = errno;
    if (between > 0) {
      while (waitpid(between, &status, 0) < 0 && errno == EINTR) {
      }
      error = WIFEXITED(status) ? WEXITSTATUS(status) : EAGAIN;
    }
    if (error == 0) continue;
    ChildReport failed;
    failed.error = error;
    constexpr char kStep[] = "fork";
    std::copy(std::begin(kStep), std::end(kStep), failed.step);
    [[maybe_unused]] const ssize_t sent = write(received->descriptors[2].get(), &failed, sizeof(failed));
  }
  _exit(0);
}

}  // namespace tessera::worker
