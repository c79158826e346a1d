#include "workers/child_process.h"

#include <poll.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <thread>

#include "proto/support/status_macros.h"
#include "workers/folder_size.h"
#include "workers/spawn.h"

namespace tessera::worker {
namespace {

constexpr size_t kTailBytes = 4096;
constexpr Milliseconds kBetweenLooks{200};  // interval of folder size checks

// Passes on the data that a pipe holds now. Returns false once the pipe has no writer.
bool readAvailable(int fd, const ChildProcess::ProgressSink& sink) {
  char chunk[16384];
  // At most 1 MiB per call, so that a child with endless output does not delay the deadline check.
  for (int i = 0; i < 64; ++i) {
    const ssize_t got = read(fd, chunk, sizeof(chunk));
    if (got > 0) {
      sink(std::string_view(chunk, static_cast<size_t>(got)));
    } else if (got == 0) {
      return false;
    } else if (errno != EINTR) {
      return errno == EAGAIN;
    }
  }
  return true;
}

void keepTail(std::string& tail, std::string_view bytes) {
  tail.append(bytes);
  if (tail.size() > kTailBytes) tail.erase(0, tail.size() - kTailBytes);
}

double milliseconds(const timeval& time) {
  return static_cast<double>(time.tv_sec) * 1e3 + static_cast<double>(time.tv_usec) / 1e3;
}

}  // namespace

void adoptOrphans() { prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); }

absl::StatusOr<std::unique_ptr<ChildProcess>> ChildProcess::start(const ChildSpec& spec, ProgressSink on_progress,
                                                                  const Spawn& spawn) {
  std::unique_ptr<ChildProcess> child(new ChildProcess(spec, std::move(on_progress)));
  TESSERA_RETURN_IF_ERROR(child->spawn(spawn ? spawn : spawnGroup));
  return child;
}

absl::Status ChildProcess::spawn(const Spawn& spawn) {
  TESSERA_ASSIGN_OR_RETURN(auto output, openPipe());
  TESSERA_ASSIGN_OR_RETURN(auto progress, openPipe());
  wake_ = FileDescriptor(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!wake_.valid()) return absl::ErrnoToStatus(errno, "eventfd");

  started_ = Clock::now();
  TESSERA_ASSIGN_OR_RETURN(auto spawned, spawn(spec_, output.write.get(), progress.write.get()));
  pid_ = spawned.processes.pid;
  first_ = spawned.processes.first;
  report_ = std::move(spawned.report);
  output_ = std::move(output.read);
  progress_ = std::move(progress.read);
  // From here on the destructor cleans up. The child is not reaped before wait(), so pid_ cannot be reused.
  process_ = FileDescriptor(static_cast<int>(syscall(SYS_pidfd_open, pid_, 0)));
  if (!process_.valid()) return absl::ErrnoToStatus(errno, "pidfd_open");
  return absl::OkStatus();
}

ChildProcess::~ChildProcess() {
  if (pid_ < 0 || reaped_) return;
  ChildExit ignored;
  kill(-pid_, SIGKILL);
  reap(ignored);
  endGroup();
}

void ChildProcess::stop(StopReason reason) {
  StopReason none = StopReason::kNone;
  stop_reason_.compare_exchange_strong(none, reason);
  const uint64_t one = 1;
  [[maybe_unused]] const ssize_t sent = write(wake_.get(), &one, sizeof(one));
}

ChildExit ChildProcess::wait() {
  ChildExit end;
  pollUntilExit(end);
  // The unreaped leader still holds the group's number, so this cannot hit another group.
  kill(-pid_, SIGKILL);
  reap(end);
  endGroup();
  drainOutput(end.stderr_tail);
  end.not_started = std::string(readReport(spec_.argv.front(), report_.get()).message());
  end.stopped = stop_reason_.load();
  end.wall_ms = std::chrono::duration<double, std::milli>(Clock::now() - started_).count();
  return end;
}

void ChildProcess::pollUntilExit(ChildExit& end) {
  enum { kProcess, kWake, kOutput, kProgress, kCount };
  pollfd polled[kCount] = {
      {process_.get(), POLLIN, 0}, {wake_.get(), POLLIN, 0}, {output_.get(), POLLIN, 0}, {progress_.get(), POLLIN, 0}};
  constexpr auto kNever = Clock::time_point::max();
  Clock::time_point deadline = spec_.run_timeout.count() > 0 ? started_ + spec_.run_timeout : kNever;
  Clock::time_point look = spec_.scratch_bytes > 0 ? started_ + kBetweenLooks : kNever;
  bool terminated = false;  // SIGTERM was sent; `deadline` is now that of SIGKILL

  while (true) {
    int timeout_ms = -1;
    if (const Clock::time_point next = std::min(deadline, look); next != kNever) {
      const auto left = std::chrono::ceil<Milliseconds>(next - Clock::now()).count();
      timeout_ms = static_cast<int>(std::clamp<int64_t>(left, 0, 3'600'000));
    }
    if (poll(polled, kCount, timeout_ms) < 0 && errno != EINTR) return;
    if (polled[kOutput].revents != 0 &&
        !readAvailable(output_.get(), [&](std::string_view bytes) { keepTail(end.stderr_tail, bytes); })) {
      // poll() ignores negative descriptors; a closed pipe would otherwise be reported at once, again and again.
      polled[kOutput].fd = -1;
    }
    if (polled[kProgress].revents != 0 && !readAvailable(progress_.get(), on_progress_)) polled[kProgress].fd = -1;
    // The child has ended; wait() reads what the pipes still hold.
    if (polled[kProcess].revents != 0) return;
    if (Clock::now() >= look) {
      look = Clock::now() + kBetweenLooks;
      if (isFull()) {  // kill without grace, since it would keep writing
        StopReason none = StopReason::kNone;
        stop_reason_.compare_exchange_strong(none, StopReason::kDiskQuota);
        kill(-pid_, SIGKILL);
        look = deadline = kNever;
        terminated = true;
        polled[kWake].fd = -1;
      }
    }

    // First SIGTERM, for a reason or the deadline; SIGKILL when the grace period has passed as well.
    const bool late = deadline != kNever && Clock::now() >= deadline;
    if (!terminated && (late || stop_reason_.load() != StopReason::kNone)) {
      StopReason none = StopReason::kNone;
      stop_reason_.compare_exchange_strong(none, StopReason::kDeadline);
      kill(-pid_, SIGTERM);
      terminated = true;
      polled[kWake].fd = -1;
      deadline = Clock::now() + spec_.kill_grace;
    } else if (terminated && late) {
      kill(-pid_, SIGKILL);
      deadline = kNever;
    }
  }
}

bool ChildProcess::isFull() const {
  const FolderSize size = sizeOf(spec_.scratch, "in");
  return size.bytes > spec_.scratch_bytes || size.entries > kMaxEntries || size.hidden;
}

void ChildProcess::reap(ChildExit& end) {
  int status = 0;
  rusage usage = {};
  pid_t got;
  do {
    got = wait4(pid_, &status, 0, &usage);
  } while (got < 0 && errno == EINTR);
  reaped_ = true;
  end.exited = WIFEXITED(status);
  end.exit_code = end.exited ? WEXITSTATUS(status) : 0;
  end.signal = WIFSIGNALED(status) ? WTERMSIG(status) : 0;
  end.cpu_ms = milliseconds(usage.ru_utime) + milliseconds(usage.ru_stime);
  end.peak_rss_bytes = static_cast<int64_t>(usage.ru_maxrss) * 1024;
}

// Reaps descendants, which were killed with the group and reparented to this process (adoptOrphans).
void ChildProcess::endGroup() {
  const auto give_up = Clock::now() + Milliseconds(500);
  // kill() fails once the group is empty; unreaped processes count as members.
  while (kill(-pid_, SIGKILL) == 0 && Clock::now() < give_up) {
    if (waitpid(-pid_, nullptr, WNOHANG) <= 0) std::this_thread::sleep_for(Milliseconds(2));
  }
  if (first_ <= 0) return;
  kill(first_, SIGKILL);
  // Bound the wait: the kernel may hold a process for long, for example because of a disk that does not respond.
  for (const auto patience = Clock::now() + std::chrono::seconds(10); Clock::now() < patience;) {
    if (const pid_t ended = waitpid(first_, nullptr, WNOHANG); ended != 0 && errno != EINTR) return;
    std::this_thread::sleep_for(Milliseconds(2));
  }
}

void ChildProcess::drainOutput(std::string& tail) {
  readAvailable(output_.get(), [&](std::string_view bytes) { keepTail(tail, bytes); });
  readAvailable(progress_.get(), on_progress_);
}

}  // namespace tessera::worker
