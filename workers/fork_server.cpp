#include "workers/fork_server.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spdlog/spdlog.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "workers/fork_request.h"
#include "workers/serve_forks.h"
#include "workers/spawn.h"

namespace tessera::worker {
namespace {

constexpr int kPatienceMs = 120'000;  // of a program that is still linking on a busy machine

/// Whether there is something to read, or an end, within that time.
bool waitFor(int fd) {
  pollfd polled = {fd, POLLIN, 0};
  int ready;
  do {
    ready = poll(&polled, 1, kPatienceMs);
  } while (ready < 0 && errno == EINTR);
  return ready > 0;
}

}  // namespace

ForkServer::ForkServer(std::string binary, std::string build, bool many)
    : binary_(std::move(binary)), build_(std::move(build)), many_(many) {}

ForkServer::~ForkServer() { stop(); }

pid_t ForkServer::pid() const {
  const std::lock_guard lock(mutex_);
  return pid_;
}

absl::Status ForkServer::start() {
  const std::lock_guard lock(mutex_);
  return pid_ < 0 ? startLocked() : absl::OkStatus();
}

absl::StatusOr<Spawned> ForkServer::fork(const ChildSpec& spec, int output, int progress) {
  const std::lock_guard lock(mutex_);
  const bool fresh = pid_ < 0;
  if (fresh) {
    if (absl::Status started = startLocked(); !started.ok()) return started;
  }
  auto pid = ask(spec, output, progress);
  if (!absl::IsUnavailable(pid.status()) || fresh) return pid;
  spdlog::warn("the started task program {} has ended, another one is started: {}", pid_,
               std::string(pid.status().message()));
  stop();
  if (absl::Status started = startLocked(); !started.ok()) return started;
  return ask(spec, output, progress);
}

absl::Status ForkServer::startLocked() {
  adoptOrphans();
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0) return absl::ErrnoToStatus(errno, "socketpair");
  FileDescriptor ours(ends[0]);
  FileDescriptor theirs(ends[1]);
  ChildSpec spec;
  spec.argv = {binary_, kServeFlag};
  if (many_) spec.argv.emplace_back(kManyFlag);
  spec.environment = cleanEnvironment();
  spec.environment.emplace_back("LD_BIND_NOW=1");  // look every symbol up now, once, and not in each process
  spec.working_folder = "/";
  auto pid = spawnGroup(spec, STDERR_FILENO, theirs.get());
  if (!pid.ok()) return pid.status();
  pid_ = pid->pid;
  socket_ = std::move(ours);
  theirs.reset();
  // A task's time is not to pass while its program gets ready.
  char ready[256];
  const bool answers = waitFor(socket_.get());
  const ssize_t got = answers ? read(socket_.get(), ready, sizeof(ready)) : 0;
  if (got <= 0) {
    stop();
    return absl::FailedPreconditionError(absl::StrCat(
        binary_, " ", kServeFlag,
        answers ? " ended before it was ready"
                : absl::StrCat(" was not ready within ", kPatienceMs / 1000, " s; is the machine overloaded?")));
  }
  // Not one request is sent to another build: it may read it otherwise.
  const std::string build(ready, static_cast<size_t>(got));
  if (build_.empty() || build == build_) return absl::OkStatus();
  stop();
  return absl::AbortedError(absl::StrCat("the task program ", binary_,
                                         " is of another build than its worker: this is build ",
                                         absl::CHexEscape(build), ", the worker began with ", build_));
}

void ForkServer::stop() {
  socket_.reset();
  if (pid_ < 0) return;
  kill(pid_, SIGKILL);
  while (waitpid(pid_, nullptr, 0) < 0 && errno == EINTR) {
  }
  pid_ = -1;
}

absl::StatusOr<Spawned> ForkServer::ask(const ChildSpec& spec, int output, int progress) {
  int report[2];
  if (pipe2(report, O_CLOEXEC) != 0) return absl::ErrnoToStatus(errno, "pipe");
  const FileDescriptor report_read(report[0]);
  FileDescriptor report_write(report[1]);
  const ForkRequest request = {
      {spec.argv.begin() + 1, spec.argv.end()}, spec.environment, spec.working_folder, spec.limits, spec.isolation};
  absl::Status sent = sendForkRequest(socket_.get(), request, {output, progress, report_write.get(), spec.known_steps});
  if (!sent.ok()) return absl::UnavailableError(absl::StrCat(binary_, " ", kServeFlag, ": ", sent.message()));
  report_write.reset();

  // Whoever holds the other end answers or ends, which closes it.
  const bool answers = waitFor(report_read.get());
  ChildReport answer;
  if (!answers || read(report_read.get(), &answer, sizeof(answer)) != static_cast<ssize_t>(sizeof(answer))) {
    return absl::UnavailableError(
        absl::StrCat(binary_, " ", kServeFlag, answers ? " ended without an answer" : " does not answer"));
  }
  if (answer.error == 0) return answer.processes;
  // A child that could not set itself up has ended; where forking failed there is none.
  for (const pid_t child : {answer.processes.pid, answer.processes.first}) {
    if (child <= 0) continue;
    kill(child, SIGKILL);
    waitpid(child, nullptr, 0);
  }
  return cannotStart(spec, answer);
}

}  // namespace tessera::worker
