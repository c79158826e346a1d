#include "server/supervisor/supervisor.h"

#include <signal.h>
#include <spdlog/spdlog.h>
#include <sys/wait.h>

#include <algorithm>
#include <condition_variable>
#include <mutex>
#include <thread>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "server/supervisor/spawn.h"

namespace tessera::server {
namespace {

using SteadyClock = std::chrono::steady_clock;

/// Interval of checks for ended workers, which bounds the delay of their tasks.
constexpr std::chrono::milliseconds kPoll{20};

struct SupervisedWorker {
  std::string id;
  pid_t pid = 0;  ///< 0: not running
  SteadyClock::time_point started;
  SteadyClock::time_point start_at;  ///< when to start it, if not running
  std::chrono::milliseconds backoff{0};
  bool given_up = false;
};

std::string describeEnd(int status) {
  return WIFSIGNALED(status) ? absl::StrCat("signal ", WTERMSIG(status))
                             : absl::StrCat("exit code ", WEXITSTATUS(status));
}

}  // namespace

class Supervisor::Impl {
 public:
  Impl(SupervisorOptions options, OnExit on_exit) : options_(std::move(options)), on_exit_(std::move(on_exit)) {
    for (int i = 0; i < options_.workers; ++i) {
      SupervisedWorker worker;
      worker.id = absl::StrCat(options_.id_prefix, i);
      worker.start_at = SteadyClock::now();
      worker.backoff = options_.first_backoff;
      workers_.push_back(worker);
    }
    thread_ = std::thread([this] { run(); });
  }

  ~Impl() {
    kill();
    {
      const std::lock_guard lock(mutex_);
      ending_ = true;
    }
    changed_.notify_all();
    thread_.join();
  }

  void drain() { signalAll(SIGTERM); }

  bool running() const {
    const std::lock_guard lock(mutex_);
    return std::any_of(workers_.begin(), workers_.end(), [](const SupervisedWorker& worker) { return worker.pid > 0; });
  }

  void kill() {
    signalAll(SIGKILL);
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] {
      return std::all_of(workers_.begin(), workers_.end(),
                         [](const SupervisedWorker& worker) { return worker.pid == 0; });
    });
  }

  FinalEnd gaveUp() const {
    const std::lock_guard lock(mutex_);
    return gave_up_;
  }

  std::vector<pid_t> pids() const {
    const std::lock_guard lock(mutex_);
    std::vector<pid_t> result;
    for (const SupervisedWorker& worker : workers_) {
      result.push_back(worker.pid);
    }
    return result;
  }

 private:
  /// Holds the lock until the kill; workers are reaped under it, so that no process id can have been reused.
  void signalAll(int signal) {
    const std::lock_guard lock(mutex_);
    leaving_ = true;
    for (const SupervisedWorker& worker : workers_) {
      if (worker.pid > 0) {
        // SIGTERM goes to the worker only, which decides about its task processes.
        ::kill(signal == SIGKILL ? -worker.pid : worker.pid, signal);
      }
    }
    changed_.notify_all();
  }

  void run() {
    std::unique_lock lock(mutex_);
    while (!ending_) {
      for (SupervisedWorker& worker : workers_) {
        reap(worker, lock);
        if (worker.pid == 0 && !leaving_ && !worker.given_up && SteadyClock::now() >= worker.start_at) {
          start(worker);
        }
      }
      changed_.wait_for(lock, kPoll, [this] { return ending_; });
    }
  }

  void start(SupervisedWorker& worker) {
    std::vector<std::string> command = {options_.binary};
    command.insert(command.end(), options_.arguments.begin(), options_.arguments.end());
    command.insert(command.end(),
                   {"--id", worker.id, "--scratch", absl::StrCat(options_.scratch_folder, "/", worker.id)});
    worker.started = SteadyClock::now();
    auto pid = spawnBound(command, options_.credential);
    if (pid.ok()) {
      worker.pid = *pid;
      spdlog::info("worker {}: process {}", worker.id, worker.pid);
      return;
    }
    spdlog::error("worker {}: {}", worker.id, std::string(pid.status().message()));
    waitBeforeStart(worker);
  }

  void reap(SupervisedWorker& worker, std::unique_lock<std::mutex>& lock) {
    int status = 0;
    if (worker.pid == 0 || waitpid(worker.pid, &status, WNOHANG) != worker.pid) {
      return;
    }
    // Kill the group: task processes that the worker could not end are still in it.
    ::kill(-worker.pid, SIGKILL);
    worker.pid = 0;
    if (!leaving_) {
      const std::string end = absl::StrCat("worker ", worker.id, " ended: ", describeEnd(status));
      spdlog::warn(end);
      if (WIFEXITED(status) && absl::c_linear_search(options_.final_codes, WEXITSTATUS(status))) {
        worker.given_up = true;
        gave_up_ = {end, WEXITSTATUS(status)};
      }
    }
    if (SteadyClock::now() - worker.started >= options_.settled_after) {
      worker.backoff = options_.first_backoff;
    }
    waitBeforeStart(worker);
    changed_.notify_all();
    lock.unlock();
    on_exit_(worker.id);
    lock.lock();
  }

  void waitBeforeStart(SupervisedWorker& worker) {
    worker.start_at = SteadyClock::now() + worker.backoff;
    worker.backoff = std::min(worker.backoff * 2, options_.longest_backoff);
  }

  const SupervisorOptions options_;
  const OnExit on_exit_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<SupervisedWorker> workers_;
  FinalEnd gave_up_;
  bool leaving_ = false;  ///< no worker is started again
  bool ending_ = false;
  std::thread thread_;
};

Supervisor::Supervisor(SupervisorOptions options, OnExit on_exit)
    : impl_(std::make_unique<Impl>(std::move(options), std::move(on_exit))) {}
Supervisor::~Supervisor() = default;
void Supervisor::drain() { impl_->drain(); }
bool Supervisor::running() const { return impl_->running(); }
void Supervisor::kill() { impl_->kill(); }
Supervisor::FinalEnd Supervisor::gaveUp() const { return impl_->gaveUp(); }
std::vector<pid_t> Supervisor::pids() const { return impl_->pids(); }

}  // namespace tessera::server
