#include "workers/fork_server.h"

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
#include "proto/support/status_macros.h"
#include "workers/fork_request.h"
#include "workers/serve_forks.h"
#include "workers/spawn.h"

namespace tessera::worker {
namespace {

constexpr int kPatienceMs = 120'000;  // for a program that is still linking on a busy machine

/// Waits for data or end-of-file; false after kPatienceMs.
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
  // A server that has just been started is not restarted once more if it fails.
  const bool fresh = pid_ < 0;
  if (fresh) {
    TESSERA_RETURN_IF_ERROR(startLocked());
  }
  auto spawned = ask(spec, output, progress);
  if (!absl::IsUnavailable(spawned.status()) || fresh) return spawned;
  spdlog::warn("task program {} has ended, starting another: {}", pid_, std::string(spawned.status().message()));
  stop();
  TESSERA_RETURN_IF_ERROR(startLocked());
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
  spec.environment.emplace_back("LD_BIND_NOW=1");  // resolve all symbols once now, instead of in each process
  spec.working_folder = "/";
  TESSERA_ASSIGN_OR_RETURN(auto spawned, spawnGroup(spec, STDERR_FILENO, theirs.get()));
  pid_ = spawned.processes.pid;
  socket_ = std::move(ours);
  theirs.reset();
  // Wait here, so that a task's time does not include the start of its program.
  char ready[256];
  const bool answers = waitFor(socket_.get());
  const ssize_t got = answers ? read(socket_.get(), ready, sizeof(ready)) : 0;
  if (got <= 0) {
    stop();
    TESSERA_RETURN_IF_ERROR(readReport(binary_, spawned.report.get()));
    return absl::FailedPreconditionError(absl::StrCat(
        binary_, " ", kServeFlag,
        answers ? " ended before it was ready"
                : absl::StrCat(" was not ready within ", kPatienceMs / 1000, " s; is the machine overloaded?")));
  }
  // Send no request to another build, which may interpret it differently.
  const std::string build(ready, static_cast<size_t>(got));
  if (build_.empty() || build == build_) return absl::OkStatus();
  stop();
  return absl::AbortedError(absl::StrCat("the task program ", binary_,
                                         " is of another build than its worker: this is build ",
                                         absl::CHexEscape(build), ", the worker started with ", build_));
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
  // If this function fails, the reader closes, and a child that was created nevertheless ends.
  TESSERA_ASSIGN_OR_RETURN(auto report, openPipe());
  const ForkRequest request = {
      {spec.argv.begin() + 1, spec.argv.end()}, spec.environment, spec.working_folder, spec.limits, spec.isolation};
  absl::Status sent = sendForkRequest(socket_.get(), request, {output, progress, report.write.get(), spec.step_cache});
  if (!sent.ok()) return absl::UnavailableError(absl::StrCat(binary_, " ", kServeFlag, ": ", sent.message()));
  report.write.reset();

  const bool answers = waitFor(socket_.get());
  ForkReply reply;
  if (!answers || read(socket_.get(), &reply, sizeof(reply)) != static_cast<ssize_t>(sizeof(reply))) {
    return absl::UnavailableError(
        absl::StrCat(binary_, " ", kServeFlag, answers ? " ended without a reply" : " does not reply"));
  }
  if (reply.failed.error != 0) {
    if (reply.processes.first > 0) waitpid(reply.processes.first, nullptr, 0);
    return cannotStart(binary_, reply.failed);
  }
  return Spawned{reply.processes, std::move(report.read)};
}

}  // namespace tessera::worker
