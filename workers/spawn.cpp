#include "workers/spawn.h"

#include <fcntl.h>
#include <linux/close_range.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "workers/exit_codes.h"

namespace tessera::worker {
namespace {

// What the new process tells about a step that failed; nothing arrives when exec succeeds.
struct SpawnError {
  char step[24];
  int error;
};

[[noreturn]] void giveUp(int report, const char* step, int error) {
  SpawnError message = {};
  strncpy(message.step, step, sizeof(message.step) - 1);
  message.error = error;
  [[maybe_unused]] const ssize_t sent = write(report, &message, sizeof(message));
  _exit(kTaskExecFailed);
}

struct Plan {  // everything the new process needs, prepared before fork
  const char* program;
  char* const* argv;
  char* const* environment;
  const char* folder;
  Limits limits;
  int null, output, progress, report;
  pid_t parent;
};

// Runs between fork and exec of a process with threads: async-signal-safe calls only.
[[noreturn]] void becomeTask(const Plan& plan) {
  setpgid(0, 0);
  if (prctl(PR_SET_PDEATHSIG, SIGKILL) != 0) giveUp(plan.report, "parent death signal", errno);
  if (getppid() != plan.parent) _exit(kTaskExecFailed);  // it died before the line above

  struct sigaction standard = {};
  standard.sa_handler = SIG_DFL;
  for (int signal = 1; signal < NSIG; ++signal) sigaction(signal, &standard, nullptr);
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);

  // The pipes were opened above 4, so these cannot overwrite one another.
  if (dup2(plan.null, 0) < 0 || dup2(plan.output, 1) < 0 || dup2(plan.output, 2) < 0 || dup2(plan.progress, 3) < 0 ||
      dup2(plan.report, 4) < 0) {
    giveUp(plan.report, "descriptors", errno);
  }
  if (fcntl(4, F_SETFD, FD_CLOEXEC) != 0 || close_range(5, ~0U, 0) != 0) giveUp(4, "closing descriptors", errno);
  if (chdir(plan.folder) != 0) giveUp(4, "working folder", errno);
  umask(077);
  if (int error = applyLimits(plan.limits)) giveUp(4, "resource limits", error);
  execve(plan.program, plan.argv, plan.environment);
  giveUp(4, "exec", errno);
}

std::vector<char*> pointers(const std::vector<std::string>& strings) {
  std::vector<char*> result;
  for (const std::string& string : strings) result.push_back(const_cast<char*>(string.c_str()));
  result.push_back(nullptr);
  return result;
}

// A duplicate at 5 or above, out of the way of the descriptors the child is given.
FileDescriptor above4(int fd) { return FileDescriptor(fcntl(fd, F_DUPFD_CLOEXEC, 5)); }

}  // namespace

absl::StatusOr<pid_t> spawnGroup(const ChildSpec& spec, int output, int progress) {
  int report[2];
  if (pipe2(report, O_CLOEXEC) != 0) return absl::ErrnoToStatus(errno, "pipe");
  FileDescriptor report_read(report[0]);
  FileDescriptor report_low(report[1]);
  const FileDescriptor null_low(open("/dev/null", O_RDONLY | O_CLOEXEC));
  const FileDescriptor null = above4(null_low.get());
  const FileDescriptor child_output = above4(output);
  const FileDescriptor child_progress = above4(progress);
  FileDescriptor report_write = above4(report_low.get());
  report_low.reset();
  if (!null.valid() || !child_output.valid() || !child_progress.valid() || !report_write.valid()) {
    return absl::ErrnoToStatus(errno, "descriptors of a child");
  }

  const std::vector<char*> argv = pointers(spec.argv);
  const std::vector<char*> environment = pointers(spec.environment);
  const Plan plan = {spec.argv.front().c_str(),
                     argv.data(),
                     environment.data(),
                     spec.working_folder.c_str(),
                     spec.limits,
                     null.get(),
                     child_output.get(),
                     child_progress.get(),
                     report_write.get(),
                     getpid()};
  const pid_t pid = fork();
  if (pid < 0) return absl::ErrnoToStatus(errno, "fork");
  if (pid == 0) becomeTask(plan);
  setpgid(pid, pid);  // both sides do it, so that neither can be early; after exec it fails, harmlessly
  report_write.reset();

  SpawnError failed;
  ssize_t got;
  do {
    got = read(report_read.get(), &failed, sizeof(failed));
  } while (got < 0 && errno == EINTR);
  if (got != static_cast<ssize_t>(sizeof(failed))) return pid;
  waitpid(pid, nullptr, 0);
  return absl::FailedPreconditionError(
      absl::StrCat("cannot start ", spec.argv.front(), ": ", failed.step, ": ", strerror(failed.error)));
}

}  // namespace tessera::worker
