#include "server/queue/workers.h"

#include <algorithm>
#include <functional>
#include <utility>
#include <vector>

#include "compiler/target/host.h"
#include "proto/support/status_macros.h"
#include "server/queue/task_traits.h"

namespace tessera::server {
namespace {

/// Whether `names` has `name`.
bool contains(const google::protobuf::RepeatedPtrField<std::string>& names, const std::string& name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

/// Whether a live worker that accepts work satisfies `wanted`.
absl::StatusOr<bool> anyWorker(storage::Reader& reader, const std::function<bool(const v1::Worker&)>& wanted) {
  bool found = false;
  TESSERA_RETURN_IF_ERROR(forWorkers(reader, [&](const v1::Worker& worker) {
    const bool takes_work = worker.state() == v1::Worker::IDLE || worker.state() == v1::Worker::BUSY;
    found = takes_work && wanted(worker);
    return !found;
  }));
  return found;
}

/// Length of the suspension: doubles with each further fault, up to the longest one.
int64_t pauseAfter(const Rules& rules, int faults_in_a_row) {
  const int doublings = std::clamp(faults_in_a_row - rules.faults_before_suspension, 0, 20);
  return std::min(rules.longest_suspension_us, rules.first_suspension_us << doublings);
}

}  // namespace

absl::Status forWorkers(storage::Reader& reader, const std::function<absl::StatusOr<bool>(const v1::Worker&)>& visit) {
  storage::ListQuery query;
  query.page_size = 1000;
  do {
    TESSERA_ASSIGN_OR_RETURN(const storage::Page<v1::Worker> page, reader.listWorkers(query));
    for (const v1::Worker& worker : page.items) {
      TESSERA_ASSIGN_OR_RETURN(const bool more, visit(worker));
      if (!more) {
        return absl::OkStatus();
      }
    }
    query.page_token = page.next_page_token;
  } while (!query.page_token.empty());
  return absl::OkStatus();
}

v1::Worker::State stateOf(const v1::Worker& worker, int64_t now_us) {
  if (worker.state() == v1::Worker::DRAINING) {
    return v1::Worker::DRAINING;
  }
  // A suspension by the self-check has no end of its own; it lasts until the worker reports no trouble.
  const bool self_checked = worker.state() == v1::Worker::SUSPENDED && worker.suspended_until_us() == 0;
  if (self_checked || worker.suspended_until_us() > now_us) {
    return v1::Worker::SUSPENDED;
  }
  return worker.task_ids().empty() ? v1::Worker::IDLE : v1::Worker::BUSY;
}

bool mayLease(const v1::Worker& worker, const Rules& rules, int64_t now_us) {
  const v1::Worker::State state = stateOf(worker, now_us);
  if (state == v1::Worker::DRAINING || state == v1::Worker::SUSPENDED) {
    return false;
  }
  // After a suspension the worker gets one task at a time until one has succeeded.
  return worker.faults_in_a_row() < rules.faults_before_suspension || worker.task_ids().empty();
}

void recordSelfCheck(v1::Worker& worker, const std::string& trouble) {
  const bool told = worker.state() == v1::Worker::SUSPENDED && worker.suspended_until_us() == 0;
  if (!trouble.empty()) {
    worker.set_trouble(trouble);
    worker.set_suspended_until_us(0);
    if (worker.state() != v1::Worker::DRAINING) {
      worker.set_state(v1::Worker::SUSPENDED);
    }
  } else if (told) {
    worker.clear_trouble();
    worker.set_state(v1::Worker::IDLE);  // stateOf() sets the actual state
  }
}

void clearFaults(v1::Worker& worker) {
  worker.clear_trouble();
  worker.set_faults_in_a_row(0);
  worker.set_suspended_until_us(0);
}

absl::Status recordFault(QueueTransaction& queue, const std::string& worker_id, const std::string& why) {
  auto worker = queue.tx.getWorker(worker_id);
  if (absl::IsNotFound(worker.status())) {
    return absl::OkStatus();
  }
  TESSERA_RETURN_IF_ERROR(worker.status());
  worker->set_faults(worker->faults() + 1);
  worker->set_faults_in_a_row(worker->faults_in_a_row() + 1);
  worker->set_trouble(why);
  if (worker->faults_in_a_row() >= queue.rules.faults_before_suspension) {
    worker->set_suspended_until_us(queue.now_us + pauseAfter(queue.rules, worker->faults_in_a_row()));
  }
  if (worker->state() != v1::Worker::LOST) {
    worker->set_state(stateOf(*worker, queue.now_us));
  }
  return queue.tx.putWorker(*worker);
}

absl::Status resetWorkerTimes(QueueTransaction& queue) {
  std::vector<v1::Worker> changed;
  TESSERA_RETURN_IF_ERROR(forWorkers(queue.tx, [&](v1::Worker worker) {
    const int64_t pause_us = pauseAfter(queue.rules, worker.faults_in_a_row());
    const int64_t paused_until_us = std::min(worker.suspended_until_us(), queue.now_us + pause_us);
    const int64_t seen_us = std::min(worker.last_seen_us(), queue.now_us);
    if (paused_until_us != worker.suspended_until_us() || seen_us != worker.last_seen_us()) {
      worker.set_suspended_until_us(paused_until_us);
      worker.set_last_seen_us(seen_us);
      changed.push_back(std::move(worker));
    }
    return true;
  }));
  for (const v1::Worker& worker : changed) {
    TESSERA_RETURN_IF_ERROR(queue.tx.putWorker(worker));
  }
  return absl::OkStatus();
}

bool acceptsKind(const v1::Worker& worker, v1::TaskKind kind) {
  const auto& kinds = worker.kinds();
  if (!kinds.empty() && std::find(kinds.begin(), kinds.end(), kind) == kinds.end()) {
    return false;
  }
  return kind != kMeasureKind || worker.measuring_cores() > 0;
}

bool canRun(const v1::Worker& worker, const v1::Task& task) {
  if (!acceptsKind(worker, task.spec().kind())) {
    return false;
  }
  return !task.has_needs() || compiler::hostProblems(task.needs(), worker.host()).empty();
}

absl::StatusOr<bool> anotherWorkerCanRun(storage::Reader& reader, const v1::Task& task, const std::string& but) {
  return anyWorker(reader, [&](const v1::Worker& worker) {
    return worker.id() != but && !contains(task.avoid(), worker.id()) && canRun(worker, task);
  });
}

absl::StatusOr<bool> anyWorkerCanRun(storage::Reader& reader, const v1::Task& task) {
  return anyWorker(reader, [&](const v1::Worker& worker) { return canRun(worker, task); });
}

absl::StatusOr<bool> suits(storage::Reader& reader, const v1::Worker& worker, const v1::Task& task) {
  if (!canRun(worker, task)) {
    return false;
  }
  if (!contains(task.avoid(), worker.id())) {
    return true;
  }
  TESSERA_ASSIGN_OR_RETURN(const bool another, anotherWorkerCanRun(reader, task, worker.id()));
  return !another;
}

}  // namespace tessera::server
