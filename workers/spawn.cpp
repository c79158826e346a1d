#include "workers/spawn.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "compiler/target/cpu_features.h"
#include "proto/support/status_macros.h"

namespace tessera::worker {
namespace {

std::vector<char*> pointers(const std::vector<std::string>& strings) {
  std::vector<char*> result;
  for (const std::string& string : strings) result.push_back(const_cast<char*>(string.c_str()));
  result.push_back(nullptr);
  return result;
}

// Duplicates a descriptor to 6 or above, since descriptors 0 to 5 are assigned in the child.
FileDescriptor above5(int fd) { return FileDescriptor(fcntl(fd, F_DUPFD_CLOEXEC, 6)); }

}  // namespace

absl::StatusOr<Pipe> openPipe() {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) return absl::ErrnoToStatus(errno, "pipe");
  Pipe pipe{FileDescriptor(ends[0]), FileDescriptor(ends[1])};
  fcntl(pipe.read.get(), F_SETFL, O_NONBLOCK);
  return pipe;
}

absl::StatusOr<Spawned> spawnGroup(const ChildSpec& spec, int output, int progress) {
  TESSERA_ASSIGN_OR_RETURN(auto report, openPipe());
  const FileDescriptor null_low(open("/dev/null", O_RDONLY | O_CLOEXEC));
  const FileDescriptor null = above5(null_low.get());
  const FileDescriptor child_output = above5(output);
  const FileDescriptor child_progress = above5(progress);
  const FileDescriptor step_cache = spec.step_cache >= 0 ? above5(spec.step_cache) : FileDescriptor();
  FileDescriptor report_write = above5(report.write.get());
  report.write.reset();
  if (!null.valid() || !child_output.valid() || !child_progress.valid() || !report_write.valid() ||
      step_cache.valid() != (spec.step_cache >= 0)) {
    return absl::ErrnoToStatus(errno, "descriptors of a child");
  }

  const std::vector<char*> argv = pointers(spec.argv);
  const std::vector<char*> environment = pointers(spec.environment);
  ChildSetup setup;
  setup.folder = spec.working_folder.c_str();
  setup.limits = spec.limits;
  setup.null = null.get();
  setup.output = child_output.get();
  setup.progress = child_progress.get();
  setup.report = report_write.get();
  setup.step_cache = step_cache.get();
  setup.worker = getpid();
  setup.isolation = &spec.isolation;
  if (spec.isolation.namespaces) {
    return absl::InvalidArgumentError("namespaces require forked tasks; this program is executed");
  }
  const pid_t pid = fork();
  if (pid < 0) return absl::ErrnoToStatus(errno, "fork");
  if (pid == 0) {  // the parent has threads: only async-signal-safe calls
    setUpChild(setup);
    execve(argv.front(), argv.data(), environment.data());
    giveUp(4, "exec", errno);
  }
  setpgid(pid, pid);  // parent and child both do this, to avoid a race; after exec it fails harmlessly
  return Spawned{{.pid = pid}, std::move(report.read)};
}

absl::Status readReport(const std::string& program, int report) {
  ChildReport failed;
  ssize_t got;
  do {
    got = read(report, &failed, sizeof(failed));
  } while (got < 0 && errno == EINTR);
  return got == static_cast<ssize_t>(sizeof(failed)) ? cannotStart(program, failed) : absl::OkStatus();
}

absl::Status cannotStart(const std::string& program, const ChildReport& report) {
  return absl::FailedPreconditionError(
      absl::StrCat("cannot start ", program, ": ", report.step, ": ", strerror(report.error)));
}

std::vector<std::string> cleanEnvironment() {
  std::vector<std::string> environment = {"PATH=/usr/bin:/bin", "LANG=C.UTF-8"};
  for (const char* name : {"ASAN_OPTIONS", "UBSAN_OPTIONS", "TSAN_OPTIONS", compiler::kHostFeaturesVariable}) {
    if (const char* value = std::getenv(name)) environment.push_back(absl::StrCat(name, "=", value));
  }
  return environment;
}

}  // namespace tessera::worker
