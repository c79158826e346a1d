#include "server/supervisor/spawn.h"

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstring>

#include "absl/strings/str_cat.h"

namespace tessera::server {
namespace {

/// After fork() of a process with threads: only async-signal-safe calls, no allocation.
[[noreturn]] void becomeChild(char* const* argv, pid_t parent, int error_pipe) {
  setpgid(0, 0);
  dup2(STDERR_FILENO, STDOUT_FILENO);
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent) {
    _exit(1);  // the parent died before the signal was asked for
  }
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
  for (int signal : {SIGPIPE, SIGTERM, SIGINT, SIGCHLD}) {
    ::signal(signal, SIG_DFL);
  }
  execv(argv[0], argv);
  const int error = errno;
  (void)!write(error_pipe, &error, sizeof(error));
  _exit(127);
}

}  // namespace

absl::StatusOr<pid_t> spawnBound(const std::vector<std::string>& command) {
  std::vector<char*> argv;
  for (const std::string& word : command) {
    argv.push_back(const_cast<char*>(word.c_str()));
  }
  argv.push_back(nullptr);
  // Closed by a successful exec; carries errno of a failed one.
  int error_pipe[2];
  if (pipe2(error_pipe, O_CLOEXEC) != 0) {
    return absl::ErrnoToStatus(errno, "pipe2");
  }
  const pid_t parent = getpid();
  const pid_t child = fork();
  if (child == 0) {
    becomeChild(argv.data(), parent, error_pipe[1]);
  }
  close(error_pipe[1]);
  int error = 0;
  const ssize_t got = child > 0 ? read(error_pipe[0], &error, sizeof(error)) : 0;
  close(error_pipe[0]);
  if (child < 0) {
    return absl::ErrnoToStatus(errno, "fork");
  }
  if (got == sizeof(error)) {
    waitpid(child, nullptr, 0);
    return absl::ErrnoToStatus(error, absl::StrCat("cannot start ", command.front()));
  }
  return child;
}

}  // namespace tessera::server
