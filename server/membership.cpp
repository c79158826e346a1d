#include "server/membership.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <utility>

namespace tessera::server {
namespace {

constexpr auto kRetryInterval = std::chrono::milliseconds(250);
/// A duty ends here this much earlier than in the database, because its holder looks at the time before it acts.
constexpr auto kMargin = std::chrono::milliseconds(500);

}  // namespace

Membership::Membership(storage::ServerRegistry& registry, storage::ServerIdentity self, std::set<std::string> duties,
                       Callbacks callbacks, std::chrono::milliseconds interval)
    : registry_(registry),
      callbacks_(std::move(callbacks)),
      interval_(interval),
      self_(std::move(self)),
      wanted_(std::move(duties)) {}

Membership::~Membership() { leave(); }

absl::Status Membership::join() {
  absl::Status status = beat();
  if (status.ok()) {
    thread_ = std::thread([this] { run(); });
  }
  return status;
}

void Membership::setAddress(const std::string& address) {
  {
    const std::lock_guard lock(mutex_);
    self_.server.set_address(address);
  }
  if (const absl::Status status = beat(); !status.ok()) {
    spdlog::debug("heartbeat: {}", std::string(status.message()));  // the next one has the address
  }
}

void Membership::run() {
  std::unique_lock lock(mutex_);
  while (!changed_.wait_for(lock, failing_ ? kRetryInterval : interval_, [this] { return left_; })) {
    lock.unlock();
    const absl::Status status = beat();
    lock.lock();
    if (!status.ok() && !failing_) {
      spdlog::error("no heartbeat among the servers: {}", std::string(status.message()));
    }
    failing_ = !status.ok();
  }
}

absl::Status Membership::beat() {
  const std::lock_guard only_one(beating_);
  storage::ServerIdentity self;
  storage::ServerReport report;
  {
    const std::lock_guard lock(mutex_);
    if (left_) {
      return absl::OkStatus();
    }
    self = self_;
    report.wanted = wanted_;
  }
  std::map<std::string, int64_t> calls = callbacks_.calls ? callbacks_.calls() : reported_;
  for (const auto& [project, count] : calls) {
    const auto known = reported_.find(project);
    if (known == reported_.end() ? count > 0 : known->second != count) {
      report.calls[project] = count;
    }
  }
  const Clock::time_point begun = Clock::now();
  absl::StatusOr<storage::ServerNews> news = registry_.beat(self, report);
  if (!news.ok()) {
    return news.status();
  }
  reported_ = std::move(calls);
  bool others_ended = false, tokens_changed = false;
  {
    const std::lock_guard lock(mutex_);
    const bool was_away = answered_ && begun - *answered_ > storage::ServerRegistry::kLifetime;
    others_ended = was_away || !std::ranges::includes(news->others, news_.others);
    tokens_changed = answered_ && news->token_changes != news_.token_changes;
    for (const auto& [duty, token] : news->held) {
      const auto known = news_.held.find(duty);
      if (registry_.isShared() && (known == news_.held.end() || known->second != token)) {
        spdlog::info("this server does the {} of all servers now (token {})", duty, token);
      }
    }
    news_ = *std::move(news);
    answered_ = begun;
  }
  if (callbacks_.calls_elsewhere) {
    callbacks_.calls_elsewhere(news_.calls_elsewhere);  // only written under beating_
  }
  if (tokens_changed && callbacks_.tokens_changed) {
    callbacks_.tokens_changed();
  }
  if (others_ended && callbacks_.others_ended) {
    callbacks_.others_ended();
  }
  return absl::OkStatus();
}

bool Membership::holds(const std::string& duty) const {
  const std::lock_guard lock(mutex_);
  if (left_ || !answered_ || !wanted_.contains(duty) || !news_.held.contains(duty)) {
    return false;
  }
  return !registry_.isShared() || Clock::now() < *answered_ + storage::ServerRegistry::kLifetime - kMargin;
}

bool Membership::isCurrent() const {
  const std::lock_guard lock(mutex_);
  return answered_ && Clock::now() < *answered_ + storage::ServerRegistry::kLifetime - kMargin;
}

bool Membership::hasOthers() const {
  const std::lock_guard lock(mutex_);
  return !news_.others.empty();
}

std::optional<int64_t> Membership::doneMicros(const std::string& duty) const {
  const std::lock_guard lock(mutex_);
  const auto found = news_.done_us.find(duty);
  return !registry_.isShared() || found == news_.done_us.end() ? std::nullopt : std::optional(found->second);
}

void Membership::noteDone(const std::string& duty) {
  storage::ServerIdentity self;
  {
    const std::lock_guard lock(mutex_);
    self = self_;
  }
  absl::Status status = registry_.noteDone(self, duty);
  status.Update(beat());
  if (!status.ok()) {
    spdlog::warn("the {} may be repeated soon: {}", duty, std::string(status.message()));
  }
}

absl::StatusOr<bool> Membership::take(const std::string& duty) {
  {
    const std::lock_guard lock(mutex_);
    if (!wanted_.insert(duty).second) {
      return false;
    }
  }
  const absl::Status status = beat();
  if (status.ok() && holds(duty)) {
    return true;
  }
  end(duty);
  return status.ok() ? absl::StatusOr<bool>(false) : status;
}

void Membership::end(const std::string& duty) {
  storage::ServerIdentity self;
  {
    const std::lock_guard lock(mutex_);
    wanted_.erase(duty);
    news_.held.erase(duty);
    self = self_;
  }
  const std::lock_guard only_one(beating_);  // a heartbeat in progress could take it again
  if (const absl::Status status = registry_.endDuty(self, duty, /*done=*/false); !status.ok()) {
    spdlog::debug("the {} ends by itself: {}", duty, std::string(status.message()));
  }
}

void Membership::drain() {
  std::set<std::string> duties;
  {
    const std::lock_guard lock(mutex_);
    self_.draining = true;
    if (!news_.others.empty()) {
      duties = wanted_;
    }
  }
  for (const std::string& duty : duties) {
    end(duty);
  }
  (void)beat();
}

void Membership::leave() {
  {
    const std::lock_guard lock(mutex_);
    if (std::exchange(left_, true)) {
      return;
    }
  }
  changed_.notify_all();
  if (thread_.joinable()) {
    thread_.join();
  }
  const std::lock_guard only_one(beating_);
  if (answered_) {
    if (const absl::Status status = registry_.leave(self_); !status.ok()) {
      spdlog::debug("the other servers notice the end of this one later: {}", std::string(status.message()));
    }
  }
}

}  // namespace tessera::server
