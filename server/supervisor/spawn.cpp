#include "server/supervisor/spawn.h"

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstring>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"

namespace tessera::server {
namespace {

/// Runs after fork() of a process with threads: only async-signal-safe calls, no allocation.
[[noreturn]] void becomeChild(char* const* argv, pid_t parent, int secret_pipe, int error_pipe) {
  setpgid(0, 0);
  dup2(STDERR_FILENO, STDOUT_FILENO);
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent) {
    _exit(1);  // the parent died before the signal was requested
  }
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
  for (int signal : {SIGPIPE, SIGTERM, SIGINT, SIGCHLD}) {
    ::signal(signal, SIG_DFL);
  }
  if (secret_pipe >= 0) {
    fcntl(secret_pipe, F_SETFD, 0);
  }
  execv(argv[0], argv);
  const int error = errno;
  (void)!write(error_pipe, &error, sizeof(error));
  _exit(127);
}

}  // namespace

absl::StatusOr<pid_t> spawnBound(std::vector<std::string> command, const std::string& secret) {
  int secret_pipe[2] = {-1, -1};
  const absl::Cleanup close_secret = [&] {
    for (const int end : secret_pipe) {
      if (end >= 0) {
        close(end);
      }
    }
  };
  if (!secret.empty()) {
    // Far smaller than a pipe's capacity, so it is written before the child starts.
    if (pipe2(secret_pipe, O_CLOEXEC) != 0 ||
        write(secret_pipe[1], secret.data(), secret.size()) != static_cast<ssize_t>(secret.size())) {
      return absl::ErrnoToStatus(errno, "a pipe for the worker's credential");
    }
    command.insert(command.end(), {"--token-fd", std::to_string(secret_pipe[0])});
  }
  std::vector<char*> argv;
  for (const std::string& word : command) {
    argv.push_back(const_cast<char*>(word.c_str()));
  }
  argv.push_back(nullptr);
  // Closed by a successful exec; otherwise carries its errno.
  int error_pipe[2];
  if (pipe2(error_pipe, O_CLOEXEC) != 0) {
    return absl::ErrnoToStatus(errno, "pipe2");
  }
  const pid_t parent = getpid();
  const pid_t child = fork();
  if (child == 0) {
    becomeChild(argv.data(), parent, secret_pipe[0], error_pipe[1]);
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
