#include "workers/worker.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <functional>
#include <thread>
#include <utility>

#include "proto/support/worker_exit.h"
#include "workers/rpc.h"
#include "workers/self_check.h"

namespace tessera::worker {
namespace {

// A server that answers "nothing to do" without having waited is not asked again at once.
constexpr Milliseconds kShortAnswer{50};
constexpr Milliseconds kSpareTime{3'000};  // time in addition to lease_wait before a call counts as stuck

}  // namespace

Worker::Worker(WorkerOptions options) : options_(std::move(options)) {
  options_.runner.on_other_build = [this] {
    spdlog::error("{} was replaced by another build; this worker, which started with build {}, exits",
                  options_.runner.binary, options_.runner.build);
    fail(kWorkerVersionMismatch);
  };
}

int Worker::run() {
  auto scratch = Scratch::open(options_.scratch);
  if (!scratch.ok()) {
    spdlog::error("{}", std::string(scratch.status().message()));
    return kWorkerScratchUnusable;
  }
  SharedBlobs shared(options_.blobs);
  auto cache = BlobCache::open((*scratch)->cacheFolder(), options_.cache_bytes, &shared);
  if (!cache.ok()) {
    spdlog::error("{}", std::string(cache.status().message()));
    return kWorkerScratchUnusable;
  }
  const auto opened = openChannel(options_.server, options_.credential);
  if (!opened.ok()) {
    spdlog::error("{}", std::string(opened.status().message()));
    return kWorkerUsage;
  }
  const std::shared_ptr<grpc::Channel>& channel = *opened;
  const auto service = v1::WorkerService::NewStub(channel);
  Registration registration(*service, options_.identity);
  BlobClient blobs(channel, shared);
  ProjectStepCaches step_cache(static_cast<size_t>(options_.step_cache_bytes));
  const AttemptEnvironment environment{*service,
                                       registration,
                                       blobs,
                                       **cache,
                                       **scratch,
                                       options_.runner,
                                       step_cache,
                                       options_.identity.worker_id(),
                                       options_.identity.measuring_cores(),
                                       draining_,
                                       stopping_};

  self_check_ =
      std::make_unique<SelfCheck>((*scratch)->attemptsFolder(), options_.runner.binary, options_.min_free_bytes);
  std::vector<std::thread> slots;
  for (int i = 0; i < std::max(1, options_.identity.slots()); ++i) {
    slots.emplace_back([&] { work(environment); });
  }
  for (std::thread& slot : slots) slot.join();
  return exit_code_ != 0 ? exit_code_.load() : stopping_.cancelled() ? kWorkerStopped : 0;
}

void Worker::drain() { draining_.cancel(StopReason::kShutdown); }

void Worker::stop() {
  draining_.cancel(StopReason::kShutdown);
  stopping_.cancel(StopReason::kShutdown);
}

bool Worker::isIdleTooLong() const {
  const auto now = std::chrono::steady_clock::now().time_since_epoch();
  return options_.idle_limit.count() > 0 && running_ == 0 && now - idle_since_.load() > options_.idle_limit;
}

void Worker::fail(int exit_code) {
  exit_code_ = exit_code;
  drain();
}

void Worker::work(const AttemptEnvironment& environment) {
  Backoff pause;  // increases while requests yield no task
  // The result of one task is reported while the next one is leased and executed; the server accepts both concurrently.
  std::jthread reporting;
  while (!draining_.cancelled()) {
    auto session = environment.registration.session(draining_);
    if (!session.ok()) {
      if (!draining_.cancelled()) {
        spdlog::error("the server rejects this worker: {}", std::string(session.status().message()));
        fail(absl::IsFailedPrecondition(session.status()) ? kWorkerVersionMismatch : kWorkerFailed);
      }
      return;
    }
    v1::LeaseTaskResponse response;
    if (!lease(environment, *session, pause, response)) {
      if (isIdleTooLong() && !draining_.cancelled()) {
        spdlog::info("no task for {} s: exiting", std::chrono::duration<double>(options_.idle_limit).count());
        drain();
      }
      continue;
    }
    ++running_;
    std::function<void()> report = runAttempt(environment, response.lease(), *session);
    idle_since_ = std::chrono::steady_clock::now().time_since_epoch();
    --running_;
    // At most one unreported result per slot.
    if (reporting.joinable()) reporting.join();
    reporting = std::jthread(std::move(report));
  }
}

// Limits logging, since trouble is checked before each lease request, and a full disk is often full of logs.
void Worker::logTrouble(const std::string& trouble) {
  using Clock = std::chrono::steady_clock;
  constexpr std::chrono::minutes kAgain(10);
  const std::lock_guard lock(trouble_mutex_);
  const auto now = Clock::now();
  if (trouble.empty()) {
    if (trouble_logged_) spdlog::info("this worker accepts tasks again");
    trouble_logged_.reset();
  } else if (!trouble_logged_ || now - *trouble_logged_ >= kAgain) {
    spdlog::error("this worker accepts no tasks: {}", trouble);
    trouble_logged_ = now;
  }
}

// Sends one lease request. Returns whether a task was leased.
bool Worker::lease(const AttemptEnvironment& environment, const Session& session, Backoff& pause,
                   v1::LeaseTaskResponse& response) {
  v1::LeaseTaskRequest request;
  request.set_worker_id(environment.worker_id);
  request.set_trouble(self_check_->trouble());
  // With trouble the server responds at once, so do not ask it to wait.
  if (request.trouble().empty()) {
    request.set_wait_us(std::chrono::microseconds(options_.lease_wait).count());
  }
  logTrouble(request.trouble());
  const auto asked = std::chrono::steady_clock::now();
  absl::Status status;
  {
    // A drain waits for the response: a task that was just granted would be lost for the length of a lease.
    CallContext context(stopping_, options_.lease_wait + kSpareTime);
    status = toAbsl(environment.service.LeaseTask(context.get(), request, &response));
  }
  if (status.ok() && response.has_lease()) {
    pause.reset();
    return true;
  }
  if (draining_.cancelled()) return false;
  if (!status.ok()) {
    // Register again before the next request, since another server may answer it.
    spdlog::warn("no response to the lease request: {}", std::string(status.message()));
    environment.registration.invalidate(session.generation);
    draining_.sleepFor(pause.next());
  } else if (std::chrono::steady_clock::now() - asked < kShortAnswer) {
    draining_.sleepFor(pause.next());
  } else {
    pause.reset();
  }
  return false;
}

}  // namespace tessera::worker
