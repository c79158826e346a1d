#include "server/queue/cores.h"

#include <algorithm>

#include "proto/support/status_macros.h"
#include "server/queue/task_traits.h"
#include "server/queue/workers.h"

namespace tessera::server {
namespace {

constexpr int64_t kPatienceUs = 1'000'000;  // time that a measurement waits before it gets the whole host
constexpr int kRead = 16;                   // number of waiting measurements considered, oldest first

bool isOfSearch(const v1::Task& task) { return traitsOf(task.spec()).search; }

int threadsOf(const v1::Task& measurement) { return traitsOf(measurement.spec()).timed_threads; }

}  // namespace

std::string hostOf(const v1::Worker& worker) {
  return worker.host().hostname().empty() ? worker.id() : worker.host().hostname();
}

/// Whether the measurement needs the whole host.
bool HostCores::takesWholeHost(const v1::Task& measurement) const {
  return !canSpare() || threadsOf(measurement) > worker_.measuring_cores();
}

/// Reads leases and waiting tasks once per transaction: place() is called for each candidate task.
absl::Status HostCores::look() {
  if (looked_) {
    return absl::OkStatus();
  }
  looked_ = true;
  TESSERA_ASSIGN_OR_RETURN(std::vector<v1::Task> leased, reader_.leasedTasks());
  const std::string host = hostOf(worker_);
  for (v1::Task& task : leased) {
    searching_ = searching_ || isOfSearch(task);
    if (task.host() == host) {
      here_.push_back(std::move(task));
    }
  }
  TESSERA_ASSIGN_OR_RETURN(const std::vector<v1::Task> proposing, reader_.readySince(kSearchKind, now_us_, 1));
  TESSERA_ASSIGN_OR_RETURN(const std::vector<v1::Task> waiting, reader_.readySince(kMeasureKind, now_us_, kRead));
  searching_ = searching_ || !proposing.empty() || !waiting.empty();
  for (const v1::Task& task : waiting) {
    if (now_us_ - task.ready_time_us() < kPatienceUs || !takesWholeHost(task)) {
      continue;
    }
    TESSERA_ASSIGN_OR_RETURN(const bool could, suits(reader_, worker_, task));
    whole_host_is_wanted_ = whole_host_is_wanted_ || could;
  }
  return absl::OkStatus();
}

/// The first `threads` consecutive measuring cores that no other measurement uses; nullopt if there are none.
std::optional<CoreGrant> HostCores::placeMeasurement(int threads) const {
  std::vector<bool> taken(static_cast<size_t>(worker_.measuring_cores()));
  for (const v1::Task& task : here_) {
    if (task.cores() == v1::OTHERS) {
      continue;
    }
    // Leased before the search began.
    if (task.cores() != v1::MEASURING) {
      return std::nullopt;  // may run on any core
    }
    // The worker may have reduced its measuring cores since the lease.
    for (int core = task.first_core(); core < task.first_core() + threadsOf(task); ++core) {
      if (core < worker_.measuring_cores()) {
        taken[static_cast<size_t>(core)] = true;
      }
    }
  }
  for (int first = 0; first + threads <= worker_.measuring_cores(); ++first) {
    const auto begin = taken.begin() + first;
    if (std::none_of(begin, begin + threads, [](bool used) { return used; })) {
      return CoreGrant{v1::MEASURING, first};
    }
  }
  return std::nullopt;
}

absl::StatusOr<std::optional<CoreGrant>> HostCores::place(const v1::Task& task) {
  const bool measurement = threadsOf(task) > 0;
  if (worker_.measuring_cores() == 0) {
    return measurement ? std::nullopt : std::optional(CoreGrant{});
  }
  TESSERA_RETURN_IF_ERROR(look());
  if (measurement && !takesWholeHost(task)) {
    return placeMeasurement(threadsOf(task));
  }
  if (measurement) {
    return here_.empty() ? std::optional(CoreGrant{v1::WHOLE_HOST, 0}) : std::nullopt;
  }
  // No other task while a measurement has the whole host, or has waited long for it.
  const bool given_away =
      std::any_of(here_.begin(), here_.end(), [](const v1::Task& other) { return other.cores() == v1::WHOLE_HOST; });
  if (given_away || whole_host_is_wanted_) {
    return std::nullopt;
  }
  const bool confined = canSpare() && (searching_ || isOfSearch(task));
  return std::optional(CoreGrant{confined ? v1::OTHERS : v1::CORE_USE_UNSPECIFIED, 0});
}

}  // namespace tessera::server
