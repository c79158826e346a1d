#include "workers/serve_forks.h"

#include <fcntl.h>
#include <linux/close_range.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

#include "workers/child_setup.h"
#include "workers/exit_codes.h"
#include "workers/fork_request.h"
#include "workers/sandbox/sandbox.h"

namespace tessera::worker {
namespace {

constexpr int kSocket = 3;
constexpr int kReport = 4;  // descriptor assigned by setUpChild()

Pipe openPipeOrExit() {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) _exit(kTaskCannotStart);
  return {FileDescriptor(ends[0]), FileDescriptor(ends[1])};
}

void waitForEnd(int pipe) {
  char nothing;
  while (read(pipe, &nothing, 1) < 0 && errno == EINTR) {
  }
}

// Init process of a PID namespace: it only waits to be killed, which kills the remaining processes of the namespace. It
// must not run the task itself, because the kernel ignores most signals to an init process, including those of a crash.
// It has its own process group, since it ends last, and the number of the task's group must become free before.
[[noreturn]] void holdNamespace(int reaped, int output) {
  if (dup2(reaped, 0) < 0 || dup2(output, 1) < 0 || close_range(2, ~0U, 0) != 0) _exit(kTaskExecFailed);
  setpgid(0, 0);
  signal(SIGCHLD, SIG_IGN);  // orphans leave no zombies
  waitForEnd(0);
  dieWithParent(0, 1);
  close(1);
  if (chdir("/") != 0) _exit(kTaskExecFailed);
  while (true) pause();
}

// Runs in the new process. Reading `reaped` ends once the intermediate parent is gone; the process is then a child of
// the worker, which adopts orphans.
void becomeTask(const ReceivedFork& fork, int null, int reaped, pid_t worker) {
  waitForEnd(reaped);
  const auto& [output, progress, report, step_cache] = fork.descriptors;
  const Isolation& isolation = fork.request.isolation;
  ChildSetup setup;
  setup.folder = fork.request.working_folder.c_str();
  setup.limits = fork.request.limits;
  setup.null = null;
  setup.output = output.get();
  setup.progress = progress.get();
  setup.report = report.get();
  setup.step_cache = step_cache.get();
  setup.worker = isolation.namespaces ? 0 : worker;
  setup.isolation = &isolation;
  setUpChild(setup);
  clearenv();
  for (const std::string& variable : fork.request.environment) {
    const size_t equals = variable.find('=');
    setenv(variable.substr(0, equals).c_str(), variable.c_str() + equals + 1, 1);
  }
  close(kReport);
}

// The intermediate process answers and exits; the worker never learns its process id.
[[noreturn]] void answer(int made, const ForkReply& reply) {
  [[maybe_unused]] const ssize_t sent = write(made, &reply, sizeof(reply));
  _exit(0);
}

[[noreturn]] void refuse(int made, const FailedStep& step, pid_t first = 0) {
  answer(made, {.processes = {.first = first}, .failed = reportOf(step.name, step.error)});
}

}  // namespace

std::vector<std::string> serveForks(const std::string& build) {
  const pid_t worker = getppid();
  // Occupy descriptors 4 and 5, so that all descriptors opened from here on are above those that setUpChild() assigns.
  const FileDescriptor low(open("/dev/null", O_RDONLY | O_CLOEXEC));
  FileDescriptor next(fcntl(low.get(), F_DUPFD_CLOEXEC, 5));
  const FileDescriptor null(fcntl(low.get(), F_DUPFD_CLOEXEC, 6));
  if (!null.valid()) _exit(kTaskCannotStart);
  prepareFilters();
  // Ready. The worker compares builds before it sends a request.
  if (send(kSocket, build.data(), build.size(), MSG_NOSIGNAL) != static_cast<ssize_t>(build.size())) {
    _exit(kTaskCannotStart);
  }
  while (auto received = receiveForkRequest(kSocket)) {
    Pipe reaped = openPipeOrExit();
    Pipe made = openPipeOrExit();
    // vfork() shares this process's memory, which the child leaves unchanged. Copying a compiler's page tables for a
    // process that only makes two others would cost as much as one of them. This process is suspended until the child
    // exits.
    const pid_t between = vfork();  // NOLINT(bugprone-unsafe-functions)
    if (between == 0) {
      const Isolation& isolation = received->request.isolation;
      if (const FailedStep step = enterNamespaces(isolation); step.name != nullptr) refuse(made.write.get(), step);
      // The first child in the new PID namespace becomes its init process.
      const pid_t first = isolation.namespaces ? fork() : 0;
      if (first == 0 && isolation.namespaces) {
        holdNamespace(reaped.read.get(), received->descriptors[0].get());
      }
      const pid_t task = first < 0 ? first : fork();
      if (task == 0) {
        reaped.write.reset();
        made.write.reset();
        becomeTask(*received, null.get(), reaped.read.get(), worker);
        next.release();  // the descriptor now belongs to the task's step cache
        return std::move(received->request.arguments);
      }
      if (task < 0) {
        const int error = errno;
        if (first > 0) kill(first, SIGKILL);
        refuse(made.write.get(), {"fork", error}, first);
      }
      setpgid(task, task);  // the task does the same, so the group exists before either process signals it
      answer(made.write.get(), {{task, first}, {}});
    }
    ForkReply reply;
    if (between < 0) {
      reply.failed = reportOf("fork", errno);
    } else {
      while (waitpid(between, nullptr, 0) < 0 && errno == EINTR) {
      }
      made.write.reset();
      if (read(made.read.get(), &reply, sizeof(reply)) != sizeof(reply)) _exit(kTaskCannotStart);
    }
    if (send(kSocket, &reply, sizeof(reply), MSG_NOSIGNAL) != sizeof(reply)) _exit(kTaskCannotStart);
  }
  _exit(0);
}

}  // namespace tessera::worker
