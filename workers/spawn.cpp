#include "workers/spawn.h"

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>

#include "absl/strings/str_cat.h"

namespace tessera::worker {
namespace {

std::vector<char*> pointers(const std::vector<std::string>& strings) {
  std::vector<char*> result;
  for (const std::string& string : strings) result.push_back(const_cast<char*>(string.c_str()));
  result.push_back(nullptr);
  return result;
}

// A duplicate at 5 or above, out of the way of the descriptors the child is given.
FileDescriptor above4(int fd) { return FileDescriptor(fcntl(fd, F_DUPFD_CLOEXEC, 5)); }

}  // namespace

absl::StatusOr<Spawned> spawnGroup(const ChildSpec& spec, int output, int progress) {
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
  const ChildSetup setup = {spec.working_folder.c_str(), spec.limits,        null.get(), child_output.get(),
                            child_progress.get(),        report_write.get(), getpid(),   &spec.isolation};
  if (spec.isolation.namespaces) {
    return absl::InvalidArgumentError("a program that is executed gets no namespaces: those are for what is forked");
  }
  const pid_t pid = fork();
  if (pid < 0) return absl::ErrnoToStatus(errno, "fork");
  if (pid == 0) {  // of a process with threads: async-signal-safe calls only
    setUpChild(setup);
    execve(argv.front(), argv.data(), environment.data());
    giveUp(4, {getpid()}, "exec", errno);
  }
  setpgid(pid, pid);  // both sides do it, so that neither can be early; after exec it fails, harmlessly
  report_write.reset();

  ChildReport failed;
  ssize_t got;
  do {
    got = read(report_read.get(), &failed, sizeof(failed));
  } while (got < 0 && errno == EINTR);
  if (got != static_cast<ssize_t>(sizeof(failed))) return Spawned{pid};
  waitpid(pid, nullptr, 0);
  return cannotStart(spec, failed);
}

absl::Status cannotStart(const ChildSpec& spec, const ChildReport& report) {
  return absl::FailedPreconditionError(
      absl::StrCat("cannot start ", spec.argv.front(), ": ", report.step, ": ", strerror(report.error)));
}

std::vector<std::string> cleanEnvironment() {
  std::vector<std::string> environment = {"PATH=/usr/bin:/bin", "LANG=C.UTF-8"};
  for (const char* name : {"ASAN_OPTIONS", "UBSAN_OPTIONS", "TSAN_OPTIONS"}) {
    if (const char* value = std::getenv(name)) environment.push_back(absl::StrCat(name, "=", value));
  }
  return environment;
}

}  // namespace tessera::worker
